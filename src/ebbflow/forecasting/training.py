"""Training of forecasters, out of the loop's way.

A job is the recent load, the method, and the model in use. It is fitted to the older part of the load, and compared
on the newer part with the model in use and with the last value. If it is better, it is fitted again to all of it
and replaces the model in use; otherwise it is discarded, and the reason is logged.

``Background`` runs jobs in a process of its own, one at a time: ``python -m ebbflow.forecasting.training`` with the
job as JSON on standard input and the result as JSON on standard output. A thread would not do: a fit keeps the
interpreter lock for long stretches (measured in ``benchmarks/training.py``), and it can be neither stopped nor
limited in memory. A forked copy of the driver would inherit its sockets and locks. The process has a low
priority, one thread, and limits on CPU time and memory. Both files are anonymous, and nothing is pickled.

``Inline`` runs a job at once, for simulations and tests: the same steps always give the same models.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import time
import weakref
from collections import deque
from collections.abc import Callable
from typing import IO, Protocol, cast

import msgspec
import numpy as np

from ebbflow.core.curve import Floats
from ebbflow.errors import InputError
from ebbflow.forecasting.grid import GRID
from ebbflow.forecasting.trained import AnyMethod, AnyModel
from ebbflow.forecasting.trained.model import Method, Model, TrainingLoad

TRAINING_SHARE = 0.7
"""Share of the series that the first model is fitted to; the rest tests it (Elysium §5.1)."""
LEAST_TESTED = 50
"""Steps that a new model is tested on, at least."""
ORIGINS = 200
"""Forecasts in a test, at most."""
NICE = 5
"""Priority of the process: a third of the CPU time of others when cores are short."""
LIMIT_S = 120.0
MEMORY_MB = 256.0


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """What to train, on what, and the model to beat."""

    method: AnyMethod
    series: TrainingLoad
    model: AnyModel | None = None
    """The model in use."""
    trained_until_s: float = 0.0
    """End of the load that the model in use was fitted to."""


class TrainingResult(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of a job."""

    model: AnyModel | None
    """None if the model in use stays."""
    reason: str
    """The errors, or why the new model is discarded."""
    error_ratio: float | None = None
    """Error of the new model on the part it was not fitted to, divided by that of the last value."""


def train(job: Job) -> TrainingResult:
    """Fit, test, and fit again to everything if the test was passed.

    The test is on the steps after those that the model in use was fitted to, so that it knows as little about them
    as the new one; on at most 30 % and at least ``LEAST_TESTED`` steps.
    """
    # The model in use was fitted by this method, so the two fit together.
    method = cast("Method[AnyModel]", job.method)
    series = job.series
    count = len(series)
    known = count - round((series.end_s - job.trained_until_s) / series.step_s) if job.model else 0
    cut = min(max(known, int(TRAINING_SHARE * count)), count - LEAST_TESTED)
    if cut < method.least_steps:
        raise InputError(f"{count} steps are too few to train and test; wait for {first_steps(job.method)}")
    found = method.fit(series.until(cut))
    error = error_ratio(found, series, cut)
    before = 1.0 if job.model is None else error_ratio(job.model, series, cut)
    rival = "the last value" if job.model is None else "the model in use"
    errors = f"error {error:.2f} × that of the last value on {count - cut} steps, {rival} {before:.2f}"
    if not error < before:
        return TrainingResult(model=None, reason=f"discarded: {errors}", error_ratio=error)
    return TrainingResult(
        model=method.refit(series, found),
        reason=f"trained on {count} steps: {errors}",
        error_ratio=error,
    )


def first_steps(method: AnyMethod) -> int:
    """Shortest series to train and test on."""
    return max(int(method.least_steps / TRAINING_SHARE) + 1, method.least_steps + LEAST_TESTED)


def error_ratio(model: Model, series: TrainingLoad, cut: int) -> float:
    """Mean over horizons of |forecast − load| ÷ |last value − load|.

    Forecasts start at origins evenly spread over the steps after ``cut``. 1 means as good as the last value.
    Horizons at which the last value is always right do not count; if it is at all of them, the ratio is 1.
    """
    values, step_s = series.values, series.step_s
    horizons = GRID[len(values) - cut >= 2 * GRID]
    last = len(values) - int(horizons[-1])
    origins = np.unique(np.linspace(cut, last, ORIGINS).round().astype(np.int64))
    missed, naive = np.zeros(len(horizons)), np.zeros(len(horizons))
    for origin in origins.tolist():
        end_s = series.end_s - (len(values) - origin) * step_s
        ahead = bounded(
            model, values[max(0, origin - model.needs) : origin], end_s, step_s, int(horizons[-1])
        )
        came = values[origin + horizons - 1]
        missed += np.abs(ahead[horizons - 1] - came)
        naive += np.abs(values[origin - 1] - came)
    known = naive > 0
    return float((missed[known] / naive[known]).mean()) if known.any() else 1.0


def bounded(model: Model, recent: Floats, end_s: float, step_s: float, steps: int) -> Floats:
    """A model's forecast, not negative and not above three times the largest value it looks back on."""
    ahead = model.ahead(recent, end_s, step_s, steps)
    return np.clip(np.nan_to_num(ahead, nan=float(recent[-1])), 0.0, 3.0 * float(recent.max()))


class Ticket(Protocol):
    """A job that was submitted."""

    def poll(self) -> TrainingResult | None:
        """The result, once there is one. Only looks it up."""
        ...


class Trainer(Protocol):
    """Runs jobs."""

    def submit(self, job: Job) -> Ticket:
        """Accept a job. Takes no time, unless the trainer is ``Inline``."""
        ...


