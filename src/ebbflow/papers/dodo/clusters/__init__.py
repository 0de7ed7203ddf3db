"""Balancing (§6) and autoscaling (§7) of clusters: the experiments, their published results and the page."""
