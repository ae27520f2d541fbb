"""Candidates side by side: the table, the words, the folder, and what is refused."""

import csv
import json
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from nandlab.cli import main
from nandlab.comparison.request import read_workload
from nandlab.comparison.study import toml
from nandlab.comparison.view import View, size, years
from nandlab.comparison.words import sentence, verdict_line
from nandlab.errors import NandlabError
from nandlab.results import StudyResult, Table
from nandlab.terminal.comparison_table import table_cells
from nandlab.verdicts.comparison import judge
from nandlab.verdicts.wording import large_size

SCRIPT = """mkdir d 755
putn d/f 0 12 644 6000 2000 x 1
put new 644 5000 1000 t 2 fsync
rename new d/f00000
sync
drop
read d/f00000 4096
"""
SHIPPED = Path(__file__).resolve().parents[2] / "workloads" / "compare"


@pytest.fixture
def workload(tmp_path: Path) -> Path:
    (tmp_path / "work.ops").write_text(SCRIPT)
    path = tmp_path / "my.toml"
    path.write_text('[workload]\nkind = "script"\nfile = "work.ops"\n')
    return path


def _prints(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(("compare", *arguments)) == 0, capsys.readouterr().err
    return capsys.readouterr().out


@pytest.mark.usefixtures("engine_is_built")
def test_file_systems_end_in_a_table_a_sentence_each_and_a_verdict(
    capsys: pytest.CaptureFixture[str], workload: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    given = ("--fs", "jffs2,yaffs2,UBIFS", "--part", "K9F2G08U0B", "--blocks", "128")
    shown = _prints(capsys, *given, "--workload", str(workload), "--out", str(out))
    head = next(line for line in shown.splitlines() if "JFFS2" in line)
    assert head.split() == ["JFFS2", "YAFFS2", "UBIFS"]
    for row in ("throughput", "99 % of calls within", "mount after a power cut", "RAM of its"):
        assert row in shown
    for name in ("JFFS2", "YAFFS2", "UBIFS"):
        assert any(line.startswith(f"{name}: ") for line in shown.splitlines()), name
    assert "after fsync, file by file" in " ".join(shown.split())
    assert "No single winner: for " in shown or "Take " in shown
    manifest = json.loads((out / "manifest.json").read_text())
    assert manifest["command"].startswith("nandlab compare --fs jffs2,yaffs2,UBIFS --workload ")
    assert str(tmp_path) not in json.dumps(manifest["study"])
    assert (out / "report.html").is_file()
    # The folder repeats itself, on one worker.
    again = tmp_path / "again"
    assert main(("run", str(out / "comparison.toml"), "--jobs", "1", "--out", str(again))) == 0
    assert (
        json.loads((again / "manifest.json").read_text())["results_digest"]
        == (manifest["results_digest"])
    )


@pytest.mark.usefixtures("engine_is_built")
def test_only_those_on_a_block_device_have_a_column_for_each_scheduler(
    capsys: pytest.CaptureFixture[str], workload: Path
) -> None:
    given = ("--fs", "yaffs2,nilfs2", "--scheduler", "noop,cfq", "--blocks", "160")
    shown = _prints(capsys, *given, "--workload", str(workload))
    head = next(line for line in shown.splitlines() if "NILFS2" in line)
    assert head.split() == ["YAFFS2", "NILFS2", "noop", "NILFS2", "cfq"]
    assert "no scheduler changes anything for YAFFS2" in shown


@pytest.mark.usefixtures("engine_is_built")
def test_file_systems_on_block_devices_meet_layers_in_cards(
    capsys: pytest.CaptureFixture[str], workload: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    given = ("--fs", "fat,yaffs2", "--ftl", "bast,page", "--blocks", "512", "--out", str(out))
    shown = _prints(capsys, *given, "--workload", str(workload))
    head = next(line for line in shown.splitlines() if "FAT" in line)
    assert head.split() == ["FAT", "on", "BAST", "FAT", "on", "page", "mapping", "YAFFS2"]
    assert "RAM in the card" in shown
    assert "not looked at" in shown
    assert "a card is one die of the part" in " ".join(shown.split())
    again = tmp_path / "again"
    assert main(("run", str(out / "comparison.toml"), "--jobs", "1", "--out", str(again))) == 0
    digests = [
        json.loads((folder / "manifest.json").read_text())["results_digest"]
        for folder in (out, again)
    ]
    assert digests[0] == digests[1]


@pytest.mark.usefixtures("engine_is_built")
def test_iozone_and_traces_are_compared_too(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "iozone.toml"
    path.write_text(
        'repeats = 2\n[workload]\nkind = "iozone"\noptions = "-i 0 -i 1 -s 512k -r 4k -e"\n'
        "[flash]\nfill_percent = 20\n"
    )
    shown = _prints(capsys, "--fs", "jffs2,ubifs", "--blocks", "160", "--workload", str(path))
    assert "write amplification" in shown
    trace = str(SHIPPED / "copy-files.toml")
    shown = _prints(capsys, "--ftl", "bast,page", "--workload", trace)
    assert "every write that returned" in " ".join(shown.split())
    assert "BAST: programming pages takes" in shown


@pytest.mark.usefixtures("engine_is_built")
def test_a_sample_of_power_cuts_keeps_the_guarantees(
    capsys: pytest.CaptureFixture[str], workload: Path
) -> None:
    given = ("--fs", "jffs2,yaffs2", "--blocks", "128", "--crash", "--workload", str(workload))
    shown = _prints(capsys, *given)
    lines = [line.split() for line in shown.splitlines()]
    cuts = [line for line in lines if line[:1] in (["jffs2"], ["yaffs2"])]
    assert [line[0] for line in cuts] == ["jffs2", "yaffs2"]
    assert all(int(line[1]) >= 40 and line[3] == "0" for line in cuts), cuts


@pytest.mark.usefixtures("engine_is_built")
def test_a_flash_too_small_is_told_not_hidden(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "large.ops").write_text("put a 644 30m 32k x 1\n")
    path = tmp_path / "large.toml"
    path.write_text('[workload]\nkind = "script"\nfile = "large.ops"\n')
    shown = _prints(capsys, "--fs", "jffs2,yaffs2", "--blocks", "128", "--workload", str(path))
    assert "no space was left" in shown
    assert "No winner: the flash is too small" in shown


BAD_FILES = [
    ("", ["[workload]", "kind"]),
    ("[workload\n", ["docs/compare.md"]),
    ("[wrkload]\n", [":1:", "wrkload", "did you mean workload?"]),
    ('[workload]\nkind = "scirpt"\n', [":2:", "did you mean script?"]),
    ('[workload]\nkind = "script"\n', ["needs `file`"]),
    ('[workload]\nkind = "script"\nfile = "no.ops"\n', [":3:", "there is no", "no.ops"]),
    ('[workload]\nkind = "iozone"\noptions = "-i 0"\nfile = "a"\n', [":4:", "options", "file"]),
    ('[workload]\nkind = "iozone"\noption = "-i 0"\n', [":3:", "did you mean options?"]),
    ('[workload]\nkind = "iozone"\noptions = "-i 99"\n', ["99"]),
    ('[workload]\nkind = "iozone"\noptions = "-i 0"\n[flash]\nfull = 3\n', [":5:", "fill_percent"]),
    ('repeats = 0\n[workload]\nkind = "iozone"\noptions = "-i 0"\n', [":1:", "from 1 on"]),
    ("workload = 3\n", [":1:", "must be a table"]),
]


@pytest.mark.usefixtures("engine_is_built")
@pytest.mark.parametrize(("text", "expected"), BAD_FILES)
def test_a_wrong_workload_file_is_refused_by_line_and_key(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, text: str, expected: list[str]
) -> None:
    path = tmp_path / "my.toml"
    path.write_text(text)
    assert main(("compare", "--fs", "jffs2", "--workload", str(path))) == 2
    message = capsys.readouterr().err
    for part in ("nandlab: error: ", str(path), *expected):
        assert part in message
    assert "nandlab-compare-" not in message


@pytest.mark.usefixtures("engine_is_built")
@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ((), ["two runs", "--fs", "--workload"]),
        (("run",), ["the second run"]),
        (("run", "run", "--fs", "jffs2"), ["--fs", "leave out"]),
        (("--fs", "jfs2", "--workload", "w"), ["--fs", "did you mean jffs2?"]),
        (("--fs", "jffs2,jffs2", "--workload", "w"), ["--fs", "twice"]),
        (("--fs", "jffs2"), ["--workload"]),
        (("--fs", "jffs2", "--workload", "no.toml"), ["no.toml", "workloads/compare"]),
        (("--fs", "jffs2", "--ftl", "bast"), ["--ftl", "none of jffs2", "nilfs2"]),
        (
            ("--ftl", "bast", "--scheduler", "noop"),
            ["--scheduler", "name file systems", "leave out"],
        ),
        (("--ftl", "bats", "--workload", "w"), ["--ftl", "did you mean bast?"]),
        (("--fs", "nilfs2", "--scheduler", "cqf", "--workload", "W"), ["did you mean cfq?"]),
        (("--ftl", "bast", "--workload", "W"), ["kind script", "--fs"]),
        (("--fs", "jffs2", "--workload", "W", "--part", "K9F2G08U0X"), ["did you mean k9f2g08u0"]),
        (("--fs", "jffs2", "--workload", "W", "--board", "s5pv21"), ["s5pv210-datasheet"]),
        (("--fs", "jffs2", "--workload", "W", "--blocks", "0"), ["--blocks 0"]),
        (("--fs", "jffs2", "--workload", "W", "--jobs", "0"), ["--jobs 0"]),
        (("--fs", "jffs2", "--workload", "I", "--crash"), ["--crash", "scripts"]),
    ],
)
def test_wrong_options_are_refused_with_a_suggestion(
    capsys: pytest.CaptureFixture[str],
    workload: Path,
    tmp_path: Path,
    arguments: tuple[str, ...],
    expected: list[str],
) -> None:
    iozone = tmp_path / "iozone.toml"
    iozone.write_text('[workload]\nkind = "iozone"\noptions = "-i 0"\n')
    files = {"W": str(workload), "I": str(iozone)}
    assert main(("compare", *(files.get(word, word) for word in arguments))) == 2
    message = capsys.readouterr().err
    for part in ("nandlab: error: ", *expected):
        assert part in message


@pytest.mark.usefixtures("engine_is_built")
def test_a_line_of_the_script_that_mounts_is_named_in_the_users_words(
    capsys: pytest.CaptureFixture[str], workload: Path, tmp_path: Path
) -> None:
    (tmp_path / "work.ops").write_text("put a 644 1 1 x 1\numount\n")
    assert main(("compare", "--fs", "jffs2", "--workload", str(workload))) == 2
    message = capsys.readouterr().err
    assert str(tmp_path / "work.ops") in message
    assert "line 2" in message


@pytest.mark.usefixtures("engine_is_built")
def test_a_folder_that_is_no_run_is_left_alone(
    capsys: pytest.CaptureFixture[str], workload: Path, tmp_path: Path
) -> None:
    assert (
        main(("compare", "--fs", "jffs2", "--workload", str(workload), "--out", str(tmp_path))) == 2
    )
    assert "not a run of nandlab" in capsys.readouterr().err


@pytest.mark.parametrize("path", sorted(SHIPPED.glob("*.toml")), ids=lambda path: path.stem)
def test_shipped_workload_files_are_right(path: Path) -> None:
    assert read_workload(path).kind in ("script", "iozone", "trace")


def _result(values: dict[str, dict[str, float]]) -> StudyResult:
    """A comparison of file systems with these metrics of their work."""
    rows = [
        (name, "lifecycle", "work", 0, metric, value, "")
        for name, metrics in values.items()
        for metric, value in {"call_calls": 1.0, **metrics}.items()
    ]
    axes = ("file_system", "test", "phase")
    columns = (*axes, "repeat", "metric", "value", "unit")
    return StudyResult({"name": "comparison"}, axes, Table.of(columns, rows), Table.of((), ()), "")


@pytest.mark.usefixtures("engine_is_built")
def test_the_best_is_marked_and_values_within_two_percent_are_as_good() -> None:
    result = _result(
        {
            "jffs2": {"throughput_kib_per_s": 100.0, "waf": 2.0, "call_p99_ns": 5.0},
            "ubifs": {"throughput_kib_per_s": 99.0, "waf": 1.0, "call_p99_ns": 7.0},
            "yaffs2": {"throughput_kib_per_s": 50.0, "waf": 4.0, "call_p99_ns": 2.5},
        }
    )
    view = View(result)
    cells = {row[0]: row[1:] for row in table_cells(view)}
    assert cells["throughput"] == ["100 KiB/s *", "99 KiB/s *", "50 KiB/s"]
    assert cells["write amplification"] == ["2", "1 *", "4"]
    assert "mount" not in cells
    assert verdict_line(view) == (
        "No single winner: for throughput JFFS2 and UBIFS (2.0 times better than the next); "
        "for tail latency YAFFS2 (2.0 times better than the next)."
    )


@pytest.mark.usefixtures("engine_is_built")
def test_one_that_is_best_for_everything_is_named() -> None:
    fast = {"throughput_kib_per_s": 100.0, "call_p99_ns": 1.0}
    result = _result({"jffs2": fast, "ubifs": {"throughput_kib_per_s": 50.0, "call_p99_ns": 4.0}})
    assert judge(result).headline == (
        "Take JFFS2: it is best for throughput (2.0 times better than the next) and "
        "tail latency (4.0 times better than the next)."
    )


@pytest.mark.usefixtures("engine_is_built")
def test_a_sentence_says_where_time_goes_and_what_a_caller_waits_for() -> None:
    metrics = {
        "array_program_ns": 60.0,
        "software_ns": 30.0,
        "transfer_ns": 10.0,
        "write_p50_ns": 1e4,
        "sync_p50_ns": 900.0,
        "working_sync_p50_ns": 1e6,
        "dirty_bytes_max": 4096.0,
        "waf": 0.5,
        "dirty_bytes_at_end": 8192.0,
    }
    (candidate,) = View(_result({"ubifs": metrics})).candidates
    assert sentence(candidate) == (
        "UBIFS: programming pages takes 60 % and the processor (file system, checksums, "
        "compression, copies) takes 30 % of the time; half of the writes return from memory within "
        "10 µs, half of the syncs that programmed pages take up to 1 ms; compression leaves 50 % "
        "of the bytes to be programmed; a power cut at the end takes 8 KiB that were not written "
        "yet."
    )


@pytest.mark.usefixtures("engine_is_built")
@pytest.mark.parametrize("dirty_bytes", [0.0, 4096.0])
def test_syncs_without_work_say_nothing_of_where_writes_are(dirty_bytes: float) -> None:
    """Syncs of written pages are quick: that is no sign that writes have reached the chip."""
    metrics = {
        "write_p50_ns": 16_800.0,
        "sync_p50_ns": 900.0,
        "dirty_bytes_max": dirty_bytes,
        "waf": 1.0,
    }
    (candidate,) = View(_result({"ubifs": metrics})).candidates
    where = " from memory" if dirty_bytes else ""
    assert sentence(candidate) == (
        f"UBIFS: half of the writes return{where} within 16.8 µs; each byte is programmed once."
    )


def test_sizes_and_lives_have_the_unit_that_suits_them() -> None:
    assert [size(value) for value in (0, 1536, 3 * 2**40)] == ["0 B", "1.50 KiB", "3 TiB"]
    assert [years(value) for value in (0.1, 12.0, 1e6)] == [
        "36.5 days",
        "12 years",
        "over 1,000 years",
    ]


def test_a_study_is_written_as_toml() -> None:
    import tomllib

    table = {"a": 1, "b": {"c": 'x "y" é', "d": {"e": [1, 2]}}, "f": True}
    assert tomllib.loads(toml(table)) == table


def test_a_folder_is_no_workload_file(tmp_path: Path) -> None:
    with pytest.raises(NandlabError, match="this is a folder"):
        read_workload(tmp_path)


def _words(shown: str) -> str:
    return " ".join(shown.split())


@pytest.mark.usefixtures("engine_is_built")
def test_the_conditions_stand_above_the_table_and_in_the_report(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "work.ops").write_text(SCRIPT)
    path = tmp_path / "my.toml"
    path.write_text(
        'repeats = 2\nseed = 7\n[workload]\nkind = "script"\nfile = "work.ops"\n'
        "[flash]\nfill_percent = 20\nrewritten_percent = 10\n"
    )
    out = tmp_path / "out"
    given = ("--fs", "jffs2,yaffs2", "--blocks", "160", "--workload", str(path), "--out", str(out))
    shown = _words(_prints(capsys, *given))
    held = (
        "kernel 2.6.29 (profile linux-2.6.29, which stands for 2.6.29 to before 2.6.35); "
        "board s5pv210-datasheet; part k9f2g08u0c of 160 blocks; "
        "flash 20 % full and 10 % rewritten; seed 7; 2 repeats"
    )
    assert f"Side by side: {held}" in shown
    assert held in (out / "report.html").read_text()
    assert held in json.loads((out / "verdict.json").read_text())["caveats"][0]
    assert 'kernel = "2.6.29"' in (out / "comparison.toml").read_text()


@pytest.mark.usefixtures("engine_is_built")
def test_a_kernel_between_two_profiles_is_simulated_by_the_older_and_said_to_be(
    capsys: pytest.CaptureFixture[str], workload: Path
) -> None:
    given = ("--fs", "jffs2,yaffs2", "--blocks", "128", "--workload", str(workload))
    shown = _words(_prints(capsys, *given, "--kernel", "4.9"))
    assert "kernel 4.9 (profile linux-2.6.35, which stands for 2.6.35 to before 6.1)" in shown
    shown = _words(_prints(capsys, *given, "--kernel", "6.12"))
    assert "jffs2: profile linux-6.12, which stands for 6.12" in shown
    assert "yaffs2: profile linux-6.1, which stands for 6.1 to 6.12" in shown


@pytest.mark.usefixtures("engine_is_built")
@pytest.mark.parametrize(("kernel", "near"), [("7.0", "6.12"), ("2.4.20", "2.6.29"), ("x", "like")])
def test_a_kernel_that_is_not_modelled_is_refused(
    capsys: pytest.CaptureFixture[str], workload: Path, kernel: str, near: str
) -> None:
    given = ("--fs", "jffs2", "--kernel", kernel, "--workload", str(workload))
    assert main(("compare", *given)) == 2
    message = capsys.readouterr().err
    assert kernel in message
    assert near in message


def _trace(path: Path) -> str:
    """Overwrites on 64 pages, with some reads, as MSR traces have them."""
    lines = [
        f"{128166372003061629 + number * 1000},host,0,{'Read' if number % 5 == 4 else 'Write'},"
        f"{number * 7 % 64 * 2048},2048,100"
        for number in range(3000)
    ]
    path.write_text("\n".join(lines) + "\n")
    return str(path)


@pytest.mark.usefixtures("engine_is_built")
def test_life_is_the_same_whichever_command_says_it(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    trace = _trace(tmp_path / "trace.csv")
    path = tmp_path / "my.toml"
    path.write_text('[workload]\nkind = "trace"\nfile = "trace.csv"\n')
    out = tmp_path / "out"
    given = ("--ftl", "bast,page", "--blocks", "64", "--workload", str(path), "--out", str(out))
    shown = _prints(capsys, *given)
    # A study counts after one pass of the trace.
    replay = ("replay", trace, "--ftl", "bast", "--blocks", "64", "--passes", "2")
    assert main((*replay, "--output-format", "json")) == 0
    answer = json.loads(capsys.readouterr().out)
    (life,) = [row["value"] for row in answer["metrics"] if row["metric"] == "lifetime_host_bytes"]
    with (out / "results.csv").open() as file:
        rows = [row for row in csv.DictReader(file) if row["metric"] == "lifetime_host_bytes"]
    assert [int(row["value"]) for row in rows if row["ftl"] == "bast"] == [life]
    row = next(line for line in shown.splitlines() if line.strip().startswith("life, bytes"))
    assert large_size(life) in row
    assert "TB (" in row or "GB (" in row
    assert "after the set-up of the trace and one pass of it" in _words(shown)
    assert answer["device"]["initial_state"] == "the trace replayed once"
    assert main(replay) == 0
    assert large_size(life) in capsys.readouterr().out


@pytest.mark.usefixtures("engine_is_built")
def test_a_trace_past_the_end_gets_no_hint_of_another_command(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    trace = tmp_path / "trace.csv"
    trace.write_text("128166372003061629,host,0,Write,99999744,512,100\n")
    path = tmp_path / "my.toml"
    path.write_text('[workload]\nkind = "trace"\nfile = "trace.csv"\n')
    assert main(("compare", "--ftl", "page", "--blocks", "64", "--workload", str(path))) == 2
    message = capsys.readouterr().err
    assert "past the end of the device" in message
    assert "--address" not in message
    assert main(("replay", str(trace), "--ftl", "page", "--blocks", "64")) == 2
    assert "--address modulo" in capsys.readouterr().err


PARTS = Path(__file__).resolve().parents[2]


def _own(tmp_path: Path) -> tuple[Path, Path]:
    """A part and a board of one's own."""
    part, board = tmp_path / "my-part.toml", tmp_path / "my-board.toml"
    text = (PARTS / "parts" / "k9f2g08u0c.toml").read_text()
    part.write_text(
        text.replace('"k9f2g08u0c"', '"my-part"').replace("2048\nplanes", "160\nplanes")
    )
    text = (PARTS / "boards" / "s5pv210-datasheet.toml").read_text()
    text = text.replace('"s5pv210-datasheet"', '"my-board"').replace('"2.6.29"', '"6.1"')
    board.write_text(text)
    return part, board


@pytest.mark.usefixtures("engine_is_built")
def test_parts_and_boards_of_ones_own_are_taken_and_kept(
    capsys: pytest.CaptureFixture[str], workload: Path, tmp_path: Path
) -> None:
    part, board = _own(tmp_path)
    out = tmp_path / "out"
    given = ("--fs", "jffs2,fat", "--part", str(part), "--board", str(board), "--out", str(out))
    shown = _words(_prints(capsys, *given, "--workload", str(workload)))
    assert "kernel 6.1 (profile linux-6.1, " in shown
    assert "board my-board; part my-part of " in shown
    assert (out / "part-my-part.toml").read_bytes() == part.read_bytes()
    assert (out / "board-my-board.toml").read_bytes() == board.read_bytes()
    manifest = json.loads((out / "manifest.json").read_text())
    assert str(tmp_path) not in json.dumps(manifest["study"])
    # The folder is all that is needed to run it again.
    part.unlink()
    board.unlink()
    again = tmp_path / "again"
    assert main(("run", str(out / "comparison.toml"), "--out", str(again))) == 0
    kept = json.loads((again / "manifest.json").read_text())
    assert kept["results_digest"] == manifest["results_digest"]
    assert {one["what"] for one in kept["inputs"]} == {"part", "board", "script"}
    for one in kept["inputs"]:
        assert (again / one["file"]).is_file()


@pytest.mark.usefixtures("engine_is_built")
def test_cards_are_made_of_a_part_of_ones_own(
    capsys: pytest.CaptureFixture[str], workload: Path, tmp_path: Path
) -> None:
    part, _ = _own(tmp_path)
    out = tmp_path / "out"
    given = ("--fs", "fat", "--ftl", "bast", "--part", str(part), "--out", str(out))
    _prints(capsys, *given, "--workload", str(workload))
    part.unlink()
    assert main(("run", str(out / "comparison.toml"), "--out", str(tmp_path / "again"))) == 0


@pytest.mark.usefixtures("engine_is_built")
@pytest.mark.parametrize("option", ["--part", "--board"])
def test_a_file_of_ones_own_that_is_wrong_is_named(
    capsys: pytest.CaptureFixture[str], workload: Path, tmp_path: Path, option: str
) -> None:
    part, board = _own(tmp_path)
    own = part if option == "--part" else board
    own.write_text(own.read_text().replace("hz = ", "hertz = ").replace("rber_fresh", "rber"))
    given = ("--fs", "jffs2", option, str(own), "--workload", str(workload))
    assert main(("compare", *given)) == 2
    message = capsys.readouterr().err
    assert message.startswith(f"nandlab: error: {own}: ")
    assert "line" in message
    assert "nandlab-compare-" not in message
    assert main(("compare", "--fs", "jffs2", option, "no.toml", "--workload", str(workload))) == 2
    assert f"{option}: there is no" in capsys.readouterr().err


@pytest.mark.usefixtures("engine_is_built")
def test_candidates_that_cannot_be_mounted_are_told_before_anything_runs(
    capsys: pytest.CaptureFixture[str], workload: Path
) -> None:
    given = ("--fs", "yaffs2,ubifs", "--blocks", "12", "--workload", str(workload))
    assert main(("compare", *given)) == 2
    message = capsys.readouterr().err
    assert "nothing was run" in message
    assert "ubifs" in message
    assert "cannot be mounted" in message


@pytest.mark.usefixtures("engine_is_built")
def test_a_history_that_does_not_fit_is_told_before_anything_runs(
    capsys: pytest.CaptureFixture[str], workload: Path
) -> None:
    workload.write_text(workload.read_text() + "[flash]\nfill_percent = 90\n")
    given = ("--fs", "yaffs2,nilfs2", "--blocks", "160", "--workload", str(workload))
    assert main(("compare", *given)) == 2
    message = capsys.readouterr().err
    assert "nothing was run" in message
    assert "the file system is full" in message


@pytest.mark.usefixtures("engine_is_built")
def test_hours_of_idle_time_cost_hardly_any_processor_time(tmp_path: Path) -> None:
    """Against the same script alone: structures are not walked while nothing happens."""
    work = "putn d/f 0 2000 644 3000 3000 x 1\nsync\nsleep 7200000\n"
    (tmp_path / "work.ops").write_text(f"mkdir d 755\n{work}")
    (tmp_path / "alone.ops").write_text(f"mount -\nmkdir d 755\n{work}")
    path = tmp_path / "my.toml"
    path.write_text('[workload]\nkind = "script"\nfile = "work.ops"\n')

    def seconds(*arguments: str) -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        command = [sys.executable, "-m", "nandlab", *arguments, "--blocks", "512"]
        subprocess.run(command, check=True, capture_output=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime - before.ru_utime

    part = ("--part", "k9f2g08u0c", "--board", "s5pv210-datasheet", "--fs", "ubifs")
    script = seconds("script", str(tmp_path / "alone.ops"), *part)
    compared = seconds("compare", "--workload", str(path), *part)
    # Besides the work it mounts three times. A look every 10 ms of idle time took 20 times as long.
    assert compared < 4 * script + 2, (script, compared)
