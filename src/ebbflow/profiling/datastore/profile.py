"""The profile of a datastore: performance table, time table and bounded throughput, with their errors, and its file.

F. Lombardi, A. Muti, L. Aniello, R. Baldoni, S. Bonomi, L. Querzoni: PASCAL: an Architecture for Proactive Auto-Scaling
of Distributed Services, §4.2, §6.1 and §6.2.

- *Performance table*: for each number of nodes the offered rates, with throughput and response times, and the highest
  sustained throughput X_max.
- *Bounded throughput* X_B(n) = p · X_max(n). p follows from a wanted response time: the smallest share, over all
  numbers of nodes, of X_max at which the mean response time still is within it.
- *Time table*: how long each change by one node took, by the size of the data. T_add(data) and T_rem(data) are the
  longest of their rows, with the cleanup after a join. Times for other sizes come from a regression on the data.

::

    version = 1                       [[performance]]            [[times]]
    cluster = "main"                  nodes = 3                  before = 3
    target = "cassandra"              most_per_s = 92476.0       after = 4
    replication = 3                   error = 0.01               data_gb = 1.0
    bound = 0.7                       [[performance.steps]]      seconds = 95.0
    …                                 offered_per_s = …          cleanup_s = 60.0
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from ebbflow.errors import ProfileError
from ebbflow.profiling import profile_text
from ebbflow.profiling.fitting import fit
from ebbflow.profiling.profile import Estimate, Fitted

VERSION = 1
CASSANDRA, SIMULATOR = "cassandra", "simulator"
"""Where a profile was learned."""
KNEE = 2.0
"""Without a wanted response time: this many times that of the lowest offered rate."""


class LoadStep(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An offered rate and what became of it. Response times count from the intended time of a request."""

    offered_per_s: float
    throughput_per_s: float
    """Requests answered."""
    response_mean_s: float
    response_deviation_s: float = 0.0
    response_p95_s: float = 0.0
    response_p99_s: float = 0.0
    response_growth: float = 1.0
    """Mean response time of the second half of the step ÷ that of the first half."""


