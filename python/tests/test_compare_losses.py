"""What a power cut takes, in seconds of the user's own log, and the answers to questions."""

import json
from pathlib import Path

import pytest
from made_up import run_of

from nandlab.cli import main
from nandlab.comparison.answer import headline
from nandlab.comparison.candidates import candidates
from nandlab.comparison.losses import FoundLoss, allowed_s, found_losses
from nandlab.comparison.operations import by_operations
from nandlab.comparison.questions import in_study, of_study, questions
from nandlab.comparison.request import WorkloadFile
from nandlab.comparison.script_lines import calls, length_s
from nandlab.frame import RunFrame

SHIPPED = Path(__file__).resolve().parents[2] / "workloads" / "compare"

SYNCED = "put a 644 0 128 t 1\n" + "append a 1280 128 t 2 fsync\nsleep 7000\n" * 4
"""A log that is synced each seven seconds."""

RARELY = "put a 644 0 128 t 1\n" + "append a 1280 128 t 2\nsleep 5000\n" * 4 + "fsync a\n"
"""A log that is synced once, at its end."""

OTHER = "put a 644 0 128 t 1\n" + "append a 1280 128 t 2\nsleep 5000\nput b 644 9 9 t 3 fsync\n" * 3
"""A log that is never synced, beside a file that is."""


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        (SYNCED, {"jffs2": 7, "ubifs": 7, "yaffs2": 7, "fat": 28}),
        (RARELY, {"jffs2": 20, "ubifs": 20, "yaffs2": 5, "fat": 20}),
        # An fsync of JFFS2 takes along what came before; one of UBIFS is of its file.
        (OTHER, {"jffs2": 10, "ubifs": 15, "yaffs2": 5, "fat": 15}),
        ("put a 644 1 1 t 1\nsync\n", {"jffs2": None, "fat": None}),
    ],
)
def test_the_guarantee_says_what_a_cut_may_take(
    script: str, expected: dict[str, float | None]
) -> None:
    assert {name: allowed_s(name, script) for name in expected} == expected


@pytest.mark.usefixtures("engine_is_built")
@pytest.mark.parametrize("name", ["jffs2", "yaffs2", "ubifs"])
def test_no_cut_takes_more_than_the_guarantee_allows(tmp_path: Path, name: str) -> None:
    stack = {"fs": name, "profile": "linux-2.6.29", "part": "k9f2g08u0c", "seed": 1}
    stack["board"] = "s5pv210-datasheet"
    for script, found_s in (
        (SYNCED, {"jffs2": 7, "yaffs2": 0, "ubifs": 7}),
        (RARELY, {"jffs2": 5, "yaffs2": 0, "ubifs": 15}),
    ):
        path = tmp_path / "log.ops"
        path.write_text(script, encoding="utf-8")
        found = found_losses(path, stack)
        allowed = allowed_s(name, script)
        assert allowed is not None
        assert found.cuts > 4
        assert found.loss_s <= allowed
        assert found.loss_s == found_s[name], found


@pytest.mark.usefixtures("engine_is_built")
@pytest.mark.parametrize("name", ["data-logger", "update"])
def test_calls_are_counted_as_the_simulation_counts_them(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, name: str
) -> None:
    script = (SHIPPED / f"{name}.ops").read_text(encoding="utf-8")
    (tmp_path / "work.ops").write_text(script, encoding="utf-8")
    path = tmp_path / "my.toml"
    path.write_text('[workload]\nkind = "script"\nfile = "work.ops"\n', encoding="utf-8")
    words = ("compare", "--fs", "yaffs2", "--blocks", "256", "--workload", str(path))
    assert main((*words, "--output-format", "json")) == 0
    (one,) = json.loads(capsys.readouterr().out)["result"]["candidates"]
    assert one["values"]["call_calls"] == calls(script)
    # A line more is seen.
    assert calls(script + "fsync settings\n") != one["values"]["call_calls"]


