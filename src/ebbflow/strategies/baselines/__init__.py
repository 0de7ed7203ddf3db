"""Baselines: what users of Spark, Flink, Kubernetes, Dataflow and Dask have today, one module each.

Each follows the published rule and defaults of its peer, keeps the peer's own timing on the clock of the snapshot, and
holds, with a reason, where data that it needs is missing. Its module says how it is modelled; ``docs/baselines.md`` has
them side by side.

``brings_own_guards = True`` says that the rule of a strategy has its own periods, cool-downs and steps. Guards that add
others (cool-down, step cap) would distort it and are left out; bounds and missing data apply to every strategy.
"""