class Performance(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A row of the performance table."""

    nodes: int
    most_per_s: float
    """X_max: the highest sustained throughput."""
    error: float
    """Half the distance to the lowest rate that was not sustained, or the spread of repeated steps if that is more; as
    a share of X_max."""
    steps: tuple[LoadStep, ...] = ()
    """Those that were sustained, by offered rate."""

    def share_within(self, response_s: float) -> float:
        """The share of X_max up to which the mean response time is within a limit; 0 if it never is.

        >>> slow = LoadStep(offered_per_s=50.0, throughput_per_s=50.0, response_mean_s=0.002)
        >>> slower = LoadStep(offered_per_s=100.0, throughput_per_s=100.0, response_mean_s=0.006)
        >>> Performance(nodes=3, most_per_s=100.0, error=0.0, steps=(slow, slower)).share_within(0.004)
        0.75
        """
        found, before = 0.0, None
        for step in sorted(self.steps, key=lambda each: each.throughput_per_s):
            if step.response_mean_s <= response_s:
                found = step.throughput_per_s
            elif before is not None and before.response_mean_s <= response_s:
                part = (response_s - before.response_mean_s) / (step.response_mean_s - before.response_mean_s)
                found = before.throughput_per_s + part * (step.throughput_per_s - before.throughput_per_s)
                break
            else:
                break
            before = step
        return min(1.0, found / self.most_per_s)


class ResizeTime(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A row of the time table: how long a change by one node took."""

    before: int
    after: int
    data_gb: float
    seconds: float
    """From the request until the node was active, or gone."""
    cleanup_s: float = 0.0
    """From there until the nodes had dropped the data that is no longer theirs; 0 without a cleanup."""
    response_factor: float = 1.0
    """Mean response time during the change ÷ that before it."""

    @property
    def grows(self) -> bool:
        """Whether a node was added."""
        return self.after > self.before


class DatastoreProfile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, dict=True):
    """The profile of one cluster.

    >>> profile = paper_profile()
    >>> profile.most_per_s(4).value, round(profile.bounded_per_s(4)), profile.nodes_for(80_000.0)
    (105869.0, 74108, 5)
    >>> profile.add_s(), profile.remove_s(), profile.add_s(data_gb=2.0)
    (155.0, 160.0, 310.0)
    >>> DatastoreProfile.from_text(profile.to_text()) == profile
    True
    """

    version: int = VERSION
    cluster: str
    """Name of the cluster that it was learned on."""
    target: str
    learned_at: datetime = datetime(1970, 1, 1, tzinfo=UTC)
    replication: int
    """α: fewer nodes cannot hold all replicas."""
    data_gb: float
    """Data of one replica when the performance was learned."""
    wanted_response_s: float
    """The response time that the bound follows from."""
    bound: float
    """p: the share of X_max to use."""
    performance: tuple[Performance, ...]
    times: tuple[ResizeTime, ...]
    add: Fitted | None = None
    """Seconds to add a node by GB of data, cleanup included; None if none was added."""
    remove: Fitted | None = None

    # -- the performance table --------------------------------------------------------------------

    @property
    def sizes(self) -> range:
        """The numbers of nodes from the smallest to the largest that were measured."""
        nodes = [row.nodes for row in self.performance]
        return range(min(nodes), max(nodes) + 1)

    def most_per_s(self, nodes: int) -> Estimate:
        """X_max of a number of nodes. Between two rows it is interpolated, beyond them a guess by the last slope."""
        rows = self._rows
        x = [float(row.nodes) for row in rows]
        y = [row.most_per_s for row in rows]
        error = max(row.error for row in rows)
        if nodes < x[0]:
            return Estimate(value=y[0] * nodes / x[0], error=error, inside=False)
        if nodes > x[-1]:
            slope = (y[-1] - y[-2]) / (x[-1] - x[-2]) if len(x) > 1 else y[-1] / x[-1]
            return Estimate(value=y[-1] + max(0.0, slope) * (nodes - x[-1]), error=error, inside=False)
        return Estimate(value=float(np.interp(nodes, x, y)), error=error, inside=True)

    @cached_property
    def _rows(self) -> list[Performance]:
        return sorted(self.performance, key=lambda row: row.nodes)

    def bounded_per_s(self, nodes: int) -> float:
        """X_B = p · X_max."""
        return self.bound * self.most_per_s(nodes).value

    def nodes_for(self, rate_per_s: float) -> int:
        """The smallest measured number of nodes whose bounded throughput holds a rate; the largest if none does."""
        holding = (nodes for nodes in self.sizes if self.bounded_per_s(nodes) >= rate_per_s)
        return next(holding, self.sizes[-1])

    def bound_for(self, response_s: float) -> float:
        """p for a wanted mean response time."""
        return bound_for(self.performance, response_s)

    def with_bound(self, bound: float) -> DatastoreProfile:
        """The same profile with another p."""
        return msgspec.structs.replace(self, bound=bound)

    # -- the time table ---------------------------------------------------------------------------

    def add_s(self, data_gb: float | None = None) -> float:
        """T_add(data): the longest time to add a node, with the cleanup after it."""
        rows = [row for row in self.times if row.grows]
        return max(
            (self._scale(self.add, data_gb, row.data_gb) * (row.seconds + row.cleanup_s) for row in rows),
            default=0.0,
        )

    def remove_s(self, data_gb: float | None = None) -> float:
        """T_rem(data): the longest time to remove a node."""
        rows = [row for row in self.times if not row.grows]
        return max(
            (self._scale(self.remove, data_gb, row.data_gb) * row.seconds for row in rows), default=0.0
        )

    def change_s(self, before: int, after: int, data_gb: float | None = None) -> ResizeTime:
        """The row of a change by one node, at another size of the data; the nearest row if there is none.

        >>> paper_profile().change_s(5, 4).seconds, paper_profile().change_s(8, 9).seconds
        (145.0, 95.0)
        """
        grows, wanted_gb = after > before, data_gb or self.data_gb
        rows = [row for row in self.times if row.grows == grows]
        if not rows:
            return ResizeTime(before=before, after=after, data_gb=wanted_gb, seconds=0.0)
        nearest = min(rows, key=lambda row: (abs(row.before - before), abs(row.data_gb - wanted_gb)))
        same = [row for row in rows if (row.before, row.data_gb) == (nearest.before, nearest.data_gb)]
        scale = self._scale(self.add if grows else self.remove, wanted_gb, nearest.data_gb)
        return msgspec.structs.replace(
            nearest,
            before=before,
            after=after,
            data_gb=wanted_gb,
            seconds=scale * statistics.fmean(row.seconds for row in same),
            cleanup_s=scale * statistics.fmean(row.cleanup_s for row in same),
        )

    def _scale(self, fitted: Fitted | None, data_gb: float | None, row_gb: float) -> float:
        """Time for some data, by default that of the profile, ÷ time for the data of a row."""
        base = None if fitted is None else fitted.estimate(row_gb).value
        if fitted is None or not base:
            return 1.0
        return fitted.estimate(data_gb or self.data_gb).value / base

    # -- the file ---------------------------------------------------------------------------------

    def check_cluster(self, cluster: str, where: str = "the profile") -> None:
        """Raise ``ProfileError`` if it was learned on another cluster.

        >>> paper_profile().check_cluster("orders", "store.toml")
        Traceback (most recent call last):
        ...
        ebbflow.errors.ProfileError: store.toml: this profile is of the cluster 'pascal', but this cluster is named \
'orders'; learn one with `ebbflow profile`
        """
        if cluster != self.cluster:
            raise ProfileError(
                f"{where}: this profile is of the cluster '{self.cluster}', but this cluster is named '{cluster}'; "
                "learn one with `ebbflow profile`"
            )

    def to_text(self) -> str:
        """As TOML."""
        name = "".join(sign if sign.isprintable() else "?" for sign in self.cluster)
        head = (
            f"# Profile of the datastore {name}, learned on {self.target}. Rates in requests/s, times in seconds, data "
            "of one\n# replica in GB. `ebbflow profile --help`.\n"
        )
        return head + profile_text.write(self)

    @classmethod
    def from_text(cls, text: str, where: str = "the profile") -> DatastoreProfile:
        """Read from TOML; an error names ``where`` it came from.

        >>> DatastoreProfile.from_text("version = 1", "a.toml")
        Traceback (most recent call last):
        ...
        ebbflow.errors.ProfileError: a.toml: Object missing required field `cluster`; write it as `ebbflow profile` \
does, or learn it again with `ebbflow profile`
        """
        plain = profile_text.parse(text, where, VERSION)
        if "pipeline" in plain and "cluster" not in plain:
            raise ProfileError(f"{where}: this is the profile of a pipeline; give the profile of a datastore")
        checked = _checked(plain)
        if isinstance(checked, str):
            raise ProfileError(f"{where}: {checked}, or learn it again with `ebbflow profile`")
        return checked

    @classmethod
    def read(cls, path: Path) -> DatastoreProfile:
        """From a file."""
        return cls.from_text(profile_text.read_text(path), str(path))


