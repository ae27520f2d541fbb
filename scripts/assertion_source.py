"""Reads Rust source: the run-time assertions in it, and faults that keep every line where it is."""

import bisect
import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import comments

ROOT = Path(__file__).resolve().parent.parent
LAYERS = ("media", "host", "fs", "lab")
KEY_LENGTH = 160

ASSERTION = re.compile(r"\b(?:debug_)?assert(?:_eq|_ne)?!\s*[(\[{]")
FUNCTION = re.compile(r"\bfn\s+(\w+)")
MACRO = re.compile(r"\bmacro_rules!\s*\w+\s*\{")
TEST_ITEM = re.compile(r"#\[(?:cfg\((?:test|all\(test\b[^\]]*|any\(test\b[^\]]*)\)|test)\]")
TEST_MODULE = re.compile(r"(?:\s|#\[[^\]]*\]|pub(?:\(crate\))?)*mod\s+(\w+)\s*;")
BRACKETS = {"(": ")", "[": "]", "{": "}"}
# What a statement begins with that is left as it is.
NO_FAULT = re.compile(
    r"(?:let|return|break|continue|use|const|static|type|fn|pub|struct|enum|impl|mod|trait|if|else"
    r"|while|loop|match|unsafe|move|macro_rules|where|(?:debug_)?assert\w*|panic|unreachable|todo)\b"
)
SWITCH = """
/// Chooses which planted fault is present.
mod planted {{
    /// Whether the fault of this number is present.
    #[allow(dead_code)]
    pub(crate) fn on(number: u32) -> bool {{
        static NUMBER: std::sync::LazyLock<u32> = std::sync::LazyLock::new(|| {{
            std::env::var("NANDLAB_MUTANT").map_or(0, |number| number.parse().expect("a number"))
        }});
        *NUMBER == number
    }}

    pub(crate) trait More {{
        fn more(self) -> Self;
    }}
    {implementations}

    impl More for bool {{
        fn more(self) -> Self {{
            !self
        }}
    }}

    impl<T> More for Option<T> {{
        fn more(self) -> Self {{
            None
        }}
    }}

    /// The value, or another one if the fault of this number is present.
    #[allow(dead_code)]
    pub(crate) fn more<T: More>(number: u32, value: T) -> T {{
        if on(number) {{ value.more() }} else {{ value }}
    }}
}}
""".format(
    implementations="\n    ".join(
        f"impl More for {kind} {{ fn more(self) -> Self {{ self.wrapping_add(1) }} }}"
        for kind in ("u8", "u16", "u32", "u64", "usize", "i32", "i64")
    )
)


@dataclass(frozen=True)
class Assertion:
    """An assertion in code that is no test."""

    file: str
    line: int
    # Its text with single spaces, and which of the same text in the file it is, from 1.
    text: str
    occurrence: int

    @property
    def key(self) -> str:
        """The assertion without its line, which changes when lines above it do."""
        suffix = f" #{self.occurrence}" if self.occurrence > 1 else ""
        return f"{self.file}: {self.text}{suffix}"


@dataclass(frozen=True)
class Fault:
    """A fault that is planted by text before and after a piece of the source."""

    kind: str
    start: int
    end: int
    before: str
    after: str


def _closing(code: str, opening: int) -> int:
    """Where the bracket that opens at a place is closed; the end of the text if nowhere."""
    depth = 0
    for mark in re.compile(r"[()\[\]{}]").finditer(code, opening):
        depth += 1 if mark[0] in BRACKETS else -1
        if depth == 0:
            return mark.start()
    return len(code)


def _body(code: str, start: int) -> tuple[int, int] | None:
    """The braces of the item that begins at a place; none if a semicolon ends it."""
    at = start
    while mark := re.compile(r"[(\[{;]").search(code, at):
        if mark[0] == ";":
            return None
        end = _closing(code, mark.start())
        if mark[0] == "{":
            return mark.start(), end
        at = end + 1
    return None


@dataclass(frozen=True)
class Function:
    """A function with a body."""

    name: str
    start: int
    end: int
    is_const: bool
    is_unit: bool


