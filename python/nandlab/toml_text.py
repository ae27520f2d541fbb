"""A user's file of TOML as text and as a table; what is wrong with it in one sentence."""

import tomllib
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
