"""An expert whose model is trained now and then, elsewhere."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

import msgspec
import numpy as np

from ebbflow.core.curve import Floats
from ebbflow.errors import InputError
from ebbflow.forecasting.experts.expert import Expert
from ebbflow.forecasting.grid import Ints
from ebbflow.forecasting.history import DAY_S, History
from ebbflow.forecasting.state import State
from ebbflow.forecasting.trained import AnyMethod, AnyModel
from ebbflow.forecasting.trained.model import TrainingLoad
from ebbflow.forecasting.training import Inline, Job, Ticket, Trainer, bounded, first_steps

log = logging.getLogger(__name__)

MOST_STEPS = 43_200
"""Steps that a model is trained on, at most: 30 days of minutes."""


class TrainedExpert(Expert):
    """Forecasts with the model in use; before the first one, the last value.

    Training starts when there is enough history, again when that has doubled, and then once a day, by the times of
    the steps. While it runs, the model in use forecasts; the new one replaces it between two steps. ``outcome``
    says how the last training ended.
    """

    def __init__(self, name: str, method: AnyMethod, trainer: Trainer | None = None) -> None:
        self.names = (name,)
        self.outcome = "not trained yet"
        self._method = method
        self._trainer = trainer or Inline()
        self._ticket: Ticket | None = None
        self._submitted_s = 0.0
        self._model: AnyModel | None = None
        self._trained_until_s = 0.0
        self._trained = ""
        """How good the model in use was when it was trained."""
        self._next = first_steps(method)
        """Steps seen at which the next training starts."""

    def train_with(self, trainer: Trainer) -> None:
        """Use another trainer from now on."""
        self._trainer = trainer

    @property
    def basis(self) -> str:
        """The model in use, or why there is none."""
        if self._model is None:
            return f"last value, because {self.names[0]} is {self.outcome}"
        return f"{self.names[0]}, {self._trained}"

    @property
    def model(self) -> AnyModel | None:
        """The model in use."""
        return self._model

    def update(self, history: History) -> None:
        """Take over a finished model; start a training if one is due."""
        if self._ticket is None and history.seen >= self._next:
            self._next = history.seen + min(history.seen, max(1, round(DAY_S / history.step_s)))
            self._submitted_s = history.end_s
            values = history.values[-MOST_STEPS:]
            job = Job(
                method=self._method,
                series=TrainingLoad.of(values, end_s=history.end_s, step_s=history.step_s),
                model=self._model,
                trained_until_s=self._trained_until_s,
            )
            self._ticket = self._trainer.submit(job)
        if self._ticket is not None:
            result = self._ticket.poll()
            if result is None:
                return
            self._ticket = None
            self.outcome = result.reason
            level = logging.WARNING if result.reason.startswith("failed") else logging.INFO
            log.log(level, "forecaster %s: %s", self.names[0], result.reason)
            if result.model is not None:
                self._model, self._trained_until_s = result.model, self._submitted_s
                self._trained = result.reason

    def ahead(self, history: History, horizons: Ints) -> Floats:
        """The model's forecast."""
        if self._model is None:
            return np.full(len(horizons), history.values[-1])
        recent = history.values[-self._model.needs :]
        return bounded(self._model, recent, history.end_s, history.step_s, int(horizons.max()))[horizons - 1]

    def state(self) -> State:
        """The model in use and when the next training is due."""
        return {
            "model": msgspec.to_builtins(self._model),
            "trained_until_s": self._trained_until_s,
            "trained": self._trained,
            "next": self._next,
            "outcome": self.outcome,
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue with a saved model. A training that runs is ignored."""
        try:
            self._model = msgspec.convert(state["model"], type=AnyModel | None, strict=False)
            self._trained_until_s = msgspec.convert(state["trained_until_s"], type=float)
            self._trained = msgspec.convert(state["trained"], type=str)
            self._next = msgspec.convert(state["next"], type=int)
            self.outcome = msgspec.convert(state["outcome"], type=str)
        except (KeyError, msgspec.ValidationError) as error:
            raise InputError(
                f"this state is not one of the forecaster {self.names[0]} of this version: {error}; learn again"
            ) from None
        self._ticket = None
