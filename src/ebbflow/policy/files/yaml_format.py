"""Read and write YAML 1.2, in which ``on`` is a string and ``08:00`` is not 480.

Uses PyYAML, because its nodes know their positions, with the resolvers of the YAML 1.2 core schema.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Mapping
from typing import Any

import yaml

from ebbflow.policy.files.toml_format import (
    DEEPEST,
    HUGE_NUMBER,
    TOO_DEEP,
    InvalidSyntaxError,
    Positions,
    check_length,
)
from ebbflow.policy.model import PolicyPath

_RESOLVERS = (
    ("bool", r"true|True|TRUE|false|False|FALSE", "tTfF"),
    ("null", r"~|null|Null|NULL|", ("~", "n", "N", "")),
    ("int", r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+", "-+0123456789"),
    (
        "float",
        r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)",
        "-+.0123456789",
    ),
)


class _Loader(yaml.SafeLoader):
    """The 1.2 core schema without aliases, which a policy does not need and attacks use to exhaust memory."""

    yaml_implicit_resolvers: dict[str, Any] = {}  # noqa: RUF012 - PyYAML's own name and shape
    depth = 0

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        if self.check_event(yaml.events.AliasEvent):
            event: Any = self.peek_event()  # type: ignore[no-untyped-call]
            raise yaml.MarkedYAMLError(
                problem="aliases are not allowed in a policy", problem_mark=event.start_mark
            )
        self.depth += 1
        if self.depth > DEEPEST:
            raise RecursionError
        try:
            return super().compose_node(parent, index)
        finally:
            self.depth -= 1


class _Dumper(yaml.SafeDumper):
    """Quotes strings that either version of YAML would read as another type."""

    yaml_implicit_resolvers = {  # noqa: RUF012 - PyYAML's own name and shape
        first: list(found) for first, found in yaml.SafeDumper.yaml_implicit_resolvers.items()
    }

    def ignore_aliases(self, data: object) -> bool:
        del data
        return True


for _name, _pattern, _first in _RESOLVERS:
    for _kind in (_Loader, _Dumper):
        _kind.add_implicit_resolver(
            f"tag:yaml.org,2002:{_name}", re.compile(f"^(?:{_pattern})$"), list(_first)
        )


def _whole(loader: _Loader, node: yaml.ScalarNode) -> int:
    text = str(loader.construct_scalar(node))
    base = {"0o": 8, "0x": 16}.get(text[:2], 10)
    return int(text[2:] if base != 10 else text, base)


def _real(loader: _Loader, node: yaml.ScalarNode) -> float:
    text = str(loader.construct_scalar(node)).lower()
    return float(text.replace(".inf", "inf").replace(".nan", "nan"))


_Loader.add_constructor("tag:yaml.org,2002:int", _whole)
_Loader.add_constructor("tag:yaml.org,2002:float", _real)


def _text(dumper: _Dumper, text: str) -> yaml.ScalarNode:
    # YAML treats these as line breaks; only double quotes preserve them.
    breaks = any(each in text for each in "\r\x85\u2028\u2029")
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style='"' if breaks else None)


_Dumper.add_representer(str, _text)


def read_yaml(text: str) -> tuple[object, Positions]:
    """The document and the positions of its values.

    >>> document, positions = read_yaml('bounds:\\n- name: day\\n  on: weekdays\\n  from: 08:00\\n')
    >>> document["bounds"][0]["from"], positions["bounds", 0, "on"]
    ('08:00', (3, 3))
    """
    check_length(text)
    loader = None
    try:
        loader = _Loader(text)
        node = loader.get_single_node()
        positions: Positions = {(): (1, 1)}
        if node is None:
            return {}, positions
        _walk(node, (), positions)
        return loader.construct_document(node), positions
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line, column = (mark.line + 1, mark.column + 1) if mark else (1, 1)
        raise InvalidSyntaxError(f"invalid YAML: {error.problem or error.context}", line, column) from None
    except RecursionError:
        raise InvalidSyntaxError(TOO_DEEP, 1, 1) from None
    except yaml.YAMLError as error:
        what = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise InvalidSyntaxError(f"invalid YAML: {what}", 1, 1) from None
    except ValueError:
        raise InvalidSyntaxError(HUGE_NUMBER, 1, 1) from None
    finally:
        if loader is not None:
            loader.dispose()


def _walk(node: yaml.Node, path: PolicyPath, positions: Positions) -> None:
    positions.setdefault(path, (node.start_mark.line + 1, node.start_mark.column + 1))
    if isinstance(node, yaml.MappingNode):
        names: set[Hashable] = set()
        for key, value in node.value:
            name = str(key.value)
            if name in names:
                raise yaml.MarkedYAMLError(problem=f"duplicate key '{name}'", problem_mark=key.start_mark)
            names.add(name)
            positions[(*path, name)] = (key.start_mark.line + 1, key.start_mark.column + 1)
            _walk(value, (*path, name), positions)
    elif isinstance(node, yaml.SequenceNode):
        for index, item in enumerate(node.value):
            _walk(item, (*path, index), positions)


def write_yaml(document: Mapping[str, Any]) -> str:
    """The document in block style, with keys in their given order."""
    if not document:
        return ""
    return yaml.dump(dict(document), Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=100)
