"""Kernels written by hand: compiled for what they are called with, launched on CPUs, GPUs and the emulator."""
