"""Libraries that could fit our trained forecasters, beside our own code: size, import, memory, times and error.

    pip install river statsmodels statsforecast
    python -m benchmarks.forecast_libraries

Each candidate has a process of its own with one thread. It is fitted to 30 days of minutes but the last; on that day it
forecasts 30 steps every half hour, and the mean error is divided by that of the last value. "Update" is to learn
one step more, on average. Times are CPU times, so that a busy machine changes little. Installed size: the library and
what it requires, without what Ebbflow requires anyway. Import and memory are beyond those of numpy. Candidates that are
not installed are left out.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import psutil
from rich.console import Console
from rich.table import Table

from ebbflow.core.curve import Floats

AHEAD, DAY, EVERY = 30, 1440, 30

Ahead = Callable[[int], Floats]
"""Forecasts after the first so many values; called with growing numbers."""


class Candidate(NamedTuple):
    package: str
    module: str
    fit: Callable[[Floats, int], Ahead]
    """Fit to the first so many values."""


def own(name: str) -> Candidate:
    """A method of Ebbflow."""

    def fit(values: Floats, count: int) -> Ahead:
        from ebbflow.forecasting import trained
        from ebbflow.forecasting.trained.model import TrainingLoad

        model = getattr(trained, name)().fit(TrainingLoad.of(values[:count], end_s=60.0 * count, step_s=60.0))
        return lambda known: model.ahead(
            values[max(0, known - model.needs) : known], 60.0 * known, 60.0, AHEAD
        )

    return Candidate("ebbflow", "ebbflow.forecasting.trained", fit)


def river_snarimax(values: Floats, count: int) -> Ahead:
    from river.time_series import SNARIMAX

    model = SNARIMAX(p=5, d=1, q=2)
    learned = 0

    def ahead(known: int) -> Floats:
        nonlocal learned
        for value in values[learned:known].tolist():
            model.learn_one(value)
        learned = known
        return np.asarray(model.forecast(horizon=AHEAD))

    ahead(count)
    return ahead


def statsmodels_arima(values: Floats, count: int) -> Ahead:
    from statsmodels.tsa.arima.model import ARIMA

    roots = np.sqrt(values)
    fitted, learned = ARIMA(roots[:count], order=(5, 1, 2)).fit(), count

    def ahead(known: int) -> Floats:
        nonlocal fitted, learned
        if known > learned:
            fitted, learned = fitted.append(roots[learned:known]), known
        return np.asarray(fitted.forecast(AHEAD) ** 2)

    return ahead


def statsforecast_arima(values: Floats, count: int) -> Ahead:
    from statsforecast.models import ARIMA

    roots = np.sqrt(values)
    model = ARIMA(order=(5, 1, 2)).fit(roots[:count])
    return lambda known: np.asarray(
        (model.predict(AHEAD) if known == count else model.forward(roots[:known], AHEAD))["mean"] ** 2
    )


def sklearn_boosting(values: Floats, count: int) -> Ahead:
    from sklearn.ensemble import HistGradientBoostingRegressor

    from ebbflow.forecasting.trained.boosting import Boosting
    from ebbflow.forecasting.trained.model import TrainingLoad

    # The inputs and examples are ours.
    method = Boosting(trees=1)
    ours = method.fit(TrainingLoad.of(values[:count], end_s=60.0 * count, step_s=60.0))
    origins = np.linspace(ours.needs, count - 31, method.most_examples).astype(np.int64)
    reach = np.random.default_rng(0).choice([1, 2, 3, 5, 8, 12, 20, 30], len(origins))
    rows, level = ours.rows(values[:count], origins, reach, 60.0 * count, 60.0)
    wanted = (values[origins + reach] - values[origins]) / level
    model = HistGradientBoostingRegressor(max_iter=100, max_depth=4, loss="absolute_error").fit(rows, wanted)

    def ahead(known: int) -> Floats:
        steps = np.arange(1, AHEAD + 1)
        now, scale = ours.rows(values[:known], np.full(AHEAD, known - 1), steps, 60.0 * known, 60.0)
        return np.asarray(values[known - 1] + scale * model.predict(now))

    return ahead


CANDIDATES: dict[str, Candidate] = {
    "ARIMA, ours (chooses its order)": own("Arima"),
    "SNARIMAX(5, 1, 2)": Candidate("river", "river.time_series", river_snarimax),
    "ARIMA(5, 1, 2)": Candidate("statsmodels", "statsmodels.tsa.arima.model", statsmodels_arima),
    "ARIMA(5, 1, 2) again": Candidate("statsforecast", "statsforecast.models", statsforecast_arima),
    "boosting, ours": own("Boosting"),
    "HistGradientBoostingRegressor": Candidate("scikit-learn", "sklearn.ensemble", sklearn_boosting),
    "net, ours": own("Net"),
    "PRESS, ours": own("Press"),
}


def measure_one(name: str) -> dict[str, float]:
    """Measure a candidate in this process."""
    candidate = CANDIDATES[name]
    before, began_s = psutil.Process().memory_full_info().uss, time.process_time()
    importlib.import_module(candidate.module)
    imported_s = time.process_time() - began_s
    from benchmarks.training import month

    values = month()
    count = len(values) - DAY
    began_s = time.process_time()
    ahead = candidate.fit(values, count)
    fit_s = time.process_time() - began_s
    missed = naive = update_s = forecast_s = 0.0
    origins = range(count + EVERY, len(values) - AHEAD, EVERY)
    for origin in origins:
        began_s = time.process_time()
        made = ahead(origin)  # learns what came since, and forecasts
        between_s = time.process_time()
        ahead(origin)
        alone_s = time.process_time() - between_s
        update_s += max(between_s - began_s - alone_s, 0.0)
        forecast_s += alone_s
        missed += float(np.abs(made - values[origin : origin + AHEAD]).sum())
        naive += float(np.abs(values[origin - 1] - values[origin : origin + AHEAD]).sum())
    return {
        "import_s": imported_s,
        "memory_mb": (psutil.Process().memory_full_info().uss - before) / 1e6,
        "fit_s": fit_s,
        "update_ms": 1e3 * update_s / (len(origins) * EVERY),
        "forecast_ms": 1e3 * forecast_s / len(origins),
        "error_ratio": missed / naive,
    }


def installed_mb(package: str) -> float | None:
    """Size of a distribution and all it requires, without Ebbflow's own requirements; None if not installed."""
    known: set[str] = set()
    for required in importlib.metadata.requires("ebbflow") or ():
        if "extra ==" not in required:
            _add_closure(_name(required), known)
    found: set[str] = set()
    _add_closure(_name(package), found)
    if not found:
        return None
    files = [
        Path(str(file.locate())) for each in found - known for file in importlib.metadata.files(each) or ()
    ]
    return sum(file.stat().st_size for file in files if file.exists()) / 1e6


