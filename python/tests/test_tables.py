"""Tables and help at any width: no digit is lost, nothing wraps twice."""

import contextlib
import io
import itertools
import re

import pytest
from command_table import commands
from hypothesis import given
from hypothesis import strategies as st

from nandlab.cli import application, main
from nandlab.cli.commands import COMMANDS
from nandlab.terminal import output
from nandlab.terminal.layout import paragraph_lines, table_lines

NUMBER = "1,249,911,367,760"
VERBS = frozenset(
    [
        "Also",
        "Capture",
        "Carry",
        "Change",
        "Check",
        "Choose",
        "Clear",
        "Compare",
        "Connect",
        "Copy",
        "Correct",
        "Count",
        "Cut",
        "Do",
        "Draw",
        "Expect",
        "Fail",
        "Fill",
        "Follow",
        "Ignore",
        "Keep",
        "Leave",
        "Listen",
        "Load",
        "Make",
        "Mark",
        "Name",
        "Offer",
        "Plug",
        "Print",
        "Put",
        "Read",
        "Record",
        "Refuse",
        "Replace",
        "Replay",
        "Report",
        "Reserve",
        "Run",
        "Seed",
        "Send",
        "Set",
        "Show",
        "Skip",
        "Stop",
        "Take",
        "Use",
        "Write",
    ]
)
"""What an option may begin with: it says what the command then does."""

NUMBERS = st.integers(0, 10**18).map(lambda value: f"{value:,}")
WORDS = st.text("abcdefgh ", min_size=1, max_size=60).map(str.strip).filter(bool)


def _cells(lines: list[str]) -> str:
    return " ".join(" ".join(lines).split())


@pytest.mark.parametrize("width", [20, 40, 60, 80, 120, 200])
def test_no_digit_is_cut(width: int) -> None:
    heads = ("layer", *(f"bytes written by host {number}" for number in range(8)))
    rows = [(name, *(NUMBER for _ in range(8))) for name in ("bast", "page-mapping")]
    lines = table_lines("Bytes", heads, rows, frozenset(range(1, 9)), width=width)
    assert "\n".join(lines).count(NUMBER) == 16
    assert not re.search(r"[\d,]{18,}", "\n".join(lines))
    longest = max(map(len, lines))
    assert longest <= max(width, len(" page-mapping  ") + len(NUMBER))


def test_a_table_that_is_too_wide_says_that_it_continues() -> None:
    heads = ("layer", *(f"column{number}" for number in range(9)))
    row = ("bast", *(NUMBER for _ in range(9)))
    lines = table_lines("Counts", heads, [row], frozenset(range(1, 10)), width=80)
    text = "\n".join(lines)
    assert "Counts (part 1 of 3)" in text
    assert "Counts (part 3 of 3)" in text
    assert text.count("bast") == 3
    for head in heads[1:]:
        assert text.count(head) == 1
    whole = table_lines("Counts", heads, [row], frozenset(range(1, 10)), width=300)
    assert not any("part" in line for line in whole)


def test_a_second_part_names_its_rows_as_the_first_does() -> None:
    heads = ("ftl", "policy", *(f"column{number}" for number in range(9)))
    rows = [("page", policy, *(NUMBER for _ in range(9))) for policy in ("greedy", "fifo")]
    text = "\n".join(table_lines("", heads, rows, frozenset(range(2, 11)), width=80))
    assert text.count("greedy") == text.count("fifo") == text.count("policy") == 3
    assert text.count(NUMBER) == 18
    narrow = "\n".join(table_lines("", heads, rows, frozenset(range(2, 11)), width=20))
    assert narrow.count("greedy") == 1
    assert narrow.count(NUMBER) == 18


def test_text_wraps_at_spaces_and_stays_in_its_column() -> None:
    text = "a sentence that says what the layer is and when it is a good choice"
    lines = table_lines("", ("layer", "what it is"), [("bast", text)], width=40)
    assert max(map(len, lines)) <= 40
    assert _cells([line for line in lines if "─" not in line]).endswith(text)
    continued = [line for line in lines if line and "bast" not in line and "─" not in line][1:]
    assert continued
    assert all(line.startswith(" " * 8) for line in continued)


def test_wide_letters_keep_columns_straight() -> None:
    lines = table_lines("", ("name", "n"), [("漢字", "1"), ("ab", "22")], frozenset({1}), width=80)
    assert lines[-3].endswith("漢字   1")
    assert lines[-2].endswith("ab    22")


