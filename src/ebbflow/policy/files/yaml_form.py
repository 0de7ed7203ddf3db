"""YAML, read as its version 1.2 says: ``on`` is a word and ``08:00`` is not 480.

PyYAML, because its nodes know where they stand; with the resolvers of the 1.2 core schema instead of its own.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Mapping
from typing import Any

import yaml

from ebbflow.policy.document import Path
from ebbflow.policy.files.toml_form import LARGEST, TOO_DEEP, TOO_LONG, Places, SyntaxProblem

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
    """The 1.2 core schema, and no aliases: a policy has no use for them, and bombs are made of them."""

    yaml_implicit_resolvers: dict[str, Any] = {}  # noqa: RUF012 - PyYAML's own name and shape

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        if self.check_event(yaml.events.AliasEvent):
            event: Any = self.peek_event()  # type: ignore[no-untyped-call]
            raise yaml.MarkedYAMLError(
                problem="aliases have no place in a policy", problem_mark=event.start_mark
            )
        return super().compose_node(parent, index)


class _Dumper(yaml.SafeDumper):
    """Quotes what either version of YAML would take for something else."""

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
    # These are line breaks to YAML, and only between double quotes are they written so that they come back.
    breaks = any(each in text for each in "\r\x85\u2028\u2029")
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style='"' if breaks else None)


_Dumper.add_representer(str, _text)


def read_yaml(text: str) -> tuple[object, Places]:
    """The document, and where its values stand.

    >>> document, places = read_yaml('bounds:\\n- name: day\\n  on: weekdays\\n  from: 08:00\\n')
    >>> document["bounds"][0]["from"], places["bounds", 0, "on"]
    ('08:00', (3, 3))
    """
    if len(text) > LARGEST:
        raise SyntaxProblem(f"a policy of {len(text)} characters; the most is {LARGEST}", 1, 1)
    loader = _Loader(text)
    try:
        node = loader.get_single_node()
        places: Places = {(): (1, 1)}
        if node is None:
            return {}, places
        _walk(node, (), places)
        return loader.construct_document(node), places
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line, column = (mark.line + 1, mark.column + 1) if mark else (1, 1)
        raise SyntaxProblem(f"this is not YAML: {error.problem or error.context}", line, column) from None
    except RecursionError:
        raise SyntaxProblem(TOO_DEEP, 1, 1) from None
    except yaml.YAMLError as error:
        what = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise SyntaxProblem(f"this is not YAML: {what}", 1, 1) from None
    except ValueError:
        raise SyntaxProblem(TOO_LONG, 1, 1) from None
    finally:
        loader.dispose()


def _walk(node: yaml.Node, path: Path, places: Places) -> None:
    places.setdefault(path, (node.start_mark.line + 1, node.start_mark.column + 1))
    if isinstance(node, yaml.MappingNode):
        seen: set[Hashable] = set()
        for key, value in node.value:
            name = str(key.value)
            if name in seen:
                raise yaml.MarkedYAMLError(
                    problem=f"'{name}' stands there twice", problem_mark=key.start_mark
                )
            seen.add(name)
            places[(*path, name)] = (key.start_mark.line + 1, key.start_mark.column + 1)
            _walk(value, (*path, name), places)
    elif isinstance(node, yaml.SequenceNode):
        for index, item in enumerate(node.value):
            _walk(item, (*path, index), places)


def write_yaml(document: Mapping[str, Any]) -> str:
    """The document in block style, keys in their order."""
    if not document:
        return ""
    return yaml.dump(dict(document), Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=100)
