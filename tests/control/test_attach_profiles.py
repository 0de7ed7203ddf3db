"""``attach(profiles=…)``: symbiotic gets them; invalid ones are an error before anything is touched."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from attach_parts import SESSION, parts_of

from ebbflow.control import attach as module
from ebbflow.errors import InputError
from ebbflow.policy import Policy
from ebbflow.profiling.profile import Profile, Reconfiguration, SparkCosts, Spread
from ebbflow.strategies.symbiotic import Symbiotic


def known(target: str = "spark", pipeline: str = "words") -> Profile:
    parts = Reconfiguration(
        stop_s=Spread(mean=2.0),
        state_s=Spread(mean=1.0),
        restart_s=Spread(mean=20.0),
        drain_s=Spread(mean=5.0),
    )
    return Profile(pipeline=pipeline, target=target, costs=SparkCosts(reconfiguration=parts))


@pytest.mark.parametrize("name", ["symbiotic", "symbiotic-proactive"])
@pytest.mark.parametrize("how", ["a file", "a path", "a profile", "several"])
def test_symbiotic_gets_the_profiles_however_they_are_given(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str, how: str
) -> None:
    path = tmp_path / "p.toml"
    path.write_text(known().to_text())
    given: Any = {
        "a file": str(path), "a path": path, "a profile": known(), "several": [path, known(pipeline="b")],
    }[how]  # fmt: skip
    chosen = parts_of(monkeypatch, strategy=name, profiles=given)["strategy"]
    assert isinstance(chosen, Symbiotic)
    assert chosen.name == name
    assert chosen._stop.stop_s == 23.0  # what the profile says of a restart


@pytest.mark.parametrize(
    ("how", "words"),
    [
        (
            {"strategy": "capacity", "profiles": known()},
            "a profile is for proactive, symbiotic and symbiotic-proactive, not f",
        ),
        ({"strategy": Symbiotic(), "profiles": known()}, "pass estimators to your own strategy"),
        ({"policy": Policy(), "profiles": known()}, "rules do not size by profiles"),
        ({"strategy": "symbiotic", "policy": Policy()}, "contradict each other"),
        ({"strategy": "symbiotic", "profiles": known("simulator")}, "was learned in the simulator"),
        ({"strategy": "symbiotic", "profiles": [known(), known()]}, "are both profiles of 'words'"),
        ({"strategy": "symbiotic", "profiles": [7]}, "attach(profiles=…): [7] is invalid"),
        ({"strategy": "symbiotic", "profiles": "none.toml"}, "cannot read the profile none.toml"),
    ],
)
def test_invalid_profiles_are_an_error_before_anything_is_touched(how: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError) as error:
        module.attach(SESSION, **how)
    assert words in str(error.value)
