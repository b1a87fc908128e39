"""Convolutions as kernels want them, and as products where that is less work."""
