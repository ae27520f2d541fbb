"""What the publications answer to the questions of the studies, from their own tables."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from nandlab.results.study_result import Table
from nandlab.verdicts.wording import ftl_name, joined, number, percent, signed_percent

_FILE_SYSTEMS = {"jffs2": "JFFS2", "nilfs2": "NILFS2", "yaffs2": "YAFFS2"}
_INDIFFERENT = 0.01
"""Means that lie no further apart are taken for the same, as the publication takes them."""

_CHANGES = {
    "read_latency_max": "longest read",
    "read_latency_mean": "mean read",
    "write_latency_max": "longest write",
    "write_latency_mean": "mean write",
}


def published_answer(study: str, reference: Table | None) -> str:
    """The published answer in a sentence or two; nothing for a study that has none."""
    answer = ANSWERS.get(study)
    if answer is None or reference is None:
        return ""
    try:
        return answer(reference.dicts())
    except (IndexError, KeyError, TypeError, ValueError):
        # A reference of the user's own need not hold every cell of the published table.
        return ""


def _ftl_windows(rows: Sequence[Mapping[str, Any]]) -> str:
    means = {
        str(row["ftl"]): float(row["time_units"]) for row in rows if row["statistic"] == "mean"
    }
    order = sorted(means, key=lambda ftl: means[ftl])
    best, second, worst = order[0], order[1], order[-1]
    others = joined([ftl_name(ftl) for ftl in order[1:-1]])
    return (
        f"{ftl_name(best)} costs least, {percent(1 - means[best] / means[second])} less time than "
        f"{ftl_name(second)}; then {others}; {ftl_name(worst)} costs most, "
        f"{number(means[worst] / means[best])} times as much."
    )


def _scheduler_filesystem(rows: Sequence[Mapping[str, Any]]) -> str:
    means: dict[str, dict[str, dict[str, float]]] = {}
    for row in rows:
        if row["file_mib"] == "mean":
            of_test = means.setdefault(str(row["file_system"]), {}).setdefault(str(row["test"]), {})
            of_test[str(row["scheduler"])] = float(row["seconds"])
    parts = []
    for name, tests in means.items():
        spreads = [max(found.values()) / min(found.values()) - 1 for found in tests.values()]
        if max(spreads) <= _INDIFFERENT:
            parts.append(f"{_FILE_SYSTEMS.get(name, name)} does not care")
            continue
        best = {test: min(found, key=lambda one: found[one]) for test, found in tests.items()}
        words = [
            f"{test}s by {percent(spread)} (best {best[test]})"
            for test, spread in zip(tests, spreads, strict=True)
        ]
        parts.append(f"it moves {_FILE_SYSTEMS.get(name, name)}'s {joined(words)}")
    text = "; ".join(parts)
    return f"{text[:1].upper()}{text[1:]}."


def _sfq(rows: Sequence[Mapping[str, Any]]) -> str:
    changes = {str(row["metric"]): float(row["sfq_relative_to_cfq"]) for row in rows}
    parts = [f"{words} {signed_percent(changes[name])}" for name, words in _CHANGES.items()]
    return f"SFQ against CFQ: {joined(parts)}."


def _android(rows: Sequence[Mapping[str, Any]]) -> str:
    values = {str(row["claim"]): row["value"] for row in rows}
    mounts, longer, memory = (
        float(values[name])
        for name in (
            "mount_time_ubifs_below_yaffs2",
            "ubifs_unclean_minus_clean_mount",
            "memory_ubifs_above_yaffs2",
        )
    )
    return (
        f"UBIFS: it mounts at least {percent(mounts)} faster ({longer} s slower after a power cut "
        "than without one), writes far faster and keeps its integrity over a power cut, which "
        f"YAFFS2 cannot; it uses at least {percent(memory)} more memory."
    )


ANSWERS: Mapping[str, Callable[[Sequence[Mapping[str, Any]]], str]] = {
    "android": _android,
    "ftl-windows": _ftl_windows,
    "scheduler-filesystem": _scheduler_filesystem,
    "sfq-emmc": _sfq,
    "sfq-kernel": _sfq,
}
"""Studies with a publication behind them."""
