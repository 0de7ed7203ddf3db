"""Stepping the load finds the highest throughput of each size, and the time table follows the data."""

from __future__ import annotations

import pytest

from ebbflow.errors import InputError, ProfileError, TargetError
from ebbflow.profiling.datastore import DatastoreProfile, DatastoreProfiling, LoadStep, ResizeTime
from ebbflow.profiling.datastore.profile import paper_profile
from ebbflow.profiling.profile import Profile

CAPACITY = {3: 900.0, 4: 1100.0, 5: 1250.0}


class Store:
    """A store with a known capacity: an open queue in front of one server per cluster."""

    cluster, target, replication = "orders", "simulator", 3

    def __init__(self) -> None:
        self.nodes, self.data_gb = 3, 1.0
        self.log: list[str] = []

    def offer(self, rate_per_s: float, seconds: float) -> LoadStep:
        capacity = CAPACITY[self.nodes]
        self.log.append(f"{self.nodes}")
        behind_s = max(0.0, rate_per_s / capacity - 1.0) * seconds
        busy = min(rate_per_s / capacity, 0.999)
        base_s = 0.002 / (1.0 - busy**2)
        return LoadStep(
            offered_per_s=rate_per_s,
            throughput_per_s=min(rate_per_s, capacity),
            response_mean_s=base_s + behind_s / 2,
            response_growth=1.0 if not behind_s else 3.0,
        )

    def resize(self, nodes: int, rate_per_s: float) -> ResizeTime:
        assert abs(nodes - self.nodes) == 1
        assert rate_per_s < CAPACITY[min(nodes, self.nodes)]
        before, self.nodes = self.nodes, nodes
        grows = nodes > before
        return ResizeTime(
            before=before,
            after=nodes,
            data_gb=self.data_gb,
            seconds=(20.0 if grows else 10.0) + 30.0 * self.data_gb,
            cleanup_s=5.0 if grows else 0.0,
        )

    def fill(self, data_gb: float) -> None:
        self.data_gb = data_gb


@pytest.fixture(scope="module")
def learned() -> DatastoreProfile:
    profiling = DatastoreProfiling(
        first_per_s=50.0, sizes=range(3, 6), data_gb=(2.0, 4.0), wanted_response_s=0.004, tolerance=0.01
    )
    return profiling.run(Store())


def test_the_highest_throughput_of_each_size_is_found_within_its_error(learned: DatastoreProfile) -> None:
    for row in learned.performance:
        assert row.most_per_s == pytest.approx(CAPACITY[row.nodes], rel=0.01)
        assert abs(row.most_per_s / CAPACITY[row.nodes] - 1) <= 2 * row.error
        assert all(step.throughput_per_s >= 0.97 * step.offered_per_s for step in row.steps)


def test_the_bound_follows_from_the_wanted_response_time(learned: DatastoreProfile) -> None:
    # 2 ms / (1 − ρ²) = 4 ms at ρ = 0.707
    assert learned.bound == pytest.approx(0.707, abs=0.02)
    assert learned.bound_for(0.003) < learned.bound < learned.bound_for(0.006)
    with pytest.raises(ProfileError, match="no load is answered within 1 ms"):
        learned.bound_for(0.001)


def test_times_of_other_sizes_of_the_data_come_from_the_regression(learned: DatastoreProfile) -> None:
    assert learned.add_s() == pytest.approx(55.0)
    assert learned.add_s(data_gb=3.0) == pytest.approx(115.0, rel=0.01)
    assert learned.remove_s(data_gb=8.0) == pytest.approx(250.0, rel=0.02)
    assert learned.add is not None
    assert (learned.add.low, learned.add.high) == (1.0, 4.0)
    assert not learned.add.estimate(8.0).inside
    assert learned.change_s(4, 5, data_gb=2.0).seconds == pytest.approx(80.0, rel=0.01)


def test_the_store_has_its_first_size_again(learned: DatastoreProfile) -> None:
    store = Store()
    DatastoreProfiling(first_per_s=50.0, sizes=range(3, 6)).run(store)
    assert store.nodes == 3
    assert len(learned.times) == 12


def test_a_profile_survives_its_file_and_refuses_other_clusters(learned: DatastoreProfile) -> None:
    again = DatastoreProfile.from_text(learned.to_text())
    assert again == learned
    with pytest.raises(ProfileError, match="is of the cluster 'orders', but this cluster is named 'users'"):
        again.check_cluster("users")


@pytest.mark.parametrize(
    ("old", "new", "error"),
    [
        ("version = 1", "version = 2", "version 2, but this Ebbflow reads only up to version 1"),
        ("bound = 0.7", "bound = 1.7", "bound is 1.7; write a number above 0 and at most 1"),
        ("most_per_s = 92476.0", "most_per_s = -1.0", r"performance\[0\].most_per_s is -1"),
        ("most_per_s = 118036.0", "most_per_s = 50.0", "below that of 4"),
        ("replication = 3", "replication = 4", "fewer than the replication of 4"),
        ("after = 4", "after = 5", "write changes by one node"),
        ("replication = 3", "replicas = 3", "replicas is not a key of a profile"),
        ('target = "cassandra"', 'target = "spark"', 'write "cassandra" or "simulator"'),
    ],
)
def test_a_damaged_file_is_refused_with_one_line(old: str, new: str, error: str) -> None:
    text = paper_profile().to_text()
    assert old in text
    with pytest.raises(ProfileError, match=error) as raised:
        DatastoreProfile.from_text(text.replace(old, new, 1), "store.toml")
    assert "\n" not in str(raised.value)


def test_profiles_of_pipelines_and_of_datastores_are_told_apart() -> None:
    with pytest.raises(ProfileError, match="this is the profile of a datastore"):
        Profile.from_text(paper_profile().to_text())
    with pytest.raises(ProfileError, match="this is the profile of a pipeline"):
        DatastoreProfile.from_text(Profile(pipeline="p").to_text())


def test_wrong_sizes_and_an_endless_throughput_are_errors() -> None:
    with pytest.raises(InputError, match="2 nodes are below the replication factor of 3"):
        DatastoreProfiling(first_per_s=1.0, sizes=range(2, 4)).run(Store())
    with pytest.raises(InputError, match="the cluster has 3 nodes; begin with 4"):
        DatastoreProfiling(first_per_s=1.0, sizes=range(4, 6)).run(Store())
    with pytest.raises(TargetError, match="after 60 steps"):
        DatastoreProfiling(first_per_s=1e-9, sizes=range(3, 4)).run(Store())
