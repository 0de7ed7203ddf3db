"""Results as Parquet: one typed row per run, failed ones too."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyarrow import parquet
from swept import scene

from ebbflow.bench.leaderboard.results_file import check_results_path, write_results
from ebbflow.bench.leaderboard.sweep import Failure, Sweep, sweep
from ebbflow.bench.spec import Spec
from ebbflow.errors import InputError


def test_every_run_is_a_row_with_types_and_all_it_takes_to_repeat_it(tmp_path) -> None:
    scenes = [scene(name="flat"), scene("constant(0)", name="nothing", seed=2)]
    done = sweep(scenes, ["static", "hpa"])
    failure = Failure(load="flat", seed=1, strategy="broken", error="ZeroDivisionError: x")
    file = check_results_path(tmp_path)
    assert file == tmp_path / "results.parquet"
    write_results(file, Sweep(results=done.results, failures=(failure,)), scenes, Spec())
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


def test_a_place_that_cannot_be_written_is_said_before(tmp_path) -> None:
    with pytest.raises(InputError, match="there is no folder"):
        check_results_path(tmp_path / "no" / "such.parquet")
    assert check_results_path(tmp_path / "mine.parquet") == tmp_path / "mine.parquet"
