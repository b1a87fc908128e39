"""What code generators share of llvmlite: IR as text, compilation, loading, the host."""