def _name(requirement: str) -> str:
    return re.split(r"[\s;<>=!~\[(]", requirement, maxsplit=1)[0].lower().replace("_", "-")


def _add_closure(name: str, found: set[str]) -> None:
    if name in found:
        return
    try:
        required = importlib.metadata.requires(name) or []
    except importlib.metadata.PackageNotFoundError:
        return
    found.add(name)
    for each in required:
        if "extra ==" not in each:
            _add_closure(_name(each), found)


COLUMNS = ("import_s", "memory_mb", "fit_s", "update_ms", "forecast_ms", "error_ratio")


def main() -> int:
    table = Table("candidate", "library", "MB installed", *(each.replace("_", " ") for each in COLUMNS))
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")
    for name, candidate in CANDIDATES.items():
        size = installed_mb(candidate.package) if candidate.package != "ebbflow" else 0.0
        if size is None:
            print(f"{candidate.package} is not installed; {name} is left out", file=sys.stderr)
            continue
        done = subprocess.run(
            [sys.executable, "-m", "benchmarks.forecast_libraries", name],
            check=False, capture_output=True, text=True, env={**os.environ, **threads},
        )  # fmt: skip
        if done.returncode:
            print(f"{name} failed: {done.stderr.strip().splitlines()[-1]}", file=sys.stderr)
            continue
        found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        table.add_row(name, candidate.package, f"{size:.0f}", *(f"{found[each]:.2g}" for each in COLUMNS))
        print(f"· {name}", file=sys.stderr, flush=True)
    Console(width=140).print(table)
    return 0


if __name__ == "__main__":
    if len(sys.argv) > 1:
        print(json.dumps(measure_one(sys.argv[1])))
    else:
        sys.exit(main())
