"""The spark-submit arguments of a script's session: those of Ebbflow and of the user's environment."""

from __future__ import annotations

import os
import shlex
from pathlib import Path

import pytest

from ebbflow.errors import InputError
from ebbflow.targets.spark.launch.settings import cores_per_executor
from ebbflow.targets.spark.launch.submit import _submit_arguments, check_submit_arguments

KEY = "PYSPARK_SUBMIT_ARGS"


@pytest.fixture
def ours(tmp_path: Path) -> Path:
    file = tmp_path / "session.conf"
    file.write_text("spark.authenticate.secret s3cret\n")
    return file


@pytest.mark.parametrize("written", ["--properties-file {}", "--properties-file={}"])
def test_the_users_properties_file_is_merged_with_that_of_the_cluster_which_comes_last(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, ours: Path, written: str
) -> None:
    theirs = tmp_path / "my own.conf"
    theirs.write_text("spark.executor.memory 2g\nspark.authenticate.secret other")
    option = written.format(shlex.quote(str(theirs)))
    monkeypatch.setenv(KEY, f"--master local[1] {option} --packages a:b:1 pyspark-shell")
    defaults = {"spark.executor.memory": "640m", "spark.executor.cores": "1"}
    with _submit_arguments("spark://h:1", {"spark.x": "1 2"}, ours, defaults):
        words = shlex.split(os.environ[KEY])
    assert words == [
        "--master", "spark://h:1", "--properties-file", str(ours),
        "--conf", "spark.x=1 2", "--packages", "a:b:1", "pyspark-shell",
    ]  # fmt: skip
    assert ours.read_text().splitlines() == [
        "spark.executor.memory 640m", "spark.executor.cores 1",
        "spark.executor.memory 2g", "spark.authenticate.secret other", "spark.authenticate.secret s3cret",
    ]  # fmt: skip
    assert os.environ[KEY].startswith("--master local[1]"), "it is restored"


def test_on_a_named_master_the_users_properties_file_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(KEY, "--properties-file mine.conf pyspark-shell")
    with _submit_arguments("spark://h:1", {}, None, {"spark.a": "1"}):
        assert (
            os.environ[KEY]
            == "--master spark://h:1 --conf spark.a=1 --properties-file mine.conf pyspark-shell"
        )


def test_without_a_properties_file_sparks_defaults_are_loaded(
    monkeypatch: pytest.MonkeyPatch, ours: Path
) -> None:
    monkeypatch.delenv(KEY, raising=False)
    with _submit_arguments("spark://h:1", {}, ours, {"spark.a": "1"}):
        assert os.environ[KEY] == (
            f"--master spark://h:1 --properties-file {ours} --load-spark-defaults pyspark-shell"
        )
    assert ours.read_text() == "spark.a 1\nspark.authenticate.secret s3cret\n"
    assert KEY not in os.environ


@pytest.mark.parametrize(
    ("written", "words"),
    [
        ("--properties-file none.conf pyspark-shell", r"none\.conf, which cannot be read: No such file"),
        (
            "--conf 'spark.a=1 pyspark-shell",
            "PYSPARK_SUBMIT_ARGS is invalid: no closing quotation; it is --conf",
        ),
    ],
)
def test_unreadable_arguments_are_refused_before_anything_starts(
    monkeypatch: pytest.MonkeyPatch, written: str, words: str
) -> None:
    monkeypatch.setenv(KEY, written)
    with pytest.raises(InputError, match=words):
        check_submit_arguments()


@pytest.mark.parametrize("cores", ["²", "0", "-1", "two", "1.5", "٣"])
def test_an_invalid_number_of_cores_is_refused(cores: str) -> None:
    with pytest.raises(InputError, match="is not a number of cores; write 1 or more"):
        cores_per_executor({"spark.executor.cores": cores})
