"""The hash ring: what moves when shards come and go."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebbflow.core.ring import MAX_SHARDS, HashRing, state_moved
from ebbflow.errors import InputError

KEYS = np.random.default_rng(1).integers(0, 2**64, 100_000, dtype=np.uint64)
NAMES = st.lists(st.text(min_size=1, max_size=12), min_size=1, max_size=12, unique=True)


@given(names=NAMES, new=st.text(min_size=1, max_size=12), weight=st.sampled_from([0.5, 1.0, 2.0]))
def test_a_new_shard_takes_keys_from_all_and_no_key_moves_between_old_shards(
    names: list[str], new: str, weight: float
) -> None:
    if new in names:
        return
    before = HashRing.of(names)
    after = before.with_shard(new, weight)
    old, now = np.array(before.shards_of(KEYS)), np.array(after.shards_of(KEYS))
    moved = old != now
    assert set(now[moved]) <= {new}
    fair = weight / (len(names) + weight)
    assert moved.mean() == pytest.approx(fair, rel=0.4)
    assert sum(before.moves_to(after).values()) == pytest.approx(moved.mean(), abs=0.01)


@given(names=NAMES)
def test_removing_a_shard_moves_its_keys_only_and_undoes_adding_it(names: list[str]) -> None:
    ring = HashRing.of(names)
    grown = ring.with_shard("\x00gone")
    shrunk = grown.without_shard("\x00gone")
    assert np.array_equal(shrunk.owners, ring.owners)
    assert {giver for giver, _ in grown.moves_to(ring)} == {"\x00gone"}
    assert HashRing.of(reversed(names)) == ring  # the order of shards does not matter


@pytest.mark.parametrize("shards", [1, 2, 4, 9, 24])
def test_on_average_a_new_shard_takes_one_part_of_n_plus_one(shards: int) -> None:
    moved = []
    for trial in range(20):
        ring = HashRing.of(f"{trial}-{i}" for i in range(shards))
        moved.append(sum(ring.moves_to(ring.with_shard(f"{trial}-new")).values()))
    assert np.mean(moved) == pytest.approx(1 / (shards + 1), rel=0.05)
    assert np.std(moved) / np.mean(moved) < 0.1  # about 1/√200


def test_shares_follow_weights() -> None:
    shares = HashRing({"a": 1.0, "b": 2.0, "c": 1.0}).shares()
    assert shares["b"] == pytest.approx(0.5, rel=0.15)
    assert sum(shares.values()) == pytest.approx(1.0)


def test_the_ring_is_the_same_in_every_process_and_version() -> None:
    """Checkpoints and routed streams depend on it: a change of these figures loses state."""
    ring = HashRing({"a": 1.0, "b": 1.0, "c": 0.5})
    assert ring.shards_of(np.array([0, 1 << 60, 1 << 62, 1 << 63, 2**64 - 1], dtype=np.uint64)) == [
        "c",
        "c",
        "a",
        "c",
        "c",
    ]
    assert {name: round(share * 65536) for name, share in ring.shares().items()} == {
        "a": 26068,
        "b": 26238,
        "c": 13230,
    }


def test_the_simulator_moves_the_rings_share_of_state() -> None:
    for n in (1, 2, 5, 12):
        assert state_moved(n, n + 1) == pytest.approx(1 / (n + 1), rel=0.2)
        assert state_moved(n + 1, n) == state_moved(n, n + 1)


def test_impossible_rings_are_refused_in_one_line() -> None:
    ring = HashRing.of(["a"])
    with pytest.raises(InputError, match="at least one shard"):
        HashRing({})
    with pytest.raises(InputError, match="shard a has the weight 0"):
        HashRing({"a": 0.0})
    with pytest.raises(InputError, match="is on the ring already"):
        ring.with_shard("a")
    with pytest.raises(InputError, match="shard b is not on the ring; it has a"):
        ring.without_shard("b")
    with pytest.raises(InputError, match="add another before you remove it"):
        ring.without_shard("a")
    with pytest.raises(InputError, match="the maximum is 256"):
        HashRing.of(map(str, range(MAX_SHARDS + 1)))
