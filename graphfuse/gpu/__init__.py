"""The GPU target: code for NVIDIA processors, and the emulator that runs it anywhere."""
