"""Labels of a scatter plot: none overlap, none are outside, and each is near its point if possible."""

from __future__ import annotations

import json
import random
import shutil
import subprocess
from pathlib import Path

import pytest

import ebbflow.report

SCRIPT = (Path(ebbflow.report.__file__).parent / "static" / "labels.js").read_text()
NODE = shutil.which("node")
pytestmark = pytest.mark.skipif(NODE is None, reason="there is no node to run the page's script with")


def places(points: list[dict[str, float]], width: float = 970.0, height: float = 340.0):
    program = f"{SCRIPT}\nconsole.log(JSON.stringify(placeLabels({json.dumps(points)}, {width}, {height})))"
    result = subprocess.run([NODE, "-e", program], capture_output=True, text=True, timeout=30, check=True)
    return json.loads(result.stdout)


def boxes(points, found):
    return [(p["x"] + f["dx"], p["y"] + f["dy"], p["w"], p["h"]) for p, f in zip(points, found, strict=True)]


def overlap(a, b) -> bool:
    return abs(a[0] - b[0]) * 2 < a[2] + b[2] - 1e-9 and abs(a[1] - b[1]) * 2 < a[3] + b[3] - 1e-9


def point(x: float, y: float, letters: int = 9) -> dict[str, float]:
    return {"x": x, "y": y, "w": 7.0 * letters, "h": 16.0}


def test_a_single_point_has_its_label_above_it() -> None:
    assert places([point(400, 200)]) == [{"dx": 0, "dy": -17, "far": False}]


def test_thirteen_strategies_that_did_the_same_are_all_readable() -> None:
    points = [point(300 + 3 * i, 320, letters=4 + i) for i in range(13)]
    found = places(points)
    placed = boxes(points, found)
    for i, one in enumerate(placed):
        assert not any(overlap(one, other) for other in placed[:i])
        assert not any(overlap(one, (p["x"], p["y"], 13, 13)) for j, p in enumerate(points) if j != i)
        assert one[0] - one[2] / 2 >= 0
        assert one[0] + one[2] / 2 <= 970
        assert 0 <= one[1] - one[3] / 2 <= one[1] + one[3] / 2 <= 340
    assert any(place["far"] for place in found), "some are so far that a line joins them"


def test_labels_of_random_boards_do_not_overlap_and_are_placed_the_same_again() -> None:
    rng = random.Random(3)
    points = [point(rng.uniform(60, 900), rng.uniform(20, 320), rng.randint(3, 16)) for _ in range(14)]
    found = places(points)
    placed = boxes(points, found)
    assert not any(overlap(a, b) for i, a in enumerate(placed) for b in placed[:i])
    assert places(points) == found


def test_every_point_gets_a_label_even_without_space() -> None:
    assert len(places([point(5, 5, 30), point(6, 5, 30)], width=40, height=20)) == 2
