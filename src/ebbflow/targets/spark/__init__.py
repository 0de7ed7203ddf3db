"""Spark Structured Streaming as a target: with the pipelines of ``papers``, the only place that imports pyspark.

============== ==========================================================================
``target``     an application behind the target port
``observe/``   what is measured: progress, batches and their stages, operators, executors
``act/``       what is changed: executors come and go, queries restart with other parallelism
``launch/``    how Spark starts: local clusters, sessions, settings, submitted scripts
``operators/`` named operators around the steps of a query
``driver``     every call into the driver's JVM, typed
``source``     ``spark.readStream.format("ebbflow")``: rows at any load
``failure``    why a query failed
============== ==========================================================================
"""
