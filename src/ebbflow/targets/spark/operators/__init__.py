"""Named operators around the steps of a Spark query."""
