"""Frontends: each turns one foreign model format into the graph dialect."""
