"""The lines of a script, from the steps of a log."""

import re
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from nandlab.syscall_logs.steps import CALL_BYTES_MAX, Line, Read, Sent, Step, Written
from nandlab.syscall_logs.tree import USUAL_FILE_MODE, USUAL_FOLDER_MODE, File

_MS_NS = 1_000_000
_PLAIN = frozenset(range(0x21, 0x7F)) - frozenset(b"%")
_RUN = re.compile(rb"(.{1,10}?)\1{7,}", re.DOTALL)
"""Bytes that are written once with their number: dpkg pads its files with `#padding` and a line
break again and again, which are nine bytes. Runs of fewer than eight are easier to read whole."""
_CALL_BYTES = 4096
"""Size of a call that writes nothing, or what was there before the log began."""

COMPRESSIBLE_PERCENT = 75
"""Bytes that zlib makes smaller than this become words of text (`t`), others noise (`x`)."""


@dataclass
class Lines:
    """Lines of a script, and what became of the bytes."""

    keeps_bytes: bool
    lines: list[str] = field(default_factory=list)
    bytes_by_fate: Counter[str] = field(default_factory=Counter)
    """`kept`: as in the log; `drawn`: others of the same number."""
    _seed: int = 0

    def before(self, files: Sequence[File]) -> None:
        """Makes what was there before the log began."""
        for file in files:
            assert file.before is not None
            path = word(file.before)
            if file.kind == "folder":
                mode = USUAL_FOLDER_MODE if file.mode is None else file.mode
                self.lines.append(f"mkdir {path} {mode:o}")
            elif file.kind == "link" and file.target:
                self.lines.append(f"symlink {word(file.target)} {path}")
            else:
                mode = USUAL_FILE_MODE if file.mode is None else file.mode
                size = file.size_before
                self.lines.append(f"put {path} {mode:o} {size} {_CALL_BYTES} {self._drawn('x')}")

    def log(self, steps: Sequence[Step]) -> None:
        """The calls of the log, with the waits between them."""
        clock = _Clock()
        for step in steps:
            found = list(self._step(step))
            if not found:
                continue
            if wait := clock.wait_ms(step):
                self.lines.append(f"sleep {wait}")
            self.lines += found

    def _step(self, step: Step) -> Iterator[str]:
        if isinstance(step, Line):
            yield " ".join(word(one) if isinstance(one, bytes) else str(one) for one in step.words)
        elif isinstance(step, Read):
            asked = min(step.asked, CALL_BYTES_MAX)
            yield f"read {word(step.path)} {asked} {step.offset} {step.length}"
        elif isinstance(step, Sent):
            words = " ".join(map(str, step.words))
            yield f"{words} {step.length} {self._data(step.length, [step.piece])}"
        elif isinstance(step, Written):
            yield from self._written(step)

    def _written(self, step: Written) -> Iterator[str]:
        path, mode = word(step.path), step.mode
        if mode is not None and step.file.may_be_old and step.file.was_there:
            mode = None
        if mode is None and not step.sizes:
            return
        call = min(step.sizes[0], CALL_BYTES_MAX) if step.sizes else _CALL_BYTES
        what = f"{step.length} {call} {self._data(step.length, step.pieces)}"
        sync = f" {step.sync}" if step.sync else ""
        if mode is not None:
            yield f"put {path} {mode:o} {what}{sync}"
        elif step.offset is None:
            yield f"append {path} {what}{sync}"
        else:
            yield f"write {path} {step.offset} {what}{sync}"

    def _data(self, length: int, log_pieces: Sequence[bytes | None]) -> str:
        """Kind and seed of the bytes, or the bytes."""
        pieces = [piece for piece in log_pieces if piece is not None]
        if len(pieces) < len(log_pieces):
            self.bytes_by_fate["drawn"] += length
            return self._drawn("x")
        whole = b"".join(pieces)
        if not whole.strip(b"\0"):
            self.bytes_by_fate["kept"] += length
            return "z 0"
        if self.keeps_bytes:
            self.bytes_by_fate["kept"] += length
            return f"h {_hexadecimal(whole)}"
        self.bytes_by_fate["drawn"] += length
        is_text = len(zlib.compress(whole, 1)) * 100 < len(whole) * COMPRESSIBLE_PERCENT
        return self._drawn("t" if is_text else "x")

    def _drawn(self, kind: str) -> str:
        # Seed 0 gives the same bytes again and again; each line has a seed of its own.
        self._seed += 1
        return f"{kind} {self._seed}"


class _Clock:
    """Waits in whole milliseconds, so that rests are not lost but come with a later wait."""

    def __init__(self) -> None:
        self._begin_ns: int | None = None
        self._slept_ms = 0
        self._took_ns = 0

    def wait_ms(self, step: Step) -> int:
        """How long the script waits before a step."""
        if self._begin_ns is None:
            self._begin_ns = step.time_ns
        # What is known to have passed in the calls themselves passes in the simulation, too.
        passed_ms = (step.time_ns - self._begin_ns - self._took_ns) // _MS_NS
        self._took_ns += step.took_ns
        wait = max(0, passed_ms - self._slept_ms)
        self._slept_ms += wait
        return wait


def _hexadecimal(whole: bytes) -> str:
    """Bytes as a line has them: what is there many times in a row is written once."""
    pieces, at = [], 0
    for run in _RUN.finditer(whole):
        if run.start() > at:
            pieces.append(whole[at : run.start()].hex())
        pieces.append(f"{run[1].hex()}*{len(run[0]) // len(run[1])}")
        at = run.end()
    if at < len(whole):
        pieces.append(whole[at:].hex())
    return ",".join(pieces)


def word(name: bytes) -> str:
    """A path as a word of a script; the root is `.`."""
    return "".join(chr(byte) if byte in _PLAIN else f"%{byte:02X}" for byte in name) or "."
