"""The query of the Rules seed's real-world evaluation (§5.3) on Spark: source, machine, cluster, sink."""
