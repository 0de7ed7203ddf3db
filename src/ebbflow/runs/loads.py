"""The loads of a comparison: trace files, folders of them, load expressions, or built-in shapes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ebbflow.core.expression import quote, split_list
from ebbflow.core.parameters import Duration, Number
from ebbflow.errors import InputError, LoadError
from ebbflow.workloads import Load, Noise, Trace, parse_load
from ebbflow.workloads.trace import read_samples

_NUMBER, _SPAN = Number(""), Duration("")
_TRACE_ENDINGS = (".csv", ".csv.gz")


@dataclass(frozen=True, kw_only=True)
class NamedLoad:
    """A load and its name in tables."""

    name: str
    load: Load

    def with_jitter(self, amount: float, seed: int) -> Load:
        """The load with random noise on each second, drawn with ``seed``."""
        return Noise(load=self.load, amount=amount, seed=seed) if amount else self.load


def split_loads(text: str) -> list[str]:
    """Split a list of loads at commas outside brackets and quotes.

    >>> split_loads("day.csv, sine(base=1, peak=9, period=1h),'a,b.csv'")
    ['day.csv', 'sine(base=1, peak=9, period=1h)', "'a,b.csv'"]
    """
    parts = split_list(text)
    if "" in parts:
        raise LoadError(f"'{text}' has an empty entry; write loads like a.csv.gz,constant(50)")
    return parts


def read_loads(texts: Sequence[str], *, peak_per_s: float, speed: float, seconds: float) -> list[NamedLoad]:
    """Every load that a list names. Of a trace file, the busiest section of length ``seconds`` is used."""
    return _read(
        texts, lambda file: parse_load(_busiest(file, peak_per_s=peak_per_s, speed=speed, seconds=seconds))
    )


def read_whole_loads(texts: Sequence[str]) -> list[NamedLoad]:
    """Every load that a list names, trace files as they are."""
    return _read(texts, lambda file: Trace(file=str(file)))


def _read(texts: Sequence[str], of_file: Callable[[Path], Load]) -> list[NamedLoad]:
    loads: list[NamedLoad] = []
    for text in texts:
        path = Path(text.strip("'\"")).expanduser()
        if "(" in text and not path.exists():
            load = parse_load(text)
            name = _stem(Path(load.file)) if isinstance(load, Trace) else text
            taken = any(other.name == name for other in loads)
            loads.append(NamedLoad(name=text if taken else name, load=load))
            continue
        for file in _files(path, text):
            loads.append(NamedLoad(name=_stem(file), load=of_file(file)))
    names = [load.name for load in loads]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise LoadError(
            f"two loads are called '{twice}'; name each load once, and rename files of the same name"
        )
    return loads


def built_in_loads(peak_per_s: float) -> list[NamedLoad]:
    """The default loads: seven shapes between a tenth of the peak and the peak."""
    peak, base, half = (_NUMBER.write(round(peak_per_s * share)) for share in (1.0, 0.1, 0.5))
    between = f"base={base}, peak={peak}"
    texts = {
        "constant": f"constant({half})",
        "day": f"day({between}, period=1d)",
        "sine": f"sine({between}, period=2h)",
        "square": f"square({between}, period=4h)",
        "sawtooth": f"sawtooth({between}, period=3h)",
        "stair": f"stair({between}, steps=6, hold=1h)",
        "bursts": f"periodic({between}, period=6h, peaks=4)",
    }
    return [NamedLoad(name=name, load=parse_load(text)) for name, text in texts.items()]


def _files(path: Path, text: str) -> list[Path]:
    """The trace files that match a path, a folder or a pattern."""
    if path.is_dir():
        found = sorted(file for file in path.iterdir() if file.name.endswith(_TRACE_ENDINGS))
        if not found:
            raise LoadError(f"the folder {text} has no trace files (.csv, .csv.gz)")
        return found
    if any(char in path.name for char in "*?["):
        found = sorted(path.parent.glob(path.name))
        if not found:
            raise LoadError(f"no file matches {text}")
        return found
    if not path.exists():
        raise LoadError(
            f"there is no trace file '{text}' ({path.absolute()}); a load is a file, or an expression like "
            "sine(base=100, peak=900, period=1h)"
        )
    return [path]


def _busiest(file: Path, *, peak_per_s: float, speed: float, seconds: float) -> str:
    """The expression for a file: cut into sections of ``seconds`` at ``speed``, the one with the most events.

    A shorter file is used whole.
    """
    samples = read_samples(str(file))
    section_s = seconds * speed
    sections = int(float(samples.ends_s[-1]) / section_s + 1e-9)
    section = ""
    if sections >= 1:
        which = (samples.times_s / section_s).astype(np.int64)
        totals = np.bincount(which, weights=samples.events)[:sections]
        first = int(np.argmax(totals))
        start_s, end_s = first * section_s, (first + 1) * section_s
        section = f", start={_SPAN.write(start_s)}, end={_SPAN.write(end_s)}"
    sped = f", speed={_NUMBER.write(speed)}" if speed != 1 else ""
    return f"trace({quote(str(file))}, peak={_NUMBER.write(round(peak_per_s, 1))}{sped}{section})"


def _stem(file: Path) -> str:
    ending = next((ending for ending in reversed(_TRACE_ENDINGS) if file.name.endswith(ending)), file.suffix)
    return file.name.removesuffix(ending)


def check_speed(speed: float) -> float:
    """Check the speed-up of traces."""
    if not 0 < speed <= 1e6:
        raise InputError(f"speed is {speed:g}; it must be above 0, like 60 for an hour per minute")
    return speed
