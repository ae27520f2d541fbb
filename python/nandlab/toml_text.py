"""Files of TOML: read with messages in one sentence, found again by line, and written."""

import datetime
import json
import math
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from nandlab.errors import NandlabError


def read_toml(path: Path, what: str, advice: str) -> tuple[str, dict[str, Any]]:
    """The text and the table of a file; `what` names its kind, `advice` says where a whole one is.

    Raises `NandlabError` with the file and the reason.
    """
    if path.is_dir():
        raise NandlabError(f"{path}: this is a folder; name {what} inside it")
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise NandlabError(f"{path}: {error.strerror}; {advice}") from None
    except UnicodeDecodeError:
        raise NandlabError(f"{path}: this is no text; {what} is TOML") from None
    try:
        return text, tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise NandlabError(f"{path}: {error}; {advice}") from None


class TomlLines:
    """The text of a file of TOML, for messages that name a line."""

    def __init__(self, path: Path, text: str) -> None:
        self.path = path
        self.lines = text.splitlines()

    def line_of(self, key: str, start: int = 0) -> int | None:
        """The first line from `start` on that begins with a key, counted from 0.

        The key stands there bare, in quotes, or below a table that names its first levels.
        """
        levels = key.split(".")
        for first in range(len(levels)):
            tail = re.escape(".".join(levels[first:]))
            wanted = re.compile(rf"""[\[\s]*["']?{tail}["']?\s*[=.\]]""")
            for number in range(start, len(self.lines)):
                if wanted.match(self.lines[number]):
                    return number
        return None

    def at(self, line: int | None, message: str) -> NandlabError:
        """A message with the file, and the line if it is known."""
        return NandlabError(f"{self.path}{'' if line is None else f':{line + 1}'}: {message}")


_BARE = re.compile(r"[A-Za-z0-9_-]+")
"""A key that TOML takes without quotes."""


def toml_of(table: Mapping[str, Any], head: str = "") -> str:
    """A table of plain values, lists and tables as TOML 1.0; lists of tables are inline tables.

    Raises `TypeError` for what TOML has no word for, such as None.
    """
    plain = {key: value for key, value in table.items() if not isinstance(value, dict)}
    lines = [f"{toml_key(key)} = {toml_value(value)}" for key, value in plain.items()]
    for key, value in table.items():
        if isinstance(value, dict):
            name = f"{head}{toml_key(key)}"
            lines += ["", f"[{name}]", toml_of(value, f"{name}.").rstrip("\n")]
    return "\n".join(lines) + "\n"


def toml_key(key: str) -> str:
    """A key, in quotes if it needs them."""
    return key if _BARE.fullmatch(key) else _text(key)


def toml_value(value: object) -> str:
    """A value on one line."""
    if isinstance(value, Mapping):
        pairs = (f"{toml_key(str(key))} = {toml_value(one)}" for key, one in value.items())
        return f"{{ {', '.join(pairs)} }}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(toml_value(one) for one in value)}]"
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, float) and not math.isfinite(value):
        # JSON would call them Infinity and NaN.
        return "nan" if math.isnan(value) else "inf" if value > 0 else "-inf"
    if isinstance(value, bool | int | float):
        return json.dumps(value)
    if isinstance(value, datetime.datetime | datetime.date | datetime.time):
        return value.isoformat()
    raise TypeError(f"TOML has no {type(value).__name__}")


def _text(text: str) -> str:
    # JSON's escapes are TOML's, but JSON leaves the control character 127 as it is.
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
