"""``ebbflow bench sentiment``: its output, its model file, and invalid input."""

from __future__ import annotations

import json

import pytest
from console import ebbflow

from ebbflow.papers.elysium.pipelines.classifier import read_model


@pytest.fixture
def tweets(tmp_path):
    file = tmp_path / "tweets.csv"
    kinds = {"negative": "bad", "neutral": "", "positive": "good"}
    lines = [f"{kind},{word} day {i}" for i in range(30) for kind, word in kinds.items()]
    file.write_text("\n".join(["sentiment,text", *lines, ""]))
    return file


def test_it_prints_the_accuracy_of_each_model_and_saves_the_trained_one(
    monkeypatch, capsys, tmp_path, tweets
) -> None:
    model = tmp_path / "model.json"
    code, out, err = ebbflow(
        monkeypatch, capsys, "bench", "sentiment", str(tweets), "--json", "--save", str(model)
    )
    assert code == 0
    scores = json.loads(out)
    assert [each["model"] for each in scores] == ["always negative", "lexicon", "learned, 5 folds"]
    assert [each["accuracy"] for each in scores] == [0.3333, 1.0, 1.0]
    assert scores[0]["recall"] == {"negative": 1.0, "neutral": 0.0, "positive": 0.0}
    assert "model with" in err
    assert read_model(model).predict(["a bad day", "a good day"]) == ["negative", "positive"]
    code, out, _ = ebbflow(monkeypatch, capsys, "bench", "sentiment", str(tweets))
    assert code == 0
    assert "100.0 %" in out


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["none.csv"], "there is no file of labelled tweets 'none.csv'"),
        (["{tweets}", "--folds", "1"], "2 or more"),
        (["{tweets}", "--save", "/no/such/folder/m.json"], "there is no folder"),
    ],
)
def test_bad_input_is_one_line_and_code_2(monkeypatch, capsys, tweets, options, words) -> None:
    arguments = [option.format(tweets=tweets) for option in options]
    code, out, err = ebbflow(monkeypatch, capsys, "bench", "sentiment", *arguments)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert words in err
