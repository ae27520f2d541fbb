"""Names of files in images, which are bytes, as text and as JSON.

The engine escapes a space, `%`, control characters and bytes outside UTF-8 as `%XX`, so that a
name is one word of a line. Manifests keep that form. Listings and JSON hold the real name.
"""

import re
from collections.abc import Mapping
from typing import Any

_LETTERS = dict(zip("\a\b\t\n\v\f\r\\", (f"\\{one}" for one in "abtnvfr\\"), strict=True))
"""Escapes with a letter, as `ls -b` of GNU coreutils writes them."""

_ESCAPED = re.compile("%[0-9A-F]{2}")


def name_bytes(escaped: str) -> bytes:
    """The bytes of a name that the engine escaped."""
    parts = re.split("%([0-9A-F]{2})", escaped)
    return b"".join(
        bytes.fromhex(part) if number % 2 else part.encode() for number, part in enumerate(parts)
    )


def shown_name(escaped: str) -> str:
    """The real name; characters that cannot be printed are escaped as `ls -b` does.

    A control character or a byte outside UTF-8 becomes a backslash with a letter or three octal
    digits. A backslash is doubled, so that no two names look alike. A space stays a space.
    """
    text = name_bytes(escaped).decode("utf-8", "surrogateescape")
    return "".join(_shown(letter) for letter in text)


def shown_text(text: str) -> str:
    """A sentence of the engine with real names in it."""
    # Adjacent escapes are decoded together: several of them may encode one letter.
    return re.sub(f"(?:{_ESCAPED.pattern})+", lambda found: shown_name(found.group()), text)


def json_row(row: Mapping[str, Any]) -> dict[str, Any]:
    r"""A row of a listing with real names, in valid UTF-8.

    If a name is not UTF-8, its other bytes become `\xHH`, its backslashes are doubled, and the row
    has `"is_escaped": true`.
    """
    changed, is_escaped = dict(row), False
    for key in ("path", "target"):
        if row.get(key) is not None:
            changed[key], is_this = _json_name(row[key])
            is_escaped |= is_this
    if row.get("xattrs"):
        changed["xattrs"] = {}
        for name, value in row["xattrs"].items():
            shown, is_this = _json_name(name)
            changed["xattrs"][shown] = value
            is_escaped |= is_this
    return {**changed, "is_escaped": True} if is_escaped else changed


def _json_name(escaped: str) -> tuple[str, bool]:
    name = name_bytes(escaped)
    try:
        return name.decode("utf-8"), False
    except UnicodeDecodeError:
        return name.replace(b"\\", b"\\\\").decode("utf-8", "backslashreplace"), True


def _shown(letter: str) -> str:
    if letter in _LETTERS:
        return _LETTERS[letter]
    if letter.isprintable():
        return letter
    return "".join(f"\\{byte:03o}" for byte in letter.encode("utf-8", "surrogateescape"))
