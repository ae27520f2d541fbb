"""Scripts that show a failure after a power cut, with the command that shows it and a digest.

Such a script begins with three lines of comment: the command, what it shows, and the digest.
"""

import hashlib
import json
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from nandlab.errors import NandlabError

HEAD_LINES = 3
"""Lines before the script; the engine counts them in the lines that it names."""

_COMMAND, _SHOWS, _DIGEST = "# nandlab crash ", "# shows ", "# digest "
_PLACES = {"fs", "part", "block_device", "blocks", "pages_per_block", "profile", "seed"}
"""Options that say on what a script is cut."""
_REPEATED = ("torn", "then")


def digest_of(rows: Sequence[Mapping[str, Any]]) -> str:
    """16 hexadecimal digits of SHA-256 over the violations and broken expectations of a call."""
    text = json.dumps(rows, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def command(name: str, options: Mapping[str, Any], failure: Mapping[str, Any]) -> str:
    """The command that shows a failure of a script; `options` are those of `nandlab.crash`."""
    asked = {key: value for key, value in options.items() if key in _PLACES and value is not None}
    asked |= cut_of(failure)
    words = ["nandlab", "crash", name]
    for key, value in asked.items():
        for one in value if key in _REPEATED else [value]:
            words += [f"--{key.replace('_', '-')}", str(one)]
    return shlex.join(words)


def cut_of(failure: Mapping[str, Any]) -> dict[str, Any]:
    """The cut that shows a failure, as options of `nandlab.crash`; all if the run itself fails."""
    if failure["cut_point"] is None:
        return {}
    cut: dict[str, Any] = {"only": failure["cut_point"], "torn": [failure["torn"]]}
    return cut | ({"then": failure["then"].split()} if failure["then"] else {})


def file_text(shown_by: str, shows: str, digest: str, script: str) -> str:
    """The file of a script that fails."""
    plain = " ".join(shows.split())
    return f"# {shown_by}\n{_SHOWS}{plain}\n{_DIGEST}{digest}\n{script}"


def read_file(path: Path) -> tuple[dict[str, Any], str]:
    """The options and the digest of a file of a script that fails.

    Raises `NandlabError` if it has no such head.
    """
    lines = path.read_text(encoding="utf-8").splitlines()[:HEAD_LINES]
    beginnings = (_COMMAND, _SHOWS, _DIGEST)
    pairs = list(zip(lines, beginnings, strict=False))
    if len(pairs) < HEAD_LINES or not all(line.startswith(begin) for line, begin in pairs):
        wanted = ", ".join(repr(begin) for begin in beginnings)
        raise NandlabError(f"{path}: the first lines of a failing script begin with {wanted}")
    words = shlex.split(lines[0][2:])[3:]
    options: dict[str, Any] = {}
    for option, value in zip(words[::2], words[1::2], strict=True):
        key = option.removeprefix("--").replace("-", "_")
        given: Any = int(value) if value.isdigit() else value
        if key in _REPEATED:
            options.setdefault(key, []).append(given)
        else:
            options[key] = given
    return options, lines[2].removeprefix(_DIGEST)


def shown_again(path: Path) -> str | None:
    """What differs if a failing script is cut again as its first line says, or None."""
    import nandlab

    options, digest = read_file(path)
    try:
        found = nandlab.crash(path, **options)
    except NandlabError as error:
        rows: Sequence[Mapping[str, Any]] = [{"error": str(error)}]
    else:
        if found.is_clean:
            return f"{path}: nothing fails any more"
        rows = found.rows
    again = digest_of(rows)
    return None if again == digest else f"{path}: digest {again} in place of {digest}"
