"""The study that a comparison stands for, as a file of its own beside a copy of the workload."""

import json
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nandlab.comparison.cards import card_file
from nandlab.comparison.request import Candidates, Named, WorkloadFile

NAME = "comparison"
"""Name of the study; its verdict, tables and report sections go by it."""

STUDY_FILE = "comparison.toml"

DEFAULT_BOARD = "s5pv210-datasheet"
"""Host of file systems where nobody names one; its kernel is the one that is simulated then."""

_FLASH = "as-given"


@dataclass(frozen=True)
class Host:
    """The host of file systems: board and kernel, which is said even if it is the board's own."""

    board: Named
    kernel: str


def study_of(
    candidates: Candidates, workload: WorkloadFile, part: Named, blocks: int | None, host: Host
) -> dict[str, Any]:
    """The study as a table."""
    study: dict[str, Any] = {
        "name": NAME,
        "title": "Side by side",
        "question": "Which one fits this workload?",
        "seed": workload.seed,
        "repeats": workload.repeats,
        "part": part.name,
    }
    if blocks is not None:
        study["blocks"] = blocks
    if not candidates.file_systems:
        given = {key: value for key, value in workload.workload.items() if key != "kind"}
        study["workload"] = {"kind": "trace", "service_times": True, **given}
        study["axes"] = {"ftl": list(candidates.layers)}
    else:
        study["workload"] = {"kind": "raw-nand"}
        axes = {"file_system": list(candidates.file_systems), "test": ["lifecycle"]}
        if candidates.schedulers:
            axes["scheduler"] = list(candidates.schedulers)
        study["host"] = {**workload.host, "board": host.board.name, "kernel": host.kernel}
        if workload.flash:
            study["flash_states"] = {_FLASH: workload.flash}
            axes["flash"] = [_FLASH]
        if candidates.layers:
            axes["file_system"] = list(candidates.on_cards)
            axes["block_device"] = [card_file(layer) for layer in candidates.layers]
            if candidates.on_chip:
                on_chip = {"file_system": list(candidates.on_chip), "block_device": ["mtdblock"]}
                study["extra_runs"] = [{"axes": on_chip}]
        study["axes"] = axes
        order = ("file_system", "block_device", "scheduler", "flash", "test")
        study["axis_order"] = [axis for axis in order if axis in axes]
    if workload.kind == "iozone":
        study["workload"]["options"] = workload.workload["options"]
    if workload.file is not None:
        key = "script" if workload.kind == "script" else "file"
        study["workload"][key] = workload.file.name
    return study


def write_study(
    study: dict[str, Any],
    cards: dict[str, dict[str, Any]],
    workload: WorkloadFile,
    own: Sequence[Named],
    folder: Path,
) -> Path:
    """Writes study, cards, workload and files of the user's own into a folder; the study's path."""
    if workload.file is not None:
        shutil.copyfile(workload.file, folder / workload.file.name)
    for named in own:
        if named.file is not None:
            shutil.copyfile(named.file, folder / named.name)
    for name, card in cards.items():
        (folder / name).write_text(toml(card), encoding="utf-8")
    path = folder / STUDY_FILE
    path.write_text(toml(study), encoding="utf-8")
    return path


def toml(table: dict[str, Any], head: str = "") -> str:
    """A table of plain values, lists and tables as TOML."""
    plain = {key: value for key, value in table.items() if not isinstance(value, dict)}
    lines = [f"{_key(key)} = {_value(value)}" for key, value in plain.items()]
    for key, value in table.items():
        if isinstance(value, dict):
            name = f"{head}{key}"
            lines += ["", f"[{name}]", toml(value, f"{name}.").rstrip("\n")]
    return "\n".join(lines) + "\n"


def _key(key: str) -> str:
    return json.dumps(key) if "." in key else key


def _value(value: object) -> str:
    if isinstance(value, dict):
        return f"{{ {', '.join(f'{key} = {_value(one)}' for key, one in value.items())} }}"
    if isinstance(value, list):
        return f"[{', '.join(_value(one) for one in value)}]"
    # JSON's words, numbers and escapes are TOML's, too, but for characters beyond 16 bits.
    return json.dumps(value, ensure_ascii=False)
