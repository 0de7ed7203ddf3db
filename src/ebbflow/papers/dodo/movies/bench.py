"""``ebbflow bench movies``: throughput of the stream, and batch against stream as the data grows (§5)."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ebbflow.core.folders import scratch_folder
from ebbflow.errors import InputError, RunFailedError
from ebbflow.papers.dodo.movies.costs import DAY_S, BatchModel, Costs
from ebbflow.papers.dodo.movies.published import HIGHEST_PER_S, TABLE_2, TABLE_3, TABLE_5
from ebbflow.papers.dodo.movies.ratings import Ratings
from ebbflow.papers.dodo.movies.run import SETTINGS, StreamRun, Timed, run_batch, run_stream
from ebbflow.targets.spark.launch.session import local_session

CORES = 2
TIMES = 20.0
"""The stream must hold this many times the highest rate of the paper."""
PARTS = 4
"""Parts of the ratings: the sizes of the batch job, and what the stream gets at once."""
REFRESHES_S = (60.0, 600.0, 3_600.0, 10_800.0, DAY_S)
RATES_PER_S = (98.0, 192.0, 200.0, 850.0, 17_000.0)
LEAST = 1_000
MEMORY = "2g"
"""Of the driver, which executes everything; a setting of the session would come too late for it."""


@dataclass(frozen=True, kw_only=True)
class Growth:
    """What refreshing the lists took when a part of the ratings had been added."""

    ratings: int
    """All so far."""
    pairs: int
    batch: Timed
    """All ratings so far anew."""
    stream: Timed
    """Only the part that was added."""

    def to_json(self) -> dict[str, Any]:
        """A row of the result."""
        return {
            "case": "growth",
            "ratings": self.ratings,
            "pairs": self.pairs,
            "batch_s": round(self.batch.seconds, 2),
            "batch_cpu_s": round(self.batch.cpu_s, 2),
            "added": self.stream.ratings,
            "stream_s": round(self.stream.seconds, 2),
            "stream_cpu_s": round(self.stream.cpu_s, 2),
            "published": None,
        }


@dataclass(frozen=True, kw_only=True)
class MoviesResult:
    """The result of the benchmark."""

    ratings: Ratings
    stream: StreamRun
    growth: Sequence[Growth]
    same_lists: bool

    @property
    def per_s(self) -> float:
        """Ratings per second through all three operators."""
        return self.stream.total.per_s

    @property
    def per_s_by_cpu(self) -> float:
        """Ratings per second if the cores had nothing else to do: cores · ratings ÷ CPU time."""
        return CORES * self.stream.total.ratings / self.stream.total.cpu_s

    @property
    def times_published(self) -> float:
        """Throughput ÷ the highest rate of the paper."""
        return self.per_s / HIGHEST_PER_S

    @property
    def ok(self) -> bool:
        """Whether the lists are the same, and the throughput is as high as it must be."""
        return self.same_lists and self.times_published >= TIMES

    @property
    def batch_model(self) -> BatchModel:
        """Time of the batch job by number of ratings."""
        return BatchModel.fitted([(each.ratings, each.batch.seconds) for each in self.growth])

    @property
    def costs(self) -> Costs:
        """Costs on machines like this one."""
        return Costs(batch=self.batch_model, stream_per_s=self.per_s, cores=CORES)

    @property
    def headline(self) -> str:
        """One sentence."""
        lists = "the same lists" if self.same_lists else "DIFFERENT lists"
        return (
            f"The stream holds {self.per_s:,.0f} ratings/s on {CORES} cores, {self.times_published:.1f} times the "
            f"paper's 850 on 23; batch and stream give {lists}"
        )

    def to_json(self) -> list[dict[str, Any]]:
        """Rows of ``ebbflow bench movies --json``."""
        total, costs = self.stream.total, self.costs
        return [
            {
                "case": "throughput",
                "source": self.ratings.source,
                "ratings": total.ratings,
                "pairs": self.growth[-1].pairs,
                "cores": CORES,
                "throughput": round(self.per_s, 1),
                "throughput_by_cpu": round(self.per_s_by_cpu, 1),
                "longest_batch_s": round(self.stream.longest_batch_s, 2),
                "same_lists": self.same_lists,
                "lists": len(self.stream.lists),
                "published": {
                    "input": [each.input_per_s for each in TABLE_5],
                    "cores": [each.workers for each in TABLE_5],
                    "throughput": [each.throughput_per_s for each in TABLE_5],
                },
            },
            *(each.to_json() for each in self.growth),
            {
                "case": "batch-model",
                "factor": costs.batch.factor,
                "exponent": round(costs.batch.exponent, 3),
                "published": {
                    "ratings": [each.ratings for each in TABLE_2],
                    "seconds": [each.seconds for each in TABLE_2],
                    "exponent": round(published_model().exponent, 3),
                },
            },
            *(
                {
                    "case": "cost",
                    "ratings": each.ratings,
                    "refresh_s": refresh_s,
                    "batch_usd_per_day": _cents(costs.batch_usd_per_day(each.ratings, refresh_s=refresh_s)),
                    "stream_usd_per_day": _cents(costs.stream_usd_per_day(1.0)),
                    "published": None,
                }
                for each in self.growth
                for refresh_s in REFRESHES_S
            ),
            *(
                {
                    "case": "published-cost",
                    "ratings": ratings,
                    "refresh": refresh,
                    "published": {"batch_usd_per_day": usd},
                }
                for (refresh, ratings), usd in TABLE_3.items()
            ),
            *(
                {
                    "case": "break-even",
                    "refresh_s": refresh_s,
                    "stream_cheaper_from_per_s": _rounded(costs.break_even_rate_per_s(refresh_s)),
                    "extrapolated": True,
                    "published": {"stream_cheaper_from_per_s": _rounded(published_break_even(refresh_s))},
                }
                for refresh_s in REFRESHES_S
            ),
        ]


def published_model() -> BatchModel:
    """Time of the paper's batch job by number of ratings (Table 2)."""
    return BatchModel.fitted([(each.ratings, each.seconds) for each in TABLE_2])


