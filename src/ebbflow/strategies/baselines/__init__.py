"""The baselines: what users of Spark, Flink, Kubernetes, Dataflow and Dask have today, one file each.

Each follows its peer's published rule and defaults, keeps the peer's own timing on the snapshot's clock,
and holds, with a reason, where what it needs is missing. Its module says how it was modelled, and
``docs/peers.md`` has them side by side.

``brings_own_guards = True`` on a strategy says that its rule brings its own periods, cool-downs and steps, so
that guards which add others (cool-down, step cap) would distort it. Who compares strategies leaves those
guards out for it; bounds and missing data concern everyone.
"""

from __future__ import annotations

from ebbflow.strategies.baselines.dask import Dask
from ebbflow.strategies.baselines.dataflow import Dataflow
from ebbflow.strategies.baselines.ds2 import Ds2
from ebbflow.strategies.baselines.elastic_scaling import ElasticScaling
from ebbflow.strategies.baselines.flink import Flink
from ebbflow.strategies.baselines.hpa import Hpa
from ebbflow.strategies.baselines.keda import Keda
from ebbflow.strategies.baselines.spark_dra import SparkDra
from ebbflow.strategies.baselines.spark_legacy import SparkLegacy

__all__ = [
    "Dask",
    "Dataflow",
    "Ds2",
    "ElasticScaling",
    "Flink",
    "Hpa",
    "Keda",
    "SparkDra",
    "SparkLegacy",
]
