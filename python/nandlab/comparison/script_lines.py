"""The lines of a script as steps in its own time: what they write, what they sync, their calls.

Only pauses (`sleep`) pass time here: what a line takes is for the simulation to say.
"""

from collections.abc import Iterator
from dataclasses import dataclass

_UNITS = {"k": 1 << 10, "m": 1 << 20}
_SYNCS = ("fsync", "fsynceach")
_NAMES_ONLY = ("rename", "unlink", "rmdir", "link", "symlink", "mkdir", "mknod")


@dataclass(frozen=True)
class Step:
    """A line that changes or syncs something."""

    line: int
    """Number of the line, from 1."""
    at_s: float
    """Pauses before it, in seconds."""
    word: str
    paths: tuple[str, ...] = ()
    syncs: str = ""
    """What is synced when the line ends: `file`, `all`, or nothing."""
    goes_on: bool = False
    """It adds to a file: what it writes was gathered since the line before."""
    changes_names: bool = False


def steps(script: str) -> list[Step]:
    """The steps of a script; lines that change nothing on the medium are left out."""
    found: list[Step] = []
    at_s = 0.0
    for number, words in _lines(script):
        word, rest = words[0], words[1:]
        if word == "sleep":
            at_s += float(rest[0]) / 1000
        elif (step := _step(number, at_s, word, rest)) is not None:
            found.append(step)
    return found


def length_s(script: str) -> float:
    """Pauses of the whole script, in seconds."""
    return sum(float(words[1]) / 1000 for _, words in _lines(script) if words[0] == "sleep")


def _step(number: int, at_s: float, word: str, rest: list[str]) -> Step | None:
    syncs = "file" if rest and rest[-1] in _SYNCS else ""
    if word == "sync":
        return Step(number, at_s, word, syncs="all")
    if word in ("fsync", "fdatasync"):
        return Step(number, at_s, word, (rest[0],), "file")
    if word == "putn":
        paths = tuple(f"{rest[0]}{one:05}" for one in range(int(rest[1]), int(rest[2])))
        return Step(number, at_s, word, paths)
    if word in ("put", "append", "write", "rwrite"):
        return Step(number, at_s, word, (rest[0],), syncs, goes_on=word != "put")
    if word == "truncate":
        return Step(number, at_s, word, (rest[0],))
    if word in _NAMES_ONLY:
        return Step(number, at_s, word, tuple(rest[:2]), changes_names=True)
    return None


def calls(script: str) -> int:
    """System calls of a script, as the simulation counts them: close included, pauses not.

    A line that fails in the simulation counts as if it had not.
    """
    sizes: dict[str, int] = {}
    return sum(_calls(words[0], words[1:], sizes) for _, words in _lines(script))


def _calls(word: str, rest: list[str], sizes: dict[str, int]) -> int:
    if word in ("put", "append", "write", "rwrite"):
        return _calls_of_writes(word, rest, sizes)
    if word == "putn":
        count, length, chunk = int(rest[2]) - int(rest[1]), size(rest[4]), size(rest[5])
        for one in range(int(rest[1]), int(rest[2])):
            sizes[f"{rest[0]}{one:05}"] = length
        return count * (2 + _parts(length, chunk))
    if word == "read":
        length = sizes.get(rest[0], 0) if len(rest) < 4 else size(rest[3])
        # The last read of a whole file finds its end.
        return 2 + _parts(length, size(rest[1])) + (len(rest) < 4)
    if word in ("fsync", "fdatasync"):
        return 3
    if word == "unlinkn":
        return int(rest[2]) - int(rest[1])
    if word == "rename" and rest[0] in sizes:
        sizes[rest[1]] = sizes.pop(rest[0])
    if word == "truncate":
        sizes[rest[0]] = size(rest[1])
    return 0 if word in ("sleep", "drop", "phase", "log", "end", "workload", "settle") else 1


def _calls_of_writes(word: str, rest: list[str], sizes: dict[str, int]) -> int:
    path, sync = rest[0], rest[-1]
    if word == "rwrite":
        writes = int(rest[1])
        sizes[path] = max(sizes.get(path, 0), size(rest[3]))
    else:
        # put: MODE LENGTH CHUNK; write: OFFSET LENGTH CHUNK; append: LENGTH CHUNK.
        length, chunk = (size(one) for one in (rest[1:3] if word == "append" else rest[2:4]))
        writes = _parts(length, chunk)
        begins = {"put": 0, "append": sizes.get(path, 0)}.get(word)
        end = (size(rest[1]) if begins is None else begins) + length
        sizes[path] = end if word == "put" else max(end, sizes.get(path, 0))
    return 2 + writes + {"fsync": 1, "fsynceach": writes}.get(sync, 0)


def size(word: str) -> int:
    """A size in bytes, or with `k` or `m`."""
    factor = _UNITS.get(word[-1:].lower(), 1)
    return int(word[:-1] if factor > 1 else word) * factor


def _parts(length: int, chunk: int) -> int:
    return -(-length // max(chunk, 1))


def _lines(script: str) -> Iterator[tuple[int, list[str]]]:
    """Numbers and words of the lines that are no comments."""
    for number, line in enumerate(script.splitlines(), 1):
        words = line.split()
        if words and not words[0].startswith("#"):
            yield number, words


def sizes_after(script: str) -> list[tuple[float, int, dict[str, int]]]:
    """Sizes of the files after each line that changes them: pauses before it, number, sizes."""
    sizes: dict[str, int] = {}
    found = []
    at_s = 0.0
    for number, words in _lines(script):
        if words[0] == "sleep":
            at_s += float(words[1]) / 1000
            continue
        before = dict(sizes)
        _calls(words[0], words[1:], sizes)
        _change_names(words[0], words[1:], sizes)
        if sizes != before:
            found.append((at_s, number, dict(sizes)))
    return found


def _change_names(word: str, rest: list[str], sizes: dict[str, int]) -> None:
    """Files that the line takes away, or that move with their folder: they are not lost."""
    if word == "unlink":
        sizes.pop(rest[0], None)
    elif word == "unlinkn":
        for one in range(int(rest[1]), int(rest[2])):
            sizes.pop(f"{rest[0]}{one:05}", None)
    elif word == "rename":
        folder = f"{rest[0]}/"
        for path in [one for one in sizes if one.startswith(folder)]:
            sizes[f"{rest[1]}/{path.removeprefix(folder)}"] = sizes.pop(path)


def without_sync(line: str) -> tuple[str, str | None]:
    """A line that writes without its sync, and the path that was synced; None if none was."""
    words = line.split()
    if words and words[-1] in _SYNCS and words[0] in ("put", "append", "write", "rwrite"):
        return " ".join(words[:-1]), words[1]
    return line, None
