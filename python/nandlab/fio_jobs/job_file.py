"""Reads job files of fio: sections, what they inherit, included files and variables.

Source: the section "Job file format" of fio's HOWTO, and answers of fio 3.33 where it is silent.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from nandlab.errors import NandlabError

_BYTES_MAX = 1 << 20
"""Largest job file: real ones are below 10 KB, and a device node would never end."""

_DEPTH_MAX = 16
"""Files that include each other in a chain."""

_SECTIONS_MAX = 4096
"""Sections of a file: fio itself stops at 4,096 jobs (REAL_MAX_JOBS)."""

_VARIABLE = re.compile(r"\$\{([^}]*)\}")
_KEYWORDS = ("$pagesize", "$mb_memory", "$ncpus")
_GLOBAL = "global"


@dataclass(frozen=True)
class Given:
    """One line `key=value` of a job file; `value` is None for a key that stands alone."""

    key: str
    value: str | None
    file: str
    line: int

    def fault(self, reason: str, suggestion: str) -> NandlabError:
        """The error that this line is wrong: file, line, key, reason and what to do."""
        shown = self.key if self.value is None else f"{self.key}={self.value}"
        return NandlabError(f"{self.file}:{self.line}: {shown}: {reason}; {suggestion}")

    @property
    def word(self) -> str:
        """The option as `fio --showcmd` prints it."""
        return f"--{self.key}" if self.value is None else f"--{self.key}={self.value}"


@dataclass(frozen=True)
class Section:
    """A job: the global options above it, and its own, in the order of the file."""

    name: str
    inherited: tuple[Given, ...]
    own: tuple[Given, ...]
    file: str
    line: int


@dataclass
class _Reader:
    """What is known of a file while it is read."""

    environment: Mapping[str, str]
    inherited: list[Given] = field(default_factory=list)
    sections: list[Section] = field(default_factory=list)
    heading: tuple[str, str, int] | None = None
    own: list[Given] = field(default_factory=list)

    def end_section(self) -> None:
        """Keeps the section that ends here."""
        if self.heading is not None:
            name, file, line = self.heading
            if name == _GLOBAL:
                self.inherited += self.own
            else:
                inherited = tuple(self.inherited)
                self.sections.append(Section(name, inherited, tuple(self.own), file, line))
        self.own = []


def read_job_file(path: str | Path, environment: Mapping[str, str]) -> list[Section]:
    """The jobs of a file, in its order; `environment` has the values of `${NAME}`.

    Raises `NandlabError` with file and line for what fio refuses, and for what it only complains
    about: a missing included file, a section in one, and one that includes itself.
    """
    reader = _Reader(environment)
    _read(Path(path), reader, ())
    reader.end_section()
    if not reader.sections:
        raise NandlabError(f"{path}: it holds no job; add a section such as [job1]")
    return reader.sections


def has_global_section(sections: list[Section]) -> bool:
    """True if any job inherits an option."""
    return any(section.inherited for section in sections)


def showcmd(sections: list[Section]) -> str:
    """The jobs as a command line of fio: what all inherit, then each job with the rest.

    fio itself shows a second [global] before the name of the next job, where it would belong to the
    job before.
    """
    from shlex import quote

    words = ["fio"]
    common = sections[0].inherited
    words += [one.word for one in common]
    for section in sections:
        words += [f"--name={section.name}"]
        words += [one.word for one in (*section.inherited[len(common) :], *section.own)]
    return " ".join(map(quote, words))


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    """Lines that are not empty once comments and blanks are taken off, with their numbers."""
    try:
        with path.open("rb") as file:
            data = file.read(_BYTES_MAX + 1)
    except OSError as error:
        raise NandlabError(f"{path}: {error.strerror}; name a job file of fio") from None
    if len(data) > _BYTES_MAX:
        raise NandlabError(f"{path}: larger than {_BYTES_MAX >> 10} KiB; name a job file of fio")
    try:
        text = data.decode()
    except UnicodeDecodeError:
        text = "\0"
    if "\0" in text:
        raise NandlabError(f"{path}: it is not text; name a job file of fio in UTF-8")
    for number, line in enumerate(text.split("\n"), 1):
        # fio cuts a line at either sign wherever it stands: `filename=a#b` becomes `a`.
        if line := re.split("[;#]", line, maxsplit=1)[0].strip():
            yield number, line


def _read(path: Path, reader: _Reader, above: tuple[Path, ...]) -> None:
    """Reads a file, or one that is included by those `above`."""
    for number, line in _lines(path):
        if line.startswith("["):
            _open_section(path, number, line, reader, is_included=bool(above))
            continue
        key, equals, value = line.partition("=")
        # Blanks before a value stay: fio takes them before numbers, and not before words.
        given = Given(key.strip(), value if equals else None, str(path), number)
        if reader.heading is None:
            suggestion = "write [global] or the name of a job above it"
            raise given.fault("it stands before any section", suggestion)
        if line.split()[0] == "include":
            _include(path, number, line, reader, above)
            continue
        reader.own.append(_expanded(given, reader.environment))


def _open_section(
    path: Path, number: int, line: str, reader: _Reader, *, is_included: bool
) -> None:
    place = f"{path}:{number}"
    if is_included:
        raise NandlabError(
            f"{place}: {line}: an included file holds no section; "
            "move it to the file that includes this one"
        )
    name, bracket, _ = line[1:].partition("]")
    if not bracket or not name:
        raise NandlabError(f"{place}: {line}: a section needs a name; write it as [name]")
    reader.end_section()
    if len(reader.sections) >= _SECTIONS_MAX:
        raise NandlabError(f"{place}: more than {_SECTIONS_MAX} jobs; use numjobs")
    reader.heading = (name, str(path), number)


def _include(path: Path, number: int, line: str, reader: _Reader, above: tuple[Path, ...]) -> None:
    name = line[len("include") :].strip().removeprefix("=").strip()
    given = Given("include", name, str(path), number)
    if not name:
        raise given.fault("no file is named", "write `include FILE`")
    # As fio does: from the working folder first, then beside the file that includes it.
    found = next((one for one in (Path(name), path.parent / name) if one.exists()), None)
    if found is None:
        raise given.fault("there is no such file", "name a file that exists")
    chain = (*above, path.resolve())
    if found.resolve() in chain:
        raise given.fault("the file includes itself", "take one of the lines `include` out")
    if len(chain) >= _DEPTH_MAX:
        suggestion = "join some of the files"
        raise given.fault(f"more than {_DEPTH_MAX} files include each other", suggestion)
    _read(found, reader, chain)


def _expanded(given: Given, environment: Mapping[str, str]) -> Given:
    """The line with the values of its variables; one that is not set is empty, as in fio."""
    if given.value is None:
        return given
    for keyword in _KEYWORDS:
        if keyword in given.value:
            reason = f"{keyword} is a property of the machine that runs fio"
            raise given.fault(reason, "write the number itself")
    value = _VARIABLE.sub(lambda found: environment.get(found[1], ""), given.value)
    return Given(given.key, value, given.file, given.line)
