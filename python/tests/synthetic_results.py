"""A made-up answer of the engine for ftl-windows, in the shape of the real one."""

from pathlib import Path
from typing import Any

from made_up import run_of

from nandlab.frame import RunFrame
from nandlab.frame.reference import read_reference

REFERENCE = Path(__file__).resolve().parents[2] / "studies" / "ftl-windows" / "reference.csv"

AXES = ("ftl", "file_system", "file_set", "processes", "settings", "initial")
FILE_SYSTEMS = {"fat": 1.0, "ntfs": 1.1}
FILE_SETS = {"jpg": 0.6, "mp3": 1.0}
PROCESSES = {"1": 1.0, "4": 1.03}
SETTINGS = ("default", "published-fit")

# Reads, writes, erases and full merges for each page the host writes; small files cost more.
COSTS = {
    "bast": (0.02, 1.06, 0.0335, 0.002),
    "fast": (0.016, 1.05, 0.0330, 0.003),
    "lexar": (1.05, 2.1, 0.066, 0.031),
    "m-systems": (4.2, 2.0, 0.060, 0.029),
    "mitsubishi": (10.7, 1.87, 0.058, 0.028),
}
SMALL_FILE_PENALTY = {
    "bast": 1.6,
    "fast": 1.3,
    "lexar": 1.2,
    "m-systems": 1.05,
    "mitsubishi": 1.0,
}


def engine_answer() -> dict[str, Any]:
    """All runs of the study, with a few hundred points of curves."""
    rows: list[list[Any]] = []
    curves: list[list[Any]] = []
    for ftl in COSTS:
        for file_system in FILE_SYSTEMS:
            for file_set in FILE_SETS:
                for processes in PROCESSES:
                    for settings in SETTINGS:
                        axes = [ftl, file_system, file_set, processes, settings, "image-and-pass"]
                        metrics = _metrics(*axes[:5])
                        rows += [[*axes, 0, *metric] for metric in metrics]
                        per_io = {name: value / 100 for name, value, _ in metrics}
                        curves += [
                            [
                                *axes,
                                io,
                                round(io * per_io["reads_mean"]),
                                round(io * per_io["writes_mean"]),
                                round(io * per_io["erases_mean"]),
                                round(io * per_io["weighted_time_mean"]),
                            ]
                            for io in range(0, 24_000, 480)
                        ]
    columns = list(AXES)
    return {
        "study": {
            "name": "ftl-windows",
            "title": "Translation layers under FAT and NTFS",
            "question": "Which translation layer suits the file systems of Windows?",
            "seed": 1,
            "repeats": 1,
            "quick": False,
            "part": "published-small-block",
            "reference": "reference.csv",
            "runs": 80,
        },
        "columns": columns,
        "rows": rows,
        "curves": {
            "columns": [*columns, "io", "reads", "writes", "erases", "weighted_time"],
            "rows": curves,
        },
        "results_digest": "ab" * 32,
        "notes": [],
    }


def study_result() -> RunFrame:
    """The same, as the package holds it."""
    return run_of(engine_answer(), read_reference(REFERENCE), REFERENCE.parent)


def _metrics(
    ftl: str, file_system: str, file_set: str, processes: str, settings: str
) -> list[tuple[str, float, str]]:
    pages = 11_000 * FILE_SETS[file_set] * PROCESSES[processes]
    reads, writes, erases, full = COSTS[ftl]
    if settings == "default" and ftl in ("m-systems", "lexar"):
        reads, writes, erases, full = reads / 2, 1 + (writes - 1) / 2, erases / 2, full / 2
    penalty = SMALL_FILE_PENALTY[ftl] if file_set == "jpg" else 1.0
    penalty *= FILE_SYSTEMS[file_system]
    reads, writes, erases = reads * penalty, 1 + (writes - 1) * penalty, erases * penalty
    found: list[tuple[str, float, str]] = []
    charged = ftl in ("bast", "fast", "lexar")
    for window, scale in (("", 1.0), ("operation_window_", 13.0)):
        for charging in ("", "published_charging_"):
            extra = 1 if charging and charged else 0
            at = [(reads + 2 * extra) * pages, (writes + extra) * pages, erases * pages]
            at.append(at[0] + 7 * at[1] + 63 * at[2])
            for name, value in zip(("reads", "writes", "erases", "weighted_time"), at, strict=True):
                spread = 0.16 if ftl != "fast" else 0.18
                found.append((f"{window}{charging}{name}_mean", value * scale, "operations"))
                found.append(
                    (f"{window}{charging}{name}_stddev", value * scale * spread, "operations")
                )
    host = pages * 240
    switches = host * max(erases - 2 * full, 0.001)
    found += [
        ("windows", 240, "windows"),
        ("host_requests", 24_000, "requests"),
        ("host_write_pages", host, "pages"),
        ("host_write_bytes", host * 512 * FILE_SYSTEMS[file_system], "bytes"),
        ("page_reads", reads * host * 0.3, "operations"),
        ("spare_reads", reads * host * 0.7, "operations"),
        ("page_programs", writes * host, "operations"),
        ("spare_programs", 0, "operations"),
        ("erases", erases * host, "operations"),
        ("waf", writes, "ratio"),
        ("merges_switch", switches, "merges"),
        ("merges_partial", host * 0.0004, "merges"),
        ("merges_full", host * full, "merges"),
        ("pages_copied", (writes - 1) * host, "pages"),
        ("ram_bytes", {"bast": 16_000, "fast": 14_500}.get(ftl, 12_800), "bytes"),
        ("erase_count_min", 0, "erases"),
        ("erase_count_mean", erases * host / 8192, "erases"),
        ("erase_count_max", erases * host / 2048, "erases"),
        ("erase_count_stddev", erases * host / 16_384, "erases"),
        ("lifetime_host_bytes", 1e13 / (erases * 30), "bytes"),
        (
            "metadata_share",
            0.02 * FILE_SYSTEMS[file_system] / FILE_SETS[file_set],
            "ratio",
        ),
    ]
    return found
