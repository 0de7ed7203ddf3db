"""Fleet files: what they say, and one line with file, line and what would be right for every mistake."""

from __future__ import annotations

from pathlib import Path

import pytest

from ebbflow.core.folders import Owner
from ebbflow.errors import FleetError
from ebbflow.targets.fleet.checkpoint import Claim, claim
from ebbflow.targets.fleet.file import load_fleet

GOOD = """\
[application.small]
master = "local[2]"

[application.large]
master = "spark://127.0.0.1:7077"
executors = "1:8"
memory = "2g"
settings = { spark.executor.cores = 2, "spark.sql.shuffle.partitions" = 4 }

[stream.tweets]
[stream.words]
format = "parquet"

[operator.split]
start = "steps:split"
reads = ["tweets"]
writes = ["words"]
application = "small"

[operator.count]
start = "steps:count"
reads = ["words"]
stateful = true
application = "large"
may-move = false
shards = 2
"""


def fleet_file(folder: Path, text: str = GOOD) -> Path:
    (folder / "steps.py").write_text("def split(context): ...\ndef count(context): ...\nLEAST = 3\n")
    file = folder / "words.toml"
    file.write_text(text)
    return file


def problems(folder: Path, text: str) -> list[str]:
    """Lines of the problems, each as ``LINE: text``."""
    file = fleet_file(folder, text)
    with pytest.raises(FleetError) as caught:
        load_fleet(file)
    return [each.removeprefix(f"{file}:") for each in caught.value.problems]


def test_a_file_becomes_applications_streams_operators_and_their_queries(tmp_path) -> None:
    fleet = load_fleet(fleet_file(tmp_path))
    assert fleet.name == "words"
    assert fleet.folder == tmp_path / "words.fleet"
    large = fleet.applications["large"]
    assert str(large.executors) == "1:8"
    assert large.settings == {"spark.executor.cores": "2", "spark.sql.shuffle.partitions": "4"}
    assert fleet.applications["small"].is_local
    assert fleet.streams["tweets"].folder == tmp_path / "words.fleet" / "streams" / "tweets"
    assert list(fleet.queries) == ["split", "count-0", "count-1"]
    assert fleet.queries["count-1"].checkpoint == tmp_path / "words.fleet/checkpoints/count/count-1"
    edges = {(edge.source, edge.target) for edge in fleet.pipeline.streams}
    assert edges == {("split", "count-0"), ("split", "count-1")}
    assert [each.may_move for each in fleet.pipeline.operators] == [True, False, False]
    assert fleet.first_layout.placement == {"split": "small", "count-0": "large", "count-1": "large"}


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ('master = "local[2]"', 'mastr = "local[2]"',
         "2: unknown key of an application 'mastr'; did you mean 'master'?"),
        ('master = "local[2]"', 'master = "localhost"',
         "2: 'localhost' is not a master; write local[2], spark://HOST:PORT, yarn or k8s://HOST:PORT"),
        ('"1:8"', '"8:1"', "6: 8:1 has its minimum above its maximum; did you mean 1:8?"),
        ('"2g"', '"2"', "7: '2' is not a size; write it like 1g or 768m"),
        ('"2g"', '"100m"', "7: 100m is too little for Spark; write at least 512m"),
        ('master = "local[2]"', 'master = "local[2]"\nexecutors = "1:2"',
         "3: local[2] runs in one process and has no executors to set; leave executors out, or name a cluster like "
         "spark://HOST:PORT"),
        ('application = "small"', 'application = "smal"', "18: unknown application 'smal'; did you mean 'small'?"),
        ('reads = ["words"]', 'reads = ["wrds"]', "22: unknown stream 'wrds'; did you mean 'words'?"),
        ('reads = ["words"]', 'reads = ["words"]\nwrites = ["words"]',
         "23: operator 'count' reads and writes stream 'words'; write another"),
        ('reads = ["words"]', 'reads = ["tweets"]\nwrites = ["words"]',
         "23: stream 'words' is written by 'split' already, and a stream has one writer; let 'count' write a stream of "
         "its own"),
        ('reads = ["words"]', 'reads = ["words"]\nwrites = ["tweets"]',
         "16: operators form a cycle: split → count-0 → split; let one of them read another stream"),
        ("steps:split", "stps:split", "15: there is no module 'stps'; put stps.py into FOLDER, or install it"),
        ("steps:split", "steps:splt", "15: unknown function of module 'steps' 'splt'; did you mean 'split'?"),
        ("steps:split", "steps:LEAST", "15: unknown function of module 'steps' 'LEAST'; there are count and split"),
        ("steps:split", "split", "15: 'split' is not a function; write module:function"),
        ("shards = 2", "shards = 0", "26: 0 is not a number of shards; write 1 to 1000"),
        ("may-move = false", 'may-move = "no"', "25: may-move is 'no'; write true or false"),
        ('format = "parquet"', 'format = "parqet"', "12: unknown format 'parqet'; did you mean 'parquet'?"),
        ("[operator.count]", "[operator.large]",
         "20: operator 'large' has the name of an application; give it another, because readings and "
         "layouts go by name"),
        ('application = "small"\n', "", '14: no application; write application = "small"'),
        ("[application.small]", 'coordination = "etcd://h:1"\n[application.small]',
         "1: 'etcd://h:1' is not a coordination service; write zookeeper://HOST:2181/ebbflow, or leave it out for the "
         "store of one controller"),
        ('memory = "2g"', 'memory = "2g"\naddress = "tcp://10.0.0.7:7790"',
         "8: tcp://10.0.0.7:7790 can be reached from other machines, which needs keys; create them with `ebbflow agent "
         "keys DIR` and pass keys = DIR, or use tcp://127.0.0.1:7788"),
        ("[stream.tweets]", "[stream.tweets", "10: invalid TOML: expected ']' at the end of a table declaration"),
    ],
)  # fmt: skip
def test_every_mistake_is_one_line_with_its_place_and_what_would_be_right(
    tmp_path, old: str, new: str, expected: str
) -> None:
    assert old in GOOD
    found = problems(tmp_path, GOOD.replace(old, new, 1))
    assert [each.replace(str(tmp_path), "FOLDER") for each in found] == [expected]


