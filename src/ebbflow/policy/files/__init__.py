"""Policies as files: TOML (``.toml``) or YAML (``.yaml``, ``.yml``). Both round-trip without loss.

A file is parsed with the positions of its values (``toml_format``, ``yaml_format``), read into the model
(``document``) and checked (``ebbflow.policy.checks``). ``schema`` is the JSON Schema for editors.
"""

from __future__ import annotations

from pathlib import Path

from ebbflow.errors import PolicyError
from ebbflow.policy.checks import find_problems
from ebbflow.policy.files.document import read_document, write_document
from ebbflow.policy.files.toml_format import InvalidSyntaxError, Positions, read_toml, write_toml
from ebbflow.policy.files.yaml_format import read_yaml, write_yaml
from ebbflow.policy.model import Policy, PolicyPath, Problem

SUFFIXES = (".toml", ".yaml", ".yml")
EMPTY = "the policy is empty, which would stop all scaling; write at least one rule or bounds"


def load_policy(path: Path | str) -> Policy:
    """Read and check a policy. ``PolicyError.problems`` has one line for each problem: ``FILE:LINE:COLUMN: text``."""
    return parse_policy(read_text(Path(path)), str(path))


def read_text(path: Path) -> str:
    """The text of a policy file."""
    try:
        return path.read_bytes().decode("utf-8")
    except FileNotFoundError:
        raise PolicyError(f"there is no policy file {path}") from None
    except OSError as error:
        raise PolicyError(f"{path}:1:1: cannot be read: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise PolicyError(f"{path}:1:1: not a UTF-8 text file; save the policy as UTF-8") from None


def parse_policy(text: str, name: str) -> Policy:
    """Read and check the text of a policy. ``name`` is the file it comes from; its suffix decides the format.

    >>> parse_policy('[[rule]]\\nnmae = "grow"', "a.toml")
    Traceback (most recent call last):
    ...
    ebbflow.errors.PolicyError: a.toml:1:1: missing key 'action'; write action = "scale-out" or "scale-in" (and 2 more)
    """
    text = text.removeprefix("\ufeff")  # a byte order mark, which is not valid TOML
    suffix = Path(name).suffix.lower()
    if suffix not in SUFFIXES:
        raise PolicyError(
            f"{name}:1:1: unknown file type '{suffix}'; a policy file ends in {', '.join(SUFFIXES)}"
        )
    try:
        document, positions = read_toml(text) if suffix == ".toml" else read_yaml(text)
    except InvalidSyntaxError as error:
        raise PolicyError(f"{name}:{error.line}:{error.column}: {error}") from None
    policy, problems = read_document(document)
    if policy is not None:
        problems = find_problems(policy)
        if not (policy.rules or policy.bounds):  # a file emptied by accident; Policy() is the explicit way
            problems = [Problem((), EMPTY)]
    if problems or policy is None:
        placed = sorted((*_position(problem.path, positions), problem.text) for problem in problems)
        raise PolicyError(
            *(f"{name}:{line}:{column}: {' '.join(what.split())}" for line, column, what in placed)
        )
    return policy


def policy_text(policy: Policy, suffix: str) -> str:
    """The policy as the text of a file with this suffix."""
    if suffix.lower() not in SUFFIXES:
        raise PolicyError(f"unknown file type '{suffix}'; a policy file ends in {', '.join(SUFFIXES)}")
    document = write_document(policy)
    return write_toml(document) if suffix.lower() == ".toml" else write_yaml(document)


def _position(path: PolicyPath, positions: Positions) -> tuple[int, int]:
    """The position of a value; of the enclosing table if the value is missing."""
    while path not in positions:
        path = path[:-1]
    return positions[path]
