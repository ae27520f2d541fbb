"""What a comparison is asked, and the measurements that answer it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from nandlab.errors import NandlabError
from nandlab.suggest import unknown

_HEAD = "Which one is best for "
_TAIL = " on this workload?"
_OPEN = "Which one fits this workload?"
"""The question where nobody asked another."""


@dataclass(frozen=True)
class Question:
    """A word of --question: `metrics` answer it, the first one above all."""

    word: str
    title: str
    metrics: tuple[str, ...]


POWER_CUTS = "power-cuts"

QUESTIONS = (
    Question("speed", "Speed", ("throughput_kib_per_s", "call_p99_ns")),
    Question("latency", "Latency", ("call_p99_ns", "call_max_ns")),
    Question("life", "Life", ("lifetime_host_bytes", "waf")),
    Question(POWER_CUTS, "Power cuts", ("cut_loss_s", "cut_found_s", "mount_after_cut_ns")),
    Question("memory", "Memory", ("memory_bytes", "device_ram_bytes")),
    Question("mounting", "Mounting", ("mount_ns", "mount_after_cut_ns")),
)


def questions(given: str | None) -> tuple[Question, ...]:
    """The questions that --question lists with commas, each once."""
    known = {one.word: one for one in QUESTIONS}
    found: list[Question] = []
    for word in () if given is None else given.split(","):
        name = word.strip().lower()
        if name not in known:
            raise NandlabError(f"--question: {unknown('question', word.strip(), known)}")
        if known[name] in found:
            raise NandlabError(f"--question: {name} is there twice")
        found.append(known[name])
    return tuple(found)


def in_study(asked: Sequence[Question]) -> str:
    """The question as its study states it."""
    if not asked:
        return _OPEN
    return f"{_HEAD}{', '.join(one.word for one in asked)}{_TAIL}"


def of_study(study: Mapping[str, Any]) -> tuple[Question, ...]:
    """The questions that a study states; none if it states another."""
    text = str(study.get("question") or "")
    if not (text.startswith(_HEAD) and text.endswith(_TAIL)):
        return ()
    words = text.removeprefix(_HEAD).removesuffix(_TAIL).split(", ")
    return tuple(one for word in words for one in QUESTIONS if one.word == word)
