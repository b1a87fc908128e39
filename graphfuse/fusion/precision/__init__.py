"""Which format of floats values are computed and stored in."""
