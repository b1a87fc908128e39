"""Graph to regions: canonical forms, layout choice, partition on a networkx view, memory plan."""
