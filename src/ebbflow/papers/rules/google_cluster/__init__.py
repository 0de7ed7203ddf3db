"""The Google cluster query of the Rules thesis (§5.3): trace, generator, query and tests."""
