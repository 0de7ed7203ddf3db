"""Named operators around the steps of a Spark query: their row counts and CPU."""
