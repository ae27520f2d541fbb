"""What the cuts in real kernels rest on, without a kernel: logs, choices, verdicts, scripts."""

import io
import random
import struct
from pathlib import Path

import pytest

from nandlab.validation import recorded
from tearing_lab import long_run
from tearing_lab.cases import Keeping, Verdict, failed_calls, judge, judge_again
from tearing_lab.chips import ALL_KINDS, KINDS, Recovery, bad_messages, choose_cuts
from tearing_lab.disks import DiskCut, LogError, choose_cut, disk_after, read_log
from tearing_lab.scripts import DIALECTS, CallWriter
from tearing_lab.series import Series

SECTOR = 512


def _log(entries: list[tuple[int, int, int]]) -> bytes:
    """A log of writes (sector, sectors, flags), of bytes of their numbers; flag 8 is a mark."""
    text = struct.pack("<QQQI", 0x6A736677736872, 1, len(entries), SECTOR).ljust(SECTOR, b"\0")
    for number, (sector, sectors, flags) in enumerate(entries, start=1):
        mark = b"made" if flags & 8 else b""
        head = struct.pack("<QQQQ", sector, sectors, flags, len(mark)) + mark
        text += head.ljust(SECTOR, b"\0")
        text += b"" if flags & 12 else bytes([number]) * (sectors * SECTOR)
    return text


ENTRIES = [(0, 4, 0), (0, 0, 8), (8, 2, 0), (10, 1, 0), (0, 1, 1), (4, 32, 0), (0, 8, 4), (9, 1, 2)]


def test_a_log_of_writes_gives_the_disk_after_each_cut() -> None:
    data = io.BytesIO(_log(ENTRIES))
    log = read_log(data.read, data.seek, 0)
    assert (len(log.writes), log.first) == (7, 1)
    disk = disk_after(log, DiskCut(3))
    assert [disk[sector * SECTOR] for sector in (0, 8, 9, 10, 11)] == [1, 3, 3, 4, 0]
    assert disk_after(log, DiskCut(3, left_out=1))[8 * SECTOR] == 0
    part = disk_after(log, DiskCut(4, sectors=3))
    assert [part[sector * SECTOR] for sector in (0, 4, 6, 7)] == [5, 6, 6, 0]
    assert disk_after(log, DiskCut(6))[0] == 0, "a discard leaves zeros"
    with pytest.raises(LogError, match="no log of writes"):
        read_log(io.BytesIO(bytes(1024)).read, io.BytesIO(bytes(1024)).seek, 0)


def test_bios_are_left_out_only_where_no_flush_made_them_durable() -> None:
    data = io.BytesIO(_log(ENTRIES))
    log = read_log(data.read, data.seek, 0)
    draw = random.Random(1)
    cuts = [choose_cut(log, number, draw) for number in range(300)]
    assert {cut.kind for cut in cuts} == {"between-bios", "inside-bio", "bio-left-out"}
    for cut in cuts:
        if cut.left_out is not None:
            later = log.writes[cut.left_out + 1 : cut.writes]
            assert later, "a bio in the middle"
            assert not any(write.is_barrier for write in later)
            assert not log.writes[cut.left_out].flags


def test_a_share_of_the_cuts_falls_into_the_rarer_kinds() -> None:
    counts = [900, 0, 12, 30, 2, 8]
    cuts = [choose_cuts(counts, Path("s.ops"), "s", n, 0, n * 7919) for n in range(100)]
    assert sum(cut.kinds == ALL_KINDS for cut in cuts) == 40
    rare = {cut.kinds for cut in cuts} - {ALL_KINDS}
    assert rare == {1 << kind for kind in (2, 3, 4, 5)}
    for cut in cuts:
        assert cut.number is not None
        share = sum(count for kind, count in enumerate(counts) if cut.kinds >> kind & 1)
        assert 0 <= cut.number < share
    assert len(KINDS) == len(counts)


def test_failed_calls_of_both_sides_are_read_alike() -> None:
    there = ["3\tunlink: No such file or directory (os error 2)", "9\tput: x (os error 95)"]
    here = ["a.ops:3: unlink: ENOENT: no such file or directory", "a.ops:9: put: EOPNOTSUPP: no"]
    assert failed_calls(there) == failed_calls(here) == [(3, "ENOENT"), (9, "EOPNOTSUPP")]
    with pytest.raises(ValueError, match="no call"):
        failed_calls(["nonsense"])


