"""Load for a Cassandra cluster: an open loop of reads and writes, and the proof that no written row is lost.

===============  =========================================================================================
``rows``         the table of Pascal §7.2.1, its rows by key and version, and how it is filled
``generator``    several processes that offer a load, whatever the store answers
``worker``       one of these processes
``response``     response times as a histogram that can be added up
``written``      what was written, and the check that all of it can be read at QUORUM
===============  =========================================================================================
"""