class RustFile:
    """A source file: its assertions and the faults that can be planted in it."""

    def __init__(self, name: str, text: str) -> None:
        self.name, self.text, self.code = name, text, comments.split(text)[0]
        self.line_starts = [0, *(mark.end() for mark in re.finditer("\n", text))]
        self.tests: list[tuple[int, int]] = []
        self.test_modules: list[str] = []
        for mark in TEST_ITEM.finditer(self.code):
            if module := TEST_MODULE.match(self.code, mark.end()):
                self.test_modules.append(module[1])
            body = _body(self.code, mark.end())
            end = body[1] if body else self.code.find(";", mark.end())
            self.tests.append((mark.start(), end))
        self.macros = [
            (mark.start(), _closing(self.code, mark.end() - 1))
            for mark in MACRO.finditer(self.code)
        ]
        self.functions = list(self._functions())

    def _functions(self) -> list[Function]:
        found = []
        for mark in FUNCTION.finditer(self.code):
            body = _body(self.code, mark.end())
            if body is None or self._is_within(self.tests + self.macros, mark.start()):
                continue
            line = self.code[self.code.rfind("\n", 0, mark.start()) + 1 : mark.start()]
            is_unit = "->" not in re.sub(r"\([^()]*\)", "", self.code[mark.end() : body[0]])
            found.append(Function(mark[1], *body, bool(re.search(r"\bconst\b", line)), is_unit))
        return found

    @staticmethod
    def _is_within(pieces: list[tuple[int, int]], at: int) -> bool:
        return any(start <= at < end for start, end in pieces)

    def line(self, at: int) -> int:
        """The line of an offset, from 1."""
        return bisect.bisect_right(self.line_starts, at)

    def line_text(self, at: int) -> str:
        """The text of the line of an offset, without indentation."""
        start = self.line_starts[self.line(at) - 1]
        return self.text[start:].split("\n", 1)[0].strip()

    def function(self, at: int) -> Function | None:
        """The innermost function around a place."""
        around = [one for one in self.functions if one.start <= at <= one.end]
        return max(around, key=lambda one: one.start, default=None)

    def assertions(self) -> list[Assertion]:
        """The assertions outside tests, in the order of the file."""
        found: list[Assertion] = []
        seen: Counter[str] = Counter()
        for mark in ASSERTION.finditer(self.code):
            if self._is_within(self.tests, mark.start()):
                continue
            end = _closing(self.code, mark.end() - 1) + 1
            text = " ".join(self.text[mark.start() : end].split())[:KEY_LENGTH]
            seen[text] += 1
            found.append(Assertion(self.name, self.line(mark.start()), text, seen[text]))
        return found

    def faults(self) -> list[Fault]:
        """All faults that can be planted, in the order of the file. `{}` stands for the number."""
        found = [*self._statements(), *self._conditions(), *self._values(), *self._bodies()]
        asserted = [
            (mark.start(), _closing(self.code, mark.end() - 1))
            for mark in ASSERTION.finditer(self.code)
        ]

        def is_good(fault: Fault) -> bool:
            function = self.function(fault.start)
            return (
                function is not None
                and not function.is_const
                and not self._is_within(self.tests + self.macros + asserted, fault.start)
            )

        return sorted(filter(is_good, found), key=lambda fault: (fault.start, fault.end))

    def _statements(self) -> list[Fault]:
        """Statements that are left out, and sums that are one too large."""
        found = []
        last = ""
        for row, start in enumerate(self.line_starts[:-1]):
            line = self.code[start : self.line_starts[row + 1]].rstrip()
            head = line.strip()
            before, last = last, head or last
            if not head or before[-1:] not in ("{", "}", ";") or not re.match(r"[\w*(]", head):
                continue
            begin = start + len(line) - len(line.lstrip())
            if head.startswith("for "):
                body = _body(self.code, begin)
                if body:
                    found.append(
                        Fault(
                            "loop left out",
                            begin,
                            body[1] + 1,
                            "if !crate::planted::on({}) {{ ",
                            " }}",
                        )
                    )
                continue
            if NO_FAULT.match(head):
                continue
            end = self._semicolon(begin)
            if end is None:
                continue
            found.append(
                Fault("statement left out", begin, end, "if !crate::planted::on({}) {{ ", " }}")
            )
            statement = self.text[begin:end]
            if sum_of := re.match(r"([\w.*\[\]()]+) ([+-])= [^\n]*;$", statement):
                again = f"{sum_of[1]} {sum_of[2]}= 1;".replace("{", "{{").replace("}", "}}")
                found.append(
                    Fault(
                        "one more is added",
                        begin,
                        end,
                        "",
                        " if crate::planted::on({}) {{ " + again + " }}",
                    )
                )
        return found

    def _semicolon(self, begin: int) -> int | None:
        """The end of the statement that begins at a place; none if it is no statement."""
        at = begin
        while mark := re.compile(r"[(\[{;)\]},]").search(self.code, at):
            if mark[0] == ";":
                return mark.end()
            if mark[0] not in BRACKETS:
                return None
            at = _closing(self.code, mark.start()) + 1
        return None

    def _conditions(self) -> list[Fault]:
        """Conditions that are negated, and loops that end before they begin."""
        found = []
        for mark in re.finditer(r"\b(if|while)\s+", self.code):
            end = self._end_of_condition(mark.end())
            if end is None or re.search(r"\blet\b", self.code[mark.end() : end]):
                continue
            start = mark.end()
            while self.code[end - 1].isspace():
                end -= 1
            if mark[1] == "if":
                after = ") ^ crate::planted::on({})"
                found.append(Fault("condition negated", start, end, "(", after))
            else:
                after = ") && !crate::planted::on({})"
                found.append(Fault("loop left out", start, end, "(", after))
        return found

    def _end_of_condition(self, begin: int) -> int | None:
        at = begin
        while mark := re.compile(r"[(\[{;)\]},]|=>").search(self.code, at):
            if mark[0] in ("{", "=>"):
                return mark.start()
            if mark[0] not in BRACKETS:
                return None
            at = _closing(self.code, mark.start()) + 1
        return None

    def _values(self) -> list[Fault]:
        """Truth values that are negated, numbers that are one more, and options that are none."""
        found = []
        for mark in re.finditer(r"(?<=\n)[^\S\n]*(return )?(true|false);?(?=\n)", self.code):
            after = " ^ crate::planted::on({}))"
            found.append(Fault("other value", mark.start(2), mark.end(2), "(", after))
        assigned = r"\n[^\S\n]*(?:let (?:mut )?\w+(?:: \w+)?|[\w.*]+) = ([^\n;{}|]+);(?=\s*\n)"
        for mark in re.finditer(assigned, self.code):
            if not re.search(r"\"|&mut|\bNone\b|::new\(", mark[1]):
                before = "crate::planted::more({}, "
                found.append(Fault("other value", mark.start(1), mark.end(1), before, ")"))
        return found

    def _bodies(self) -> list[Fault]:
        """Functions without a result that do nothing."""
        before = " if crate::planted::on({}) {{ return; }}"
        return [
            Fault("body left out", function.start + 1, function.start + 1, before, "")
            for function in self.functions
            if function.is_unit
        ]


