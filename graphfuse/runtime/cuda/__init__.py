"""NVIDIA's driver, as a `graphfuse.targets.driver.Driver`."""