def test_progress_counts_calls_and_estimates_what_is_left(tmp_path: Path) -> None:
    script = tmp_path / "a.ops"
    script.write_text("put a 644 10 5 t 1 fsync\n", encoding="utf-8")
    seen: list[tuple[int, int, str]] = []
    now_s = [100.0]

    def told(flash: dict[str, int]) -> list[tuple[int, int, str]]:
        seen.clear()
        now_s[0] = 100.0
        workload = WorkloadFile("w", "script", {}, script, 1, 1, flash=flash)
        watch = by_operations(
            workload, lambda done, total, label: seen.append((done, total, label)), lambda: now_s[0]
        )
        assert watch is not None
        for done, at_s in ((0, 105.0), (1, 110.0), (2, 112.0), (2, 113.0)):
            now_s[0] = at_s
            watch(done, 4, "x")
        return list(seen)

    assert told({}) == [
        (0, 20, "calls x"),
        (5, 20, "calls, about 30 s left x"),
        (10, 20, "calls, about 12 s left x"),
        (10, 20, "calls, about 11 s left x"),
    ]
    # Each candidate fills its own flash, so that belongs to the pace.
    assert [label for _, _, label in told({"fill_percent": 50})] == [
        "calls, the flash is being filled x",
        "calls, about 30 s left x",
        "calls, about 12 s left x",
        "calls, about 11 s left x",
    ]


def _result(values: dict[str, dict[str, float]], beside: dict[str, object]) -> RunFrame:
    from dataclasses import replace

    rows = [
        (name, "lifecycle", "work", 0, metric, value, "")
        for name, metrics in values.items()
        for metric, value in {"call_calls": 1.0, **metrics}.items()
    ]
    axes = ("file_system", "test", "phase")
    found = run_of({"study": {"name": "comparison"}, "columns": axes, "rows": rows})
    return replace(found, beside=beside)


@pytest.mark.usefixtures("engine_is_built")
def test_the_answer_is_to_the_question_and_another_question_has_another() -> None:
    result = _result(
        {
            "jffs2": {"lifetime_host_bytes": 2e12, "memory_bytes_max": 1024.0},
            "ubifs": {"lifetime_host_bytes": 1e12, "memory_bytes_max": 4096.0},
        },
        {"cut_loss_allowed_s": {"jffs2": 7.0, "ubifs": 21.0}},
    )
    found = candidates(result)
    assert headline(found, questions("life")) == (
        "Take JFFS2. Life: JFFS2, 2 TB (1.82 TiB) written until worn out "
        "(2.0 times better than the next)."
    )
    assert headline(found, questions("power-cuts")) == (
        "Take JFFS2. Power cuts: JFFS2, the guarantee lets a cut take 7 s of the log "
        "(3.0 times better than the next)."
    )
    assert headline(found, questions("speed")) == ("Speed: nothing was measured that answers it.")
    other = _result({"jffs2": {"memory_bytes_max": 2.0}, "ubifs": {"memory_bytes_max": 1.0}}, {})
    assert headline(candidates(other), questions("memory")).startswith("Take UBIFS. Memory: UBIFS")


def test_the_question_is_in_the_study_and_read_from_it() -> None:
    for given in ("life", "speed,memory", "power-cuts"):
        asked = questions(given)
        assert of_study({"question": in_study(asked)}) == asked
    assert of_study({"question": in_study(())}) == ()
    assert of_study({"question": "Which layer is fastest?"}) == ()


def test_pauses_are_the_time_of_a_script() -> None:
    assert length_s("# sleep 9\nsleep 1500\nput a 644 1 1 x 1\nsleep 500\n") == 2.0


@pytest.mark.usefixtures("engine_is_built")
def test_cuts_that_cannot_be_measured_are_said_to_be_and_no_loss_is_told(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "log.ops").write_text(SYNCED, encoding="utf-8")
    path = tmp_path / "my.toml"
    path.write_text('[workload]\nkind = "script"\nfile = "log.ops"\n', encoding="utf-8")
    words = ("compare", "--fs", "yaffs2", "--blocks", "128", "--question", "power-cuts")
    words += ("--workload", str(path))
    assert main(words) == 0
    assert " sampled cuts took nothing" in capsys.readouterr().out
    broken = FoundLoss(3, 0.0, 0, note="after a cut at line 2: no tags")
    monkeypatch.setattr("nandlab.comparison.candidates_run.found_losses", lambda *_: broken)
    assert main(words) == 0
    shown = capsys.readouterr().out
    assert "took nothing" not in shown
    assert "cuts were not measured: after a cut at line 2: no tags" in shown