def _verdict() -> Verdict:
    return Verdict("a-1", "6.12", "torn here", 1, "5", "erase", "nothing")


def _blank(folder: Path) -> tuple[Path, Path]:
    image, script = folder / "torn.oob", folder / "torn.ops"
    image.write_bytes(b"\xff" * (2112 * 64 * 16))
    script.write_text("sync\n", encoding="utf-8")
    return image, script


@pytest.mark.usefixtures("engine_is_built")
def test_a_case_that_differs_is_kept_with_its_dump(tmp_path: Path) -> None:
    image, script = _blank(tmp_path)
    recovery = Recovery("a-1", ["row"], ["other"], "WARNING: CPU: 0\n", "no mount")
    keeping = Keeping(tmp_path / "kept")
    verdict = judge(_verdict(), image, {"fs": "jffs2"}, recovery, keeping, script)
    shown = "; ".join(verdict.faults)
    for part in ("no mount", "WARNING", "second mount"):
        assert part in shown
    assert not verdict.ls_equal
    kept = {path.name for path in Path(verdict.kept).iterdir()}
    assert kept >= {"torn.oob.gz", "torn.ops", "dmesg"}
    image.unlink()
    assert judge_again(verdict, {"fs": "jffs2"}) == verdict


@pytest.mark.usefixtures("engine_is_built")
def test_a_case_that_is_equal_can_be_kept_and_judged_again(tmp_path: Path) -> None:
    image, script = _blank(tmp_path)
    root = "d\t0755\t3\t0\t0\t0\t0\t-\t-\t-\t-\t."
    recovery = Recovery("a-1", [root], [root], "")
    options = {"fs": "jffs2", "ecc": "hamming"}
    equal = judge(_verdict(), image, options, recovery, Keeping(tmp_path / "none"), script)
    assert (equal.kept, equal.outcome) == ("", "recovered")
    kept = judge(_verdict(), image, options, recovery, Keeping(tmp_path / "all", True), script)
    assert judge_again(kept, options) == kept
    # What the kernel showed is looked at anew.
    (Path(kept.kept) / "kernel.first.tsv").write_text("other\n", encoding="utf-8")
    assert [fault[:3] for fault in judge_again(kept, options).faults] == ["the", "ls:"]


@pytest.mark.usefixtures("engine_is_built")
def test_a_disk_that_a_lost_write_took_from_both_is_no_difference(tmp_path: Path) -> None:
    image, script = _blank(tmp_path)
    neither = "the first mount failed\nthe second mount failed"
    for kind, error, agrees in [
        ("bio-left-out", neither, True),
        ("inside-bio", neither, False),
        ("bio-left-out", None, False),
        ("bio-left-out", "the second mount failed", False),
    ]:
        verdict = Verdict("a-1", "6.12", "torn here", 1, "5", kind, "prefix")
        recovery = Recovery("a-1", [], [], "", error)
        keeping = Keeping(tmp_path / "kept")
        judged = judge(verdict, image, {"fs": "nilfs2"}, recovery, keeping, script)
        assert (judged.faults == []) == agrees, (kind, error, judged.faults)
        assert (judged.outcome == "neither mounts it") == agrees


def test_messages_of_a_torn_page_are_no_complaint() -> None:
    noise = "jffs2: Data CRC failed on node at 0x1\n[nandsim] warning: read_byte\n"
    assert bad_messages(noise + "ubi0: corrupted PEBs: 0\n") == []
    assert bad_messages("[   11.3]  ? dbg_check_heap+0x9c/0x180 [ubifs]\n") == []
    assert len(bad_messages("UBIFS error (ubi0:0): dbg_check_heap: bad\n")) == 1
    assert len(bad_messages("UBIFS assert failed: x\nWARNING: CPU: 0\n")) == 2


