"""Reads and checks a fleet file.

::

    # words.toml: ebbflow fleet up words.toml
    [application.small]
    master = "local[2]"

    [application.large]
    master = "spark://10.0.0.7:7077"
    executors = "1:8"
    memory = "2g"

    [stream.tweets]                      # a folder of JSON files, words.fleet/streams/tweets
    [stream.words]
    format = "parquet"

    [operator.split]
    start = "words:split"                # words.py is beside this file, or installed
    reads = ["tweets"]
    writes = ["words"]
    application = "small"

    [operator.count]
    start = "words:count"
    reads = ["words"]
    stateful = true
    application = "large"
    may-move = false

Paths are relative to the file. Every problem is reported with its line, and nothing is started if there is one.
"""

from __future__ import annotations

import difflib
import importlib
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from ebbflow.core.limits import Limits
from ebbflow.core.plural import listed
from ebbflow.errors import EbbflowError, FleetError, InputError, PipelineError
from ebbflow.monitoring.addresses import check as check_address
from ebbflow.monitoring.keys import agent_keys, collector_keys
from ebbflow.policy.files.toml_format import InvalidSyntaxError, Positions, read_toml
from ebbflow.targets.fleet.checkpoint import holder_of
from ebbflow.targets.fleet.model import (
    FILES,
    KAFKA,
    Application,
    Fleet,
    FleetOperator,
    Stream,
    pipeline_of,
    queries_of,
)
from ebbflow.targets.spark.launch.preflight import local_slots

Path_ = tuple[str | int, ...]

TOP = ("name", "folder", "coordination", "keys", "application", "stream", "operator")
OF_APPLICATION = ("master", "executors", "memory", "address", "settings")
OF_STREAM = ("folder", "format", "kafka", "topic")
OF_OPERATOR = (
    "start", "reads", "writes", "stateful", "application", "may-move", "shards", "checkpoint", "options",
)  # fmt: skip
FORMATS = ("json", "parquet", "csv", "orc", "text")
MOST_SHARDS = 1_000
LEAST_MEMORY_MB = 512
"""Spark refuses less than 450 MB; with Python beside it, this is the least that starts reliably."""
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9._-]{0,63}")
_FUNCTION = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")
_MEMORY = re.compile(r"(\d{1,9})([kmgt])b?", re.IGNORECASE)
_ZOOKEEPER = re.compile(r"zookeeper://([^/\s]+:\d{1,5}(?:,[^/\s]+:\d{1,5})*)(/[^\s]*)?")
_MB = {"k": 1 / 1024, "m": 1, "g": 1024, "t": 1024 * 1024}


def load_fleet(path: Path, *, imports: bool = True) -> Fleet:
    """Read and check a fleet file; ``FleetError.problems`` has one line for each problem: ``FILE:LINE: text``.

    ``imports``: also import the functions of operators, which runs the code of their modules.
    """
    try:
        text = path.read_bytes().decode("utf-8").removeprefix("\ufeff")
    except OSError as error:
        raise FleetError(f"{path}:1: cannot be read: {(error.strerror or str(error)).lower()}") from None
    except UnicodeDecodeError:
        raise FleetError(f"{path}:1: not a UTF-8 text file; save it as UTF-8") from None
    return parse_fleet(text, path, imports=imports)


def parse_fleet(text: str, path: Path, *, imports: bool = True) -> Fleet:
    """Read and check the text of a fleet file.

    >>> parse_fleet('[application.a]\\nmastr = "local[2]"', Path("a.toml"))
    Traceback (most recent call last):
    ...
    ebbflow.errors.FleetError: a.toml:1: no operator; add [operator.NAME] with start = "module:function" (and 1 more)
    """
    try:
        document, positions = read_toml(text)
    except InvalidSyntaxError as error:
        raise FleetError(f"{path}:{error.line}: {error}") from None
    reader = _Reader(path, document, positions)
    fleet = reader.fleet()
    if fleet is not None and not reader.problems:
        if imports:
            reader.check_functions(fleet)
        reader.check_checkpoints(fleet)
    if fleet is None or reader.problems:
        placed = sorted(reader.problems, key=lambda each: each[0])
        raise FleetError(*(f"{path}:{line}: {' '.join(what.split())}" for line, what in placed))
    return fleet


