"""Profiling runs: load steps in the simulator, and profiles from a store."""
