"""Movie recommendation (§5): as a batch job of three rounds, and as a stream of three operators."""
