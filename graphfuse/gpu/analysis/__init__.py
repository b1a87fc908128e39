"""Facts about kernels on a GPU: pure functions of IR or of small records, never stored on IR."""
