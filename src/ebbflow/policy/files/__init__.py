"""Policies as files: TOML (``.toml``) or YAML (``.yaml``, ``.yml``), both ways without loss."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from ebbflow.errors import PolicyError
from ebbflow.policy.checks import findings
from ebbflow.policy.document import Path as Where
from ebbflow.policy.document import Problem, read_document, write_document
from ebbflow.policy.files.toml_form import Places, SyntaxProblem, read_toml, write_toml
from ebbflow.policy.files.yaml_form import read_yaml, write_yaml
from ebbflow.policy.model import Policy

FORMS = (".toml", ".yaml", ".yml")
EMPTY = (
    "the policy is empty, which would end all scaling; write at least one rule, or bounds that keep the size"
)


def load_policy(path: Path | str) -> Policy:
    """Read and check a policy. ``PolicyError`` has one problem a line, ``FILE:LINE:COL: what``."""
    return parse_policy(read_text(Path(path)), str(path))


def read_text(path: Path) -> str:
    """The text of a policy file."""
    try:
        return path.read_bytes().decode("utf-8")
    except OSError as error:
        raise PolicyError(f"{path}:1:1: cannot be read: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise PolicyError(f"{path}:1:1: this is not text; a policy is written in UTF-8") from None


def parse_policy(text: str, name: str) -> Policy:
    """Read and check a policy from a text; ``name`` says where it comes from and in which form it is.

    >>> parse_policy('[[rule]]\\nnmae = "grow"', "a.toml")
    Traceback (most recent call last):
    ...
    ebbflow.errors.PolicyError: a.toml:1:1: 'action' is missing; write action = "scale-out" or "scale-in" (and 2 more)
    """
    text = text.removeprefix("\ufeff")  # editors of Windows write one, and TOML has no word for it
    suffix = Path(name).suffix.lower()
    if suffix not in FORMS:
        raise PolicyError(f"{name}:1:1: a policy file ends in {', '.join(FORMS)}; this one in '{suffix}'")
    try:
        document, places = read_toml(text) if suffix == ".toml" else read_yaml(text)
    except SyntaxProblem as problem:
        raise PolicyError(f"{name}:{problem.line}:{problem.column}: {problem}") from None
    policy, problems = read_document(document)
    if policy is not None:
        problems = findings(policy)
        if not (policy.rules or policy.bounds):  # files are emptied by mishap; who means it writes Policy()
            problems = [Problem((), EMPTY)]
    if problems or policy is None:
        placed = sorted((*_place(problem.path, places), problem.text) for problem in problems)
        raise PolicyError(
            *(f"{name}:{line}:{column}: {' '.join(what.split())}" for line, column, what in placed)
        )
    return policy


def policy_text(policy: Policy, suffix: str) -> str:
    """The policy in one of the forms."""
    if suffix.lower() not in FORMS:
        raise PolicyError(f"a policy file ends in {', '.join(FORMS)}, not in '{suffix}'")
    document = write_document(policy)
    return write_toml(document) if suffix.lower() == ".toml" else write_yaml(document)


def save_policy(policy: Policy, path: Path | str) -> None:
    """Write a policy so that whoever watches the file sees the old or the new one, never half of it."""
    replace_file(Path(path), policy_text(policy, Path(path).suffix))


def replace_file(path: Path, text: str) -> None:
    """Write a file beside and move it into place. A link stays one: what it points to is replaced."""
    path = path.resolve()
    try:
        handle, beside = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    except OSError as error:
        raise PolicyError(f"cannot write {path}: {error.strerror}") from None
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        Path(beside).chmod(path.stat().st_mode & 0o777 if path.exists() else 0o644)
        Path(beside).replace(path)
    except OSError as error:
        Path(beside).unlink(missing_ok=True)
        raise PolicyError(f"cannot write {path}: {error.strerror}") from None


def _place(path: Where, places: Places) -> tuple[int, int]:
    """Where it stands; of what is missing, where its table does."""
    while path not in places:
        path = path[:-1]
    return places[path]