def planted(text: str, faults: dict[int, Fault]) -> tuple[str, dict[int, list[tuple[int, int]]]]:
    """The text with all these faults, and the bytes that were added for each, by its number."""
    added: list[tuple[tuple[int, int, int], str, int]] = []
    for number, fault in faults.items():
        if fault.before:
            # Of two that begin at one place, the longer one begins first.
            order = (fault.start, 1, -fault.end)
            added.append((order, fault.before.format(number), number))
        if fault.after:
            # Of two that end at one place, the shorter one ends first.
            order = (fault.end, 0, -fault.start)
            added.append((order, fault.after.format(number), number))
    parts: list[str] = []
    places: dict[int, list[tuple[int, int]]] = {}
    length = done = 0
    for (at, _, _), piece, number in sorted(added, key=lambda one: one[0]):
        parts += [text[done:at], piece]
        length += len(text[done:at].encode())
        places.setdefault(number, []).append((length, length + len(piece.encode())))
        length += len(piece.encode())
        done = at
    return "".join([*parts, text[done:]]), places


def files_of(crate: str, root: Path = ROOT) -> list[RustFile]:
    """The source files of a crate, without those that are compiled for tests alone."""
    source = next(path for layer in LAYERS for path in root.glob(f"crates/{layer}/{crate}/src"))
    files = {
        path: RustFile(str(path.relative_to(root)), path.read_text(encoding="utf-8"))
        for path in sorted(source.rglob("*.rs"))
    }
    tests: set[Path] = set()
    for path, file in files.items():
        folder = path.parent if path.stem in ("lib", "main", "mod") else path.with_suffix("")
        for module in file.test_modules:
            tests |= {folder / f"{module}.rs"}
            tests |= {other for other in files if folder / module in other.parents}
    return [file for path, file in files.items() if path not in tests]


def crates(root: Path = ROOT) -> list[str]:
    """The crates whose assertions are recorded, by name."""
    found = (path.parent.name for la in LAYERS for path in root.glob(f"crates/{la}/*/Cargo.toml"))
    return sorted(found)
