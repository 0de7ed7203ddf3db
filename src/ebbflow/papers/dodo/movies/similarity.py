"""The state of the stream: the movies that users are fans of, and the mutual fans of every two movies (§5.3).

A fan rates a movie above 3 and stays a fan. The similarity of two movies is the number of their mutual fans; the list
of a movie has the N most similar ones, those with the smaller id first among equals.

Users and movies are assigned to buckets, and one state value holds a bucket as columns, so that a batch takes a few
array operations on each. A pair (a, b) is one number, its *code*: a · 2³² + b.

**Work per batch is bounded.** A user who is a fan of n movies adds n pairs with every new one, and 1,000 new movies of
such a user at once are millions of pairs. ``Fans.add`` makes at most ``max_pairs`` pairs and keeps the other new movies
in their order of arrival; later batches continue with them. So a long history delays some lists and never stalls a
batch, and the final lists are the same.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Ints = npt.NDArray[np.int64]
Counts = npt.NDArray[np.int32]
Bools = npt.NDArray[np.bool_]

FAN_ABOVE = 3.0
"""A fan rates a movie higher than that (§5.1)."""
MAX_ID = (1 << 31) - 1
_LOW = np.int64(0xFFFFFFFF)
_SHIFT = np.int64(32)


def codes_of(first: npt.ArrayLike, second: npt.ArrayLike) -> Ints:
    """Codes of pairs.

    >>> codes_of([1, 2], [7, 0])
    array([4294967303, 8589934592])
    """
    return (np.asarray(first, np.int64) << _SHIFT) | np.asarray(second, np.int64)


def first_of(codes: Ints) -> Ints:
    """The first of each pair."""
    return codes >> _SHIFT


def second_of(codes: Ints) -> Ints:
    """The second of each pair."""
    return codes & _LOW


def pack(codes: Ints, counts: Counts) -> bytes:
    """Sorted codes and a count for each, in about a fifth of the space.

    The first of a pair is stored once for all its pairs, the second as the difference to the one before, and everything
    is compressed byte by byte: the upper bytes are nearly all 0. A batch spends more on moving state than on counting.

    >>> codes = codes_of([1, 1, 7], [5, 9, 2])
    >>> [each.tolist() for each in unpack(pack(codes, np.array([3, 1, 2], np.int32)))]
    [[4294967301, 4294967305, 30064771074], [3, 1, 2]]
    """
    begins = _begins(first_of(codes))
    seconds = second_of(codes)
    steps = np.diff(seconds, prepend=0)
    steps[begins] = seconds[begins]
    lengths = np.diff(np.append(begins, len(codes)))
    columns = np.concatenate((first_of(codes[begins]), lengths, steps, counts)).astype(np.int32)
    planes = np.ascontiguousarray(columns.view(np.uint8).reshape(-1, 4).T)
    head = np.array([len(begins), len(codes)], np.int64).tobytes()
    return head + bytes(pa.compress(planes, codec="lz4", asbytes=True))


def unpack(data: bytes | memoryview) -> tuple[Ints, Counts]:
    """Codes and counts from what ``pack`` made."""
    groups, size = (int(n) for n in np.frombuffer(data, np.int64, 2))
    total = 2 * (groups + size)
    plain = pa.decompress(pa.py_buffer(data[16:]), decompressed_size=4 * total, codec="lz4")
    columns = np.ascontiguousarray(np.frombuffer(plain, np.uint8).reshape(4, total).T).view(np.int32).ravel()
    firsts, lengths, steps, counts = np.split(columns, [groups, 2 * groups, 2 * groups + size])
    seconds = np.cumsum(steps, dtype=np.int64)
    begins = np.cumsum(lengths) - lengths
    before = np.where(begins > 0, seconds[begins - 1], 0) if groups else begins
    seconds -= np.repeat(before, lengths)
    return codes_of(np.repeat(firsts, lengths), seconds), counts.astype(np.int32)


def _no_codes() -> Ints:
    return np.empty(0, np.int64)


# -- history --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, eq=False)
class Fans:
    """The state of a bucket of users: codes (user, movie), and new ones whose pairs have not been made yet.

    >>> jack = Fans().add(codes_of([1, 1], [10, 20]))
    >>> [(int(a), int(b)) for a, b in zip(first_of(jack.pairs), second_of(jack.pairs))]
    [(20, 10), (10, 20)]
    >>> again = jack.fans.add(codes_of([1, 1], [30, 10]))  # 10 is known already
    >>> sorted(zip(first_of(again.pairs).tolist(), second_of(again.pairs).tolist()))
    [(10, 30), (20, 30), (30, 10), (30, 20)]
    """

    codes: Ints = field(default_factory=_no_codes)
    """Sorted."""
    waiting: Ints = field(default_factory=_no_codes)
    """New ones in order of arrival."""

    def add(self, fans: Ints, max_pairs: int | None = None) -> NewPairs:
        """Add fans, and return the pairs that each new one makes with the earlier movies of the same user.

        At most ``max_pairs`` pairs, but always those of one fan, so that every call makes progress.
        """
        waiting = _unique_in_order(np.concatenate((self.waiting, fans)))
        waiting = waiting[~_contains(self.codes, waiting)]
        user = first_of(waiting)
        since = np.searchsorted(self.codes, user << _SHIFT)
        earlier = np.searchsorted(self.codes, (user + 1) << _SHIFT) - since
        partners = earlier + _rank_in_group(user)
        taken = len(waiting)
        if max_pairs is not None and taken:
            taken = max(1, int(np.searchsorted(np.cumsum(2 * partners), max_pairs, side="right")))
        order = np.argsort(waiting[:taken])
        now, since, earlier = waiting[:taken][order], since[:taken][order], earlier[:taken][order]
        rank = _rank_in_group(first_of(now))  # sorted by user: as many pairs in total as by order of arrival
        count = earlier + rank
        left = np.repeat(second_of(now), count)
        # Partner k of a fan: its user's k-th earlier movie, and after those the new ones sorted before it.
        k = np.arange(int(count.sum())) - np.repeat(np.cumsum(count) - count, count)
        old = k < np.repeat(earlier, count)
        right = np.empty(len(k), np.int64)
        right[old] = self.codes[(np.repeat(since, count) + k)[old]]
        start = np.arange(len(now)) - rank - earlier
        right[~old] = now[(np.repeat(start, count) + k)[~old]]
        right = second_of(right)
        pairs = np.concatenate((codes_of(left, right), codes_of(right, left)))
        kept = np.insert(self.codes, np.searchsorted(self.codes, now), now)
        return NewPairs(fans=Fans(codes=kept, waiting=waiting[taken:]), pairs=pairs)

    def to_bytes(self) -> bytes:
        """For the state store."""
        return np.concatenate(([len(self.codes)], self.codes, self.waiting)).astype(np.int64).tobytes()

    @classmethod
    def from_bytes(cls, data: bytes) -> Fans:
        """Read what ``to_bytes`` wrote."""
        numbers = np.frombuffer(data, np.int64)
        count = int(numbers[0])
        return cls(codes=numbers[1 : 1 + count], waiting=numbers[1 + count :])


@dataclass(frozen=True, kw_only=True, eq=False)
class NewPairs:
    """The state after new fans, and the codes of pairs with one more mutual fan, each in both directions."""

    fans: Fans
    pairs: Ints


def _unique_in_order(codes: Ints) -> Ints:
    _, first = np.unique(codes, return_index=True)
    return codes[np.sort(first)]


def _contains(codes: Ints, wanted: Ints) -> Bools:
    return _is_at(codes, np.searchsorted(codes, wanted), wanted)


def _is_at(codes: Ints, places: Ints, wanted: Ints) -> Bools:
    """Whether each of the wanted codes is at its place."""
    if not len(codes):
        return np.zeros(len(wanted), bool)
    return np.asarray(codes[np.minimum(places, len(codes) - 1)] == wanted)


def counted(codes: Ints) -> tuple[Ints, Counts]:
    """Different codes in ascending order, and how often each occurs."""
    codes = np.sort(codes)
    begins = _begins(codes)
    return codes[begins], np.diff(np.append(begins, len(codes))).astype(np.int32)


def _best(groups: Ints, counts: Counts, top: int) -> Ints:
    """Positions of the ``top`` highest counts of each group, the highest first, the first among equals first.

    ``groups`` is sorted. One sort of whole numbers made of group, count and position takes a tenth of ``lexsort``.

    >>> _best(np.array([1, 1, 1, 4]), np.array([5, 9, 9, 1]), 2)
    array([1, 2, 3])
    """
    begins = _begins(groups)
    number = np.repeat(np.arange(len(begins)), np.diff(np.append(begins, len(groups))))
    highest = int(counts.max(initial=0))
    position_bits, count_bits = len(groups).bit_length(), highest.bit_length()
    if len(begins).bit_length() + count_bits + position_bits < 64:
        keys = (number << (count_bits + position_bits)) | (
            (highest - counts.astype(np.int64)) << position_bits
        )
        order = np.sort(keys | np.arange(len(groups))) & ((1 << position_bits) - 1)
    else:
        order = np.lexsort((-counts, groups))
    rank = np.arange(len(groups)) - begins[number]
    return np.asarray(order[rank < top])


def _begins(groups: Ints) -> Ints:
    """Where runs of equal elements begin."""
    return np.flatnonzero(np.concatenate(([True], groups[1:] != groups[:-1]))[: len(groups)])


def _rank_in_group(groups: Ints) -> Ints:
    """For each element, the number of equal ones before it.

    >>> _rank_in_group(np.array([5, 3, 5, 5, 3]))
    array([0, 0, 1, 2, 1])
    """
    order = np.argsort(groups, kind="stable")
    ordered = groups[order]
    begins = _begins(ordered)
    sizes = np.diff(np.append(begins, len(groups)))
    rank = np.empty(len(groups), np.int64)
    rank[order] = np.arange(len(groups)) - np.repeat(begins, sizes)
    return rank


# -- similar movies -------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, eq=False)
class Similar:
    """The state of a bucket of movies: mutual fans of each pair, and the best codes of every movie.

    >>> after = Similar().add(codes_of([1, 1, 1, 2], [3, 5, 3, 4]), top=10)
    >>> [(each.movie, each.similar, each.mutual_fans) for each in after.lists]
    [(1, [3, 5], [2, 1]), (2, [4], [1])]
    """

    codes: Ints = field(default_factory=_no_codes)
    """Sorted."""
    counts: Counts = field(default_factory=lambda: np.empty(0, np.int32))
    best: Ints = field(default_factory=_no_codes)
    """Sorted by movie, the most similar first."""
    version: int = 0
    """Additions so far."""

    def add(self, pairs: Ints, *, top: int) -> NewLists:
        """Add one mutual fan to each of these pairs, of which some may be equal; returns the lists that changed.

        Counts only grow. So a movie that is not in a list and whose count did not change cannot be in it now:
        candidates are the old list and the changed pairs, and of these only those that reach the last count of a full
        list.
        """
        changed, more = counted(pairs)
        places = np.searchsorted(self.codes, changed)
        new = ~_is_at(self.codes, places, changed)
        codes = np.insert(self.codes, places[new], changed[new])
        counts = np.insert(self.counts, places[new], 0)
        places += np.cumsum(new) - new  # each moves up by the new ones before it
        counts[places] += more
        movie = first_of(changed)
        begins = _begins(movie)
        movies = movie[begins]
        touched = np.isin(first_of(self.best), movies)
        old = self.best[touched]
        old_places = np.searchsorted(codes, old)
        least = np.zeros(len(movies), np.int32)
        place_of_old = np.searchsorted(movies, first_of(old))
        full = np.bincount(place_of_old, minlength=len(movies)) >= top
        lowest = np.full(len(movies), np.iinfo(np.int32).max, np.int32)
        np.minimum.at(lowest, place_of_old, counts[old_places])
        least[full] = lowest[full]
        reaches = counts[places] >= np.repeat(least, np.diff(np.append(begins, len(changed))))
        candidates = np.unique(np.concatenate((places[reaches], old_places)))
        listed = _best(first_of(codes[candidates]), counts[candidates], top)
        listed_codes = codes[candidates[listed]]
        best = np.concatenate((self.best[~touched], listed_codes))
        best = best[np.argsort(first_of(best), kind="stable")]
        after = Similar(codes=codes, counts=counts, best=best, version=self.version + 1)
        return NewLists(similar=after, lists=_lists(self, after, listed_codes))

    def to_bytes(self) -> bytes:
        """For the state store."""
        head = np.array([self.version, len(self.best)], np.int64)
        return head.tobytes() + self.best.tobytes() + pack(self.codes, self.counts)

    @classmethod
    def from_bytes(cls, data: bytes) -> Similar:
        """Read what ``to_bytes`` wrote."""
        version, best = (int(n) for n in np.frombuffer(data, np.int64, 2))
        codes, counts = unpack(memoryview(data)[16 + 8 * best :])
        return cls(
            codes=codes, counts=counts, best=np.frombuffer(data, np.int64, best, offset=16), version=version
        )


@dataclass(frozen=True, kw_only=True)
class MovieList:
    """The most similar movies of one movie, and their mutual fans."""

    movie: int
    version: int
    similar: list[int]
    mutual_fans: list[int]


@dataclass(frozen=True, kw_only=True, eq=False)
class NewLists:
    """The state after new pairs, and the lists that changed."""

    similar: Similar
    lists: list[MovieList]


def _lists(before: Similar, after: Similar, listed: Ints) -> list[MovieList]:
    """The lists in ``listed``, which is sorted by movie, whose movies or counts differ from before."""

    def fans(state: Similar, codes: Ints) -> Counts:
        return state.counts[np.searchsorted(state.codes, codes)]

    movie, mutual = first_of(listed), fans(after, listed)
    was = np.zeros(len(listed), bool)
    known = _contains(before.codes, listed)
    was[known] = fans(before, listed[known]) == mutual[known]
    was &= np.isin(listed, before.best)
    begins = _begins(movie)
    # A list without a new or changed entry is the old one: entries leave only if others come.
    changed = np.add.reduceat(~was, begins) > 0 if len(begins) else np.empty(0, bool)
    ends = np.append(begins[1:], len(listed))
    second = second_of(listed)
    return [
        MovieList(
            movie=int(movie[a]),
            version=after.version,
            similar=second[a:b].tolist(),
            mutual_fans=mutual[a:b].tolist(),
        )
        for a, b in zip(begins[changed], ends[changed], strict=True)
    ]