class Inline:
    """Trains at once, in the caller's time."""

    def submit(self, job: Job) -> Ticket:
        """Run the job."""
        try:
            return _Done(train(job))
        except InputError as error:
            return _Done(TrainingResult(model=None, reason=f"failed: {error}"))


class _Done:
    def __init__(self, result: TrainingResult) -> None:
        self._result = result

    def poll(self) -> TrainingResult | None:
        return self._result


class Background:
    """Trains in a process of its own, one job at a time; others wait for their turn.

    Forecasters submit jobs and look results up while a strategy decides, which does no input or output. Processes are
    started and results are read in ``step``, which the loop calls between two cycles.

    ``limit_s`` limits wall time and CPU time of a job, ``memory_mb`` its memory. ``clock`` gives seconds. ``close``
    ends a job that runs; so does the end of this process, and a process that outlives it ends at its CPU limit.
    """

    def __init__(
        self,
        *,
        limit_s: float = LIMIT_S,
        memory_mb: float = MEMORY_MB,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        if not limit_s > 0 or not memory_mb > 0:
            raise InputError(f"training within {limit_s:g} s and {memory_mb:g} MB; both must be above 0")
        self._limit_s, self._memory_mb, self._clock = limit_s, memory_mb, clock
        self._waiting: deque[_Run] = deque()

    def submit(self, job: Job) -> Ticket:
        """Queue the job."""
        run = _Run(job, self._limit_s, self._memory_mb, self._clock)
        self._waiting.append(run)
        return run

    def step(self) -> None:
        """Start the next job, or see whether the running one has ended. Takes a few milliseconds at most."""
        if self._waiting and self._waiting[0].done():
            self._waiting.popleft()
            self.step()

    def close(self) -> None:
        """End the running job and drop those that wait."""
        while self._waiting:
            self._waiting.popleft().cancel("cancelled")


class _Run:
    """One job of ``Background``: waiting, running or done."""

    def __init__(self, job: Job, limit_s: float, memory_mb: float, clock: Callable[[], float]) -> None:
        self._limit_s, self._memory_mb, self._clock = limit_s, memory_mb, clock
        self._job: Job | None = job
        self._process: subprocess.Popen[bytes] | None = None
        self._result: TrainingResult | None = None

    @property
    def pid(self) -> int | None:
        """The process, while it runs."""
        return None if self._process is None else self._process.pid

    def poll(self) -> TrainingResult | None:
        return self._result

    def done(self) -> bool:
        """Start the job if it is waiting; collect its result if it has ended."""
        if self._result is None and self._process is None:
            self._start()
        elif self._result is None:
            self._collect()
        return self._result is not None

    def cancel(self, reason: str) -> None:
        """End the job."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        self._finish(TrainingResult(model=None, reason=reason))

    def _start(self) -> None:
        assert self._job is not None
        self._output: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - open until the process has ended
        self._errors: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115
        threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
        try:
            with tempfile.TemporaryFile() as handed:
                handed.write(msgspec.json.encode(self._job))
                handed.seek(0)
                self._process = subprocess.Popen(
                    [
                        sys.executable,
                        "-m",
                        "ebbflow.forecasting.training",
                        f"{self._limit_s}",
                        f"{self._memory_mb}",
                    ],
                    stdin=handed,
                    stdout=self._output,
                    stderr=self._errors,
                    env={
                        **os.environ,
                        **threads,
                        "PYTHONPATH": os.pathsep.join(each for each in sys.path if each),
                    },
                )
        except OSError as error:
            self._finish(
                TrainingResult(model=None, reason=f"failed: cannot start a process: {error.strerror}")
            )
            return
        self._job = None
        self._began_s = self._clock()
        self._ended = weakref.finalize(self, _end, self._process)

    def _collect(self) -> None:
        assert self._process is not None
        code = self._process.poll()
        if code is None:
            if self._clock() - self._began_s > self._limit_s:
                self.cancel(f"discarded: not done within {self._limit_s:g} s")
            return
        if code == 0:
            self._output.seek(0)
            try:
                self._finish(msgspec.json.decode(self._output.read(), type=TrainingResult))
            except msgspec.MsgspecError as error:
                self._finish(
                    TrainingResult(
                        model=None, reason=f"failed: the training process wrote no result ({error})"
                    )
                )
            return
        self._errors.seek(0)
        said = self._errors.read().decode("utf-8", "replace").strip().splitlines()
        how = f"signal {-code}" if code < 0 else f"exit code {code}"
        self._finish(TrainingResult(model=None, reason=f"failed: {said[-1] if said else how}"))

    def _finish(self, result: TrainingResult) -> None:
        self._result, self._job = result, None
        if self._process is not None:
            self._ended.detach()
            self._process = None
            self._output.close()
            self._errors.close()


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        process.kill()
        process.wait()


def _main(limit_s: str, memory_mb: str) -> int:
    """Run the job on standard input."""
    os.nice(NICE)
    seconds, size = max(1, int(float(limit_s))), int(float(memory_mb) * 1e6)
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))
    resource.setrlimit(resource.RLIMIT_DATA, (size, size))
    try:
        result = train(msgspec.json.decode(sys.stdin.buffer.read(), type=Job))
    except (InputError, MemoryError, np.linalg.LinAlgError) as error:
        result = TrainingResult(model=None, reason=f"failed: {error or type(error).__name__}")
    sys.stdout.buffer.write(msgspec.json.encode(result))
    return 0


if __name__ == "__main__":
    sys.exit(_main(*sys.argv[1:]))
