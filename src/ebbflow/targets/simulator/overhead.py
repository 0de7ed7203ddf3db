"""What the engine itself takes of a node: dispatching tuples, threads, its own processes (Elysium §5.2, Figure 8)."""

from __future__ import annotations

from dataclasses import dataclass

from ebbflow.errors import InputError


@dataclass(frozen=True, kw_only=True)
class Overhead:
    """CPU of a node that is not its instances': used = idle + (1 + per_core) · Σ CPU of its instances, in cores.

    >>> storm = Overhead(idle_cores=0.4, per_core=0.2)
    >>> storm.used_cores(2.0), storm.left_cores(4)  # 3 cores of instances make four busy
    (2.8, 3.0)
    """

    idle_cores: float = 0.0
    """Taken whatever happens."""
    per_core: float = 0.0
    """Taken for each core that instances use: tuples have to be carried to them and on."""

    def __post_init__(self) -> None:
        if not (self.idle_cores >= 0 and self.per_core >= 0):
            raise InputError(
                f"an overhead of {self.idle_cores:g} cores and {self.per_core:g} a core; both must be 0 or more"
            )

    def used_cores(self, instances_cores: float) -> float:
        """Cores in use where instances use so many."""
        return self.idle_cores + (1.0 + self.per_core) * instances_cores

    def left_cores(self, cores: int) -> float:
        """Cores that instances can use of a node's."""
        return (cores - self.idle_cores) / (1.0 + self.per_core)
