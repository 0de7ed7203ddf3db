"""Keys: two matching folders that only their owner can read."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from ebbflow.errors import InputError
from ebbflow.monitoring.keys import agent_keys, collector_keys, make_keys


def test_agent_and_collector_have_each_others_public_keys(tmp_path: Path) -> None:
    agent, collector = make_keys(tmp_path / "keys")
    ours, theirs = agent_keys(agent), collector_keys(collector)
    assert theirs.agent == ours.public
    assert ours.listeners == {theirs.public}
    assert len({ours.public, ours.secret, theirs.public, theirs.secret}) == 4


def test_other_users_cannot_read_keys_whatever_the_umask(tmp_path: Path) -> None:
    made = make_keys(tmp_path / "keys")
    for folder in made:
        for path in (folder, *folder.rglob("*")):
            mode = stat.S_IMODE(path.stat().st_mode)
            assert mode == (0o700 if path.is_dir() else 0o600), path


def test_keys_are_different_each_time(tmp_path: Path) -> None:
    first, second = make_keys(tmp_path / "a")[0], make_keys(tmp_path / "b")[0]
    assert agent_keys(first).secret != agent_keys(second).secret


def test_keys_are_never_overwritten(tmp_path: Path) -> None:
    agent, _ = make_keys(tmp_path)
    before = agent_keys(agent)
    with pytest.raises(InputError, match="exists already"):
        make_keys(tmp_path)
    assert agent_keys(agent) == before


def test_a_secret_others_can_read_is_not_used(tmp_path: Path) -> None:
    agent, collector = make_keys(tmp_path)
    (agent / "agent.key_secret").chmod(0o640)
    with pytest.raises(InputError, match="chmod 600"):
        agent_keys(agent)
    (collector / "collector.key_secret").chmod(0o604)
    with pytest.raises(InputError, match="chmod 600"):
        collector_keys(collector)


def test_secrets_do_not_show_when_keys_are_printed(tmp_path: Path) -> None:
    agent, collector = make_keys(tmp_path)
    for keys in (agent_keys(agent), collector_keys(collector)):
        assert keys.secret.decode() not in repr(keys)


def test_each_listener_is_a_file(tmp_path: Path) -> None:
    agent, _ = make_keys(tmp_path / "a")
    _, other = make_keys(tmp_path / "b")
    (agent / "listeners" / "second.key").write_bytes((other / "collector.key_secret").read_bytes())
    assert len(agent_keys(agent).listeners) == 2


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda agent: (agent / "agent.key_secret").unlink(), "there is no key"),
        (lambda agent: (agent / "listeners" / "collector.key").unlink(), "no collector could connect"),
        (lambda agent: (agent / "listeners" / "collector.key").write_text("hello"), "is not a key file"),
        (
            lambda agent: (agent / "listeners" / "collector.key").write_text('public-key = "short"'),
            "is not a key file",
        ),
        (
            lambda agent: (agent / "agent.key_secret").write_bytes(
                (agent / "listeners" / "collector.key").read_bytes()
            ),
            "there is no secret key",
        ),
        (
            lambda agent: (agent / "agent.key_secret").write_text(
                f'public-key = "{"0" * 40}"\nsecret-key = "{"1" * 40}"\n'
            ),
            "do not match",
        ),
    ],
)
def test_invalid_keys_say_what_is_wrong(tmp_path: Path, spoil, words: str) -> None:
    agent, _ = make_keys(tmp_path)
    spoil(agent)
    with pytest.raises(InputError, match=words):
        agent_keys(agent)


def test_a_folder_that_cannot_be_created_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot write keys"):
        make_keys(tmp_path / "file")
