"""The CPU target: kernels as LLVM IR, native launch, host objects."""
