"""The cut into regions: dataflow as networkx sees it, what may join, the regions as text, and the plan to run them."""
