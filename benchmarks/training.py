"""Training of forecasters: time, memory, what the loop feels of it, and the accuracy of the paper's net (Pascal §7).

The load is 30 days of minutes with a daily cycle, noise and bursts. A loop cycle is a ``learn`` and a ``forecast``
of 30 steps of the default mixture; the longest of many is taken while nothing is trained, while a process trains,
and while a thread does (which is why Ebbflow uses a process).

The net's error is Σ(forecast − load)² ÷ (n·(max − min)²): the mean square error of data scaled to [0, 1], as the
paper scales them. It is taken over the 5 outputs from every minute of the last 30 % of ten hours of a load; the net
was fitted to the first 70 %, whose range is (max − min). Beside it: the mean square error divided by the variance
of the load.
"""

from __future__ import annotations

import threading
import time

import numpy as np
import psutil

from benchmarks.figures import Figure
from ebbflow.core.curve import Floats
from ebbflow.forecasting import make_forecaster
from ebbflow.forecasting.trained import AnyMethod, Arima, Boosting, Net, Press
from ebbflow.forecasting.trained.model import TrainingLoad
from ebbflow.forecasting.training import Background, Job, train
from ebbflow.papers.pascal.loads import SHAPES
from ebbflow.workloads import parse_load

METHODS: dict[str, AnyMethod] = {"arima": Arima(), "press": Press(), "boosting": Boosting(), "net": Net()}
HOURS = 10
NOISE = 0.05
CYCLES = 300


def measure() -> list[Figure]:
    load = TrainingLoad.of(month(), end_s=30 * 86_400.0, step_s=60.0)
    return [*_trainings(load), *_cycles(load), *_accuracy()]


def month() -> Floats:
    """30 days of minutes."""
    random = np.random.default_rng(7)
    minutes = np.arange(30 * 1440)
    load = 800.0 + 500.0 * np.sin(2 * np.pi * minutes / 1440) + 60.0 * random.standard_normal(len(minutes))
    load *= np.repeat(random.normal(1.0, 0.1, 30), 1440)
    for start in random.integers(0, len(minutes), 200):
        load[start : start + 20] *= 1.5
    return np.asarray(np.maximum(load, 0.0))


def _trainings(load: TrainingLoad) -> list[Figure]:
    figures, together_s = [], 0.0
    trainer = Background()
    for name, method in METHODS.items():
        began_s = time.perf_counter()
        ticket = trainer.submit(Job(method=method, series=load))
        trainer.step()
        started_s, memory, cpu_s = time.perf_counter() - began_s, 0.0, 0.0
        while (result := ticket.poll()) is None:
            trainer.step()
            try:
                process = psutil.Process(ticket.pid or 0)
                memory = max(memory, process.memory_full_info().uss / 1e6)
                cpu_s = process.cpu_times().user + process.cpu_times().system
            except psutil.Error:
                continue  # it has just ended
            time.sleep(0.01)
        took_s = time.perf_counter() - began_s
        together_s += took_s
        what = f"{name} on 30 days of minutes"
        figures += [
            Figure(what=f"{what}: fit, test, fit again, in the background", value=took_s, unit="s", bar=10.0),
            Figure(what="  of which CPU time", value=cpu_s, unit="s"),
            Figure(what="  starting its process, between two cycles", value=1e3 * started_s, unit="ms"),
            Figure(what="  largest memory of its process (its own pages)", value=memory, unit="MB", bar=50.0),
            Figure(what="  error ÷ that of the last value", value=result.error_ratio or 1.0, unit=""),
        ]
    figures.append(Figure(what="all four, one after the other", value=together_s, unit="s"))
    return figures


def _cycles(load: TrainingLoad) -> list[Figure]:
    """The cycle that takes longest: alone, beside a training process, beside a training thread."""
    job = Job(method=Net(), series=load)
    alone = _longest_ms(lambda: True)
    trainer = Background()
    ticket = trainer.submit(job)

    def runs() -> bool:
        trainer.step()
        return ticket.poll() is None

    beside_process = _longest_ms(runs)
    trainer.close()
    thread = threading.Thread(target=train, args=(job,))
    thread.start()
    beside_thread = _longest_ms(thread.is_alive)
    thread.join()
    return [
        Figure(what=f"a cycle {which}: {when}", value=value, unit="ms", bar=bar)
        for when, (middle, longest), bar in (
            ("alone", alone, None),
            ("while a process trains", beside_process, None),
            ("while a thread trains", beside_thread, None),
        )
        for which, value in (("in the middle", middle), ("1 % take longer", longest))
    ]


def _longest_ms(running: object) -> tuple[float, float]:
    forecaster = make_forecaster("mixture", 60.0)
    values = month()[:600]
    for minute, value in enumerate(values[:300], start=1):
        forecaster.learn(60.0 * minute, float(value))
    took = []
    for minute in range(301, 301 + CYCLES):
        if not running():  # type: ignore[operator]
            break
        began_s = time.perf_counter()
        forecaster.learn(60.0 * minute, float(values[minute % 600]))
        forecaster.forecast(30)
        took.append(1e3 * (time.perf_counter() - began_s))
        time.sleep(0.002)
    return float(np.median(took)), float(np.quantile(took, 0.99))


def _accuracy() -> list[Figure]:
    figures = []
    for noise in (0.0, NOISE):
        for name, (text, _) in SHAPES.items():
            scaled, relative = net_error(text, noise)
            what = f"Pascal's net on the {name}" + (f", noise of {noise:.0%}" if noise else "")
            figures += [
                Figure(what=f"{what}: mean square error on [0, 1]", value=100 * scaled, unit="%", bar=1.0),
                Figure(what="  divided by the variance", value=100 * relative, unit="%"),
            ]
    return figures


def net_error(text: str, noise: float) -> tuple[float, float]:
    """Mean square error on [0, 1], and divided by the variance, on the last 30 % of a load."""
    count = HOURS * 60
    rows = parse_load(text).rows_between(np.arange(count + 1) * 60.0)
    factors = 1.0 + noise * np.random.default_rng(1).standard_normal(count)
    load = TrainingLoad.of(np.maximum(0.0, rows / 60.0 * factors), end_s=count * 60.0, step_s=60.0)
    values, cut = load.values, int(0.7 * count)
    model = Net().fit(load.until(cut))
    origins = range(cut, count - 4)
    wanted = np.stack([values[origin : origin + 5] for origin in origins])
    made = np.stack([model.ahead(values[:origin], origin * 60.0, 60.0, 5) for origin in origins])
    error = float(np.square(made - wanted).mean())
    return error / float(np.ptp(values[:cut])) ** 2, error / float(wanted.var())
