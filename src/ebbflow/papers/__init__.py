"""One package per document that Ebbflow reproduces, with everything that belongs to it."""

SIMULATOR, SPARK = "simulator", "spark"
TARGETS = (SIMULATOR, SPARK)
"""What the benchmarks of papers run on."""
