"""The profiling phase: a stair of loads, in the simulator or on a real Spark cluster, and what is learned on it."""