def bound_for(performance: Sequence[Performance], response_s: float) -> float:
    """p for a wanted mean response time: the smallest share of X_max within it, over all sizes."""
    shares = [row.share_within(response_s) for row in performance]
    if not shares or min(shares) <= 0:
        lowest_s = max(
            (min(step.response_mean_s for step in row.steps) for row in performance if row.steps), default=0.0
        )
        raise ProfileError(
            f"no load is answered within {1000 * response_s:g} ms on average; the lowest offered rate takes "
            f"{1000 * lowest_s:.3g} ms"
        )
    return min(shares)


def made_profile(
    *,
    cluster: str,
    target: str,
    replication: int,
    data_gb: float,
    performance: Sequence[Performance],
    times: Sequence[ResizeTime],
    wanted_response_s: float | None = None,
    bound: float | None = None,
    learned_at: datetime = datetime(1970, 1, 1, tzinfo=UTC),
) -> DatastoreProfile:
    """A profile from its tables: p from the wanted response time, and the regressions of the time table.

    Without a wanted response time, it is ``KNEE`` times that of the lowest offered rate of the slowest size.
    """
    if wanted_response_s is None:
        wanted_response_s = max(
            (KNEE * min(step.response_mean_s for step in row.steps) for row in performance if row.steps),
            default=0.0,
        )
    grown = [row for row in times if row.grows]
    shrunk = [row for row in times if not row.grows]
    return DatastoreProfile(
        cluster=cluster,
        target=target,
        learned_at=learned_at,
        replication=replication,
        data_gb=data_gb,
        wanted_response_s=wanted_response_s,
        bound=bound_for(performance, wanted_response_s) if bound is None else bound,
        performance=tuple(sorted(performance, key=lambda row: row.nodes)),
        times=tuple(times),
        add=fit([row.data_gb for row in grown], [row.seconds + row.cleanup_s for row in grown], kinds=_KINDS),
        remove=fit([row.data_gb for row in shrunk], [row.seconds for row in shrunk], kinds=_KINDS),
    )


