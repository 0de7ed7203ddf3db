"""Changes to a Spark application: executors, restarts, drains."""
