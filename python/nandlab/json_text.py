"""JSON for files and other programs: names of files that are no text are part of it."""

import json
import re

_STAND_IN = re.compile("[\ud800-\udfff]")


def json_text(value: object, *, indent: int | None = 2, is_ascii: bool = False) -> str:
    """JSON that every encoding of Unicode can hold.

    Bytes of names that are not UTF-8 stand in Python's text as lone surrogates (PEP 383); they are
    escaped, which Python reads back as the same name.
    """
    text = json.dumps(value, indent=indent, ensure_ascii=is_ascii)
    return _STAND_IN.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def is_text(name: str) -> bool:
    """True if all bytes of a name are UTF-8."""
    return _STAND_IN.search(name) is None
