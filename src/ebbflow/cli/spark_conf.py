"""``--conf spark.some.key=value``, as often as one likes."""

from __future__ import annotations

from collections.abc import Iterable

from ebbflow.errors import InputError


def spark_conf(pairs: Iterable[str]) -> dict[str, str]:
    """The settings by their keys.

    >>> spark_conf(["spark.executor.cores=2"])
    {'spark.executor.cores': '2'}
    """
    settings = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key.startswith("spark."):
            raise InputError(f"--conf {pair} is not a Spark setting; write --conf spark.some.key=value")
        settings[key] = value
    return settings
