"""Studies of kind `kernel`: plan, what comes out of the machine, and one run."""

import json
from pathlib import Path
from typing import Any

import pytest
from kernel_lab import laboratory_or_skip

from nandlab import kernel_study
from nandlab.cli import main
from nandlab.errors import NandlabError
from nandlab.frame import RunFrame
from nandlab.kernel_measurements import (
    MeasurementError,
    buckets,
    jain_index,
    metrics,
    quantile,
    read_measurement,
)
from nandlab.vm import VmUnavailable

COLUMNS = ["kernel", "device", "writers", "request_kib", "scheduler"]

MEASURED = """busy 1000 2001000 1500000
read 8192 1000 1001000 100 300
write 8192 1000 2001000 200 900
cleanings 2
"""


def study(**changes: Any) -> dict[str, Any]:
    """A study as the engine resolves it."""
    job = {"processes": 8, "bs": "{request_kib}k", "requests": 200, "mode": "{writers}"}
    return {
        "name": "sfq-kernel",
        "seed": 1,
        "repeats": 2,
        "quick": False,
        "workload": {"kind": "kernel"},
        "columns": COLUMNS,
        "axes": {
            "kernel": ["6.12"],
            "device": ["null-blk", "flash-card"],
            "writers": ["direct"],
            "request_kib": [4, 1024],
            "scheduler": ["none", "sfq"],
        },
        "job": [{**job, "rw": "randread", "mode": "direct"}, {**job, "rw": "write"}],
        "quick_form": {"requests": 50},
    } | changes


def test_the_plan_fills_the_words_of_jobs_and_shares_machines() -> None:
    cells = kernel_study.plan(study())
    assert len(cells) == 2 * 2 * 2 * 2
    assert [cell.repeat for cell in cells[:4]] == [0, 1, 0, 1]
    first, last = cells[0], cells[-1]
    assert first.jobs == ("read,8,4096,200,direct,random", "write,8,4096,200,direct,sequential")
    assert last.jobs[0] == "read,8,1048576,200,direct,random"
    assert first.line.startswith(f"{first.name} null-blk none {first.seed} read,8,")
    assert first.axes["kernel"] == "6.12"
    # The same addresses under every scheduler, others in every repeat.
    assert {cell.seed for cell in cells if cell.repeat == 0} == {first.seed}
    assert len({cell.seed for cell in cells}) == 2
    assert len({cell.machine for cell in cells}) == 4
    assert len({cell.name for cell in cells}) == len(cells)


def test_the_quick_form_asks_for_fewer_requests() -> None:
    cell = kernel_study.plan(study(quick=True))[0]
    assert cell.jobs[0] == "read,8,4096,50,direct,random"
    assert cell.requests == 16 * 50


def test_a_measurement_is_read_and_counted() -> None:
    measured = read_measurement(MEASURED)
    assert measured.latencies_ns("read") == [100, 300]
    found = {name: value for name, value, _ in metrics(measured)}
    assert found["read_requests"] == 2
    assert found["read_latency_mean_ns"] == 200
    assert found["write_latency_max_ns"] == 900
    assert found["write_latency_p50_ns"] == 200
    # Half a millisecond of two was not idle, for four requests.
    assert found["processor_ns_per_request"] == 125_000
    assert found["processor_busy_share"] == pytest.approx(0.25)
    assert found["throughput_bytes_per_s"] == pytest.approx(16384 / 0.002)
    assert found["jain_index"] == pytest.approx(0.9)
    assert found["device_cleanings"] == 2


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "not complete"),
        ("busy 1 2 3\n", "not complete"),
        ("read 8192 1 2 100\n", "not complete"),
        ("busy 1 2\nread 8192 1 2 100\n", "line 1: 'busy 1 2' is not understood"),
        ("busy 1 2 3\nread 8192 1 2\n", "line 2"),
        ("busy 1 2 3\ntimed-load: pwrite: No space left\n", "line 2: .* holds no numbers"),
        ("busy 1 2 3\nread 8192 1 2 1e3\n", "line 2: .* holds no numbers"),
    ],
)
def test_what_is_no_measurement_is_refused(text: str, message: str) -> None:
    with pytest.raises(MeasurementError, match=message):
        read_measurement(text)


