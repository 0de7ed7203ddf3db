"""One Spark cluster and one session for the whole run; unit tests never see them."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from ebbflow.targets.spark.launch.local_cluster import LocalCluster

CORES = 3

# The same examples at every run, so that a red run is about the change; others with EBBFLOW_RANDOM_TESTS=1.
settings.register_profile("same", derandomize=True, deadline=None)
settings.load_profile("default" if os.environ.get("EBBFLOW_RANDOM_TESTS") else "same")

# Drivers of tests live for seconds, too short for the second compiler to pay off.
os.environ.setdefault("SPARK_SUBMIT_OPTS", "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Xshare:auto")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave tests marked ``long`` out unless the ``-m`` expression names the marker, as ``make test-long`` does."""
    if "long" in config.getoption("markexpr"):
        return
    long = [item for item in items if item.get_closest_marker("long")]
    config.hook.pytest_deselected(items=long)
    items[:] = [item for item in items if item not in long]


def wait_until(condition: Callable[[], object], what: str, within_s: float = 60.0) -> None:
    """Wait for a condition; if it does not become true in time, say which."""
    deadline_s = time.monotonic() + within_s
    pause = threading.Event()
    while not condition():
        assert time.monotonic() < deadline_s, f"waited {within_s:g} s for {what}"
        pause.wait(0.05)


@pytest.fixture(scope="session")
def cluster() -> Iterator[LocalCluster]:
    """A standalone master and one worker that offers three cores."""
    from ebbflow.targets.spark.launch.local_cluster import LocalCluster

    with LocalCluster(cores=CORES) as running:
        yield running


@pytest.fixture(scope="session")
def spark(cluster: LocalCluster) -> Iterator[SparkSession]:
    """The session all Spark tests share; it starts with one executor."""
    from ebbflow.targets.spark.launch.local_cluster import local_settings
    from ebbflow.targets.spark.launch.session import local_session
    from ebbflow.targets.spark.launch.settings import scaling_settings
    from ebbflow.targets.spark.source import register

    settings = {
        **cluster.settings,
        **local_settings(),
        **scaling_settings(initial_executors=1, master=cluster.master_url),
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.streaming.numRecentProgressUpdates": "1000",
        "spark.sql.streaming.stateStore.providerClass": (
            "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
        ),
    }
    with local_session(cluster.master_url, settings, name="tests") as session:
        register(session)
        yield session


@pytest.fixture(autouse=True)
def queries_end_with_their_test(request: pytest.FixtureRequest) -> Iterator[None]:
    """Stop the queries of a failed test, so that later tests are not affected."""
    yield
    if "spark" in request.fixturenames:
        for query in request.getfixturevalue("spark").streams.active:
            query.stop()


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of real traces and tweets that ``EBBFLOW_SHARED_DATA`` names."""
    folder = os.environ.get("EBBFLOW_SHARED_DATA")
    if not folder:
        pytest.skip("set EBBFLOW_SHARED_DATA to the folder of the real data")
    return Path(folder)


@pytest.fixture
def wait() -> Callable[..., None]:
    """``wait_until``, for tests."""
    return wait_until
