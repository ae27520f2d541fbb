"""XML as MQSim's files use it: elements with text, no attributes, and nothing that refers.

The standard parser expands entities and follows document types. Both are refused here, because a
file of a few lines could otherwise ask for gigabytes, or for other files.
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn
from xml.parsers import expat

from nandlab.errors import NandlabError

BYTES_MAX = 1 << 20
"""A workload of a thousand flows takes half of it."""

DEPTH_MAX = 8
"""MQSim nests four elements."""

ELEMENTS_MAX = 50_000


@dataclass
class Element:
    """An element: its name, its text without blanks around it, its line, and those within it."""

    name: str
    line: int
    text: str = ""
    children: list["Element"] = field(default_factory=list)


def read_xml(path: str | Path, root: str) -> Element:
    """The outermost element of a file, which must be called `root`.

    Raises `NandlabError` with file and line for a file that cannot be read, is larger than a
    mebibyte, is no whole XML, or has a document type, an entity, or too many elements.
    """
    try:
        with Path(path).open("rb") as file:
            text = file.read(BYTES_MAX + 1)
    except OSError as error:
        raise NandlabError(f"{path}: {error.strerror}; name a file of MQSim") from None
    if len(text) > BYTES_MAX:
        raise NandlabError(f"{path}: larger than 1 MiB; give a file of MQSim")
    found = _Reader(path).read(text)
    if found.name != root:
        raise NandlabError(
            f"{path}: line {found.line}: begins with `{found.name}`, but must begin with `{root}`"
        )
    return found


class _Reader:
    """Builds the elements of one file, and stops at what no file of MQSim needs."""

    def __init__(self, path: str | Path) -> None:
        self._path = path
        self._root: Element | None = None
        self._open: list[Element] = []
        self._pieces: list[list[str]] = []
        self._count = 0
        # Without a name space separator names are as they are written.
        self._parser = expat.ParserCreate()
        # In few pieces: a file may be nothing but ends of lines.
        self._parser.buffer_text = True
        self._parser.StartElementHandler = self._begin
        self._parser.EndElementHandler = self._end
        self._parser.CharacterDataHandler = self._add_text
        # The first is called before any entity can be declared, so nothing is ever expanded.
        self._parser.StartDoctypeDeclHandler = self._refuse_doctype
        self._parser.EntityDeclHandler = self._refuse_doctype

    def read(self, text: bytes) -> Element:
        try:
            self._parser.Parse(text, True)
        except expat.ExpatError as error:
            reason = expat.errors.messages[error.code]
            raise NandlabError(
                f"{self._path}: line {error.lineno}: {reason}; the file is no whole XML"
            ) from None
        except NandlabError:
            raise
        except (LookupError, ValueError):
            # Expat asks Python for encodings that it does not know.
            raise NandlabError(
                f"{self._path}: line 1: the encoding is not known; use us-ascii or UTF-8"
            ) from None
        assert self._root is not None, "expat refuses a text without elements"
        return self._root

    def _begin(self, name: str, attributes: dict[str, str]) -> None:
        self._count += 1
        if attributes:
            self._refuse(f"`{name}` has attributes; MQSim's files have none")
        if self._count > ELEMENTS_MAX:
            self._refuse(f"more than {ELEMENTS_MAX:,} elements; give a file of MQSim")
        if len(self._open) == DEPTH_MAX:
            self._refuse(f"more than {DEPTH_MAX} elements within each other; give a file of MQSim")
        made = Element(name, self._parser.CurrentLineNumber)
        if self._open:
            self._open[-1].children.append(made)
        else:
            self._root = made
        self._open.append(made)
        self._pieces.append([])

    def _end(self, _name: str) -> None:
        ended = self._open.pop()
        ended.text = "".join(self._pieces.pop()).strip()

    def _add_text(self, text: str) -> None:
        self._pieces[-1].append(text)

    def _refuse_doctype(self, *_declared: object) -> None:
        self._refuse("a document type or an entity; MQSim's files have none, leave it out")

    def _refuse(self, reason: str) -> NoReturn:
        raise NandlabError(f"{self._path}: line {self._parser.CurrentLineNumber}: {reason}")
