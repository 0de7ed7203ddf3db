"""Starting Spark: sessions, settings, local clusters, submitted scripts."""
