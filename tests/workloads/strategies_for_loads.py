"""Hypothesis strategies that make loads of every shape."""

from __future__ import annotations

from hypothesis import strategies as st

from ebbflow.workloads import (
    Constant,
    Day,
    Load,
    Noise,
    Periodic,
    Sawtooth,
    Scaled,
    Sine,
    Square,
    Stair,
    Step,
    Sum,
)

# not so slow that rows take years, nor so fast that they overflow the counter
rates = st.one_of(st.just(0.0), st.floats(0.01, 1e6))
periods = st.one_of(st.floats(0.001, 1e6), st.integers(1, 86400).map(float))
seeds = st.integers(0, 2**63 - 1)


@st.composite
def _waves(draw: st.DrawFn) -> Load:
    base, peak = sorted((draw(rates), draw(rates)))
    ends = {"base_per_s": base, "peak_per_s": peak}
    period_s = draw(periods)
    kind = draw(st.sampled_from((Step, Stair, Square, Sine, Sawtooth, Day, Periodic)))
    if kind is Step:
        return Step(**ends, at_s=draw(st.floats(0, 1e6)))
    if kind is Stair:
        return Stair(**ends, steps=draw(st.integers(1, 20)), hold_s=period_s)
    if kind is Square:
        return Square(**ends, period_s=period_s, duty=draw(st.floats(0.01, 0.99)))
    if kind is Periodic:
        peaks = draw(st.integers(1, 20))
        return Periodic(**ends, period_s=max(period_s, peaks), peaks=peaks, seed=draw(seeds))
    return kind(**ends, period_s=period_s)


simple_loads = st.one_of(rates.map(lambda rate: Constant(level_per_s=rate)), _waves())

loads = st.recursive(
    simple_loads,
    lambda inner: st.one_of(
        st.lists(inner, min_size=2, max_size=3).map(lambda parts: Sum(parts=tuple(parts))),
        st.builds(Scaled, factor=st.floats(0.1, 10), load=inner),
        st.builds(Noise, load=inner, amount=st.floats(0, 1), seed=seeds),
    ),
    max_leaves=4,
)
