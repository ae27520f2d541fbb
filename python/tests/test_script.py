"""`nandlab script`: counts, files it writes, and what it refuses."""

import json
from pathlib import Path

import pytest

from nandlab.api.scripts import workload_name
from nandlab.cli import main

pytestmark = pytest.mark.usefixtures("engine_is_built")

WORKLOADS = Path(__file__).parents[2] / "workloads" / "raw-nand"
SCRIPT = "phase one\nmount -\nput a 644 20000 4096 x 1 fsync\nsnap /tmp/kept.oob\numount\nphase -\n"


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "some-small-thing.ops"
    path.write_text(SCRIPT, encoding="utf-8")
    return path


def _fails(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    assert main(["script", *(str(one) for one in arguments)]) == 2
    error = capsys.readouterr().err
    assert error.startswith("nandlab: error: ")
    assert error.count("\n") == 1
    return error.removeprefix("nandlab: error: ").rstrip()


def test_all_files_are_written(script: Path, tmp_path: Path) -> None:
    counts, sequence, dump = tmp_path / "counts.csv", tmp_path / "all.seq", tmp_path / "end.oob"
    options = [
        "--fs",
        "jffs2",
        "--blocks",
        "16",
        "--seed",
        "5",
        "--dump-dir",
        str(tmp_path / "kept"),
    ]
    options += ["--counts", str(counts), "--seq", str(sequence), "--dump", str(dump)]
    assert main(["script", str(script), *options]) == 0
    head, row = counts.read_text(encoding="utf-8").splitlines()
    recorded = (WORKLOADS / "counts.csv").read_text(encoding="utf-8").splitlines()[0]
    assert head == recorded
    cells = dict(zip(head.split(","), row.split(","), strict=True))
    assert cells["workload"] == "some/small-thing"
    assert (cells["run"], cells["implementation"]) == ("5", "linux-6.12")
    lines = sequence.read_text(encoding="utf-8").splitlines()
    assert lines[0] == "# phase one"
    assert sum(line[0] in "PQ" for line in lines) == int(cells["programs"])
    assert dump.stat().st_size == 16 * 64 * 2112
    assert (tmp_path / "kept" / "kept.oob").stat().st_size == dump.stat().st_size
    again = tmp_path / "again.ops"
    again.write_text("read a 4096\n", encoding="utf-8")
    assert main(["script", str(again), "--fs", "jffs2", "--image", str(dump)]) == 0


def test_json_and_equal_seeds(script: Path, capsys: pytest.CaptureFixture[str]) -> None:
    answers = []
    for _ in range(2):
        command = ["script", str(script), "--fs", "yaffs2", "--output-format", "json"]
        assert main(command) == 0
        answers.append(json.loads(capsys.readouterr().out)["result"])
    assert answers[0] == answers[1]
    assert answers[0]["phases"][0]["phase"] == "one"
    assert (answers[0]["file_system"], answers[0]["profile"]) == ("yaffs2", "linux-6.1")


def test_calls_that_fail_end_the_script_or_are_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "fails.ops"
    path.write_text("mkdir a 755\nunlink b\nrmdir a\n", encoding="utf-8")
    dump = tmp_path / "dump.oob"
    error = _fails(capsys, path, "--fs", "jffs2", "--dump", dump)
    assert error == f"{path}:2: unlink: ENOENT: no such file or directory"
    assert sorted(found.name for found in tmp_path.iterdir()) == ["fails.ops"]
    assert main(["script", str(path), "--fs", "jffs2", "--keep-going"]) == 0
    assert f"{path}:2: unlink" in capsys.readouterr().err


def test_blocks_are_counted_and_messages_name_their_passes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "blocks.ops"
    path.write_text(
        "mount -\nrepeat 3 {\n  put a 644 4k 4k x 1 fsync\n  try unlink b\n}\n"
        "every 1s for 3s {\n  sleep 1500ms\n}\nfor i in 1..2 { unlink c$i }\n",
        encoding="utf-8",
    )
    assert _fails(capsys, path, "--fs", "jffs2") == (
        f"{path}:9:17 (i=1): unlink: ENOENT: no such file or directory"
    )
    assert main(["script", str(path), "--fs", "jffs2", "--keep-going"]) == 0
    shown = capsys.readouterr()
    assert "script" in shown.out
    told = f"{path}:4 (pass 1): unlink: ENOENT: no such file or directory (3 times)"
    assert told in shown.err
    assert f"{path}:6: 2 of 3 passes began late, by 1000 ms at most" in shown.err
    path.write_text("mount -\nrepeat 3 {\nsnyc\n}\n", encoding="utf-8")
    wrong = _fails(capsys, path, "--fs", "jffs2")
    assert wrong == f"{path}:3:1: `snyc` is no call; did you mean `sync`?"


def test_what_is_refused(script: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "give --fs: fat, jffs2" in _fails(capsys, script)
    wrong = _fails(capsys, script, "--fs", "ubifs", "--vid-hdr-offset", "100")
    assert "a volume identifier header cannot stand at 100" in wrong
    assert "--vid-hdr-offset: -1 must be" in _fails(capsys, script, "--vid-hdr-offset", "-1")
    assert "--fs: there is no file system `ext4`" in _fails(capsys, script, "--fs", "ext4")
    wrong = _fails(capsys, script, "--fs", "jffs2", "--profile", "linux-1.0")
    assert "no profile `linux-1.0`" in wrong
    assert "no board `mine`" in _fails(capsys, script, "--fs", "jffs2", "--board", "mine")
    assert "must be at least 1" in _fails(capsys, script, "--fs", "jffs2", "--blocks", "0")
    image = tmp_path / "short.oob"
    image.write_bytes(bytes(1000))
    assert "whole number of blocks" in _fails(capsys, script, "--fs", "jffs2", "--image", image)
    bad = tmp_path / "bad.ops"
    bad.write_text("sync\ncmd rm -rf /\n", encoding="utf-8")
    assert _fails(capsys, bad, "--fs", "jffs2").startswith(f"{bad}:2:1: `cmd rm -rf /` is not")


def test_the_name_of_a_workload() -> None:
    assert workload_name("some/where/jffs2-base-x.ops") == "jffs2/base-x"
    assert workload_name("plain.ops") == "plain"


def _counts(capsys: pytest.CaptureFixture[str], *arguments: object) -> dict[str, tuple[int, ...]]:
    capsys.readouterr()
    assert main(["script", *(str(one) for one in arguments), "--output-format", "json"]) == 0
    phases = json.loads(capsys.readouterr().out)["result"]["phases"]
    return {one["phase"]: (one["reads"], one["programs"], one["erases"]) for one in phases}


def test_fewer_blocks_are_a_partition_whose_reserve_is_that_of_the_chip(
    capsys: pytest.CaptureFixture[str],
) -> None:
    counts = _counts(capsys, WORKLOADS / "ubifs-gc-x.ops", "--blocks", "64")
    assert counts["ubiformat"] == (64, 190, 64)
    assert counts["attach-first"] == (150, 0, 0)
    assert counts["first-mount"] == (198, 17, 0), "54 erase blocks are the volume's, not 61"


def test_headers_of_ubi_stand_where_a_line_or_the_option_says(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script, dump = tmp_path / "ubi.ops", tmp_path / "ubi.oob"
    script.write_text("put a 644 20000 4096 x 1\n", encoding="utf-8")
    options = ["--fs", "ubifs", "--vid-hdr-offset", "2048"]
    _counts(capsys, script, *options, "--dump", dump)
    page = 2048 + 64
    assert dump.read_bytes()[page : page + 4] == b"UBI!"
    script.write_text("read a 4096\n", encoding="utf-8")
    # An image of UBI says where its headers stand; an option that says otherwise is a wrong one.
    told = _counts(capsys, script, *options, "--image", dump)
    assert _counts(capsys, script, "--fs", "ubifs", "--image", dump) == told
    elsewhere = ["--fs", "ubifs", "--vid-hdr-offset", "512"]
    wrong = _fails(capsys, script, *elsewhere, "--image", dump)
    assert "attach with header offset 2048" in wrong
    script.write_text("cmd ubiattach -m 0 -d 0 -O 2048 /dev/ubi_ctrl\nmount -\nread a 4096\n")
    _counts(capsys, script, "--fs", "ubifs", "--image", dump)


def test_a_part_of_a_file_costs_the_pages_that_it_lies_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script = tmp_path / "parts.ops"

    def reads(line: str) -> int:
        text = f"put a 644 200k 4096 x 1\numount\nmount -\nphase read\n{line}\nend\n"
        script.write_text(f"mount -\n{text}umount\n", encoding="utf-8")
        return _counts(capsys, script, "--fs", "yaffs2")["read"][0]

    none, part, whole = reads("read a 4096 64k 0"), reads("read a 4096 64k 20k"), reads("read a 4k")
    assert none == reads("read a 4096 1m 4096")
    # Ten pages were asked for, and Linux reads ahead.
    assert 10 <= part - none <= 30
    assert whole - none == 100


def test_bytes_of_a_line_are_those_of_the_file(tmp_path: Path) -> None:
    script, dump = tmp_path / "bytes.ops", tmp_path / "bytes.oob"
    script.write_text("put a 644 4 3 h 00ff6162 fsynceach\nappend a 1 1 h 63\n", encoding="utf-8")
    assert main(["script", str(script), "--fs", "yaffs2", "--dump", str(dump)]) == 0
    assert main(["image", "extract", str(dump), str(tmp_path / "tree")]) == 0
    assert (tmp_path / "tree/a").read_bytes() == b"\x00\xffabc"
