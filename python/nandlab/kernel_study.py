"""Runs studies of kind `kernel`: processes on a disk of a real kernel, in emulated machines.

The engine reads, checks and plans such a study like any other. Here its cells are measured, in one
machine for each kernel, device and repeat, and answered in the form in which the engine answers.
"""

import hashlib
import itertools
import queue
import random
import tempfile
import threading
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nandlab.engine import Progress
from nandlab.errors import NandlabError
from nandlab.frame.csv_texts import csv_text, frame_of
from nandlab.frame.run_frame import ROW_COLUMNS
from nandlab.kernel_measurements import (
    DIRECTIONS,
    Measurement,
    MeasurementError,
    buckets,
    latency_metrics,
    metrics,
    read_measurement,
)
from nandlab.vm import (
    Contents,
    Kernel,
    Machine,
    ModuleBuildError,
    VmRunError,
    VmUnavailable,
    build_modules,
    children,
    find_kernel,
    require_programs,
    run_machine,
    stop_machines,
)

KIND = "kernel"
"""The kind of workload that is run here."""

ICOUNT_SHIFT = 1
"""The machine's clock goes on by 2 to this power nanoseconds with each instruction."""

NOTES = (
    "Times are those of the emulated machine, whose clock counts instructions "
    f"({2**ICOUNT_SHIFT} ns each): they repeat closely, but not bit for bit, and so the digest "
    "tells one run from another.",
)

_MODULES = ("bfq", "configfs", "kyber-iosched", "null_blk")
_BOOT_DEADLINE_S = 900.0
_REQUEST_DEADLINE_S = 0.1
"""Far more than a request takes: only a machine that hangs is to be ended."""

_WAIT_S = 0.1


@dataclass(frozen=True)
class Load:
    """Names of the script and of the program, of `kernel/sfq/tests`, that measure cells."""

    script: str = "study.sh"
    program: str = "timed-load"


TIMED_LOAD = Load()
"""What carries out studies of kind `kernel`."""


@dataclass(frozen=True)
class Cell:
    """One run: values of the axes, in the order of the columns, a repeat, and its jobs."""

    number: int
    axes: Mapping[str, str]
    repeat: int
    seed: int
    jobs: tuple[str, ...]
    requests: int

    @property
    def name(self) -> str:
        """Name of the file in which the machine leaves what it measured."""
        return f"cell-{self.number:05d}"

    @property
    def label(self) -> str:
        """The cell in words."""
        return " ".join(self.axes.values())

    @property
    def line(self) -> str:
        """The cell as the machine's script reads it."""
        words = (self.name, self.axes["device"], self.axes["scheduler"], str(self.seed))
        return " ".join((*words, *self.jobs))

    @property
    def machine(self) -> tuple[str, str, int]:
        """Cells with the same value are measured in the same machine, one after the other."""
        return self.axes["kernel"], self.axes["device"], self.repeat


class _Stopped(Exception):  # noqa: N818
    """The user asked to stop; the machine is ended at its next line."""


def is_kernel_study(study: Mapping[str, Any]) -> bool:
    """True if a resolved study is run here."""
    return bool(study["workload"]["kind"] == KIND)


def plan(study: Mapping[str, Any]) -> list[Cell]:
    """All runs of a resolved study, in the order of the engine's plan."""
    columns = [str(column) for column in study["columns"]]
    values = [[str(value) for value in study["axes"][column]] for column in columns]
    cells: list[Cell] = []
    for combination in itertools.product(*values):
        axes = dict(zip(columns, combination, strict=True))
        jobs = [_job(job, axes, study) for job in study["job"]]
        requests = sum(processes * each for _, processes, each in jobs)
        for repeat in range(int(study["repeats"])):
            # The same addresses under every scheduler, on every device.
            seed = random.Random(f"{study['seed']} {repeat}").getrandbits(62)
            texts = tuple(text for text, _, _ in jobs)
            cells.append(Cell(len(cells), axes, repeat, seed, texts, requests))
    return cells


def _job(
    job: Mapping[str, Any], axes: Mapping[str, str], study: Mapping[str, Any]
) -> tuple[str, int, int]:
    """A job in the words of the program in the machine, its processes, and requests of each."""

    def filled(text: object) -> str:
        words = str(text)
        for axis, value in axes.items():
            words = words.replace(f"{{{axis}}}", value)
        return words

    order = filled(job["rw"])
    is_random = order.startswith("rand")
    direction = order.removeprefix("rand")
    if direction not in DIRECTIONS:
        direction = "read" if job.get("rwmixread") == 100 else "write"
    processes, requests = int(job["processes"]), int(job["requests"])
    quick = (study.get("quick_form") or {}).get("requests")
    if study.get("quick") and quick is not None:
        requests = min(requests, int(quick))
    words = (direction, processes, _bytes(filled(job["bs"])), requests, filled(job["mode"]))
    text = ",".join(map(str, (*words, "random" if is_random else "sequential")))
    return text, processes, requests


