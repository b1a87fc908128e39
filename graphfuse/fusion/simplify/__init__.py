"""Equal computations get one form, the cheapest: constants, algebra, movement of elements."""