@pytest.mark.parametrize("rows", [[], [("one", "1")]])
def test_a_table_without_rows_or_with_one(rows: list[tuple[str, str]]) -> None:
    lines = table_lines("Title", ("name", "n"), rows, frozenset({1}), width=80)
    assert len([line for line in lines if line]) == 3 + len(rows)


@given(
    rows=st.lists(st.tuples(WORDS, NUMBERS, WORDS, NUMBERS), min_size=1, max_size=4),
    width=st.integers(10, 140),
)
def test_every_word_of_a_table_is_printed(
    rows: list[tuple[str, str, str, str]], width: int
) -> None:
    heads = ("name", "bytes", "text", "erases")
    lines = table_lines("", heads, rows, frozenset({1, 3}), width=width)
    printed = [word for line in lines for word in line.split()]
    for row in rows:
        for cell in row[1:]:
            for word in cell.split():
                assert word in printed


@given(text=WORDS, width=st.integers(1, 100))
def test_a_paragraph_keeps_its_words(text: str, width: int) -> None:
    lines = paragraph_lines(f"  {text}", width)
    assert " ".join(lines).split() == text.split()
    assert all(len(line) <= width or len(line.split()) == 1 for line in lines)


@pytest.mark.parametrize(
    ("number", "shown"), [(0, "0 runs"), (1, "1 run"), (2, "2 runs"), (1200, "1,200 runs")]
)
def test_a_number_agrees_with_its_noun(number: int, shown: str) -> None:
    assert output.counted(number, "run") == shown
    assert output.counted(1, "inconsistency", "inconsistencies") == "1 inconsistency"
    assert output.counted(0, "inconsistency", "inconsistencies") == "0 inconsistencies"


def test_a_pipe_has_a_fixed_width(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "37")
    with contextlib.redirect_stdout(io.StringIO()):
        assert output.text_width() == 120
        monkeypatch.setattr("sys.stdout.isatty", lambda: True)
        assert output.text_width() == 37


def _help(*words: str) -> list[str]:
    shown = io.StringIO()
    with contextlib.redirect_stdout(shown):
        assert main([*words, "--help"]) == 0
    return shown.getvalue().splitlines()


@pytest.mark.parametrize("words", [(), ("image",), *commands()], ids=" ".join)
def test_help_wraps_once(words: tuple[str, ...]) -> None:
    lines = _help(*words)
    assert max(map(len, lines)) <= 80
    assert lines[0].startswith(" ".join(("Usage: nandlab", *words)))
    for line, following in itertools.pairwise(lines):
        # A line that ends early is the end of its paragraph: the next word would have fitted.
        indent = len(following) - len(following.lstrip())
        is_same = len(line) - len(line.lstrip()) == indent and line.strip() and following.strip()
        if is_same and indent == 0:
            assert len(line) + 1 + len(following.split()[0]) > 80, (line, following)


@pytest.mark.parametrize("words", commands(), ids=" ".join)
def test_help_describes_every_option(words: tuple[str, ...]) -> None:
    text = "\n".join(_help(*words))
    for option in commands()[words]:
        spelled = (option.name, option.name.replace("--", "--[no-]"))
        assert any(re.search(rf" {re.escape(one)}[ ,\n]", text) for one in spelled), option.name


@pytest.mark.parametrize("words", commands(), ids=" ".join)
def test_options_are_imperatives(words: tuple[str, ...]) -> None:
    app = application()
    for word in words:
        app = app[word]
    for argument in app.assemble_argument_collection(parse_docstring=True):
        if not argument.show:
            continue
        text = " ".join((argument.parameter.help or "").split())
        assert text.endswith("."), f"{argument.name}: {text!r}"
        for sentence in re.split(r"(?<=[.;:]) ", text):
            assert len(sentence.split()) <= 25, sentence
        if argument.name.startswith("--"):
            assert text.split()[0] in VERBS, f"{argument.name}: {text!r}"


def test_the_main_help_has_the_first_line_of_every_command() -> None:
    text = " ".join(" ".join(_help()).split())
    for name, (_, summary) in COMMANDS.items():
        assert f"{name} {summary}" in text
        assert summary == " ".join(" ".join(_help(name)[2:5]).split())[: len(summary)]


@pytest.mark.parametrize(
    ("arguments", "level"),
    [
        (["run", "--sed"], "nandlab run --help"),
        (["image", "ls"], "nandlab image ls --help"),
        (["rn"], "nandlab --help"),
        (["rn", "--help"], "nandlab --help"),
        (["image", "lst"], "nandlab image --help"),
    ],
)
def test_an_error_points_to_the_help_of_its_level(
    arguments: list[str], level: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    assert f"`{level}`" in capsys.readouterr().err
