"""The JSON Schema of policy files, generated from the model: editors use it to complete and check policies.

A schema cannot express arithmetic: that 6 of 5 is too many, that a duration is at most 366 days, which unit fits
a metric, or what ``checks`` finds. ``ebbflow policy check`` finds those too.
"""

from __future__ import annotations

from typing import Any

import msgspec

from ebbflow.core.metrics import Metric
from ebbflow.policy.files.document import SCALARS, bare_type
from ebbflow.policy.model import (
    BOUNDS,
    CPU,
    DAYS,
    RULE,
    AllOf,
    AnyOf,
    BoundsRule,
    Rule,
    RuleAction,
    Trigger,
    Weekday,
)
from ebbflow.policy.values import LARGEST_SIZE


def policy_schema() -> dict[str, Any]:
    """The schema, in JSON Schema draft 2020-12.

    >>> schema = policy_schema()
    >>> sorted(schema["$defs"]), schema["$defs"]["Rule"]["required"]
    (['AllOf', 'AnyOf', 'BoundsRule', 'Condition', 'Rule', 'Trigger'], ['name', 'action', 'when'])
    """
    parts = (Rule, BoundsRule, Trigger, AllOf, AnyOf)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Ebbflow scaling policy",
        "type": "object",
        "additionalProperties": False,
        "properties": {
            RULE: {"type": "array", "items": _ref("Rule")},
            BOUNDS: {"type": "array", "items": _ref("BoundsRule")},
        },
        "$defs": {
            **{part.__name__: _table(part) for part in parts},
            "Condition": {"anyOf": [_ref("Trigger"), _ref("AllOf"), _ref("AnyOf")]},
        },
    }


def _ref(name: str) -> dict[str, Any]:
    return {"$ref": f"#/$defs/{name}"}


def _table(part: type[msgspec.Struct]) -> dict[str, Any]:
    fields = msgspec.structs.fields(part)
    required = [field.encode_name for field in fields if field.required]
    schema: dict[str, Any] = {
        "type": "object",
        "description": (part.__doc__ or "").splitlines()[0],
        "additionalProperties": False,
        "required": required,
        "properties": {f.encode_name: _value(f.type) for f in fields},
    }
    if "name" in schema["properties"]:
        schema["properties"]["name"]["pattern"] = r"\S"
    for key in {"operator", "of"} & schema["properties"].keys():
        schema["properties"][key]["pattern"] = r"^$|\S"  # not blank
    if part is Rule:
        schema["oneOf"] = [{"required": ["by"]}, {"required": ["to"]}]
        schema["if"] = {"properties": {"action": {"const": RuleAction.SCALE_OUT.value}}}
        schema["then"] = {"not": {"required": ["never-below"]}}
        schema["else"] = {"not": {"required": ["never-above"]}}
    if part is Trigger:
        schema["oneOf"] = [{"required": ["above"]}, {"required": ["below"]}]
        # a single reading cannot fire a rule
        schema["not"] = {"required": ["for-at-least", "in-at-least"]}
        schema["anyOf"] = [{"required": [key]} for key in ("measure", "for-at-least", "in-at-least")]
        schema["properties"]["metric"]["enum"] = [CPU, *(metric.key for metric in Metric)]
    if part is BoundsRule:
        schema["anyOf"] = [{"required": ["at-least"]}, {"required": ["at-most"]}]
        schema["dependentRequired"] = {"from": ["until"], "until": ["from"]}
    return schema


def _value(annotation: Any) -> dict[str, Any]:
    schema = dict(_bare_value(bare_type(annotation)))
    for meta in getattr(annotation, "__metadata__", ()):
        schema["description"] = meta.description
    return schema


def _bare_value(kind: Any) -> dict[str, Any]:
    if kind in SCALARS:
        found: dict[str, Any] = kind.SCHEMA
        return found
    if kind is str:
        return {"type": "string"}
    if kind is int:
        return {"type": "integer", "minimum": 1, "maximum": LARGEST_SIZE}
    if kind is RuleAction:
        return {"enum": [action.value for action in RuleAction]}
    if kind == tuple[Weekday, ...]:
        names = list(DAYS)
        return {"anyOf": [{"enum": names}, {"type": "array", "minItems": 1, "items": {"enum": names}}]}
    return {"type": "array", "minItems": 1, "items": _ref("Condition")}