def test_a_long_run_goes_on_where_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = []

    def cut(series: Series) -> tuple[list[Verdict], dict[int, list[str]]]:
        asked.append(series.seed)
        if len(asked) == 2:
            raise KeyboardInterrupt
        return [_verdict()], {}

    monkeypatch.setattr(long_run, "cut_disks", cut)
    monkeypatch.setattr(long_run, "cut_disks_here", lambda series, program: [])
    monkeypatch.setattr(long_run, "build_example", lambda name: Path(name))
    command = ["--out", str(tmp_path), "--cases", "60", "--kernels", "6.12"]
    command += ["--file-systems", "nilfs2"]
    with pytest.raises(KeyboardInterrupt):
        long_run.main(command)
    assert long_run.main(command) == 0
    assert asked == [13000, 13005, 13005, 13010], (
        "the batch that was stopped is made again, no other"
    )
    table = (tmp_path / "results.csv").read_text(encoding="utf-8").splitlines()
    assert len(table) == 4
    assert "3 cases, 0 differ" in capsys.readouterr().out


def test_scripts_have_every_kind_of_inode_and_of_deletion() -> None:
    for name, dialect in DIALECTS.items():
        text = "".join(CallWriter(seed, dialect).write(300) for seed in range(5))
        wanted = ["rename ", "unlink ", "truncate ", "mkdir "]
        wanted += ["mknod ", "symlink ", "link "] if dialect.has_links else []
        wanted += ["setxattr "] if dialect.has_attributes else []
        for call in wanted:
            assert f"\n{call}" in text, (name, call)


def test_the_sums_of_a_long_run_tell_what_differs_from_what_is_lost_alike(tmp_path: Path) -> None:
    plain = {"case": "ubifs-1-2", "kernel": "6.1", "ls_equal": "yes", "shape": "nothing"}
    plain |= {"kind": "program", "faults": "", "findings": ""}
    lost = plain | {"ls_equal": "no"}
    wrong = plain | {"ls_equal": "no", "faults": "a name is missing"}
    noise = plain | {"shape": "random-bits", "findings": "a node is damaged"}
    found = plain | {"findings": "a node is damaged"}
    other = plain | {"case": "jffs2-1-2", "kernel": "6.12"}
    table = tmp_path / "table.csv"
    recorded.write_torn_media([plain, lost, wrong, noise, found, other], table)
    assert table.read_text(encoding="utf-8").splitlines()[1:] == [
        "jffs2,6.12,1,1,0,0,0",
        "ubifs,6.1,5,3,1,1,1",
    ]


def test_the_recorded_tables_are_on_the_page() -> None:
    page = (Path(__file__).parents[2] / "docs/validation.md").read_text(encoding="utf-8")
    assert recorded.sections() in page


def test_scripts_of_a_search_are_cut_in_place_of_drawn_ones(tmp_path: Path) -> None:
    found = tmp_path / "corpus"
    found.mkdir()
    for name, text in (
        ("a", "put a 644 1 1 z 1\n"),
        ("b", "try put b 644 1 1 z 1\numount\nmount -\n"),
        ("c", "concurrent {\nput a 644 1 1 z 1\n} {\nput b 644 1 1 z 1\n}\n"),
        ("d", "try unlink mounted\n"),
    ):
        (found / f"{name}.ops").write_text(text, encoding="utf-8")
    series = Series("ubifs", "6.12", 0, 3, tmp_path / "out", Keeping(tmp_path / "kept"), found)
    written = series.scripts()
    assert [path.read_text(encoding="utf-8") for path in written.values()] == [
        "put a 644 1 1 z 1\n",
        "try unlink mounted\n",
    ]
    assert list(written) == [0, 1]
    drawn = Series("ubifs", "6.12", 0, 8, tmp_path / "drawn", Keeping(tmp_path / "kept"))
    assert len(drawn.scripts()) == 2
    assert "umount" not in drawn.scripts()[0].read_text(encoding="utf-8")


def test_a_folder_without_scripts_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "mounts.ops").write_text("umount\n", encoding="utf-8")
    for extra in ([], ["--record"]):
        if extra:
            (tmp_path / "work.ops").write_text("put a 644 1 1 z 1\n", encoding="utf-8")
        with pytest.raises(SystemExit) as ended:
            long_run.main(["--out", str(tmp_path / "out"), "--scripts", str(tmp_path), *extra])
        assert ended.value.code == 2
        assert ("omit --scripts" if extra else "no .ops file") in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