def published_break_even(refresh_s: float) -> float | None:
    """The arrival rate from which on the paper's stream is cheaper, from Tables 2 and 5 and billed by the second.

    Ten workers hold 276 events/s at most; both systems have a master, and are compared by instances.
    """
    ten = next(each for each in TABLE_5 if each.throughput_per_s == 276.0)
    return Costs(batch=published_model(), stream_per_s=ten.throughput_per_s, cores=10).break_even_rate_per_s(
        refresh_s
    )


def run_movies(
    ratings: Ratings, *, top: int = 10, on_step: Callable[[str], None] = lambda _: None
) -> MoviesResult:
    """Run the benchmark on Spark in this process: ``local[2]``, with all data in a temporary folder."""
    if len(ratings) < LEAST:
        raise InputError(f"{len(ratings)} ratings are too few to measure; give at least {LEAST:,}")
    bounds = [len(ratings) * part // PARTS for part in range(PARTS + 1)]
    warm_up = ratings.first(min(bounds[1], 5_000))
    os.environ.setdefault("PYSPARK_SUBMIT_ARGS", f"--driver-memory {MEMORY} pyspark-shell")
    with (
        scratch_folder("movies") as scratch,
        local_session(f"local[{CORES}]", SETTINGS, name="movies") as spark,
    ):
        folder = Path(scratch)
        on_step("warming up")
        halves = [warm_up.first(len(warm_up) // 2), warm_up]
        run_stream(spark, folder / "stream-warm-up", halves, options={"top": top})
        run_batch(spark, folder / "batch-warm-up", warm_up, top=top)
        on_step("stream")
        parts = [ratings.part(a, b) for a, b in itertools.pairwise(bounds)]
        stream = run_stream(
            spark, folder / "stream", parts, options={"top": top}, on_part=lambda: on_step("stream")
        )
        growth = []
        for end, streamed in zip(bounds[1:], stream.parts, strict=True):
            on_step("batch")
            so_far = ratings.first(end)
            batch, lists = run_batch(spark, folder / f"batch-{end}", so_far, top=top)
            growth.append(Growth(ratings=end, pairs=so_far.pairs, batch=batch, stream=streamed))
    if not lists:
        raise RunFailedError(f"no two movies of {ratings.source} have a mutual fan; give more ratings")
    return MoviesResult(ratings=ratings, stream=stream, growth=growth, same_lists=lists == stream.lists)


STEPS = 2 * PARTS + 2
"""How often ``on_step`` is called."""


def _cents(usd: float | None) -> float | None:
    return None if usd is None else round(usd, 4)


def _rounded(rate_per_s: float | None) -> float | None:
    return None if rate_per_s is None else float(f"{rate_per_s:.2g}")
