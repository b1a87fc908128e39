"""Block ops as LLVM IR, as far as it does not depend on the target: arithmetic, index expressions, control flow."""
