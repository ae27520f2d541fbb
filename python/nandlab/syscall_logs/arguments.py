"""What a call was given and what it returned, from the text of a line of strace."""

import re
from dataclasses import dataclass

_QUOTED = r'"[^"\\]*(?:\\.[^"\\]*)*"'
# Behind a descriptor or AT_FDCWD: `<pipe:[1]>`, `<TCP:[a->b]>`, or a path. In a path strace writes
# `<` and `>` as octal; `-yy` appends `<char 1:3>` to it.
_NAMED = r"(?<=[0-9D])<(?:[A-Za-z0-9_-]+:\[.*?\]>(?=[^>]|$)|[^<>]*(?:<[^<>]*>)?>)"
_TOKEN = re.compile(rf"{_QUOTED}|{_NAMED}|/\*.*?\*/|[()\[\]{{}},]")
_STRING = re.compile(rf"({_QUOTED})(\.\.\.)?$")
_ESCAPE = re.compile(r"\\(?:x([0-9a-f]{2})|([0-7]{1,3})|(.))")
_LETTERS = {"n": "\n", "t": "\t", "r": "\r", "v": "\v", "f": "\f", "a": "\a", "b": "\b"}
_DESCRIPTOR = re.compile(r"(-?\d+|AT_FDCWD)(?:<(.*)>(\(deleted\))?)?$")
_DELETED = b" (deleted)"
_RESULT = re.compile(r"\)? *= (0x[0-9a-f]+|-?\d+|\?)(?: ?(.*))?$")
_PIECE = re.compile(rf"\{{iov_base=({_QUOTED})(\.\.\.)?, iov_len=(\d+)\}}$")


@dataclass(frozen=True, slots=True)
class Descriptor:
    """A descriptor as an argument or a result: its number, or None for the working folder."""

    number: int | None
    name: bytes | None
    """The path that it has now, or such as `pipe:[1]`; None if the log has none."""
    is_deleted: bool


@dataclass(frozen=True, slots=True)
class Result:
    """How a call ended."""

    value: int | None
    """None if the log has none."""
    error: str | None
    """Name of the error, such as ENOENT."""
    descriptor: Descriptor | None
    """The descriptor that it returned, with its name."""
    took_ns: int | None
    """How long it took, with `strace -T`."""


def split(text: str) -> tuple[list[str], Result]:
    """The arguments, and the result. Raises `ValueError` if the text is no whole call."""
    found: list[str] = []
    depth, begin = 0, 0
    for token in _TOKEN.finditer(text):
        sign = token[0]
        if sign in "([{":
            depth += 1
        elif sign in ")]}":
            if depth == 0:
                if text[begin : token.start()].strip() or found:
                    found.append(text[begin : token.start()].strip())
                return found, _result(text[token.start() :])
            depth -= 1
        elif sign == "," and depth == 0:
            found.append(text[begin : token.start()].strip())
            begin = token.end()
    raise ValueError("no parenthesis ends its arguments")


def parts(text: str) -> list[str]:
    """The parts of a list or structure, such as those of `[1, {2, 3}]`."""
    inside = re.sub(r"\}[^}\]]*$", "}", text.strip())[1:-1]
    return split(f"{inside}) = 0")[0]


def _result(text: str) -> Result:
    took_ns = None
    if text.endswith(">") and (took := re.search(r" <(\d+)\.(\d{6,9})>$", text)):
        took_ns = int(took[1]) * 10**9 + int(took[2].ljust(9, "0"))
        text = text[: took.start()]
    found = _RESULT.match(text)
    if found is None:
        raise ValueError("it has no result")
    word, rest = found[1], found[2] or ""
    if word == "?":
        # `? ERESTARTSYS (...)`: a signal came, and the call is made again.
        error = re.match(r"E[A-Z0-9]+", rest)
        return Result(None, error[0] if error else None, None, took_ns)
    value = int(word, 16) if word.startswith("0x") else int(word)
    if value == -1 and (error := re.match(r"E[A-Z0-9]+", rest)):
        return Result(value, error[0], None, took_ns)
    given = descriptor(word + rest) if rest.startswith("<") else None
    return Result(value, None, given, took_ns)


def descriptor(text: str) -> Descriptor:
    """A descriptor with its name. Raises `ValueError` if it is none."""
    found = _DESCRIPTOR.match(text)
    if found is None:
        raise ValueError(f"{text[:40]!r} is no descriptor")
    number = None if found[1] == "AT_FDCWD" else int(found[1])
    if found[2] is None:
        return Descriptor(number, None, False)
    # `-yy` appends the number of a device.
    name = unescaped(re.sub(r"<(?:char|block) [0-9:]+>$", "", found[2]))
    # Older versions of strace print the name that /proc/PID/fd has, with the word in it.
    is_deleted = found[3] is not None or name.endswith(_DELETED)
    return Descriptor(number, name.removesuffix(_DELETED), is_deleted)


def string(text: str) -> tuple[bytes, bool]:
    """A string, and whether it is whole. Raises `ValueError` if it is an address or nothing."""
    found = _STRING.match(text)
    if found is None:
        raise ValueError(f"{text[:40]!r} is no string")
    return unescaped(found[1][1:-1]), found[2] is None


def unescaped(text: str) -> bytes:
    """The bytes of a string of strace."""
    if "\\" not in text:
        return text.encode("latin-1")
    # With -xx every byte is written so; that is faster than one byte after the other.
    if text.startswith("\\x") and text.count("\\x") * 4 == len(text):
        return bytes.fromhex(text.replace("\\x", ""))
    return _ESCAPE.sub(_letter, text).encode("latin-1")


def _letter(found: re.Match[str]) -> str:
    if found[1] is not None:
        return chr(int(found[1], 16))
    if found[2] is not None:
        return chr(int(found[2], 8) & 0xFF)
    return _LETTERS.get(found[3], found[3])


def vector(text: str, length: int) -> bytes | None:
    """The first `length` bytes of an array of `struct iovec`; None if the log lacks them."""
    pieces: list[bytes] = []
    for part in parts(text) if text.startswith("[") else [""]:
        found = _PIECE.match(part)
        if found is None:
            return None
        piece, is_whole = string(found[1] + (found[2] or ""))
        if not is_whole and sum(map(len, pieces)) + len(piece) < length:
            return None
        pieces.append(piece)
    whole = b"".join(pieces)[:length]
    return whole if len(whole) == length else None


def number(text: str) -> int:
    """A whole number, decimal, octal or hexadecimal. Raises `ValueError` if it is none."""
    word = text.strip()
    if word.startswith("0x"):
        return int(word, 16)
    return int(word, 8) if word.startswith("0") and len(word) > 1 else int(word)


def words(text: str) -> frozenset[str]:
    """Flags, such as those of `O_RDWR|O_CREAT`."""
    return frozenset(re.split(r"[|\s]+", text.strip()))


def member(structure: str, *names: str) -> str | None:
    """A member of a structure by one of its names, such as `st_size` of `{st_size=5, ...}`."""
    for name in names:
        if found := re.search(rf"\b{name}=([^,}}]+)", structure):
            return found[1].strip()
    return None
