"""Measuring and keeping: agents on the hosts, the collector of their readings, the store."""
