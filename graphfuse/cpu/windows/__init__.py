"""Tiles that do not fit in registers, as loops over windows that do."""
