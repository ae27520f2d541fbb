"""The recorded bios of NILFS2 are those of a real kernel: blktrace records them again.

`crates/fs/nilfs2/tests/all/kernel_bios.rs` compares the recordings with the bios of the engine.
To replace them: `NANDLAB_RECORD_BIOS=1 pytest python/tests/test_kernel_bios_nilfs2.py`.
"""

import os
from dataclasses import replace
from pathlib import Path

import pytest

from nandlab.vm import VmUnavailable
from nandlab.vm.block_traces import Bio, from_table, letters, require_bio_traces, to_table
from nandlab.vm.block_traces import trace_bios as trace

DATA = Path(__file__).parents[2] / "crates/fs/nilfs2/tests/data/bios"
SCRIPTS = {script.stem: script for script in sorted(DATA.glob("*.ops"))}
RACES = "races"
"""The script of which only the number of logs of each line is compared, and that not exactly."""

RECORDS = os.environ.get("NANDLAB_RECORD_BIOS") == "1"


def test_letters_are_those_of_blkparse() -> None:
    assert letters(0x1, 4096) == "R"
    assert letters(0x801, 4096) == "RA"
    assert letters(0x2, 4096) == "W"
    assert letters(0xA, 4096) == "WS"
    assert letters(0x800E, 4096) == "FWFS"
    assert letters(0xE, 0) == "FWS"


def test_a_table_comes_back() -> None:
    bios = [
        Bio(2, "mount", "RA", 8, 8),
        Bio(2, "mount", "RA", 16, 8),
        Bio(2, "mount", "R", 24, 8),
        Bio(3, "segctord", "WS", 96, 112),
        Bio(3, "dd", "FWS", 0, 0),
        Bio(3, "dd", "FWS", 0, 0),
    ]
    table = to_table(bios)
    assert len(table.splitlines()) == 1 + 5
    assert from_table(table) == bios


def test_a_kernel_makes_the_recorded_bios(tmp_path: Path) -> None:
    try:
        require_bio_traces()
    except VmUnavailable as reason:
        pytest.skip(str(reason))
    traces = trace(SCRIPTS, tmp_path)
    for name, bios in traces.items():
        recording = DATA / f"{name}.tsv"
        if RECORDS:
            recording.write_text(to_table(bios), encoding="utf-8")
        recorded = from_table(recording.read_text(encoding="utf-8"))
        if name == RACES:
            assert set(_logs(bios)) == set(_logs(recorded))
        else:
            assert _written(bios) == _written(recorded), name
        assert _read_by_files(bios) == _read_by_files(recorded), name


def _written(bios: list[Bio]) -> list[Bio]:
    """Return what is written, with the bios of one log joined.

    How many pages a bio holds depends on which of them follow each other in memory.
    """
    joined: list[Bio] = []
    for bio in bios:
        if "W" not in bio.rwbs:
            continue
        if joined and joined[-1].rwbs == "W":
            first = joined.pop()
            joined.append(replace(bio, sector=first.sector, sectors=first.sectors + bio.sectors))
        else:
            joined.append(bio)
    return joined


def _logs(bios: list[Bio]) -> list[int]:
    """Lines that logs belong to."""
    return [bio.line for bio in bios if bio.rwbs == "WS" and bio.process == "segctord"]


def _read_by_files(bios: list[Bio]) -> list[Bio]:
    """Reads of several blocks. Of metadata, as much is read ahead as there is time for."""
    return [bio for bio in bios if bio.rwbs.startswith("R") and bio.sectors > 8]