def differences(one: DatastoreProfile, other: DatastoreProfile) -> dict[str, float]:
    """How much two profiles differ, as shares of the first: throughput by size, times by change, response at the bound.

    With a profile of a real cluster and one of the simulated store that was made from it, this is the error of the
    simulator.

    >>> slower = [msgspec.structs.replace(row, seconds=1.1 * row.seconds) for row in paper_profile().times]
    >>> found = differences(paper_profile(), msgspec.structs.replace(paper_profile(), times=tuple(slower)))
    >>> {key: round(share, 3) for key, share in found.items() if share}["4 to 3 nodes"]
    0.1
    """
    found = {}
    for row in one.performance:
        found[f"throughput of {row.nodes} nodes"] = other.most_per_s(row.nodes).value / row.most_per_s - 1.0
        theirs = next((each for each in other.performance if each.nodes == row.nodes), None)
        if theirs is not None and row.steps and theirs.steps:
            at = [_response_s(each, one.bounded_per_s(row.nodes)) for each in (row, theirs)]
            found[f"response of {row.nodes} nodes"] = at[1] / at[0] - 1.0
    for change in dict.fromkeys((row.before, row.after) for row in one.times):
        ours_s, theirs_s = (each.change_s(*change).seconds for each in (one, other))
        if ours_s > 0:
            found[f"{change[0]} to {change[1]} nodes"] = theirs_s / ours_s - 1.0
    return found


def _response_s(row: Performance, rate_per_s: float) -> float:
    steps = sorted(row.steps, key=lambda step: step.throughput_per_s)
    return float(
        np.interp(
            rate_per_s, [step.throughput_per_s for step in steps], [step.response_mean_s for step in steps]
        )
    )


_KINDS = ("proportional", "line")
"""A few sizes of data do not show more."""


def paper_profile() -> DatastoreProfile:
    """Tables 3 and 4 of the paper: Cassandra 3.0 on 3 to 6 VMs, replication factor 3, 1 GB.

    Table 4 gives 155 s for every join, while joins take 87 to 105 s in Table 5 and 90 s in Figure 18, where the cleanup
    begins 60 s later. So we read its 155 s as 95 s until the node is active, and 60 s until the cleanup is done.
    """
    most = {3: 92_476.0, 4: 105_869.0, 5: 118_036.0, 6: 131_406.0}
    removed_s = {4: 120.0, 5: 145.0, 6: 160.0}
    return made_profile(
        cluster="pascal",
        target=CASSANDRA,
        replication=3,
        data_gb=1.0,
        performance=[Performance(nodes=n, most_per_s=rate, error=0.0) for n, rate in most.items()],
        times=[
            *(
                ResizeTime(before=n, after=n + 1, data_gb=1.0, seconds=95.0, cleanup_s=60.0)
                for n in (3, 4, 5)
            ),
            *(ResizeTime(before=n, after=n - 1, data_gb=1.0, seconds=s) for n, s in removed_s.items()),
        ],
        wanted_response_s=0.0045,
        bound=0.7,
    )


def _checked(plain: dict[str, Any]) -> DatastoreProfile | str:
    """The profile in a document, or what is wrong and what would be right."""
    if wrong := profile_text.wrong_number(plain):
        return wrong
    try:
        found = msgspec.convert(plain, DatastoreProfile)
    except msgspec.ValidationError as error:
        return profile_text.reworded(error)
    if not found.cluster:
        return "cluster is empty; write the name of the cluster"
    if found.target not in (CASSANDRA, SIMULATOR):
        return f'target is {profile_text.quoted(found.target)}; write "{CASSANDRA}" or "{SIMULATOR}"'
    if not found.performance:
        return "performance is empty; write one [[performance]] for each number of nodes"
    return _wrong_tables(found) or found


def _wrong_tables(found: DatastoreProfile) -> str | None:
    rows = found.performance
    sizes = [row.nodes for row in rows]
    if len(set(sizes)) < len(sizes):
        return f"performance repeats {max(sizes, key=sizes.count)} nodes; leave one of them out"
    if min(sizes) < found.replication:
        return f"performance has {min(sizes)} nodes, fewer than the replication of {found.replication}; leave it out"
    for low, high in zip(
        sorted(rows, key=lambda r: r.nodes), sorted(rows, key=lambda r: r.nodes)[1:], strict=False
    ):
        if high.most_per_s < low.most_per_s * (1 - max(low.error, high.error, 0.05)):
            return (
                f"performance of {high.nodes} nodes is {high.most_per_s:g}/s, below that of {low.nodes}, which is "
                f"{low.most_per_s:g}/s; measure them again"
            )
    for number, row in enumerate(found.times):
        if abs(row.after - row.before) != 1:
            return f"times[{number}] is a change from {row.before} to {row.after} nodes; write changes by one node"
    return None
