"""``ebbflow bench sentiment``: accuracy of the sentiment classifier on labelled tweets."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from ebbflow.cli.output import Json, check_writable, print_json, say
from ebbflow.papers.elysium.pipelines.classifier import compare_models, train
from ebbflow.workloads.tweets import SENTIMENTS, read_labelled_tweets


def register(parent: typer.Typer) -> None:
    """Add the command to the group."""
    parent.command("sentiment")(sentiment)


def sentiment(
    tweets: Annotated[
        Path, typer.Argument(help="CSV, plain or gzipped, with the columns sentiment and text.")
    ],
    folds: Annotated[int, typer.Option(help="Folds of the cross-validation.")] = 5,
    save: Annotated[
        Path | None, typer.Option(help="Also train a model on all tweets and write it to this file.")
    ] = None,
    json: Json = False,
) -> None:
    """Measure the accuracy of the lexicon and of a trained model on labelled tweets."""
    check_writable(save)
    labelled = read_labelled_tweets(tweets)
    scores = compare_models(labelled, folds=folds)
    if json:
        print_json([each.to_json() for each in scores])
    else:
        table = Table("model", "accuracy", "macro F1", *SENTIMENTS, box=None, pad_edge=False)
        for each in scores:
            shares = (each.recall.get(name, 0.0) for name in SENTIMENTS)
            table.add_row(each.model, *(f"{100 * x:.1f} %" for x in (each.accuracy, each.macro_f1, *shares)))
        Console(highlight=False).print(table)
        say(f"{len(labelled)} tweets; the column of a sentiment is the share of its tweets that were found")
    if save is not None:
        model = train(labelled.texts.to_pylist(), labelled.labels.to_pylist(), learned_from=str(tweets.name))
        save.write_text(model.to_text(), encoding="utf-8")
        say(f"model with {len(model.words)} words: {save}")
