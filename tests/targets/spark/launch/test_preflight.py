"""Valid and invalid masters."""

from __future__ import annotations

import pytest

from ebbflow.core.machine import cores
from ebbflow.errors import InputError
from ebbflow.targets.spark.launch.preflight import check_master, check_master_to_scale, local_slots


@pytest.mark.parametrize(
    ("master", "slots"),
    [
        ("local", 1),
        ("local[*]", cores()),
        ("local[12]", 12),
        ("local[*,4]", cores()),
        ("local[2,1]", 2),
        ("local[2, 1]", 2),
        ("local-cluster[2,1,1024]", 2),
        ("local-cluster[ 2 , 3 , 1024 ]", 6),
    ],
)
def test_local_masters_are_parsed_as_spark_does(master, slots) -> None:
    check_master(master)
    assert local_slots(master) == slots


@pytest.mark.parametrize(
    "master",
    ["local[0]", "local[]", "local[2,0]", "local[2,3,4]", "local[²]", "local[-1]", "local[*,]", "localhost:7077",
     "local-cluster[2,1]", "local-cluster[*,1,1024]", "local-cluster[0,1,1024]", "local-cluster"],
)  # fmt: skip
def test_invalid_local_masters_are_refused(master) -> None:
    assert local_slots(master) is None
    with pytest.raises(InputError, match="is not a master; write"):
        check_master(master)


def test_a_master_without_executors_to_scale_is_refused_with_a_reason() -> None:
    with pytest.raises(InputError, match=r"'local\[2\]' runs everything in one process"):
        check_master_to_scale("local[2]")
    with pytest.raises(InputError, match="is for tests of Spark"):
        check_master_to_scale("local-cluster[2,1,1024]")
