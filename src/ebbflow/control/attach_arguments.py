"""What a person gives ``attach``, checked before anything is touched: what cannot be meant is an error at once."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ebbflow.core.limits import Limits
from ebbflow.core.ports import Strategy
from ebbflow.core.slo import Slo
from ebbflow.errors import InputError
from ebbflow.monitoring.addresses import check
from ebbflow.monitoring.keys import CollectorKeys, collector_keys
from ebbflow.profiling.estimator import Estimator
from ebbflow.profiling.given_profiles import estimators_on_spark, read_profiles
from ebbflow.profiling.profile import Profile
from ebbflow.strategies import make_strategy

if TYPE_CHECKING:
    from ebbflow.targets.spark.restart import ManagedQuery

DEFAULT_SLO = "freshness p95 <= 30s"


def limits_of(executors: tuple[int, int]) -> Limits:
    """Fewest and most executors."""
    try:
        fewest, most = executors
        if {type(fewest), type(most)} != {int}:
            raise TypeError
    except (TypeError, ValueError):
        raise InputError(f"executors={executors!r} is not (fewest, most); write executors=(1, 20)") from None
    return Limits(min_nodes=fewest, max_nodes=most)


def objective_of(slo: str | Slo) -> Slo:
    """The objective, however it was given."""
    if isinstance(slo, Slo):
        return slo
    if not isinstance(slo, str):
        raise InputError(f"slo={slo!r} is no objective; write slo='freshness p95 <= 30s'")
    return Slo.parse(slo)


def estimators_of(profiles: str | Path | Profile | Sequence[str | Path | Profile]) -> dict[str, Estimator]:
    """What profiles know, by the name of the query; of files or of profiles, of one or of several."""
    given = [profiles] if isinstance(profiles, str | Path | Profile) else list(profiles)
    named = {f"profiles[{number}]": each for number, each in enumerate(given) if isinstance(each, Profile)}
    files = [each for each in given if not isinstance(each, Profile)]
    for each in files:
        if not isinstance(each, str | Path):
            raise InputError(
                f"profiles={each!r} is no profile; give the name of a file, or an ebbflow Profile"
            )
    return estimators_on_spark(read_profiles(files) | named)


def strategy_of(strategy: str | Strategy, estimators: Mapping[str, Estimator]) -> Strategy:
    """Who decides, by a name or as an object."""
    if isinstance(strategy, str):
        return make_strategy(strategy, estimators)
    if estimators:
        raise InputError(
            "profiles=… is for a strategy by its name; give yours its estimators when you make it"
        )
    if isinstance(strategy, type) or not isinstance(strategy, Strategy):
        raise InputError(
            f"strategy={strategy!r} cannot decide; give a name like 'capacity', or an object with a name and decide()"
        )
    return strategy


def check_cycle(cycle_s: float) -> None:
    """An error where a loop cannot look so often, or so seldom."""
    if not (isinstance(cycle_s, int | float) and 0.05 <= cycle_s < math.inf):
        raise InputError(f"cycle_s={cycle_s!r} is no time between two looks; write seconds, like cycle_s=1.0")


def check_queries(queries: Sequence[ManagedQuery]) -> None:
    """An error where one of them cannot be restarted."""
    for query in queries:
        if not hasattr(query, "restart"):
            raise InputError(
                f"queries={query!r} cannot be restarted; give ebbflow.ManagedQuery objects, or none"
            )


def check_agents(addresses: Sequence[str], keys_folder: str | Path | None) -> CollectorKeys | None:
    """The keys to call these agents with; an error where an address or a key cannot be used."""
    keys = None if keys_folder is None else collector_keys(Path(keys_folder))
    for address in addresses:
        check(address, has_keys=keys is not None, option="--agent-keys (in Python agent_keys=)")
    return keys
