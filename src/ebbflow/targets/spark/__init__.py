"""Spark Structured Streaming as a target. With ``pipelines``, the only home of pyspark.

=====================  =======================================================================
seen and done
``target``             an application behind the target port
``monitor``            what is seen: batches, operators, executors, lead times
``following``          one run of a query from look to look: its batches
``batch_stages``       the stages of batches that have ended: all of a batch, or none
``query_readings``     what is read of queries, each and all together
``operator_readings``  what is read of named operators, and which there are
``tracking``           what is followed from look to look: a query's arrivals, an executor's life
``progress``           query progress decoded; backlog and arrivals from offsets
``row_counts``         rows of named steps, counted by the plans of finished batches
``actuator``           what is done: grow, and let go
``draining``           who is let go, and how: between batches, decommissioned, at a deadline killed
``room``               how many more executors the cluster has room for
``restart``            a query restarted from its checkpoint with another parallelism
``stopping``           a query stopped between two batches
``failure``            what went wrong in a query, in our own words where they are ours
``interrupts``         Ctrl-C while a thread talks to the JVM
``driver``             every call into the driver's JVM, in one place, typed
---------------------  -----------------------------------------------------------------------
in a pipeline
``operator``           names and counts for the steps of a pipeline
``operator_counts``    the counts, for a job that looks for itself
``measured_step``      rows and CPU of a Python step, measured around it
``keyed_step``         counts and CPU of a step with keyed state
``source``             ``spark.readStream.format("ebbflow")``: rows at any load
---------------------  -----------------------------------------------------------------------
where it runs
``local_cluster``      a real standalone master and workers as child processes
``supervisor``         ends such a process when who started it is gone
``local_agent``        the agent of the local cluster
``session``            a session on it
``settings``           the Spark settings under which executors start few and change on request
``class_archive``      an archive of classes with which executors start faster
``java``               whether Java 17 or later is there
``masters``            masters that people name: whether they are any, and whether they answer
``submit``             runs a script that nobody changed
``sweep``              a list worked off by a Spark cluster: sweeps of thousands of runs
=====================  =======================================================================
"""
