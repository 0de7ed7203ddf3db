"""``ebbflow bench sentiment``: how often the sentiment pipeline is right, on tweets that people labelled."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from ebbflow.cli.output import Json, check_writable, print_json, say
from ebbflow.papers.elysium.pipelines.sentiment.accuracy import verdicts
from ebbflow.papers.elysium.pipelines.sentiment.model import train
from ebbflow.workloads.tweets import SENTIMENTS, read_labelled_tweets


def register(parent: typer.Typer) -> None:
    """Add the command to the group."""
    parent.command("sentiment")(sentiment)


def sentiment(
    tweets: Annotated[
        Path, typer.Argument(help="CSV, plain or gzipped, with the columns sentiment and text.")
    ],
    folds: Annotated[
        int, typer.Option(help="Parts into which tweets are dealt, to learn and to be asked.")
    ] = 5,
    save: Annotated[
        Path | None, typer.Option(help="Learn from all of the tweets, and keep the model here.")
    ] = None,
    json: Json = False,
) -> None:
    """Ask the lexicon and a learned model for the sentiment of labelled tweets, and count who is right."""
    check_writable(save)
    labelled = read_labelled_tweets(tweets)
    found = verdicts(labelled, folds=folds)
    if json:
        print_json([each.to_json() for each in found])
    else:
        table = Table("model", "accuracy", "macro F1", *SENTIMENTS, box=None, pad_edge=False)
        for each in found:
            shares = (each.recall.get(name, 0.0) for name in SENTIMENTS)
            table.add_row(each.model, *(f"{100 * x:.1f} %" for x in (each.accuracy, each.macro_f1, *shares)))
        Console(highlight=False).print(table)
        say(f"{len(labelled)} tweets; under a sentiment: the share of its tweets that were found")
    if save is not None:
        model = train(labelled.texts.to_pylist(), labelled.labels.to_pylist(), learned_from=str(tweets.name))
        save.write_text(model.to_text(), encoding="utf-8")
        say(f"learned weights of {len(model.words)} words: {save}")
