"""Whether pipelines, clusters and faults fit together; said before anything runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ebbflow.errors import InputError
from ebbflow.targets.simulator.clusters import Cluster
from ebbflow.targets.simulator.engine import Engine
from ebbflow.targets.simulator.faults import Fault, NodeDies, SlowNode


def check_together(
    engines: Sequence[Engine],
    clusters: Mapping[str, Cluster],
    placement: Mapping[str, str],
    faults: Iterable[Fault],
) -> None:
    """``InputError`` with the first thing that does not fit."""
    names = [engine.pipeline.name for engine in engines]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise InputError(f"two pipelines are named '{twice}'; give each its own name")
    kinds = sorted({type(engine).__name__ for engine in engines})
    if len(kinds) > 1:
        raise InputError(f"pipelines of {' and '.join(kinds)} cannot share nodes; use one kind of engine")
    operators = {name for engine in engines for name in engine.pipeline.order}
    for operator, cluster in placement.items():
        if operator not in operators:
            raise InputError(
                f"the placement names '{operator}', which is not one of {', '.join(sorted(operators))}"
            )
        _check_cluster(cluster, clusters, f"operator '{operator}' is placed in")
    for fault in faults:
        if isinstance(fault, NodeDies | SlowNode):
            _check_cluster(fault.cluster, clusters, "a fault strikes")


def _check_cluster(cluster: str, clusters: Mapping[str, Cluster], what: str) -> None:
    if cluster not in clusters:
        raise InputError(f"{what} cluster '{cluster}'; there are: {', '.join(clusters)}")