class _Reader:
    """Collects every problem of a document, with its line."""

    def __init__(self, path: Path, document: Mapping[str, Any], positions: Positions) -> None:
        self._path = path
        self._base = path.resolve().parent
        self._document = document
        self._positions = positions
        self.problems: list[tuple[int, str]] = []

    def fleet(self) -> Fleet | None:
        document = self._document
        self._keys((), document, TOP, "fleet")
        name = self._text((), document, "name") or re.sub(r"[^A-Za-z0-9._-]", "-", self._path.stem)
        self._check_name(("name",), name, "fleet")
        folder = self._folder((), document, "folder", self._base / f"{self._path.stem}.fleet")
        coordination = self._text((), document, "coordination") or ""
        if coordination and _ZOOKEEPER.fullmatch(coordination) is None:
            self._add(
                ("coordination",),
                f"'{coordination}' is not a coordination service; write zookeeper://HOST:2181/ebbflow, or leave it "
                "out for the store of one controller",
            )
        keys = self._folder((), document, "keys", None)
        if keys is not None:
            self._attempt(("keys",), lambda: (agent_keys(keys / "agent"), collector_keys(keys / "collector")))
        applications = {
            each: self._application(each, table, has_keys=keys is not None)
            for each, table in self._tables("application", 'master = "local[2]"')
        }
        streams = {each: self._stream(each, table, folder) for each, table in self._tables("stream", "")}
        self._check_folders(streams.values())
        operators = {
            each: self._operator(each, table, folder, applications, streams)
            for each, table in self._tables("operator", 'start = "module:function"')
        }
        for each in operators:
            if each in applications:
                self._add(
                    ("operator", each),
                    f"operator '{each}' has the name of an application; give it another, because readings and "
                    "layouts go by name",
                )
        self._check_writers(operators)
        self._check_queries(operators)
        complete = {name: each for name, each in operators.items() if each is not None}
        self._check_cycle(name, complete)
        if len(complete) < len(operators) or None in applications.values() or None in streams.values():
            return None
        if folder is None:
            return None
        return Fleet(
            path=self._path.resolve(),
            name=name,
            folder=folder,
            coordination=coordination,
            keys=keys,
            applications={each: found for each, found in applications.items() if found is not None},
            streams={each: found for each, found in streams.items() if found is not None},
            operators=complete,
        )

    # -- tables --------------------------------------------------------------------------------

    def _application(self, name: str, table: Mapping[str, Any], *, has_keys: bool) -> Application | None:
        path: Path_ = ("application", name)
        before = len(self.problems)
        self._keys(path, table, OF_APPLICATION, "application")
        self._check_name(path, name, "application")
        master = self._text(path, table, "master", 'master = "local[2]" or "spark://HOST:7077"') or ""
        is_local = local_slots(master) is not None
        is_cluster = re.match(r"spark://[^/\s]+:\d+|yarn$|k8s://\S+", master) is not None
        if master and not is_local and not is_cluster:
            self._add(
                (*path, "master"),
                f"'{master}' is not a master; write local[2], spark://HOST:PORT, yarn or k8s://HOST:PORT",
            )
        limits = Limits(min_nodes=1, max_nodes=1)
        if "executors" in table and is_local:
            self._add(
                (*path, "executors"),
                f"{master} runs in one process and has no executors to set; leave executors out, or name a "
                "cluster like spark://HOST:PORT",
            )
        elif is_cluster:
            text = self._text(path, table, "executors", 'executors = "1:8" (fewest:most)')
            found = text and self._attempt((*path, "executors"), lambda: Limits.parse(text))
            limits = found or limits
        memory = self._text(path, table, "memory") or "1g"
        self._check_memory((*path, "memory"), memory)
        address = self._text(path, table, "address") or ""
        if address:
            self._attempt(
                (*path, "address"), lambda: check_address(address, has_keys=has_keys, option="keys = DIR")
            )
        settings = self._settings(path, table, "settings", "spark.")
        if len(self.problems) > before:
            return None
        return Application(
            name=name, master=master, executors=limits, memory=memory, address=address, settings=settings
        )

    def _stream(self, name: str, table: Mapping[str, Any], folder: Path | None) -> Stream | None:
        path: Path_ = ("stream", name)
        before = len(self.problems)
        self._keys(path, table, OF_STREAM, "stream")
        self._check_name(path, name, "stream")
        if "kafka" in table:
            servers = self._text(path, table, "kafka") or ""
            topic = self._text(path, table, "topic") or name
            for key in ("folder", "format"):
                if key in table:
                    self._add((*path, key), f"a Kafka topic has no {key}; leave out {key} or kafka")
            stream = Stream(name=name, kind=KAFKA, servers=servers, topic=topic)
        else:
            if "topic" in table:
                self._add((*path, "topic"), 'a topic needs its servers; add kafka = "HOST:9092"')
            form = self._text(path, table, "format") or "json"
            if form not in FORMATS:
                self._add((*path, "format"), _unknown("format", form, FORMATS))
            default = None if folder is None else folder / "streams" / name
            where = self._folder(path, table, "folder", default)
            stream = Stream(name=name, kind=FILES, folder=where or Path(), format=form)
        return stream if len(self.problems) == before else None

    def _operator(
        self,
        name: str,
        table: Mapping[str, Any],
        folder: Path | None,
        applications: Mapping[str, Application | None],
        streams: Mapping[str, Stream | None],
    ) -> FleetOperator | None:
        path: Path_ = ("operator", name)
        before = len(self.problems)
        self._keys(path, table, OF_OPERATOR, "operator")
        self._check_name(path, name, "operator")
        start = self._text(path, table, "start", 'start = "module:function"') or ""
        if start and _FUNCTION.fullmatch(start) is None:
            self._add((*path, "start"), f"'{start}' is not a function; write module:function")
        reads, writes = (self._names(path, table, key, streams) for key in ("reads", "writes"))
        for stream in set(reads) & set(writes):
            self._add(
                (*path, "writes"), f"operator '{name}' reads and writes stream '{stream}'; write another"
            )
        placed = self._text(path, table, "application")
        if placed is None and len(applications) > 1:
            self._add(path, f'no application; write application = "{next(iter(applications))}"')
        placed = placed or next(iter(applications), "")
        if "application" in table and placed not in applications:
            self._add((*path, "application"), _unknown("application", placed, applications))
        shards = table.get("shards")
        if shards is not None and not (_is_whole(shards) and 1 <= shards <= MOST_SHARDS):
            self._add((*path, "shards"), f"{shards!r} is not a number of shards; write 1 to {MOST_SHARDS}")
        default = None if folder is None else folder / "checkpoints" / name
        checkpoint = self._folder(path, table, "checkpoint", default)
        stateful, may_move = (
            self._flag(path, table, "stateful", False),
            self._flag(path, table, "may-move", True),
        )
        options = self._settings(path, table, "options", "")
        if len(self.problems) > before or checkpoint is None:
            return None
        return FleetOperator(
            name=name, start=start, reads=reads, writes=writes, stateful=stateful, application=placed,
            may_move=may_move, shards=shards, checkpoint=checkpoint, options=options,
        )  # fmt: skip

    # -- the whole -----------------------------------------------------------------------------

    def _check_folders(self, streams: Iterable[Stream | None]) -> None:
        taken: dict[Path, str] = {}
        for stream in streams:
            if stream is None or stream.kind != FILES:
                continue
            other = taken.setdefault(stream.folder, stream.name)
            if other != stream.name:
                self._add(
                    ("stream", stream.name, "folder"),
                    f"streams '{other}' and '{stream.name}' share the folder {stream.folder}; give each its own",
                )

    def _check_writers(self, operators: Mapping[str, FleetOperator | None]) -> None:
        writers: dict[str, str] = {}
        for name, operator in operators.items():
            for stream in operator.writes if operator is not None else ():
                other = writers.setdefault(stream, name)
                if other != name:
                    self._add(
                        ("operator", name, "writes"),
                        f"stream '{stream}' is written by '{other}' already, and a stream has one writer; let "
                        f"'{name}' write a stream of its own",
                    )

    def _check_queries(self, operators: Mapping[str, FleetOperator | None]) -> None:
        """Names of shards may not be those of operators, and every query needs a checkpoint of its own."""
        taken: dict[str, str] = {}
        checkpoints: dict[Path, str] = {}
        for name, operator in operators.items():
            for query in queries_of(operator) if operator is not None else ():
                if taken.setdefault(query.name, name) != name:
                    self._add(
                        ("operator", name),
                        f"'{query.name}' is both an operator and a shard of '{taken[query.name]}'; rename one",
                    )
                other = checkpoints.setdefault(query.checkpoint, name)
                if other != name:
                    self._add(
                        ("operator", name, "checkpoint"),
                        f"operators '{other}' and '{name}' share the checkpoint {query.checkpoint}; give each its own",
                    )

    def _check_cycle(self, name: str, operators: Mapping[str, FleetOperator]) -> None:
        try:
            pipeline_of(name, operators)
        except PipelineError as error:
            _, _, cycle = str(error).partition("has a cycle: ")
            if not cycle:
                return  # names given twice are reported already
            first = next((each for each in operators if cycle.startswith(each)), "")
            self._add(
                ("operator", first, "reads"),
                f"operators form a cycle: {cycle}; let one of them read another stream",
            )

    def check_functions(self, fleet: Fleet) -> None:
        """Import the function of every operator."""
        for operator in fleet.operators.values():
            try:
                import_function(operator.start, fleet.path.parent)
            except InputError as error:
                self._add(("operator", operator.name, "start"), str(error))

    def check_checkpoints(self, fleet: Fleet) -> None:
        """No query of another fleet may be running on a checkpoint of this one."""
        for query in fleet.queries.values():
            holder = holder_of(query.checkpoint)
            if holder is not None and holder.fleet != str(fleet.folder) and not holder.owner.is_gone:
                path: Path_ = ("operator", query.operator.name)
                self._add(
                    (*path, "checkpoint"),
                    f"checkpoint {query.checkpoint} is in use by query '{holder.query}' of fleet {holder.fleet} "
                    f"(process {holder.owner.pid}); end that with `ebbflow fleet down`, or name another checkpoint",
                )

    # -- values --------------------------------------------------------------------------------

    def _tables(self, kind: str, example: str) -> Iterable[tuple[str, Mapping[str, Any]]]:
        found = self._document.get(kind, {})
        if not isinstance(found, Mapping):
            self._add((kind,), f"{kind} is a table of tables; write [{kind}.NAME]")
            return
        if not found and example:
            self._add((), f"no {kind}; add [{kind}.NAME] with {example}")
        for name, table in found.items():
            if isinstance(table, Mapping):
                yield name, table
            else:
                self._add((kind, name), f"{kind}.{name} is not a table; write [{kind}.{name}]")

    def _keys(self, path: Path_, table: Mapping[str, Any], known: Iterable[str], what: str) -> None:
        for key in table:
            if key not in known:
                self._add((*path, key), _unknown(f"key of {_an(what)}", key, known))

    def _text(self, path: Path_, table: Mapping[str, Any], key: str, example: str = "") -> str | None:
        if key not in table:
            if example and not difflib.get_close_matches(key, set(table), n=1):
                self._add(path, f"no {key}; write {example}")
            return None
        value = table[key]
        if not isinstance(value, str) or not value.strip():
            self._add((*path, key), f"{key} is {value!r}; write a text in quotes")
            return None
        return value

    def _flag(self, path: Path_, table: Mapping[str, Any], key: str, default: bool) -> bool:
        value = table.get(key, default)
        if not isinstance(value, bool):
            self._add((*path, key), f"{key} is {value!r}; write true or false")
            return default
        return value

    def _folder(self, path: Path_, table: Mapping[str, Any], key: str, default: Path | None) -> Path | None:
        text = self._text(path, table, key)
        if text is None:
            return default
        folder = (self._base / text).resolve()
        if folder.exists() and not folder.is_dir():
            self._add((*path, key), f"{folder} is a file; name a folder")
        return folder

    def _names(
        self, path: Path_, table: Mapping[str, Any], key: str, known: Mapping[str, object]
    ) -> tuple[str, ...]:
        value = table.get(key, ())
        if not isinstance(value, list | tuple) or not all(isinstance(each, str) for each in value):
            self._add((*path, key), f'{key} is {value!r}; write a list of streams, like {key} = ["tweets"]')
            return ()
        for index, name in enumerate(value):
            if name not in known:
                self._add((*path, key, index), _unknown("stream", name, known, "[stream.NAME]"))
            elif name in value[:index]:
                self._add((*path, key, index), f"stream '{name}' is listed twice; leave one out")
        return tuple(dict.fromkeys(value))

    def _settings(self, path: Path_, table: Mapping[str, Any], key: str, prefix: str) -> dict[str, str]:
        found = table.get(key, {})
        if not isinstance(found, Mapping):
            self._add((*path, key), f"{key} is {found!r}; write a table")
            return {}
        settings: dict[str, str] = {}
        for name, value in _flat(found):
            if not name.startswith(prefix):
                self._add((*path, key, name), f"'{name}' is not a Spark setting; its name starts with spark.")
            elif isinstance(value, bool):
                settings[name] = str(value).lower()
            elif isinstance(value, str | int | float):
                settings[name] = str(value)
            else:
                self._add((*path, key, name), f"{name} is {value!r}; write a text or a number")
        return settings

    def _check_memory(self, path: Path_, memory: str) -> None:
        match = _MEMORY.fullmatch(memory.strip())
        if match is None:
            self._add(path, f"'{memory}' is not a size; write it like 1g or 768m")
        elif int(match[1]) * _MB[match[2].lower()] < LEAST_MEMORY_MB:
            self._add(path, f"{memory} is too little for Spark; write at least {LEAST_MEMORY_MB}m")

    def _check_name(self, path: Path_, name: str, what: str) -> None:
        if _NAME.fullmatch(name) is None:
            self._add(
                path,
                f"'{name}' is not a name of {_an(what)}; start with a letter, then at most 63 letters, digits, dots, "
                "dashes and underscores",
            )

    def _attempt(self, path: Path_, read: Callable[[], Any]) -> Any:
        try:
            return read()
        except EbbflowError as error:
            self._add(path, str(error))
            return None

    def _add(self, path: Path_, what: str) -> None:
        """Note a problem at the line of a path, or of the nearest part of it that has one."""
        while path not in self._positions and path:
            path = path[:-1]
        self.problems.append((self._positions.get(path, (1, 1))[0], what))


