"""Baselines: what users of Spark, Flink, Kubernetes, Dataflow and Dask have today, one module each.

Each follows the published rule, defaults and timing of the system it models, on the clock of the snapshot, and holds
with a reason if data that it needs is missing. Its module says how it is modelled; ``docs/baselines.md`` compares them.

``brings_own_guards = True`` says that the rule of a strategy has its own periods, cool-downs and steps. Guards that add
others (cool-down, step cap) would distort it and are left out; added guards, bounds and missing data always apply.
"""
