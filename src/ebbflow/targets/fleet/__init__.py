"""A fleet as a target: streaming queries on several Spark applications, which move between them while data flows.

A *cluster* is a Spark application (a driver and its executors), an *operator* is a streaming query between durable
streams. An operator with shards is one query for each.

================== =================================================================================
``model``          applications, streams, operators and their queries
``file``           reads and checks a fleet file
``context``        what the function of an operator gets: its session, its streams, its checkpoint
``checkpoint``     claims on a checkpoint, which live beside its data
``sharding``       shards of an operator, whose keys move with their state
``coordination/``  the port: membership, placements with their lease, leader; SQLite and ZooKeeper
``wire/``          messages between controller and hosts, and their sockets
``host/``          one process for each application: runs its queries, sets its executors, reports
``keeper``         starts hosts, and starts again those that are gone
``links``          connections of a controller to the hosts that are there
``dispatch``       drives every query to where its record says: starts, moves, roll-backs
``target``         all hosts behind the target port
================== =================================================================================

``ebbflow.control.fleet`` puts dispatch and control loop into one process.
"""
