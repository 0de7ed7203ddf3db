"""Ratings: from a file in MovieLens' format, or generated.

Both are in the order of their time, as in the experiments (§5.1).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ebbflow.errors import InputError
from ebbflow.papers.dodo.movies.similarity import FAN_ABOVE, MAX_ID

COLUMNS = "user int, movie int, rating double"
"""The schema of a stream of ratings."""
_FORMAT = "it needs the columns userId, movieId, rating and timestamp"


@dataclass(frozen=True, kw_only=True, eq=False)
class Ratings:
    """Ratings in the order of their time."""

    user: npt.NDArray[np.int32]
    movie: npt.NDArray[np.int32]
    rating: npt.NDArray[np.float64]
    source: str
    """Where they come from, for reports."""

    def __len__(self) -> int:
        return len(self.user)

    def first(self, count: int) -> Ratings:
        """The first ratings."""
        return self.part(0, count)

    def part(self, start: int, end: int) -> Ratings:
        """The ratings from one position to another."""
        return Ratings(
            user=self.user[start:end],
            movie=self.movie[start:end],
            rating=self.rating[start:end],
            source=self.source,
        )

    @property
    def fans(self) -> int:
        """How many are above the limit of a fan."""
        return int(np.count_nonzero(self.rating > FAN_ABOVE))

    @property
    def pairs(self) -> int:
        """Pairs of movies with one mutual fan, in both directions: the work of the stream, Σ n·(n − 1) over users.

        >>> Ratings(user=np.array([1, 1, 1, 2]), movie=np.array([1, 2, 3, 1]), rating=np.full(4, 5.0), source="").pairs
        6
        """
        above = self.rating > FAN_ABOVE
        codes = np.unique((self.user[above].astype(np.int64) << 32) | self.movie[above])
        _, counts = np.unique(codes >> 32, return_counts=True)
        return int(np.sum(counts * (counts - 1)))

    def to_arrow(self) -> pa.Table:
        """As a table with the columns of ``COLUMNS``."""
        return pa.table({"user": self.user, "movie": self.movie, "rating": self.rating})


def read_ratings(file: str | Path) -> Ratings:
    """Read a CSV file like MovieLens' ratings.csv, plain or gzipped; ``InputError`` if it is invalid."""
    from pyarrow import csv

    path = Path(file).expanduser()
    names = ["userId", "movieId", "rating", "timestamp"]
    types = [pa.int64(), pa.int64(), pa.float64(), pa.int64()]
    try:
        table = csv.read_csv(
            path,
            convert_options=csv.ConvertOptions(
                include_columns=names, column_types=dict(zip(names, types, strict=True))
            ),
        )
    except FileNotFoundError:
        raise InputError(f"there is no file of ratings '{file}' (looked for {path.absolute()})") from None
    except (pa.ArrowInvalid, pa.ArrowKeyError, OSError) as error:
        reason = str(error).splitlines()[0]
        raise InputError(f"cannot read ratings from '{file}': {reason}; {_FORMAT}") from None
    user, movie, rating, time = (table.column(name).to_numpy() for name in names)
    if not len(user):
        raise InputError(f"'{file}' has no ratings; {_FORMAT}")
    for name, ids in (("userId", user), ("movieId", movie)):
        bad = np.flatnonzero((ids < 0) | (ids > MAX_ID))
        if len(bad):
            raise InputError(
                f"'{file}', rating {bad[0] + 1}: {name} {ids[bad[0]]} is not an id; ids are 0 to {MAX_ID}"
            )
    order = np.argsort(time, kind="stable")
    return Ratings(
        user=user[order].astype(np.int32),
        movie=movie[order].astype(np.int32),
        rating=rating[order],
        source=path.name,
    )


def generated_ratings(count: int, *, users: int | None = None, movies: int = 9_000, seed: int = 1) -> Ratings:
    """Ratings with the statistics that matter here: popular movies, and users with long histories.

    The popularity of movies is a Zipf distribution with exponent 0.9, the activity of users log-normal with σ = 1.3. By
    default a user has 165 ratings on average, as in MovieLens' small data set. 61 % are above 3, as there. A user rates
    in sessions, in the order of their start; a movie may be rated again.

    >>> made = generated_ratings(20_000)
    >>> len(made), round(made.fans / len(made), 2)
    (20000, 0.61)
    """
    rng = np.random.default_rng(seed)
    users = max(1, count // 165) if users is None else users
    activity = rng.lognormal(0.0, 1.3, users)
    sizes = rng.multinomial(count, activity / activity.sum())
    user = np.repeat(np.arange(1, users + 1, dtype=np.int32), sizes)
    weights = 1.0 / np.arange(1, movies + 1) ** 0.9
    shuffled = rng.permutation(movies) + 1
    movie = shuffled[rng.choice(movies, size=count, p=weights / weights.sum())].astype(np.int32)
    rating = rng.choice(np.arange(0.5, 5.5, 0.5), size=count, p=_STARS)
    # A session has about 30 ratings, one after the other; sessions of all users start at random times.
    session = rng.random(count)[np.arange(count) // 30 * 30]
    order = np.argsort(session, kind="stable")
    return Ratings(
        user=user[order], movie=movie[order], rating=rating[order], source=f"generated, seed {seed}"
    )


_STARS = np.array([0.0136, 0.0279, 0.0178, 0.0749, 0.0550, 0.2008, 0.1302, 0.2660, 0.0850, 0.1288])
"""Shares of ½ to 5 stars, close to those of MovieLens' small data set."""
