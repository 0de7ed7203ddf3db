"""Changes a Spark application: adds and drains executors, stops and restarts queries."""