def test_a_module_that_fails_to_import_is_named_with_its_error(tmp_path) -> None:
    (tmp_path / "broken_steps.py").write_text("import json\nraise RuntimeError('no licence')\n")
    found = problems(tmp_path, GOOD.replace("steps:split", "broken_steps:split"))
    assert found == [
        "15: module 'broken_steps' does not import: RuntimeError: no licence; correct the module"
    ]


def test_all_problems_are_reported_in_the_order_of_lines(tmp_path) -> None:
    text = (
        GOOD.replace('"2g"', '"2"').replace('["tweets"]', '["tweats"]').replace("shards = 2", "shards = -1")
    )
    assert [each.partition(":")[0] for each in problems(tmp_path, text)] == ["7", "16", "26"]


def test_a_checkpoint_that_another_fleet_uses_is_refused_and_one_of_a_dead_process_is_not(tmp_path) -> None:
    file = fleet_file(tmp_path)
    checkpoint = load_fleet(file).queries["split"].checkpoint
    mine = Owner.this_process()
    claim(checkpoint, Claim(token=1, query="split", fleet="/other", application="a", owner=mine))
    with pytest.raises(
        FleetError, match=r"words.toml:14: checkpoint .* is in use by query 'split' of fleet /other"
    ):
        load_fleet(file)
    gone = Owner(pid=mine.pid, started_s=1.0, namespace=mine.namespace, boot=mine.boot, ticks=1)
    claim(checkpoint, Claim(token=2, query="split", fleet="/other", application="a", owner=gone))
    assert load_fleet(file)
