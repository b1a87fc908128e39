"""Passes on block functions that every machine profits from: addresses worked out, loops cleared of them."""
