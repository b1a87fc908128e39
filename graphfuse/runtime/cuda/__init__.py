"""Runs an executable's GPU code: on NVIDIA GPUs through their driver, or wherever something implements `Driver`."""
