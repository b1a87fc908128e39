"""Passes over block functions for GPUs: from tiles without layouts to tiles, copies and barriers that threads run."""
