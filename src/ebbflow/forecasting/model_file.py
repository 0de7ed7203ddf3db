"""Workload models in files: all that a forecaster has learned, saved and restored.

The file is JSON: the recent load, the periods and jumps found in it, the weights of the mixture, and the parameters of
trained models, with a version and a checksum (``core.checked_file``). It is written atomically.

Trained models are stored as their parameters, not trained again after loading: they are a few thousand numbers (boosted
trees 60 kB), and a restored forecaster continues with exactly the forecasts it would have made.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from ebbflow.core.checked_file import Document, FileFormat
from ebbflow.core.folders import replace_file
from ebbflow.errors import InputError
from ebbflow.forecasting.port import Forecaster
from ebbflow.forecasting.registry import make_forecaster


class _Model(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    forecaster: str
    """Its name in the registry."""
    step_s: float
    seed: int
    state: dict[str, Any]


class _File(Document, frozen=True, kw_only=True, forbid_unknown_fields=True):
    model: _Model


FORMAT = FileFormat(
    content=_File,
    format="ebbflow workload model",
    version=2,
    noun="workload model",
    again="learn it again",
    largest_bytes=200_000_000,
)
"""The default mixture with 45 days of minutes has 3 MB."""


def save_model(path: Path | str, forecaster: Forecaster, *, step_s: float, seed: int = 0) -> None:
    """Write what a forecaster of the registry has learned. ``step_s`` and ``seed`` are those it was made with."""
    model = _Model(forecaster=forecaster.name, step_s=step_s, seed=seed, state=forecaster.state())
    try:
        # Encoded and decoded once, so that the checksum is that of the plain values in the file.
        plain = msgspec.json.decode(msgspec.json.encode(model), type=_Model)
    except TypeError as error:
        raise InputError(
            f"the state of the forecaster {forecaster.name} is not plain values: {error}"
        ) from None
    replace_file(Path(path), msgspec.json.encode(FORMAT.signed(_File(model=plain))).decode())


def load_model(path: Path | str) -> Forecaster:
    """Make the forecaster again as it was saved.

    >>> load_model("no-such-file.json")
    Traceback (most recent call last):
    ...
    ebbflow.errors.InputError: cannot read the workload model no-such-file.json: no such file or directory
    """
    path = Path(path)
    content = FORMAT.read(path).model
    forecaster = make_forecaster(content.forecaster, content.step_s, content.seed)
    try:
        forecaster.restore(content.state)
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
    except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
        raise InputError(
            f"{path}: the state does not fit the forecaster {content.forecaster} ({error}); learn it again"
        ) from None
    return forecaster
