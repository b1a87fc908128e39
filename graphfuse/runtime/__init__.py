"""Loads artifacts and runs them: knows plans, buffers and native code, and never IR."""
