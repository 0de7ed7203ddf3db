"""The default strategy: the fewest nodes that keep freshness within the SLO."""
