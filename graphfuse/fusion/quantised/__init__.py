"""Products with integers of few bits are made of the bytes as they are stored."""