def test_quantiles_and_buckets_are_those_of_simulated_processes() -> None:
    ordered = list(range(1, 1001))
    assert [quantile(ordered, share) for share in (0.5, 0.99, 0.999, 1.0)] == [500, 990, 999, 1000]
    assert quantile([7], 0.5) == 7
    assert buckets([0, 1, 15, 16, 17, 18, 1023, 1024, 1151, 1152]) == [
        (0, 0, 1),
        (1, 1, 1),
        (15, 15, 1),
        (16, 17, 2),
        (18, 19, 1),
        (960, 1023, 1),
        (1024, 1151, 2),
        (1152, 1279, 1),
    ]
    assert jain_index([1.0, 1.0]) == pytest.approx(1.0)
    assert jain_index([1.0, 0.0]) == pytest.approx(0.5)


def test_an_answer_has_the_form_of_the_engine() -> None:
    resolved = study()
    cells = kernel_study.plan(resolved)
    measured = {cell.number: read_measurement(MEASURED) for cell in cells[:3]}
    answer = kernel_study._answer(resolved, cells, measured, ["6.12.1-amd64"], interrupted=True)
    run = RunFrame.from_answer({**answer, "study": {**resolved, "reference": None}})
    assert run.interrupted
    assert run.axes == tuple(COLUMNS)
    assert run.frame.height == 3 * len(metrics(read_measurement(MEASURED)))
    # A version is a word, a size a number.
    assert set(run.frame["kernel"]) == {"6.12"}
    assert set(run.frame["request_kib"]) == {4}
    lines = answer["results_csv"].splitlines()
    assert lines[0] == ",".join([*COLUMNS, "repeat", "metric", "value", "unit"])
    assert lines[1] == "6.12,null-blk,direct,4,none,0,read_requests,2,requests"
    texts = {name: text.splitlines() for name, text in run.texts.items()}
    assert "6.12,null-blk,direct,4,none,read_requests,4,requests" in texts["pooled"]
    assert "6.12,null-blk,direct,4,none,read,96,103,2" in texts["latencies"]
    assert len(answer["results_digest"]) == 64


def test_what_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing(_: str) -> None:
        raise VmUnavailable("qemu is not installed")

    monkeypatch.setattr(kernel_study, "find_kernel", nothing)
    with pytest.raises(NandlabError, match="sfq-kernel: qemu is not installed"):
        kernel_study.run_kernel_study(study(), jobs=1)


def test_the_shipped_study_is_planned(
    engine_is_built: None, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", "sfq-kernel", "--dry-run"]) == 0
    assert "Planned: 300 runs; nothing was run" in capsys.readouterr().out
    assert main(["run", "sfq-kernel", "--dry-run", "--set", "axes.scheduler=sfq,kybr"]) == 2
    assert "did you mean `kyber`?" in capsys.readouterr().err


def test_a_small_form_runs_in_the_machine(engine_is_built: None, tmp_path: Path) -> None:
    laboratory_or_skip()
    out = tmp_path / "run"
    command = ["run", "sfq-kernel", "--quick", "--jobs", "1", "--out", str(out)]
    command += ["--set", "quick_form.repeats=1", "--set", "quick_form.requests=10"]
    command += ["--set", "quick_form.axes.request_kib=4", "--set", "axes.scheduler=none,bfq,sfq"]
    assert main(command) == 0
    verdict = json.loads((out / "verdict.json").read_text(encoding="utf-8"))
    assert {claim["status"] for claim in verdict["claims"]} == {"not judged"}
    assert {claim["reading"] for claim in verdict["claims"]} == {"flash-card", "null-blk"}
    assert (out / "report.html").is_file()
    lines = (out / "results.csv").read_text(encoding="utf-8").splitlines()
    found = {
        tuple(line.split(",")[1:5]): float(line.split(",")[7])
        for line in lines
        if ",processor_ns_per_request," in line
    }
    assert len(found) == 6
    # Of two requests at a time, 200 µs each, none is done earlier.
    times = [line.split(",") for line in lines if ",read_latency_mean_ns," in line]
    assert all(float(cells[7]) > 200_000 for cells in times)
    assert all(5_000 < value < 500_000 for value in found.values())
