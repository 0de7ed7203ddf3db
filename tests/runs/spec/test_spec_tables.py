"""The tables of a scenario file: each becomes its part of the simulator, or a one-line error."""

from __future__ import annotations

from pathlib import Path

import pytest

from ebbflow.core.limits import Limits
from ebbflow.errors import InputError
from ebbflow.runs.simulation import run_simulation
from ebbflow.runs.spec import Spec, read_spec, with_values
from ebbflow.strategies import make_strategy
from ebbflow.targets.simulator import (
    Cluster,
    Continuous,
    LateMetrics,
    Link,
    MicroBatch,
    MissingMetrics,
    NodeDies,
    NodeKind,
    SlowNode,
)

EXAMPLES = Path(__file__).parents[3] / "examples"


def read(folder: Path, text: str) -> Spec:
    file = folder / "s.toml"
    file.write_text(text)
    return read_spec(file)


def test_faults_and_unequal_nodes_become_those_of_the_simulator(tmp_path) -> None:
    spec = read(
        tmp_path,
        """
        load = "constant(100)"
        node-speeds = [1.0, 0.5]
        drain = "5s"
        [[fault]]
        kind = "node-dies"
        at = "10m"
        node = 2
        [[fault]]
        kind = "slow-node"
        from = "1m"
        until = 120
        factor = 0.5
        [[fault]]
        kind = "metrics-missing"
        from = 0
        until = "30s"
        [[fault]]
        kind = "metrics-late"
        from = "1h"
        until = "2h"
        delay = "45s"
        """,
    )
    made = spec.scenario()
    assert made.faults == (
        NodeDies(at_s=600.0, node=2),
        SlowNode(from_s=60.0, until_s=120.0, factor=0.5),
        MissingMetrics(from_s=0.0, until_s=30.0),
        LateMetrics(from_s=3600.0, until_s=7200.0, delay_s=45.0),
    )
    assert made.nodes == NodeKind(speeds=(1.0, 0.5), drain_s=5.0)
    assert with_values(spec, {"seed": 9}).scenario().faults == made.faults, "options leave the tables alone"


def test_a_tenant_shares_the_nodes_and_counts_for_the_initial_nodes(tmp_path) -> None:
    text = 'load = "constant(300)"\ntrigger = "10s"\n[[tenant]]\nload = "constant(150)"\npipeline = "top-words"\n'
    made = read(tmp_path, text + 'name = "other-words"\n').scenario()
    (tenant,) = made.others
    assert isinstance(tenant.engine, MicroBatch)
    assert (tenant.engine.pipeline.name, tenant.engine.trigger_interval_s) == ("other-words", 10.0)
    assert str(tenant.load) == "constant(150)"
    assert made.first_nodes == 3 + 2, "300 / 0.75 needs 3, 150 / 0.75 = 200 needs 2"
    assert not made.is_single


def test_clusters_placement_link_and_queues_of_a_continuous_pipeline(tmp_path) -> None:
    made = read(
        tmp_path,
        """
        engine = "continuous"
        load = "constant(100)"
        [cluster.west]
        initial-nodes = 2
        slots-per-node = 4
        node-speeds = [0.5]
        lead-time = "1m"
        [placement]
        counter = "west"
        [link]
        mb-per-s = 5
        latency = "200ms"
        [queues]
        bound = 500
        pending = "none"
        """,
    ).scenario()
    west = NodeKind(slots=4, speeds=(0.5,), lead_time_s=60.0)
    assert made.clusters == {"west": Cluster(nodes=west, initial_nodes=2)}
    assert made.placement == {"counter": "west"}
    assert made.link == Link(mb_per_s=5.0, latency_s=0.2)
    assert isinstance(made.engine, Continuous)
    assert (made.engine.queue_bound_rows, made.engine.max_pending_rows) == (500.0, None)


