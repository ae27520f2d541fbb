"""Every option and list that a message, a help text or a document names is there."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from cyclopts import App

from nandlab.api.listings import KINDS
from nandlab.cli import application

ROOT = Path(__file__).resolve().parents[2]
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z0-9-]*[a-z0-9]")
RUST_TEXT = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL)
RUST_COMMENT = re.compile(r"^\s*//.*$", re.MULTILINE)
RUST_TESTS = re.compile(r"^#\[cfg\(test\)\].*", re.MULTILINE | re.DOTALL)

Command = tuple[str, ...]


def _commands(app: App, head: Command = ()) -> Iterator[tuple[Command, set[str]]]:
    """Every command that can be called, with the names of its options."""
    for name in app:
        if name.startswith("-"):
            continue
        below, chain = app[name], (*head, name)
        if below.default_command is not None:
            names = (
                one for argument in below.assemble_argument_collection() for one in argument.names
            )
            yield chain, {one for one in names if one.startswith("-")} | {"--help"}
        yield from _commands(below, chain)


OPTIONS = dict(_commands(application()))
IMAGE = tuple(command for command in OPTIONS if command[0] == "image")

REACHED_FROM: dict[str, tuple[Command, ...]] = {
    "crates/front/python/src/device_replay": (("replay",),),
    "crates/lab/device_replay": (("replay",),),
    "crates/lab/crash/src": (("crash",),),
    "crates/lab/script_runner/src": (("script",),),
    "crates/lab/image/src": IMAGE,
    "crates/front/python/src/crash.rs": (("crash",),),
    "crates/front/python/src/crash_search.rs": (("crash",),),
    "crates/front/python/src/image.rs": IMAGE,
    "crates/front/python/src/lib.rs": (("replay",),),
    "crates/front/python/src/script.rs": (("script",),),
    "crates/front/python/src/serve.rs": (("serve",),),
    "crates/lab/serve/src": (("serve",),),
    "crates/lab/script/src": (("script",), ("crash",)),
    "crates/lab/study/src/explain.rs": (("explain",),),
    "crates/lab/study/src/overrides.rs": (("run",),),
    "crates/lab/study/src/schedule": (("schedule",),),
    "crates/lab/study/src/single.rs": (("replay",),),
    "crates/lab/trace/src": (("replay",), ("convert",)),
}
"""Commands from which the messages of a file are reached; of all other files `run` and `compare`.

A message may name an option that each of its commands has. Those of `image` share their code: one
of them must have it.
"""

FOREIGN = {
    *("--oob", "--noecc", "--bb", "--skip-all-ffs"),  # nanddump
    *("--workspace", "--test", "--release", "--example"),  # cargo
    "--reverse-bytes",  # objcopy
    *("--exclusive", "--nthreads", "--port"),  # sbatch, dask
    "--table",  # dmsetup
    "--flush",  # nbdcopy
    *("--readonly", "--repair", "--force"),  # btrfs
    *("--bs", "--ioengine", "--runtime", "--rw", "--uri"),  # fio
    "--no-dangling",  # git fsck
}
"""Options of other programs that documents name."""

INTERNAL = (
    "crates/front/guest/src",
    "crates/front/bench/src",
    "scripts",
    "python/nandlab/reproduce.py",
    "python/nandlab/capture_metadata.py",
    "python/tearing_lab/long_run.py",
)
"""Programs with options of their own, which their sources name."""


def _told(path: Path) -> set[str]:
    """Options in what a Rust file says, tests and comments left out."""
    text = RUST_TESTS.sub("", RUST_COMMENT.sub("", path.read_text(encoding="utf-8")))
    return {option for said in RUST_TEXT.findall(text) for option in OPTION.findall(said)}


def _missing(name: str, options: set[str]) -> set[str]:
    """Those of `options` that a command which reaches this file does not have."""
    place = next((one for one in REACHED_FROM if name.startswith(one)), None)
    commands = REACHED_FROM[place] if place else (("run",), ("compare",))
    known = [OPTIONS[command] for command in commands]
    has_all = set.union(*known) if commands == IMAGE else set.intersection(*known)
    return options - has_all - FOREIGN


def test_the_options_are_read_from_the_commands() -> None:
    assert "--address" in OPTIONS[("replay",)]
    assert "--address" not in OPTIONS[("compare",)]
    assert "--hash" in OPTIONS[("image", "ls")]
    assert len(OPTIONS) >= 18


RUST = sorted(
    path.relative_to(ROOT).as_posix()
    for path in (ROOT / "crates").glob("*/*/src/**/*.rs")
    if not any(path.is_relative_to(ROOT / one) for one in INTERNAL)
)


def test_messages_of_the_engine_name_options_of_the_command_that_shows_them() -> None:
    wrong = {name: found for name in RUST if (found := _missing(name, _told(ROOT / name)))}
    assert not wrong


def _known_to_any() -> set[str]:
    """Options of all commands, and those of the project's other programs."""
    known = set.union(*OPTIONS.values()) | {"--version"}
    for place in map(ROOT.joinpath, INTERNAL):
        for path in [place] if place.is_file() else place.rglob("*.*"):
            if path.suffix in (".py", ".rs", ".sh"):
                known |= set(OPTION.findall(path.read_text(encoding="utf-8")))
    return known


@pytest.mark.parametrize("folder", ["python/nandlab", "docs", "."])
def test_messages_and_documents_name_options_that_exist(folder: str) -> None:
    ending = "**/*.py" if folder.startswith("python") else "*.md"
    wrong, known = {}, _known_to_any() | FOREIGN
    for path in sorted((ROOT / folder).glob(ending)):
        if path.name == "CHANGELOG.md" or "/vm/" in path.as_posix():
            continue
        text = path.read_text(encoding="utf-8")
        # Other programs are called with options of their own.
        lines = [line for line in text.splitlines() if not _is_foreign(line)]
        found = set(OPTION.findall("\n".join(lines))) - known
        if found:
            wrong[path.name] = found
    assert not wrong


def _is_foreign(line: str) -> bool:
    words = (
        "cargo ",
        "apt",
        "pip ",
        "maturin",
        "docker",
        "qemu",
        "mkfs.",
        "dpkg",
        "python -m",
        "dkms",
    )
    return any(word in line for word in words)


CALL = re.compile(r"nandlab ((?:image )?[a-z]+(?:-[a-z]+)*)\b([^`\n]*)")


@pytest.mark.parametrize("page", sorted((ROOT / "docs").glob("*.md")), ids=lambda page: page.name)
def test_a_command_in_a_document_has_the_options_that_it_is_given(page: Path) -> None:
    for command, rest in CALL.findall(page.read_text(encoding="utf-8")):
        known = OPTIONS.get(tuple(command.split()))
        if known is None:
            continue
        given = set(OPTION.findall(rest.split("|")[0]))
        assert given <= known | {"--help"}, f"{page.name}: nandlab {command}{rest}"


def test_every_list_that_is_named_exists() -> None:
    named = re.compile(r"nandlab list ([a-z][a-z-]*)")
    files = [*(ROOT / "docs").glob("*.md"), ROOT / "README.md"]
    files += [*(ROOT / "python" / "nandlab").glob("**/*.py"), *map(ROOT.joinpath, RUST)]
    for path in files:
        for kind in named.findall(path.read_text(encoding="utf-8")):
            assert kind in KINDS, f"{path}: nandlab list {kind}"
