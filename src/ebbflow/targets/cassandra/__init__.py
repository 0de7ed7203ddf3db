"""A Cassandra cluster as a target: nodes hold data, so they join and leave slowly and one at a time.

=================  ============================================================================================
``target``         the target port: a monitor and an actuator
``monitor``        nodes from gossip and virtual tables, readings of the cluster and its clients
``actuator``       adds and removes nodes step by step, follows each step, and resumes after a crash (``journal``)
``provisioner``    starts and stops hosts: the two methods that a platform must bring
``host_command``   runs ``nodetool`` and other commands for a host
``cluster_file``   a cluster that the user names
``connection``     what is used of the driver
``launch``         nodes on this machine, for benchmarks and tests
``load``           an open-loop load generator, and the check that no written row is lost
=================  ============================================================================================

Nothing here is needed by other targets. The driver is an extra: ``pip install 'ebbflow[cassandra]'``.
"""