def test_options_decide_which_engine_the_tables_of_a_file_are_for(tmp_path) -> None:
    path = tmp_path / "flow.toml"
    path.write_text('load = "constant(50)"\n[queues]\nbound = 900\n')
    engine = read_spec(path, given={"engine": "continuous"}).scenario().engine
    assert engine.queue_bound_rows == 900
    with pytest.raises(InputError, match=r"flow.toml, queues: the micro-batch engine has no bound"):
        read_spec(path)
    with pytest.raises(InputError, match=r"^--engine: unknown engine 'flow'"):
        read_spec(path, given={"engine": "flow"})


def test_a_read_limit_bounds_the_batches(tmp_path) -> None:
    spec = read(tmp_path, 'load = "constant(1000)"\nseconds = "5m"\n[queues]\nread-limit = 700\n')
    run = run_simulation(spec.scenario(), make_strategy("static")).run
    assert max(batch.rows for batch in run.batches) == 700


def test_a_dying_node_shows_in_the_nodes_held() -> None:
    quiet = Spec(load="constant(100)", seconds=600, initial_nodes=2, nodes="2:2")
    dies = with_values(quiet, {"fault": [{"kind": "node-dies", "at": "5m"}]})
    held = [
        run_simulation(spec.scenario(), make_strategy("static")).run.nodes_working for spec in (quiet, dies)
    ]
    assert [float(curve.stepped(305.0)) for curve in held] == [2.0, 1.0]
    assert [float(curve.stepped(313.0)) for curve in held] == [2.0, 2.0], (
        "replaced after the lead time of 12 s"
    )


def test_missing_metrics_on_purpose_raise_no_warnings(caplog) -> None:
    blind = {"kind": "metrics-missing", "from": "1m", "until": "2m"}
    spec = with_values(Spec(load="constant(100)", seconds=300), {"fault": [blind]})
    decisions = run_simulation(spec.scenario(), make_strategy("capacity")).run.decisions
    assert not caplog.records
    assert not any(60 < entry.time_s < 120 and entry.verdict == "act" for entry in decisions)


def test_nodes_of_unequal_speed_count_by_their_capacity() -> None:
    spec = Spec(load="constant(600)", seconds=600)
    assert with_values(spec, {"node-speeds": [1.0, 0.2]}).scenario().first_nodes > spec.scenario().first_nodes
    assert with_values(spec, {"node-speeds": [0.5]}).scenario().first_nodes > spec.scenario().first_nodes


@pytest.mark.parametrize("name", ["rough_day.toml", "two_clusters.toml"])
def test_the_examples_are_valid(name: str) -> None:
    assert not read_spec(EXAMPLES / name).scenario().is_single


