"""graphfuse: tensor graphs to fused block kernels."""
