"""Movie recommendation as a stream of three operators (§5.3, Figure 12), for ``start`` in a fleet file.

::

    ratings ─► history ─► pairs ─► similar ─► lists ─► output ─► a text file
               fans of             mutual fans
               each user           of each pair

``history`` keeps what each user is a fan of, and sends the pairs that a new fan makes. ``similar`` counts mutual fans,
and sends the lists that changed. ``output`` keeps all lists in a file. State is keyed by buckets of users and of movies
(see ``similarity``); their number is fixed when a checkpoint is created.

If new fans of a bucket wait because they would make too many pairs, the next rating of any user in the bucket continues
with them, also one that is not above 3. Time-outs of Spark would do without a rating, but run a batch at every trigger.

Options, in the table ``options`` of an operator in the fleet file:

=================  =========  =========================================================================
``user_buckets``   16         buckets of users (``history``)
``movie_buckets``  16         buckets of movies (``history``)
``max_pairs``      4,000,000  pairs that ``history`` makes for a bucket in one batch; the rest waits
``top``            10         length of the lists (``similar``)
``file``                      the file that ``output`` writes
=================  =========  =========================================================================
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ebbflow.errors import InputError
from ebbflow.papers.dodo.movies.ratings import COLUMNS
from ebbflow.papers.dodo.movies.similarity import (
    FAN_ABOVE,
    Fans,
    Ints,
    MovieList,
    Similar,
    codes_of,
    counted,
    first_of,
    pack,
    unpack,
)

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.readwriter import DataStreamWriter
    from pyspark.sql.streaming.state import GroupState

    from ebbflow.targets.fleet.context import QueryContext

PAIRS = "bucket int, pairs binary, waiting long"
"""Pairs of a bucket of movies, packed. Rows of pairs would cost more than counting them."""
LISTS = "movie int, version long, similar array<int>, mutual_fans array<int>"
TRIGGER = "200 milliseconds"
WAITING = "waiting"
"""Name of the observed metric of ``history``: new fans whose pairs are left for later batches."""
USER_BUCKETS = 16
_DEFAULTS = {"user_buckets": USER_BUCKETS, "movie_buckets": 16, "max_pairs": 4_000_000, "top": 10}


def history(context: QueryContext) -> DataStreamWriter:
    """The first operator: from ratings to pairs with one more mutual fan."""
    from pyspark.sql import functions as F  # noqa: N812

    buckets = _whole(context.options, "user_buckets")
    step = partial(
        _history,
        movie_buckets=_whole(context.options, "movie_buckets"),
        max_pairs=_whole(context.options, "max_pairs"),
    )
    ratings = context.read(schema=COLUMNS).withColumn("bucket", F.col("user") % buckets)
    made = ratings.groupBy("bucket").applyInPandasWithState(step, PAIRS, "fans binary", "append", "NoTimeout")
    pairs = made.observe(WAITING, F.sum(WAITING).alias("fans")).where("pairs is not null")
    return context.write(pairs.drop(WAITING), trigger=TRIGGER).option(
        "compression", "none"
    )  # they are already


def _history(
    key: tuple[int],  # noqa: ARG001
    frames: Iterator[pd.DataFrame],
    state: GroupState,
    *,
    movie_buckets: int,
    max_pairs: int,
) -> Iterator[pd.DataFrame]:
    import pandas as pd

    fans = Fans.from_bytes(state.get[0]) if state.exists else Fans()
    liked = [frame[frame["rating"] > FAN_ABOVE] for frame in frames]
    made = fans.add(np.concatenate([codes_of(each["user"], each["movie"]) for each in liked]), max_pairs)
    state.update((made.fans.to_bytes(),))
    parts = by_bucket(made.pairs, movie_buckets)
    yield pd.DataFrame(
        {
            "bucket": [*parts, -1],
            "pairs": [*(pack(*counted(codes)) for codes in parts.values()), None],
            "waiting": [*(0 for _ in parts), len(made.fans.waiting)],
        }
    ).astype({"bucket": np.int32, "waiting": np.int64})


def by_bucket(pairs: Ints, buckets: int) -> dict[int, Ints]:
    """Pairs by the bucket of their first movie; buckets without pairs are left out.

    >>> {bucket: first_of(codes).tolist() for bucket, codes in by_bucket(codes_of([5, 2, 7], [1, 1, 1]), 2).items()}
    {0: [2], 1: [5, 7]}
    """
    bucket = (first_of(pairs) % buckets).astype(np.uint16)
    order = np.argsort(bucket, kind="stable")  # 16 bits: a radix sort
    ends = np.cumsum(np.bincount(bucket, minlength=buckets))
    return {i: part for i, part in enumerate(np.split(pairs[order], ends[:-1])) if len(part)}


def similar(context: QueryContext) -> DataStreamWriter:
    """The second operator: from pairs to the lists that changed."""
    pairs = context.read(schema=PAIRS).select("bucket", "pairs")
    lists = pairs.groupBy("bucket").applyInPandasWithState(
        partial(_similar, top=_whole(context.options, "top")), LISTS, "similar binary", "append", "NoTimeout"
    )
    return context.write(lists, trigger=TRIGGER)


def _similar(
    key: tuple[int],  # noqa: ARG001
    frames: Iterator[pd.DataFrame],
    state: GroupState,
    *,
    top: int,
) -> Iterator[pd.DataFrame]:
    import pandas as pd

    before = Similar.from_bytes(state.get[0]) if state.exists else Similar()
    packed = [unpack(part) for frame in frames for part in frame["pairs"]]
    after = before.add(np.concatenate([np.repeat(codes, counts) for codes, counts in packed]), top=top)
    state.update((after.similar.to_bytes(),))
    lists = after.lists
    yield pd.DataFrame(
        {
            "movie": np.array([each.movie for each in lists], np.int32),
            "version": np.array([each.version for each in lists], np.int64),
            "similar": [each.similar for each in lists],
            "mutual_fans": [each.mutual_fans for each in lists],
        }
    )


def output(context: QueryContext) -> DataStreamWriter:
    """The third operator: keeps the list of every movie in a text file."""
    if "file" not in context.options:
        raise InputError(
            f"operator {context.name} needs the option file, like options = {{ file = 'lists.tsv' }}"
        )
    file = Path(context.options["file"])

    def keep(batch: DataFrame, batch_id: int) -> None:  # noqa: ARG001
        merge_lists(file, [MovieList(**row) for row in batch.toArrow().to_pylist()])

    return context.writer(context.read(schema=LISTS), trigger=TRIGGER).foreachBatch(keep)


def merge_lists(file: Path, new: list[MovieList]) -> None:
    """Replace the lists in the file by newer ones of the same movie. Merging the same lists again changes nothing."""
    lists = read_lists(file) if file.exists() else {}
    for each in new:
        if each.movie not in lists or lists[each.movie].version < each.version:
            lists[each.movie] = each
    if not new:
        return
    written = file.with_name(f".{file.name}.new")
    file.parent.mkdir(parents=True, exist_ok=True)
    with written.open("w", encoding="utf-8") as out:
        for movie in sorted(lists):
            each = lists[movie]
            columns = (",".join(map(str, part)) for part in (each.similar, each.mutual_fans))
            out.write("\t".join((str(movie), *columns, str(each.version))) + "\n")
        out.flush()
        os.fsync(out.fileno())
    written.replace(file)


def read_lists(file: Path) -> dict[int, MovieList]:
    """The lists in a file that ``output`` wrote, by movie."""
    lists = {}
    with file.open(encoding="utf-8") as lines:
        for line in lines:
            movie, similar, mutual_fans, version = line.rstrip("\n").split("\t")
            lists[int(movie)] = MovieList(
                movie=int(movie),
                version=int(version),
                similar=[int(each) for each in similar.split(",")],
                mutual_fans=[int(each) for each in mutual_fans.split(",")],
            )
    return lists


def _whole(options: Mapping[str, Any], name: str) -> int:
    text = str(options.get(name, _DEFAULTS[name]))
    if not (text.isascii() and text.isdecimal() and int(text) >= 1):
        raise InputError(
            f"option {name} is '{text}'; it must be a whole number from 1 on, like {_DEFAULTS[name]}"
        )
    return int(text)