BAD = [
    ('[fault]\nkind = "node-dies"', "fault: this is a list of tables; write [[fault]] with kind ="),
    ('[[fault]]\nat = "5m"', "fault 1 has no 'kind'; choose from node-dies, slow-node, metrics-missing"),
    ('[[fault]]\nkind = "node-dead"', "fault 1 'node-dead': did you mean 'node-dies'?"),
    ("[[fault]]\nkind = [1]", "fault 1 '[1]'; there are: metrics-late"),
    ('[[fault]]\nkind = "node-dies"', "fault 1 has no 'at'; write it like at = \"10m\""),
    ('[[fault]]\nkind = "node-dies"\nat = "soon"', "fault 1: 'soon' is not a duration; write it like"),
    ('[[fault]]\nkind = "node-dies"\nat = true', "fault 1, at = True: expected `float | str`"),
    ('[[fault]]\nkind = "node-dies"\nat = -5', "fault 1: at is -5.0; it must be a duration of at least 0s"),
    (
        '[[fault]]\nkind = "node-dies"\nat = 5\nnode = -1',
        "fault 1: node is -1; it must be 0 (the oldest node) or more",
    ),
    (
        '[[fault]]\nkind = "node-dies"\nat = 5\ncluster = "west"',
        "affects cluster 'west'; there are: main",
    ),
    (
        '[[fault]]\nkind = "metrics-missing"\nfrom = "5m"\nuntil = "4m"',
        "fault 1: missing metrics from 300 s until 240 s; until must be later than from",
    ),
    (
        '[[fault]]\nkind = "slow-node"\nfrom = 5\nuntil = 6\nfactor = 2',
        "fault 1: a slow node at 2 times its speed; the factor must be from 1e-06 to 1",
    ),
    (
        '[[fault]]\nkind = "slow-node"\nfrom = 5\nuntil = 6\ndelay = 2',
        "fault 1 'delay'; there are: cluster, factor",
    ),
    (
        "node-speeds = []",
        "node-speeds: node-speeds is []; it must be one or more speeds from 1e-06 to 1e+06, like [1.0, 0.5]",
    ),
    ("node-speeds = [1, 0]", "node-speeds: node-speeds is [1, 0]; it must be"),
    ('node-speeds = "fast"', "expected `array`, got `str`; write it like node-speeds = [1.0, 0.5]"),
    ("drain = -1", "drain: drain is -1.0; it must be a duration of at least 0s"),
    ('[[tenant]]\npipeline = "sentiment"', "tenant 1 has no 'load'; write it like load ="),
    (
        '[[tenant]]\nload = "constant(-5)"',
        "tenant 1: load 'constant(-5)', column 10: rate of constant: -5 is invalid",
    ),
    (
        '[[tenant]]\nload = "constant(5)"\npipeline = "sentimental"',
        "tenant 1: unknown pipeline 'sentimental': did",
    ),
    ('[[tenant]]\nload = "constant(5)"\nname = ""', "tenant 1: name is empty; give a name"),
    (
        '[[tenant]]\nload = "constant(5)"\npipeline = "top-words"',
        "two pipelines are named 'top-words'; give each its own name",
    ),
    ("[cluster]\ninitial-nodes = 2", "cluster: each cluster needs a name; write [cluster.west]"),
    ("[cluster.main]\ninitial-nodes = 2", "cluster: 'main' is the cluster of the keys at the top"),
    (
        "[cluster.west]\ninitial-nodes = -2",
        "cluster west: a cluster with -2 initial nodes; the minimum is 0",
    ),
    ("[cluster.west]\nslot-per-node = 2", "cluster west 'slot-per-node': did you mean 'slots-per-node'?"),
    ('[placement]\nreader = "west"', "operator 'reader' is placed in cluster 'west'; there are: main"),
    ('[cluster.west]\n[placement]\ncounter = "west"', "a micro-batch query runs in one cluster"),
    ("[placement]\ncounter = 5", "expected `str`, got `int`; write it like placement = { counter ="),
    ("[link]\nmb-per-s = 0", "link: a link of 0 MB/s and 0 s; the bandwidth must be above 0"),
    ('[link]\nlatency = "far"', "link: 'far' is not a duration"),
    ("queues = 5", "queues = 5: expected a table of keys and values"),
    (
        "[queues]\nbound = 500",
        "queues: the micro-batch engine has no bound; remove it, or use continuous",
    ),
    (
        'engine = "continuous"\n[queues]\nread-limit = 500',
        "queues: the continuous engine has no read-limit; remove it, or use micro-batch",
    ),
    (
        'engine = "continuous"\n[queues]\nbound = 0',
        'queues: bound is 0; it must be a number of rows, like 5000, or "none"',
    ),
    ('engine = "continuous"\n[queues]\nbound = "all"', 'write it like bound = 5000, or "none"'),
    ("initial-nodes = 0", "0 initial nodes are outside the limits"),
]


@pytest.mark.parametrize(("text", "words"), BAD)
def test_errors_are_one_line_with_file_table_key_and_what_would_be_right(
    tmp_path, text: str, words: str
) -> None:
    with pytest.raises(InputError) as error:
        read(tmp_path, text)
    result_text = str(error.value)
    assert str(tmp_path / "s.toml") in result_text
    assert words in result_text
    assert "\n" not in result_text


def test_a_file_that_begins_with_a_byte_order_mark_is_read(tmp_path: Path) -> None:
    file = tmp_path / "scenario.toml"
    file.write_bytes(b"\xef\xbb\xbf" + b'load = "constant(5)"\nnodes = "1:3"\n')
    assert read_spec(file).limits == Limits(min_nodes=1, max_nodes=3)
