"""The Google cluster query of the Rules thesis (§5.3): trace, generator, query on Spark, and its two scaling tests."""
