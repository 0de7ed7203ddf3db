"""The micro-batch engine: Spark Structured Streaming without Spark."""
