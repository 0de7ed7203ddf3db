"""The PySpark applications: of the demo, and of the seeds."""
