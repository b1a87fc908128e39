"""Runs an executable's GPU code with whatever implements `graphfuse.targets.driver.Driver`.

GPUs are called `cuda:N` here, as torch calls those of any vendor; arrays of other libraries are CUDA's (`dlpack`).
"""
