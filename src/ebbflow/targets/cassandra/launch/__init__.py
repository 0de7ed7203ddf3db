"""Cassandra nodes on this machine."""
