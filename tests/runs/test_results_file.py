"""Results as Parquet: one typed row per run, including failed ones."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyarrow import parquet
from sweep_builders import case

from ebbflow.errors import InputError
from ebbflow.policy.files import parse_policy
from ebbflow.runs.loads import NamedLoad
from ebbflow.runs.results_file import FILE_NAME, check_results_path, spec_of, write_results
from ebbflow.runs.score import score
from ebbflow.runs.simulation import run_simulation, strategy_for
from ebbflow.runs.spec import Spec, read_spec, with_values
from ebbflow.runs.sweep import Failure, Sweep, SweepCase, sweep
from ebbflow.strategies.rules import Rules, default_policy
from ebbflow.workloads import parse_load


def test_every_run_is_a_typed_row_that_can_be_repeated(tmp_path) -> None:
    cases = [case(name="flat"), case("constant(0)", name="nothing", seed=2)]
    done = sweep(cases, ["static", "hpa"])
    failure = Failure(load="flat", seed=1, strategy="broken", error="ZeroDivisionError: x")
    file = check_results_path(tmp_path)
    assert file == tmp_path / "results.parquet"
    write_results(file, Sweep(results=done.results, failures=(failure,)), cases, Spec())
    table = parquet.read_table(file)
    assert table.num_rows == 5
    kinds = {field.name: field.type for field in table.schema}
    assert kinds["node_seconds"] == pa.float64()
    assert kinds["rows_in"] == kinds["seed"] == pa.int64()
    assert kinds["slo_kept"] == pa.bool_()
    first, *_, last = table.to_pylist()
    assert (first["strategy"], first["load"], first["load_text"]) == ("static", "flat", "constant(300)")
    assert (first["duration_s"], first["max_nodes"], first["rows_in"]) == (600.0, 16, 180_000)
    assert table.to_pylist()[2]["violation"] is None, "no rows, no share of them"
    assert (last["error"], last["node_seconds"]) == ("ZeroDivisionError: x", None)


ROUGH = """
load = "constant(1)"
pipeline = "sentiment"
nodes = "1:9"
cycle = "20s"
at = "2026-11-16T08:00"
lead-time = "40s"
lead-noise = 0.3
trigger = "7s"
slots-per-node = 2
noise = 0.2
node-speeds = [1.0, 0.5]
[[fault]]
kind = "slow-node"
from = "1m"
until = "4m"
[queues]
read-limit = 9000
"""


def test_a_run_can_be_repeated_from_its_row(tmp_path) -> None:
    (tmp_path / "rough.toml").write_text(ROUGH)
    spec = read_spec(tmp_path / "rough.toml")
    load = NamedLoad(name="wave", load=parse_load("sine(base=100, peak=700, period=4m)"))
    own = with_values(spec, {"seed": 5, "seconds": 600})
    cases = [SweepCase(load="wave", scenario=own.scenario(load.with_jitter(0.1, 5)))]
    policies = {"mine.toml": default_policy()}
    done = sweep(cases, ["hpa", "mine.toml"], policies=policies)
    write_results(tmp_path / "r.parquet", done, cases, spec, policies)
    for row, result in zip(parquet.read_table(tmp_path / "r.parquet").to_pylist(), done.results, strict=True):
        again = spec_of(row).scenario()
        assert again.begins_at_s == cases[0].scenario.begins_at_s > 0, "calendars ask"
        strategy = strategy_for(row["strategy"], again) if row["policy"] is None else rules_of(row["policy"])
        scores = score(run_simulation(again, strategy).run, oracle_node_seconds=row["oracle_node_seconds"])
        assert scores == result.scores
        assert (row["lead_time_s"], row["lead_noise"], row["cycle_s"], row["trigger_s"]) == (
            40.0,
            0.3,
            20.0,
            7.0,
        )
        assert (row["slots_per_node"], row["noise"]) == (2, 0.2)
        assert row["initial_nodes"] == cases[0].scenario.first_nodes


def rules_of(text: str) -> Rules:
    return Rules(parse_policy(text, "row.toml"))


def test_a_continuous_run_has_no_trigger_and_the_sample_step_is_stored(tmp_path) -> None:
    trace = tmp_path / "t.csv"
    trace.write_text("minute,events\n" + "".join(f"{5 * i},{100 + i}\n" for i in range(9)))
    one = case(f"trace({trace}, peak=50)", engine="continuous")
    write_results(tmp_path / "r.parquet", sweep([one], ["static"]), [one], Spec(engine="continuous"))
    (row,) = parquet.read_table(tmp_path / "r.parquet").to_pylist()
    assert (row["trigger_s"], row["sample_step_s"]) == (None, 300.0)


def test_an_unwritable_path_is_an_error(tmp_path) -> None:
    with pytest.raises(InputError, match="there is no folder"):
        check_results_path(tmp_path / "no" / "such.parquet")
    assert check_results_path(tmp_path / "mine.parquet") == tmp_path / "mine.parquet"


def test_a_name_without_a_suffix_is_a_folder(tmp_path) -> None:
    assert check_results_path(tmp_path / "results") == tmp_path / "results" / FILE_NAME
    assert (tmp_path / "results").is_dir()
    assert check_results_path(tmp_path / "results.parquet") == tmp_path / "results.parquet"


def test_rows_of_an_interrupted_sweep_are_partial(tmp_path) -> None:
    cases = [case(name="flat")]
    done = sweep(cases, ["static"])
    for undone in (0, 3):
        write_results(
            tmp_path / "r", Sweep(results=done.results, failures=(), unfinished=undone), cases, Spec()
        )
        (row,) = parquet.read_table(tmp_path / "r").to_pylist()
        assert row["partial"] is (undone > 0)