def import_function(name: str, folder: Path) -> Callable[..., Any]:
    """The function ``module:function``, from an installed module or from one in the folder."""
    module_name, _, function_name = name.partition(":")
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
    try:
        module = importlib.import_module(module_name)
    except Exception as error:
        missing = isinstance(error, ModuleNotFoundError) and error.name in (
            module_name,
            module_name.partition(".")[0],
        )
        if missing:
            raise InputError(
                f"there is no module '{module_name}'; put {module_name.replace('.', '/')}.py into {folder}, or "
                "install it"
            ) from None
        why = (str(error).strip().splitlines() or [""])[0]
        raise InputError(
            f"module '{module_name}' does not import: {type(error).__name__}: {why}; correct the module"
        ) from None
    found = getattr(module, function_name, None)
    if not callable(found):
        known = [
            each for each in vars(module) if callable(getattr(module, each)) and not each.startswith("_")
        ]
        raise InputError(_unknown(f"function of module '{module_name}'", function_name, known))
    function: Callable[..., Any] = found
    return function


def _flat(table: Mapping[str, Any], prefix: str = "") -> Iterable[tuple[str, Any]]:
    """Keys with dots, as TOML turns ``spark.executor.cores = 2`` into tables."""
    for key, value in table.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield prefix + key, value


def _unknown(what: str, name: str, known: Iterable[str], otherwise: str = "") -> str:
    names = sorted(known)
    close = difflib.get_close_matches(name, names, n=1)
    if close:
        return f"unknown {what} '{name}'; did you mean '{close[0]}'?"
    there = f"there {'is' if len(names) == 1 else 'are'} {listed(names)}" if names else "there is none"
    return f"unknown {what} '{name}'; {there}" + (f"; add {otherwise}" if otherwise and not names else "")


def _an(what: str) -> str:
    return f"an {what}" if what[0] in "aeiou" else f"a {what}"


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
