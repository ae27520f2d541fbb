"""Tables and paragraphs as lines of a given width.

No word is ever broken: a number without its last digits reads as another number. A table that is
too wide wraps its text at spaces. If that is not enough, it continues in a second part below, which
repeats the columns that name the rows: those before the first number.
"""

from collections.abc import Sequence

_GAP = "  "
_MARGIN = " "
_NAME_MAX = 40
"""Names up to this length are not broken into lines."""

_NUMBER_MAX = 24
"""Longer cells on the right are sentences, which may be wrapped."""

_TEXT_LEAST = 12
"""Text is not made narrower than this while columns can go below each other."""


def table_lines(
    title: str,
    columns: Sequence[str],
    rows: Sequence[Sequence[str]],
    right: frozenset[int] = frozenset(),
    *,
    width: int,
) -> list[str]:
    """The lines of a table with the columns in `right` set to the right.

    A line is longer than `width` only if the first column and one word beside it do not fit.
    Without headings the table has no rule.
    """
    room = max(width - len(_MARGIN), 1)
    cells = [[column, *(row[index] for row in rows)] for index, column in enumerate(columns)]
    least = [_least(index, cells[index], index in right) for index in range(len(columns))]
    labels = min(right, default=1) or 1
    bands = _bands(least, labels, room)
    lines = [""]
    for number, band in enumerate(bands):
        if number:
            lines.append("")
        if title:
            part = f" (part {number + 1} of {len(bands)})" if len(bands) > 1 else ""
            lines += _wrap(title + part, width, break_on_hyphens=True)
        natural = [max(map(_columns_of, cells[index])) for index in band]
        widths = _shrunk(natural, [least[index] for index in band], room)
        lines += _rows([cells[index] for index in band], widths, [index in right for index in band])
    lines.append("")
    return lines


def paragraph_lines(text: str, width: int) -> list[str]:
    """The lines of a text, wrapped at spaces; indented lines stay indented."""
    lines = []
    for line in text.split("\n"):
        indent = line[: len(line) - len(line.lstrip())]
        lines += _wrap(line.strip(), width, indent) or [""]
    return lines


def _least(index: int, cells: Sequence[str], is_right: bool) -> int:
    """The least width of a column."""
    heading, *values = cells
    longest = max(map(_columns_of, values), default=0)
    words = max((_columns_of(word) for one in cells for word in one.split()), default=1)
    if is_right and longest <= _NUMBER_MAX:
        return max(longest, *map(_columns_of, heading.split() or [""]))
    if index == 0 and longest <= _NAME_MAX:
        return max(longest, *map(_columns_of, heading.split() or [""]))
    return max(words, min(longest, _TEXT_LEAST))


def _bands(least: Sequence[int], labels: int, room: int) -> list[list[int]]:
    """The columns of each part of the table; every part begins with the first `labels` columns.

    Fewer are repeated if they would take most of the room.
    """
    repeated = list(range(min(labels, len(least))))
    while len(repeated) > 1 and sum(least[one] + len(_GAP) for one in repeated) > room * 0.6:
        repeated.pop()
    bands = [list(repeated)]
    for index in range(len(repeated), len(least)):
        used = sum(least[one] + len(_GAP) for one in bands[-1])
        if used + least[index] > room and len(bands[-1]) > len(repeated):
            bands.append([*repeated, index])
        else:
            bands[-1].append(index)
    return bands


def _shrunk(natural: Sequence[int], least: Sequence[int], room: int) -> list[int]:
    """Widths that fit, as far as the least ones allow; the widest column gives way first."""
    widths = list(natural)
    over = sum(widths) + len(_GAP) * (len(widths) - 1) - room
    while over > 0:
        free = [index for index in range(len(widths)) if widths[index] > least[index]]
        if not free:
            break
        widths[max(free, key=lambda index: widths[index])] -= 1
        over -= 1
    return widths


def _rows(
    cells: Sequence[Sequence[str]], widths: Sequence[int], is_right: Sequence[bool]
) -> list[str]:
    lines = []
    has_heading = any(column[0] for column in cells)
    for number, row in enumerate(zip(*cells, strict=True)):
        if number == 0 and not has_heading:
            continue
        parts = [_wrapped(cell, width) for cell, width in zip(row, widths, strict=True)]
        for line in range(max(map(len, parts))):
            shown = [part[line] if line < len(part) else "" for part in parts]
            placed = (
                " " * (width - _columns_of(text)) + text
                if right
                else text + " " * (width - _columns_of(text))
                for text, width, right in zip(shown, widths, is_right, strict=True)
            )
            lines.append((_MARGIN + _GAP.join(placed)).rstrip())
        if number == 0:
            lines.append(_MARGIN + "─" * (sum(widths) + len(_GAP) * (len(widths) - 1)))
    return lines


def _wrapped(cell: str, width: int) -> list[str]:
    lines = []
    for line in cell.split("\n"):
        if _columns_of(line) <= width:
            lines.append(line)
        else:
            lines += _wrap(line, width)
    return lines or [""]


def _wrap(text: str, width: int, indent: str = "", *, break_on_hyphens: bool = False) -> list[str]:
    """The lines of a text; no word is broken."""
    from textwrap import wrap

    return wrap(
        text,
        max(width, 1),
        initial_indent=indent,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=break_on_hyphens,
    )


def _columns_of(text: str) -> int:
    """Columns of a terminal that a text takes: wide letters take two, combining signs none."""
    if text.isascii():
        return len(text)
    from unicodedata import combining, east_asian_width

    return sum(
        0 if combining(letter) else 1 + (east_asian_width(letter) in "WF") for letter in text
    )
