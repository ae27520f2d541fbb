"""Documents are run: every command in them works, and every link between them leads somewhere."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from nandlab.cli import main

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", ROOT / "ARCHITECTURE.md", ROOT / "CONTRIBUTING.md"]
PAGES += sorted((ROOT / "docs").glob("*.md"))
CONSOLE = re.compile(r"^```console\n(.*?)^```", re.MULTILINE | re.DOTALL)
SAVED = re.compile(
    r"\b[Ss]ave (?:this|it) as `(out/[^`]+)`:\n\n```[a-z]+\n(.*?)^```", re.MULTILINE | re.DOTALL
)
LINK = re.compile(r"\]\(([^)#:]+)\)")


def commands(page: Path) -> list[str]:
    blocks = CONSOLE.findall(page.read_text(encoding="utf-8").replace("\\\n", ""))
    return [line[2:] for block in blocks for line in block.splitlines() if line.startswith("$ ")]


def test_the_readme_holds_commands() -> None:
    assert len(commands(ROOT / "README.md")) >= 4


def test_the_first_hour_saves_what_it_runs() -> None:
    page = ROOT / "docs" / "first-hour.md"
    saved = [name for name, _ in SAVED.findall(page.read_text(encoding="utf-8"))]
    text = " ".join(commands(page))
    assert len(saved) == 4
    assert all(name in text for name in saved)


@pytest.mark.parametrize(
    "page", [page for page in PAGES if commands(page)], ids=lambda page: page.name
)
def test_commands_work(page: Path, tmp_path: Path) -> None:
    """The commands of a page work one after the other; only their output folder is elsewhere.

    Files that the reader is told to save are there before the first of them.
    """
    for name, text in SAVED.findall(page.read_text(encoding="utf-8")):
        (tmp_path / Path(name).name).write_text(text, encoding="utf-8")
    for command in commands(page):
        command = command.replace("$PWD", str(ROOT)).replace("out/", f"{tmp_path}/")
        words = shlex.split(command)
        assert words[0] == ".venv/bin/nandlab"
        words[:1] = [sys.executable, "-m", "nandlab"]
        done = subprocess.run(
            words,
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=1800,
            check=False,
            env=os.environ,
        )
        assert done.returncode == 0, f"{command}\n{done.stderr}"
        assert done.stdout, command


def test_the_study_of_the_page_on_studies_runs(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "studies.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```toml\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    (study,) = (block for block in blocks if 'name = "my-card"' in block)
    (tmp_path / "my-card.toml").write_text(study, encoding="utf-8")
    out = tmp_path / "out"
    assert main(["run", str(tmp_path / "my-card.toml"), "--out", str(out)]) == 0
    named = re.search(r"^Beside `results.csv`.*?\n\n", page + "\n\n", re.MULTILINE | re.DOTALL)
    assert named is not None
    for name in re.findall(r"`([a-z]+\.csv)`", named.group()):
        assert (out / name).is_file()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    for target in LINK.findall(page.read_text(encoding="utf-8")):
        assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_make_targets_of_the_readme_exist() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in re.findall(
        r"(?:^|`)make ([a-z-]+)", (ROOT / "README.md").read_text("utf-8"), re.MULTILINE
    ):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target
    assert "make test" in (ROOT / ".ci" / "run").read_text(encoding="utf-8")


def test_the_index_names_every_page() -> None:
    index = ROOT / "docs" / "index.md"
    named = {(index.parent / target).resolve() for target in LINK.findall(index.read_text("utf-8"))}
    pages = set((ROOT / "docs").glob("*.md")) - {index}
    assert {page.name for page in pages if page not in named} == set()
    assert "docs/index.md" in LINK.findall((ROOT / "README.md").read_text(encoding="utf-8"))


def test_the_glossary_is_sorted() -> None:
    page = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")
    terms = re.findall(r"^- \*\*(.+?)\*\*: ", page, re.MULTILINE)
    assert len(terms) >= 50
    assert terms == sorted(terms, key=str.lower)
