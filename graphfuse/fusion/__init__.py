"""Graph to regions: canonical forms, layout choice, partition on a networkx view, memory plan.

Owns the graph passes (their order is in `passes`) and the cut. A package for each purpose, in the order in which they
may import each other: `simplify`, `conv`, `quantised`; `regions`; `products`, `precision`.
"""
