"""Numbered rows through a fleet, and the accounting of those that were lost or repeated."""

from __future__ import annotations

import json
import os
import re
import threading
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

KEYS = 7

STEPS = '''
"""Operators for tests: they run in host processes."""

from pathlib import Path

from pyspark.sql import functions as F


def copy(context):
    rows = context.read("numbers", "row long")
    _break_if_asked(context)
    return context.write(rows, trigger=context.options.get("trigger", "300 milliseconds"))


def count(context):
    rows = context.read("numbers", "row long")
    counts = rows.groupBy((F.col("row") % 7).alias("key")).agg(F.count("*").alias("rows"), F.sum("row").alias("total"))
    _break_if_asked(context)
    return context.write(counts, mode="update", trigger=context.options.get("trigger", "300 milliseconds"))


def _break_if_asked(context):
    """Fail in an application that a file names."""
    named = Path(context.options["broken"])
    if named.exists() and named.read_text() == context.spark.sparkContext.appName:
        raise ValueError("this application lacks a table")
'''

FLEET = """\
{top}
[application.left]
master = "local[1]"
memory = "640m"
settings = {{ spark.sql.shuffle.partitions = 2 }}
[application.right]
master = "local[1]"
memory = "640m"
settings = {{ spark.sql.shuffle.partitions = 2 }}
[stream.numbers]
[stream.copies]
[stream.counts]
[operator.copy]
start = "{module}:copy"
reads = ["numbers"]
writes = ["copies"]
application = "right"
options = {{ broken = "{folder}/broken", trigger = "{trigger}" }}
[operator.count]
start = "{module}:count"
reads = ["numbers"]
writes = ["counts"]
stateful = true
application = "left"
options = {{ broken = "{folder}/broken", trigger = "{trigger}" }}
"""


def write_fleet(folder: Path, *, top: str = "", trigger: str = "300 milliseconds") -> Path:
    """A fleet file with a stateless and a stateful operator."""
    module = f"steps_{re.sub(r'[^a-z0-9]', '_', folder.name.lower())}"
    (folder / f"{module}.py").write_text(STEPS)
    file = folder / "rows.toml"
    file.write_text(FLEET.format(top=top, module=module, folder=folder, trigger=trigger))
    return file


class Feeder:
    """Writes files of numbered rows into a stream until it is stopped. A file appears complete or not at all."""

    def __init__(self, folder: Path, *, rows_per_s: int = 200, files_per_s: float = 4.0) -> None:
        self._folder = folder
        self._rows, self._pause_s = int(rows_per_s / files_per_s), 1.0 / files_per_s
        self._stop = threading.Event()
        self.fed = 0
        folder.mkdir(parents=True, exist_ok=True)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        number = 0
        while not self._stop.wait(self._pause_s):
            rows = range(self.fed, self.fed + self._rows)
            draft = self._folder / f".{number}"
            draft.write_text("".join(f'{{"row": {row}}}\n' for row in rows))
            draft.rename(self._folder / f"{number:06d}.json")
            self.fed += len(rows)
            number += 1

    def stop(self) -> int:
        """Stop feeding; returns how many rows there are."""
        self._stop.set()
        self._thread.join()
        return self.fed


def committed_files(folder: Path) -> list[Path]:
    """The files of a stream that its log lists, as every reader of Spark sees them."""
    log = folder / "_spark_metadata"
    batches = {
        int(each.name.partition(".")[0]): each
        for each in log.glob("[0-9]*")
        if not each.name.endswith(".tmp")
    }
    compact = max((n for n, each in batches.items() if each.name.endswith(".compact")), default=-1)
    files = []
    for number in sorted(batches):
        if number >= compact:
            for line in batches[number].read_text().splitlines()[1:]:
                files.append(Path(unquote(urlsplit(json.loads(line)["path"]).path)))
    return files


def rows_of(folder: Path) -> list[dict[str, int]]:
    return [json.loads(line) for file in committed_files(folder) for line in file.read_text().splitlines()]


@dataclass(frozen=True)
class Account:
    lost: int
    repeated: int

    @property
    def exact(self) -> bool:
        return self.lost == self.repeated == 0


def account_of_copies(folder: Path, fed: int) -> Account:
    """Rows that are missing in a stream of copies, and rows that are there more than once."""
    found = Counter(each["row"] for each in rows_of(folder))
    return Account(
        lost=len(set(range(fed)) - set(found)) + len(set(found) - set(range(fed))),
        repeated=sum(count - 1 for count in found.values()),
    )


def account_of_counts(folder: Path, fed: int) -> Account:
    """Rows that the last counts of all keys lack, or have too many. Sums tell a lost and a repeated row of a key."""
    newest: dict[int, tuple[int, int]] = {}
    for each in rows_of(folder):
        newest[each["key"]] = max(newest.get(each["key"], (0, 0)), (each["rows"], each["total"]))
    lost = repeated = 0
    for key in range(KEYS):
        wanted = range(key, fed, KEYS)
        rows, total = newest.get(key, (0, 0))
        lost += max(0, len(wanted) - rows)
        repeated += max(0, rows - len(wanted))
        if rows == len(wanted) and total != sum(wanted):
            lost, repeated = lost + 1, repeated + 1
    return Account(lost=lost, repeated=repeated)


def batches_by_token(log: Path) -> list[tuple[int, int]]:
    """(batch, token) of a query, from the logs of hosts."""
    found = re.findall(r"committed batch (\d+) under token (\d+)", log.read_text())
    return [(int(batch), int(token)) for batch, token in found]


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except OSError:
        return False
    return True
