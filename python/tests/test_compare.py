"""Candidates side by side: the table, the words, the folder, and what is refused."""

import json
from pathlib import Path

import pytest
from made_up import run_of

from nandlab.cli import main
from nandlab.comparison.answer import headline, sentence, table
from nandlab.comparison.candidates import candidates
from nandlab.comparison.criteria import years
from nandlab.comparison.request import read_workload
from nandlab.errors import NandlabError
from nandlab.frame import RunFrame
from nandlab.present import present
from nandlab.present.units import estimate_text
from nandlab.toml_text import toml_of

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
    assert "No scheduler changes anything for YAFFS2" in shown


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
    assert "A card is one die of the part" in " ".join(shown.split())
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
        (("run", "run", "--fs", "jffs2"), ["--fs", "give either"]),
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


def _result(values: dict[str, dict[str, float]]) -> RunFrame:
    """A comparison of file systems with these metrics of their work."""
    rows = [
        (name, "lifecycle", "work", 0, metric, value, "")
        for name, metrics in values.items()
        for metric, value in {"call_calls": 1.0, **metrics}.items()
    ]
    axes = ("file_system", "test", "phase")
    return run_of({"study": {"name": "comparison"}, "columns": axes, "rows": rows})


@pytest.mark.usefixtures("engine_is_built")
def test_the_best_is_marked_and_values_within_two_percent_are_as_good() -> None:
    result = _result(
        {
            "jffs2": {"throughput_kib_per_s": 100.0, "waf": 2.0, "call_p99_ns": 5.0},
            "ubifs": {"throughput_kib_per_s": 99.0, "waf": 1.0, "call_p99_ns": 7.0},
            "yaffs2": {"throughput_kib_per_s": 50.0, "waf": 4.0, "call_p99_ns": 2.5},
        }
    )
    found = candidates(result)
    cells = {row[0]: row[1:] for row in table(found).rows}
    assert cells["throughput"] == ("100 KiB/s *", "99 KiB/s *", "50 KiB/s")
    assert cells["write amplification"] == ("2", "1 *", "4")
    assert "mount" not in cells
    assert headline(found) == (
        "No single winner: for throughput JFFS2 and UBIFS (2.0 times better than the next); "
        "for tail latency YAFFS2 (2.0 times better than the next)."
    )


@pytest.mark.usefixtures("engine_is_built")
def test_one_that_is_best_for_everything_is_named() -> None:
    fast = {"throughput_kib_per_s": 100.0, "call_p99_ns": 1.0}
    result = _result({"jffs2": fast, "ubifs": {"throughput_kib_per_s": 50.0, "call_p99_ns": 4.0}})
    assert present(result).headline == (
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
    (candidate,) = candidates(_result({"ubifs": metrics}))
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
    (candidate,) = candidates(_result({"ubifs": metrics}))
    where = " from memory" if dirty_bytes else ""
    assert sentence(candidate) == (
        f"UBIFS: half of the writes return{where} within 16.8 µs; each byte is programmed once."
    )


def test_sizes_and_lives_have_the_unit_that_suits_them() -> None:
    assert [estimate_text(value, "bytes") for value in (0, 1536, 3 * 2**40)] == [
        "0 B",
        "1.50 KiB",
        "3 TiB",
    ]
    assert [years(value) for value in (0.1, 12.0, 1e6)] == [
        "36.5 days",
        "12 years",
        "over 1,000 years",
    ]


def test_a_study_is_written_as_toml() -> None:
    import tomllib

    table = {"a": 1, "b": {"c": 'x "y" é', "d": {"e": [1, 2]}}, "f": True}
    assert tomllib.loads(toml_of(table)) == table


def test_a_folder_is_no_workload_file(tmp_path: Path) -> None:
    with pytest.raises(NandlabError, match="this is a folder"):
        read_workload(tmp_path)
