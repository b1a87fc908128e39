"""Products of matrices as a machine's kernels want them: merged, cut, aligned, and with what stands beside them."""