def _bytes(text: str) -> int:
    """Bytes with fio's suffixes; the engine has checked them."""
    digits = text.rstrip("kmgbiKMGBI")
    suffix = text[len(digits) :].lower().removesuffix("b").removesuffix("i")
    return int(digits) << {"": 0, "k": 10, "m": 20, "g": 30}[suffix]


def run_kernel_study(
    study: Mapping[str, Any], *, jobs: int, progress: Progress | None = None
) -> dict[str, Any]:
    """Measure all cells of a resolved study, `jobs` machines at a time.

    The answer is that of `engine.run_study`. Ctrl-C ends the machines; what the others measured is
    returned with `interrupted` set.

    Raises `NandlabError` when the machine cannot be used here or a run in it fails.
    """
    cells = plan(study)
    try:
        measured, kernels, interrupted = measure_cells(cells, jobs, progress)
    except (VmUnavailable, VmRunError, ModuleBuildError, MeasurementError) as error:
        raise NandlabError(f"{study['name']}: {error}") from error
    return _answer(study, cells, measured, kernels, interrupted=interrupted)


def measure_cells(
    cells: Sequence[Cell], jobs: int, progress: Progress | None, load: Load = TIMED_LOAD
) -> tuple[dict[int, Measurement], list[str], bool]:
    """What was measured by the number of the cell, kernels, and whether it was stopped.

    Raises what the machine raises: `VmUnavailable`, `VmRunError`, `ModuleBuildError`; and
    `MeasurementError` for a cell that left none.
    """
    groups: dict[tuple[str, str, int], list[Cell]] = {}
    for cell in cells:
        groups.setdefault(cell.machine, []).append(cell)
    by_name = {cell.name: cell for cell in cells}
    measured: dict[int, Measurement] = {}
    with tempfile.TemporaryDirectory(prefix="nandlab-kernel-") as scratch_name:
        scratch = Path(scratch_name)
        laboratory = _Laboratory(scratch, {cell.axes["kernel"] for cell in cells}, load)
        stop = threading.Event()
        done: queue.SimpleQueue[str] = queue.SimpleQueue()

        def on_line(line: str) -> None:
            if stop.is_set():
                raise _Stopped
            word, _, name = line.partition(" ")
            if word == "cell" and name in by_name:
                done.put(name)

        with ThreadPoolExecutor(max(min(jobs, len(groups)), 1)) as pool:
            futures = [
                pool.submit(laboratory.measure, number, group, on_line)
                for number, group in enumerate(groups.values())
            ]
            try:
                _watch(futures, done, by_name, progress)
            except KeyboardInterrupt:
                stop.set()
            except BaseException:
                stop.set()
                _cancel(futures)
                stop_machines()
                raise
            if stop.is_set():
                _cancel(futures)
                stop_machines()
            for future in futures:
                if stop.is_set() and (future.cancelled() or future.exception() is not None):
                    continue
                measured.update(future.result())
    return measured, laboratory.releases(), stop.is_set()


def _cancel(futures: Iterable["Future[dict[int, Measurement]]"]) -> None:
    for future in futures:
        future.cancel()


def _watch(
    futures: Sequence["Future[dict[int, Measurement]]"],
    done: "queue.SimpleQueue[str]",
    by_name: Mapping[str, Cell],
    progress: Progress | None,
) -> None:
    """Tell the progress until all is done; an error of a machine comes out at once."""
    count = 0
    while not all(future.done() for future in futures):
        try:
            label = by_name[done.get(timeout=_WAIT_S)].label
            count += 1
        except queue.Empty:
            label = ""
        if progress is not None and label:
            progress(count, len(by_name), label)
        for future in futures:
            if future.done():
                future.result()


