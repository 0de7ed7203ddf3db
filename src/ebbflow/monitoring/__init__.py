"""Measuring and keeping: agents on the hosts, the collector that hears them, the store."""
