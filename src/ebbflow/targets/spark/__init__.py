"""Spark Structured Streaming as a target. With ``pipelines``, the only home of pyspark.

==================  =========================================================================
``local_cluster``   a real standalone master and workers as child processes
``settings``        the Spark settings under which executors start few and change on request
``driver``          every call into the driver's JVM, in one place, typed
``progress``        query progress decoded; backlog and arrivals from offsets
``monitor``         what is seen: batches, operators, executors, lead times
``actuator``        what is done: grow, drain and decommission, restart
``operator``        names and counts for the steps of a pipeline
``source``          ``spark.readStream.format("ebbflow")``: rows at any load
``submit``          runs a script that nobody changed
==================  =========================================================================
"""
