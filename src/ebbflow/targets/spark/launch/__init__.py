"""Starts Spark: checks, settings, sessions, a local cluster, submitted scripts."""
