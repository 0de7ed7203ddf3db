"""README, CONTRIBUTING and docs/ name only links, anchors, source paths, commands and options that exist."""

from __future__ import annotations

import importlib
import re
import shlex
import unicodedata
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer.main

import ebbflow.testing
from ebbflow.cli import main as cli
from ebbflow.options import Configuration

ROOT = Path(__file__).resolve().parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
FENCE = re.compile(r"^ *```(\w*)[^\n]*\n(.*?)^ *```", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
INLINE = re.compile(r"`([^`\n]+)`")
SOURCE_PATH = re.compile(r"[\w.\-/]*(\.py|/)")
NOT_SOURCE_PATHS = {
    "/json/",  # of a Spark master's web port
    "DIR/agent/listeners/",
    "node/node-cpu/APPLICATION/",  # topics of agents
    "host/host-cpu/",
    "src/ebbflow/strategies/batch_ratio.py",  # what CONTRIBUTING lets a reader add
    "tests/strategies/test_batch_ratio.py",
    "src/ebbflow/guards/growing.py",
    "tests/guards/test_growing.py",
    "src/ebbflow/targets/pool.py",
    "tests/targets/test_pool.py",
}
MODULES_ON_PAGE = {"ebbflow.errors", "ebbflow.core.parameters"}


def prose(text: str) -> str:
    """A page without its code blocks."""
    return FENCE.sub("", text)


def anchors(text: str) -> set[str]:
    """The anchors of a page's headings, as Python-Markdown and GitHub make them."""
    found = set()
    for heading in re.findall(r"^#+ +(.+)$", prose(text), re.MULTILINE):
        plain = unicodedata.normalize("NFKD", LINK.sub("", heading)).encode("ascii", "ignore").decode()
        found.add(re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", plain).strip().lower()))
    return found


def broken_links(page: Path, text: str) -> list[str]:
    """Relative links and pictures whose file or anchor does not exist."""
    broken = []
    for link in LINK.findall(prose(text)):
        if re.match(r"[a-z]+:", link):
            continue
        name, _, anchor = link.partition("#")
        target = page.parent / name if name else page
        if name and not target.exists():
            broken.append(link)
            continue
        if anchor and anchor not in anchors(target.read_text() if name else text):
            broken.append(link)
    return broken


def missing_paths(text: str) -> list[str]:
    """Paths in backticks that end in ``.py`` or ``/`` and are neither in src/ebbflow nor in the repository."""
    return [
        name
        for name in INLINE.findall(prose(text))
        if SOURCE_PATH.fullmatch(name)
        and name not in NOT_SOURCE_PATHS
        and not any((folder / name).exists() for folder in (ROOT / "src" / "ebbflow", ROOT))
    ]


def named_commands(text: str) -> Iterator[list[str]]:
    """The words after ``ebbflow`` of each command in a code block without a language, or in backticks."""
    blocks = "\n".join(block for language, block in FENCE.findall(text) if not language)
    lines = blocks.replace("\\\n", " ").splitlines()
    for command in [line.strip() for line in lines] + INLINE.findall(prose(text)):
        if command.startswith("ebbflow "):
            try:
                words = shlex.split(command, comments=True)
            except ValueError:
                words = command.split()
            yield words[1:]


def wrong_commands(text: str) -> list[str]:
    """Commands that do not exist, and options that their command does not have."""
    wrong = []
    for words in named_commands(text):
        command: Any = typer.main.get_group(cli.app)
        options = _options(command)
        for word in words:
            if word.startswith("--") and word != "--":
                if word.split("=")[0].rstrip("…") not in options:
                    wrong.append(f"{command.name} {word}")
            elif re.fullmatch(r"[a-z][a-z-]*", word) and hasattr(command, "commands"):
                if word not in command.commands:
                    wrong.append(word)
                    break
                command = command.commands[word]
                options |= _options(command)
    return wrong


def _options(command: Any) -> set[str]:
    return {name for each in command.params for name in (*each.opts, *each.secondary_opts)} | {"--help"}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_paths_and_commands_of_the_docs_exist(page: Path) -> None:
    text = page.read_text()
    assert broken_links(page, text) == []
    assert missing_paths(text) == []
    assert wrong_commands(text) == []


def test_a_broken_link_or_anchor_is_found() -> None:
    page = ROOT / "docs" / "page.md"
    text = "# A page\n\n[a](index.md) [b](no.md) [c](#a-page) [d](#no) [e](index.md#no) ![f](no.png) [g](https://a.b)"
    assert broken_links(page, text) == ["no.md", "#no", "index.md#no", "no.png"]


def test_a_stale_source_path_is_found() -> None:
    text = "`runs/score.py` `targets/spark/` `tests/test_docs.py` `bench/score.py` `pipelines/` `score()` `/json/`"
    assert missing_paths(text) == ["bench/score.py", "pipelines/"]


def test_a_wrong_command_or_option_is_found() -> None:
    text = """`ebbflow simulate --load 'constant(5)'`, `ebbflow simulat` and ebbflow everywhere

```
ebbflow policy check FILE   # --fine
ebbflow policy mend FILE
ebbflow replay run.jsonl \\
    --nods 1:2
```
"""
    assert wrong_commands(text) == ["mend", "replay --nods", "simulat"]


def test_the_configuration_of_the_tutorial_is_valid(tmp_path: Path) -> None:
    (example,) = [
        block
        for language, block in FENCE.findall((ROOT / "docs" / "tutorial.md").read_text())
        if language == "toml"
    ]
    file = tmp_path / "ebbflow.toml"
    file.write_text(example)
    configured = Configuration.read(file)
    assert str(configured["executors"]) == "1:20"
    assert configured["shrink.deadline"] == 60.0


def test_every_public_name_is_on_the_api_page() -> None:
    named = re.findall(
        r"^::: ([\w.]+)$", (ROOT / "docs" / "api.md").read_text(encoding="utf-8"), re.MULTILINE
    )
    on_page = {name.rpartition(".")[2] for name in named}
    public = {*ebbflow.__all__, *ebbflow.testing.__all__} - {"__version__"}
    assert public - on_page == set()
    for name in named:
        module, _, last = name.rpartition(".")
        assert name in MODULES_ON_PAGE or hasattr(importlib.import_module(module), last), name


def test_code_on_the_pages_imports_what_the_api_page_calls_public() -> None:
    api = INLINE.findall((ROOT / "docs" / "api.md").read_text(encoding="utf-8"))
    imported = re.compile(r"(?:from (ebbflow[\w.]*) import ([\w, ]+|\*)|import (ebbflow[\w.]*))")
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]:
        for whole, names, alone in imported.findall(page.read_text(encoding="utf-8")):
            module = whole or alone
            assert module in {"ebbflow", *api} or module.startswith("ebbflow.papers."), (
                f"{page.name}: {module}"
            )
            found = importlib.import_module(module)
            for name in names.split(", ") if names not in ("", "*") else ():
                assert module != "ebbflow" or name in ebbflow.__all__, f"{page.name}: {name}"
                assert hasattr(found, name), f"{page.name}: {module} has no {name}"


def test_the_tutorial_explains_every_column_that_simulate_prints(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    arguments = ("simulate", "--load", "constant(10)", "--seconds", "1m", "--strategy", "static")
    monkeypatch.setattr("sys.argv", ["ebbflow", *arguments])
    with pytest.raises(SystemExit):
        cli.main()
    printed = re.split(r"\s{2,}", capsys.readouterr().out.splitlines()[0].strip())
    page = (ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8")
    (shown,) = re.findall(r"^#  strategy .*$", page, re.MULTILINE)
    assert re.split(r"\s{2,}", shown) == printed
    rows = re.findall(r"^\| (`.*?) \|", page, re.MULTILINE)
    assert [*printed[:2], *INLINE.findall(" ".join(rows))] == printed
