"""What a comparison knows beside its rows: power cuts by the script, and files by content."""

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from nandlab.comparison.losses import allowed_s
from nandlab.comparison.request import on_block_device
from nandlab.comparison.script_lines import length_s
from nandlab.comparison.study import NAME
from nandlab.errors import NandlabError
from nandlab.frame import RunFrame

ALLOWED, FOUND = "cut_loss_allowed_s", "cut_loss_found_s"
"""Keys of what a cut takes: by file system, and found by file system and profile."""

COUNTED = "cut_loss_cuts"
"""Key of how many cuts were looked at, by file system and profile."""


NOTES = "cut_loss_notes"
"""Key of sentences on cuts that could not be measured."""

PAUSES = "pauses_s"
"""Key of the time in which a script does nothing."""


def with_beside(run: RunFrame, given: Mapping[str, Any]) -> RunFrame:
    """The run with what is known beside its rows; others than comparisons stay as they are."""
    if run.name != NAME or "file_system" not in run.axes:
        return replace(run, beside=given) if given else run
    return replace(run, beside={**_allowed(run), **given})


def _allowed(run: RunFrame) -> dict[str, Any]:
    """The most that each file system may lose of the script, if the script has pauses."""
    script = (run.study.get("workload") or {}).get("script")
    if script is None or run.folder is None:
        return {}
    try:
        text = (run.folder / str(script)).read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise NandlabError(f"{run.folder / str(script)}: {error}") from None
    names = dict.fromkeys(str(stack["file_system"]) for stack in run.study.get("stacks") or ())
    # Nobody knows what a card keeps in its own memory: a block file system there is left out.
    on_card = {"block_device"} & set(run.axes)
    told = {
        name: allowed_s(name, text) for name in names if not (on_card and name in on_block_device())
    }
    return {PAUSES: length_s(text)} | {
        ALLOWED: {name: value for name, value in told.items() if value is not None}
    }


def archived(folder: Path, kinds: Mapping[str, str]) -> list[dict[str, Any]]:
    """Files of a folder by content: what each is, its name, its size and its SHA-256."""
    found = []
    for name, what in kinds.items():
        content = (folder / name).read_bytes()
        digest = hashlib.sha256(content).hexdigest()
        found.append({"what": what, "file": name, "bytes": len(content), "sha256": digest})
    return found
