"""Observing a Spark application: progress, batches, executors."""
