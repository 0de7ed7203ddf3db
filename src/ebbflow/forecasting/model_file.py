"""Workload models in files: all that a forecaster has learned, saved and restored.

The file is JSON: the recent load, the periods and jumps found in it, the weights of the mixture, and the parameters of
trained models. It is written atomically. A version and a checksum protect against files of another Ebbflow, cut-off and
edited ones. Nothing in it is executed.

Trained models are stored as their parameters, not trained again after loading: they are a few thousand numbers (boosted
trees 60 kB), and a restored forecaster continues with exactly the forecasts it would have made.
"""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec

from ebbflow.core.folders import replace_file
from ebbflow.errors import InputError
from ebbflow.forecasting.port import Forecaster
from ebbflow.forecasting.registry import make_forecaster

FORMAT = "ebbflow workload model"
VERSION = 1
LARGEST = 200_000_000
"""Bytes of a file that is read, at most. The default mixture with 45 days of minutes has 3 MB."""


class _Content(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    forecaster: str
    """Its name in the registry."""
    step_s: float
    seed: int
    state: dict[str, Any]


class _File(msgspec.Struct, frozen=True, kw_only=True):
    format: str
    version: int
    sha256: str
    """The checksum of the bytes of ``model``."""
    model: msgspec.Raw


def save_model(path: Path | str, forecaster: Forecaster, *, step_s: float, seed: int = 0) -> None:
    """Write what a forecaster of the registry has learned. ``step_s`` and ``seed`` are those it was made with."""
    content = _Content(forecaster=forecaster.name, step_s=step_s, seed=seed, state=forecaster.state())
    try:
        model = msgspec.json.encode(content)
    except TypeError as error:
        raise InputError(
            f"the state of the forecaster {forecaster.name} is not plain values: {error}"
        ) from None
    file = _File(format=FORMAT, version=VERSION, sha256=sha256(model).hexdigest(), model=msgspec.Raw(model))
    replace_file(Path(path), msgspec.json.encode(file).decode())


def load_model(path: Path | str) -> Forecaster:
    """Make the forecaster again as it was saved.

    >>> load_model("no-such-file.json")
    Traceback (most recent call last):
    ...
    ebbflow.errors.InputError: cannot read the workload model no-such-file.json: no such file or directory
    """
    path = Path(path)
    try:
        if path.stat().st_size > LARGEST:
            raise InputError(
                f"{path}: a workload model has at most {LARGEST // 10**6} MB; this is another file"
            )
        text = path.read_bytes()
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        raise InputError(f"cannot read the workload model {path}: {why}") from None
    content = _checked(path, text)
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


def _checked(path: Path, text: bytes) -> _Content:
    try:
        file = msgspec.json.decode(text, type=_File)
    except msgspec.ValidationError:
        raise InputError(f"{path}: not a workload model; give the file that was saved by Ebbflow") from None
    except msgspec.DecodeError:
        raise InputError(
            f"{path}: not a whole workload model: it is cut off or not JSON; restore a copy, or learn it again"
        ) from None
    if file.format != FORMAT:
        raise InputError(f"{path}: not a workload model; give the file that was saved by Ebbflow")
    if file.version != VERSION:
        raise InputError(
            f"{path}: this model has version {file.version}, but this Ebbflow reads version {VERSION}; "
            "use the Ebbflow that wrote it, or learn it again"
        )
    if sha256(bytes(file.model)).hexdigest() != file.sha256:
        raise InputError(f"{path}: the model was edited or damaged; restore a copy, or learn it again")
    try:
        return msgspec.json.decode(file.model, type=_Content)
    except msgspec.MsgspecError as error:
        raise InputError(f"{path}: the model is invalid ({error}); learn it again") from None
