"""Spark Structured Streaming as a target. Only this package, ``fleet`` and the pipelines in ``papers`` import pyspark.

============== =============================================================================
``target``     a Spark application behind the target port
``observe/``   polls it: progress, arrivals, batches and their stages, executors
``act/``       changes it: adds and drains executors, restarts queries with other parallelism
``driver``     all calls into the driver's JVM, typed; why a query failed
``operators/`` names, row counts and CPU of the steps of a query
``launch/``    starts Spark: local cluster, sessions, settings, submitted scripts
``source``     ``spark.readStream.format("ebbflow")``: rows at any load
============== =============================================================================
"""