class _Laboratory:
    """Kernels, modules and programs that the machines are made of."""

    def __init__(self, scratch: Path, series: Iterable[str], load: Load) -> None:
        self._scratch = scratch
        self._load = load
        self._source = _module_source()
        self._kernels: dict[str, Kernel] = {one: find_kernel(one) for one in sorted(series)}
        self._modules = {
            one: build_modules(kernel, self._source, scratch / "modules", ("SFQ_TESTS=m",))
            for one, kernel in self._kernels.items()
        }
        program = self._source / "tests" / f"{load.program}.c"
        self._program = _build_program(program, scratch / load.program)

    def releases(self) -> list[str]:
        """What the kernels call themselves."""
        return [kernel.release for kernel in self._kernels.values()]

    def measure(self, number: int, cells: Sequence[Cell], on_line: Any) -> dict[int, Measurement]:
        """Measure cells of one kernel and device in one machine."""
        series = cells[0].axes["kernel"]
        listing = self._scratch / f"cells-{number}"
        listing.write_text("".join(f"{cell.line}\n" for cell in cells), encoding="utf-8")
        tests = self._source / "tests"
        files = {f"/{name}.ko": path for name, path in self._modules[series].items()}
        files |= {f"/{self._load.program}": self._program, "/study/cells": listing}
        files |= {"/tests/common.sh": tests / "common.sh"}
        deadline_s = _BOOT_DEADLINE_S + _REQUEST_DEADLINE_S * sum(cell.requests for cell in cells)
        machine = Machine(
            self._kernels[series],
            (tests / self._load.script).read_text(encoding="utf-8"),
            deadline_s,
            Contents(available_modules=_MODULES, files=files),
            icount_shift=ICOUNT_SHIFT,
        )
        result = run_machine(machine, self._scratch / f"machine-{number}", on_line)
        found = {}
        for cell in cells:
            path = result.files.get(cell.name)
            if path is None:
                raise MeasurementError(f"{cell.label}: the machine left no measurement")
            try:
                found[cell.number] = read_measurement(path.read_text(encoding="utf-8"))
            except MeasurementError as error:
                raise MeasurementError(f"{cell.label}: {error}") from None
        return found


def _module_source() -> Path:
    source = Path(__file__).resolve().parents[2] / "kernel" / "sfq"
    if not (source / "Kbuild").is_file():
        raise VmUnavailable("the module SFQ is built from the source tree of nandlab: run it there")
    return source


def _build_program(source: Path, out: Path) -> Path:
    compiler = require_programs(["gcc-12"])["gcc-12"]
    command = [str(compiler), "-static", "-pthread", "-O2", "-o", str(out), str(source)]
    done = children.run(command, is_apart=True)
    if done.returncode != 0:
        raise ModuleBuildError(f"{source.name} does not build", done.stderr)
    return out


def _answer(
    study: Mapping[str, Any],
    cells: Sequence[Cell],
    measured: Mapping[int, Measurement],
    kernels: Sequence[str],
    *,
    interrupted: bool,
) -> dict[str, Any]:
    """Rows and tables in the form of the engine's answer."""
    columns = [str(column) for column in study["columns"]]
    rows: list[list[Any]] = []
    pooled: dict[tuple[str, ...], dict[str, list[int]]] = {}
    for cell in cells:
        found = measured.get(cell.number)
        if found is None:
            continue
        place = tuple(cell.axes.values())
        rows += [[*place, cell.repeat, *metric] for metric in metrics(found)]
        at = pooled.setdefault(place, {direction: [] for direction in DIRECTIONS})
        for direction in DIRECTIONS:
            at[direction] += found.latencies_ns(direction)
    tables = _tables(columns, pooled)
    text = csv_text((*columns, *ROW_COLUMNS), rows)
    digest = hashlib.blake2b(digest_size=32)
    for part in (text, *(table["csv"] for table in tables)):
        digest.update(part.encode())
    return {
        "study": dict(study),
        "columns": columns,
        "tables": tables,
        "frames": {
            "rows": frame_of(text, columns),
            "curves": frame_of(csv_text(columns, ()), columns),
            **{table["name"]: frame_of(table["csv"], columns) for table in tables},
        },
        "results_csv": text,
        "results_digest": digest.hexdigest(),
        "notes": [*NOTES, f"Kernel: {', '.join(kernels)}."],
        "interrupted": interrupted,
    }


def _tables(
    columns: Sequence[str], pooled: Mapping[tuple[str, ...], Mapping[str, list[int]]]
) -> list[dict[str, str]]:
    """Percentiles over all repeats, and distributions."""
    values: list[tuple[Any, ...]] = []
    histograms: list[tuple[Any, ...]] = []
    for place, latencies in pooled.items():
        for direction in DIRECTIONS:
            ordered = sorted(latencies[direction])
            values += [(*place, *metric) for metric in latency_metrics(direction, ordered)]
            histograms += [(*place, direction, *bucket) for bucket in buckets(ordered)]
    return [
        {"name": "pooled", "csv": csv_text((*columns, "metric", "value", "unit"), values)},
        {
            "name": "latencies",
            "csv": csv_text((*columns, "direction", "from_ns", "to_ns", "count"), histograms),
        },
    ]
