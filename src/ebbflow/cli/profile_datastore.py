"""The part of ``ebbflow profile`` for datastores: step the load on each size, time every change, write the tables."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from ebbflow.core.duration import parse_seconds
from ebbflow.core.limits import Limits
from ebbflow.errors import InputError
from ebbflow.profiling.datastore import DatastoreProfile, DatastoreProfiling, StoreUnderLoad
from ebbflow.profiling.datastore.profile import paper_profile
from ebbflow.targets.simulator.datastore.under_load import SimulatedStore

PIPELINE = "datastore"
"""Name of the simulated datastore among the built-in pipelines."""


@dataclass(frozen=True, kw_only=True)
class DatastoreOptions:
    """The options of the command that are for datastores, as given; None where nothing was given."""

    nodes: str | None
    first_rate: float | None
    data_gb: Sequence[float] | None
    response: str | None

    def given(self) -> dict[str, object]:
        """By name, for those that are refused elsewhere."""
        return {
            "nodes": self.nodes,
            "first-rate": self.first_rate,
            "data-gb": self.data_gb or None,
            "response": self.response,
        }

    def profiling(self, *, default_nodes: str, first_per_s: float, hold_s: float) -> DatastoreProfiling:
        """The profiling run that they ask for."""
        limits = Limits.parse(self.nodes or default_nodes)
        wanted_s = None if self.response is None else parse_seconds(self.response)
        if wanted_s is not None and not wanted_s > 0:
            raise InputError(f"--response {self.response} is not a response time; use one above 0s, like 5ms")
        for data_gb in self.data_gb or ():
            if not data_gb > 0:
                raise InputError(f"--data-gb {data_gb:g} is no data; use gigabytes above 0")
        return DatastoreProfiling(
            first_per_s=self.first_rate or first_per_s,
            sizes=range(limits.min_nodes, limits.max_nodes + 1),
            hold_s=hold_s,
            data_gb=tuple(self.data_gb or ()),
            wanted_response_s=wanted_s,
        )


def profile_simulated(
    options: DatastoreOptions,
    *,
    hold_s: float | None,
    noise: float | None,
    seed: int | None,
    learned_at: datetime,
    on_progress: Callable[[float, str], None],
) -> DatastoreProfile:
    """Profile the simulated datastore, which has the paper's size."""
    store = SimulatedStore(paper_profile(), noise=0.01 if noise is None else noise, seed=seed or 1)
    profiling = options.profiling(default_nodes="3:6", first_per_s=20_000.0, hold_s=hold_s or 30.0)
    return profile_store(profiling, store, learned_at=learned_at, on_progress=on_progress)


def profile_store(
    profiling: DatastoreProfiling,
    store: StoreUnderLoad,
    *,
    learned_at: datetime,
    on_progress: Callable[[float, str], None],
) -> DatastoreProfile:
    """Profile any store. What was learned can be read again, or it is an error."""
    learned = profiling.run(store, learned_at=learned_at, on_progress=on_progress)
    return DatastoreProfile.from_text(learned.to_text(), "the learned profile")


def profile_json(learned: DatastoreProfile, path: Path) -> dict[str, Any]:
    """The profile as JSON values."""
    found: dict[str, Any] = msgspec.to_builtins(learned)
    return {**found, "add_s": learned.add_s(), "remove_s": learned.remove_s(), "file": str(path)}


def print_profile(learned: DatastoreProfile) -> None:
    """Print the two tables."""
    console = Console(highlight=False)
    table = Table("nodes", "highest", "error", "bounded", "response at the bound", box=None, pad_edge=False)
    for row in learned.performance:
        bounded = learned.bounded_per_s(row.nodes)
        near = min(row.steps, key=lambda step: abs(step.throughput_per_s - bounded), default=None)
        table.add_row(
            str(row.nodes),
            f"{row.most_per_s:,.0f}/s",
            f"{100 * row.error:.1f} %",
            f"{bounded:,.0f}/s",
            "–" if near is None else f"{1000 * near.response_mean_s:.2f} ms",
        )
    console.print(table)
    times = Table("change", "data", "time", "cleanup", box=None, pad_edge=False)
    for time in learned.times:
        times.add_row(
            f"{time.before} to {time.after} nodes",
            f"{time.data_gb:g} GB",
            f"{time.seconds:.0f} s",
            f"{time.cleanup_s:.0f} s" if time.cleanup_s else "–",
        )
    console.print(times)
    console.print(
        f"bound: {learned.bound:.2f} of the highest throughput, for a mean response time of "
        f"{1000 * learned.wanted_response_s:.3g} ms; cluster {escape(learned.cluster)}",
        soft_wrap=True,
    )
