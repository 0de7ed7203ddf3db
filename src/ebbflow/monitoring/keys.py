"""Keys that authenticate agents and collectors: CURVE key pairs, in one folder for each side.

::

    DIR/agent/       agent.key_secret, listeners/collector.key       copy it to every worker host
    DIR/collector/   collector.key_secret, agent.key                 copy it to where the job's driver runs

An agent accepts only collectors whose public key is in ``listeners``. A collector accepts only agents that hold the
secret of ``agent.key``. The files are ZeroMQ certificates.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import zmq
import zmq.auth

from ebbflow.errors import InputError


@dataclass(frozen=True, kw_only=True)
class AgentKeys:
    """Keys of an agent: its own pair, and the public keys of collectors that may listen."""

    public: bytes
    secret: bytes
    listeners: frozenset[bytes]

    def __repr__(self) -> str:
        return f"AgentKeys(public={self.public!r}, listeners={len(self.listeners)})"


@dataclass(frozen=True, kw_only=True)
class CollectorKeys:
    """Keys of a collector: its own pair, and the public key of the agents."""

    public: bytes
    secret: bytes
    agent: bytes

    def __repr__(self) -> str:
        return f"CollectorKeys(public={self.public!r}, agent={self.agent!r})"


def make_keys(folder: Path) -> tuple[Path, Path]:
    """Create a key pair for agents and one for collectors; returns the two folders."""
    agent, collector = folder / "agent", folder / "collector"
    for side in (agent, collector):
        if side.exists():
            raise InputError(f"{side} exists already; name another folder, or remove it if no agent uses it")
    try:
        for each in (agent / "listeners", collector):
            each.mkdir(parents=True, mode=0o700)
        for each in (agent, agent / "listeners", collector):
            each.chmod(0o700)
        agent_public, agent_secret = zmq.curve_keypair()
        public, secret = zmq.curve_keypair()
        _write(agent / "agent.key_secret", agent_public, agent_secret)
        _write(agent / "listeners" / "collector.key", public)
        _write(collector / "collector.key_secret", public, secret)
        _write(collector / "agent.key", agent_public)
    except OSError as error:
        raise InputError(f"cannot write keys to {folder}: {error.strerror or error}") from None
    return agent, collector


def agent_keys(folder: Path) -> AgentKeys:
    """Read the folder ``DIR/agent``."""
    public, secret = _pair(folder, "agent.key_secret")
    known = frozenset(_read(path)[0] for path in sorted((folder / "listeners").glob("*.key")))
    if not known:
        raise InputError(f"no collector could connect: there is no public key in {folder / 'listeners'}")
    return AgentKeys(public=public, secret=secret, listeners=known)


def collector_keys(folder: Path) -> CollectorKeys:
    """Read the folder ``DIR/collector``."""
    public, secret = _pair(folder, "collector.key_secret")
    return CollectorKeys(public=public, secret=secret, agent=_read(folder / "agent.key")[0])


def _write(path: Path, public: bytes, secret: bytes | None = None) -> None:
    lines = ["metadata", "curve", f'    public-key = "{public.decode()}"']
    if secret is not None:
        lines.append(f'    secret-key = "{secret.decode()}"')
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write("\n".join(lines) + "\n")


def _pair(folder: Path, name: str) -> tuple[bytes, bytes]:
    path = folder / name
    public, secret = _read(path)
    if path.stat().st_mode & 0o077:
        raise InputError(f"other users can read the secret in {path}; run chmod 600 {path}")
    if secret is None:
        raise InputError(f"there is no secret key in {path}; create new keys with `ebbflow agent keys DIR`")
    if zmq.curve_public(secret) != public:
        raise InputError(
            f"the two keys in {path} do not match; create new ones with `ebbflow agent keys DIR`"
        )
    return public, secret


def _read(path: Path) -> tuple[bytes, bytes | None]:
    try:
        public, secret = zmq.auth.load_certificate(path)
        for key in (public, secret):
            if key is not None:
                zmq.utils.z85.decode(key)
                if len(key) != 40:
                    raise ValueError(f"a key has 40 characters, not {len(key)}")
    except OSError:
        raise InputError(
            f"there is no key {path}; `ebbflow agent keys DIR` creates DIR/agent and DIR/collector"
        ) from None
    except (ValueError, KeyError, IndexError) as error:
        raise InputError(f"{path} is not a key file: {error}") from None
    return public, secret
