"""Files with format, version and checksum: any white space is accepted, any other change is not."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from ebbflow.core.checked_file import Document, FileFormat
from ebbflow.errors import InputError


class Counts(Document, frozen=True, kw_only=True, forbid_unknown_fields=True):
    counts: dict[str, float]


COUNTS = FileFormat(
    content=Counts,
    format="counts",
    version=3,
    noun="count file",
    again="count again",
    largest_bytes=2_000_000,
)


def text() -> str:
    return msgspec.json.encode(COUNTS.signed(Counts(counts={"b": 1.5, "a": 2.0}))).decode()


def test_white_space_and_the_order_of_keys_are_no_edit() -> None:
    assert (
        COUNTS.decode(json.dumps(json.loads(text()), indent=3, sort_keys=True), "c.json").counts["b"] == 1.5
    )


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (text()[:-1], "c.json is not a whole count file: .*cut off or edited; use a copy, or count again"),
        ("", "c.json is not a whole count file"),
        (text().replace("1.5", "1.6"), "c.json was edited or damaged: its checksum does not match"),
        (
            text().replace('"version":3', '"version":2'),
            "c.json has version 2, but this Ebbflow reads version 3",
        ),
        (
            text().replace('"counts"', '"other"', 1),
            "c.json is not a count file; use a file that Ebbflow wrote",
        ),
        ("[1]", "c.json is not a count file"),
        ('{"format":"counts","version":3,"counts":{"a":"x"}}', "c.json is not a whole count file: Expected"),
        ("[" * 100_000, "c.json is not a "),
        (" " * 2_000_001, "c.json is too large for a count file; the most is 2 MB"),
    ],
)
def test_any_other_change_is_refused_in_one_line(changed: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=message) as caught:
        COUNTS.decode(changed, "c.json")
    assert "\n" not in str(caught.value)
    file = tmp_path / "c.json"
    file.write_text(changed)
    with pytest.raises(InputError, match=message):
        COUNTS.read(file)


def test_bytes_that_are_no_text_and_files_that_cannot_be_read_are_refused(tmp_path: Path) -> None:
    (tmp_path / "c.json").write_bytes(b'{"format": "\xff"}')
    with pytest.raises(InputError, match=r"c.json is not a whole count file"):
        COUNTS.read(tmp_path / "c.json")
    with pytest.raises(
        InputError, match=r"cannot read the count file .*none.json: no such file or directory"
    ):
        COUNTS.read(tmp_path / "none.json")
