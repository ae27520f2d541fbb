"""The reader of UBIFS's journal, on chips of a kernel and on those that are written here."""

import subprocess
from pathlib import Path

import pytest
from test_kernel_journal_ubifs import SCRIPT
from ubifs_journal import JournalNode, differences, journal

from nandlab.cli import main

GOLDEN = Path(__file__).parents[2] / "crates" / "fs" / "ubi" / "tests" / "data"

KERNEL_MARKS = {
    ("entry", "in a group"),
    ("attribute", "in a group"),
    ("inode", "in a group"),
    ("inode", "last of a group"),
    ("truncation", "in a group"),
    ("truncation", "last of a group"),
    ("data", "last of a group"),
    ("data", "alone"),
    ("padding", "alone"),
}
"""Kinds of nodes with their group markers, as kernels write them; only a block that is cut with its
file is in a group."""


def _golden(name: str) -> bytes:
    try:
        command = ["zstd", "-qdc", str(GOLDEN / f"{name}.oob.zst")]
        return subprocess.run(command, check=True, capture_output=True).stdout
    except FileNotFoundError:
        pytest.skip("zstd is not installed")


def _marks(nodes: list[JournalNode]) -> set[tuple[str, str]]:
    return {(node.kind, node.group) for node in nodes}


def _groups_end(nodes: list[JournalNode]) -> bool:
    """Whether each group has its last node before another node without one."""
    is_open = False
    for node in nodes:
        if node.group == "alone" and is_open:
            return False
        is_open = node.group == "in a group"
    return not is_open


@pytest.mark.parametrize(("name", "count"), [("ubifs-unclean", 185), ("ubifs-cut1", 29)])
def test_the_journal_of_a_kernel_is_read(name: str, count: int) -> None:
    nodes = journal(_golden(name))
    assert len(nodes) == count
    assert _marks(nodes) <= KERNEL_MARKS
    names = [dict(node.fields)["name"] for node in nodes if node.kind == "entry"]
    assert len(names) >= 4
    assert all(names)


def test_a_journal_that_a_commit_took_in_is_empty() -> None:
    assert journal(_golden("ubifs-clean")) == []


@pytest.mark.usefixtures("engine_is_built")
def test_nodes_written_here_have_the_marks_of_a_kernel(tmp_path: Path) -> None:
    script = tmp_path / "journal.ops"
    script.write_text(SCRIPT, encoding="utf-8")
    command = ["script", str(script), "--fs", "ubifs", "--blocks", "64"]
    command += ["--dirty-writeback-centisecs", "360000", "--dump-dir", str(tmp_path / "kept")]
    assert main(command) == 0
    dumps = {path.name: path.read_bytes() for path in (tmp_path / "kept").iterdir()}
    assert sorted(dumps) == ["changed.oob", "new.oob"]
    for name, dump in dumps.items():
        nodes = journal(dump)
        assert len(nodes) > 20, name
        assert _marks(nodes) <= KERNEL_MARKS, name
        assert _groups_end(nodes), name
        assert differences(nodes, nodes) == [], name
    kinds = {node.kind for dump in dumps.values() for node in journal(dump)}
    assert kinds == {"inode", "data", "entry", "attribute", "truncation", "padding"}


def test_what_differs_is_told() -> None:
    nodes = journal(_golden("ubifs-cut1"))
    (first, *rest) = nodes
    other = JournalNode(**{**vars(first), "group": "alone"})
    (left, right) = differences(nodes, [other, *rest])
    assert left.startswith("- LEB 11:73728: entry of 68 bytes, in a group")
    assert right.startswith("+ LEB 11:73728: entry of 68 bytes, alone")
    assert differences(nodes, nodes[:-1])[1] == "+ nothing"
    assert differences(nodes, nodes[::-1]) == ["the log names eraseblocks in another order"]


def test_what_is_no_file_system_is_refused() -> None:
    with pytest.raises(ValueError, match="no master node"):
        journal(b"\xff" * (64 * 2112))
