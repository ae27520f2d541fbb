"""The study that a comparison stands for, as a file of its own beside a copy of the workload."""

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nandlab.comparison.cards import card_file
from nandlab.comparison.named import Named
from nandlab.comparison.request import NO_OPTIONS, Candidates, WorkloadFile
from nandlab.toml_text import toml_of

NAME = "comparison"
"""Name of the study; its report goes by it."""

STUDY_FILE = "comparison.toml"

WORKLOAD_COPY = "workload-file.toml"
"""Name of the copy of the workload file."""

DEFAULT_BOARD = "s5pv210-datasheet"
"""Host of file systems where nobody names one; its kernel is the one that is simulated then."""

_FLASH = "as-given"

WHOLE = "whole"
"""Value of the axis `limits` for a mount without options: the engine's word for no limit at all."""

_ORDER = (
    *("file_system", "block_device", "scheduler", "limits", "board", "part", "flash", "test"),
)
"""Axes in the order of columns: the first one changes slowest."""


@dataclass(frozen=True)
class Host:
    """The hosts of file systems; a kernel is said even if it is the board's own."""

    boards: tuple[Named, ...]
    kernel: str | None
    """None where each board has its own, as the file of the board says."""


def study_of(
    candidates: Candidates,
    workload: WorkloadFile,
    parts: Sequence[Named],
    blocks: int | None,
    host: Host,
    question: str,
) -> dict[str, Any]:
    """The study as a table."""
    study: dict[str, Any] = {
        "name": NAME,
        "title": "Side by side",
        "question": question,
        "seed": workload.seed,
        "repeats": workload.repeats,
        "part": parts[0].name,
    }
    if blocks is not None:
        study["blocks"] = blocks
    if not candidates.file_systems:
        given = {key: value for key, value in workload.workload.items() if key != "kind"}
        study["workload"] = {"kind": "trace", "service_times": True, **given}
        study["axes"] = {"ftl": list(candidates.layers)}
        if candidates.cleaning:
            study["axes"]["cleaning"] = list(candidates.cleaning)
        if len(parts) > 1:
            study["axes"]["part"] = [part.name for part in parts]
        if len(study["axes"]) > 1:
            study["axis_order"] = list(study["axes"])
    else:
        _add_file_systems(study, candidates, workload, parts, host)
    if workload.kind == "iozone":
        study["workload"]["options"] = workload.workload["options"]
    if workload.file is not None:
        key = "script" if workload.kind == "script" else "file"
        study["workload"][key] = workload.file.name
    return study


def _add_file_systems(
    study: dict[str, Any],
    candidates: Candidates,
    workload: WorkloadFile,
    parts: Sequence[Named],
    host: Host,
) -> None:
    study["workload"] = {"kind": "raw-nand"}
    study["host"] = {**workload.host, "board": host.boards[0].name}
    study["host"].pop("kernel", None)
    if host.kernel is not None:
        study["host"]["kernel"] = host.kernel
    shared: dict[str, list[str]] = {"test": ["lifecycle"]}
    if candidates.schedulers:
        shared["scheduler"] = list(candidates.schedulers)
    if len(host.boards) > 1:
        shared["board"] = [board.name for board in host.boards]
    if workload.flash:
        study["flash_states"] = {_FLASH: workload.flash}
        shared["flash"] = [_FLASH]
    if candidates.options:
        study["limits"] = {
            options: {"mount_options": options.split(",")}
            for given in candidates.options.values()
            for options in given
            if options != NO_OPTIONS
        }
    first, *others = (shared | group for group in _groups(candidates, parts))
    study["axes"] = first
    if others:
        study["extra_runs"] = [{"axes": group} for group in others]
    study["axis_order"] = [axis for axis in _ORDER if axis in first]


def _groups(candidates: Candidates, parts: Sequence[Named]) -> list[dict[str, list[str]]]:
    """Axes of file systems that have everything else in common; each group is a product."""
    found: list[dict[str, list[str]]] = []
    on_cards = candidates.on_cards
    for name in (*on_cards, *(one for one in candidates.file_systems if one not in on_cards)):
        axes: dict[str, list[str]] = {}
        if candidates.options:
            given = candidates.options.get(name, (NO_OPTIONS,))
            axes["limits"] = [WHOLE if one == NO_OPTIONS else one for one in given]
        # A card is made of one part; a chip may be any of them.
        for of_card in [[one] for one in parts] if name in on_cards else [parts]:
            group = dict(axes)
            if len(parts) > 1:
                group["part"] = [part.name for part in of_card]
            if candidates.layers:
                known = of_card[0].name if len(parts) > 1 else ""
                cards = [card_file(layer, known) for layer in candidates.layers]
                group["block_device"] = cards if name in on_cards else ["mtdblock"]
            alike = next((one for one in found if one == group | _names(one)), None)
            if alike is None:
                found.append(group | {"file_system": [name]})
            else:
                alike["file_system"].append(name)
    return found


def _names(group: dict[str, list[str]]) -> dict[str, list[str]]:
    return {"file_system": group["file_system"]}


def write_study(
    study: dict[str, Any],
    cards: dict[str, dict[str, Any]],
    workload: WorkloadFile,
    own: Sequence[Named],
    folder: Path,
) -> Path:
    """Writes study, cards, workload and files of the user's own into a folder; the study's path."""
    shutil.copyfile(workload.shown, folder / WORKLOAD_COPY)
    if workload.file is not None:
        shutil.copyfile(workload.file, folder / workload.file.name)
    for named in own:
        if named.text is not None:
            (folder / named.name).write_text(named.text, encoding="utf-8")
        if named.file is not None:
            # A module of a package that a policy imports lies in a folder of its own.
            (folder / named.name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(named.file, folder / named.name)
    for name, card in cards.items():
        (folder / name).write_text(toml_of(card), encoding="utf-8")
    path = folder / STUDY_FILE
    path.write_text(toml_of(study), encoding="utf-8")
    return path
