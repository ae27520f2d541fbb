"""Count the sentences of Markdown files and the share of short ones.

    scripts/sentences.py [FILE ...]

Without files it reads README.md, ARCHITECTURE.md, CONTRIBUTING.md, CHANGELOG.md and docs/*.md.
Code blocks, tables, headings, images and comments are left out. A link counts with its text, a
piece of inline code as one word. The exit status is 1 if the share of short sentences is too low.
"""

import argparse
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGES = ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md")

WORDS_MAX = 25
SHARE_MIN_PERCENT = 95.0

_FENCE = re.compile(r"\s*(```|~~~)")
_ITEM = re.compile(r"\s*(?:[-*+]|\d+[.)])\s+")
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
_IMAGE = re.compile(r"!\[[^\]]*\]\([^)]*\)")
_LINK = re.compile(r"\[([^\]]*)\]\([^)]*\)")
_CODE = re.compile(r"(`+).+?\1")
# The word that stands for a piece of code.
_CODE_WORD = "Code"
# An abbreviation or an initial, whose full stop ends no sentence.
_ABBREVIATION = re.compile(r"\b(?:e\.g|i\.e|etc|al|vs|cf|No|Fig|ca|[A-Za-z])\.$")
# The mark that ends a sentence, and what may close around it. The next one may begin with a small
# letter, as the names of programs and schedulers do.
_END = re.compile(r"[.!?][\"')\]*_”’]*\s+")


@dataclass(frozen=True)
class Sentence:
    """A sentence of a page."""

    # Line of the paragraph or list item that holds it.
    line: int
    text: str

    @property
    def words(self) -> int:
        """Number of its words: parts between spaces that hold a letter or a digit."""
        return sum(any(letter.isalnum() for letter in part) for part in self.text.split())


def sentences(markdown: str) -> list[Sentence]:
    """The sentences of a page, in order."""
    found = []
    for line, text in _blocks(markdown):
        found += [Sentence(line, part) for part in _split(_plain(text))]
    return [sentence for sentence in found if sentence.words]


def share_percent(found: Sequence[Sentence], words_max: int = WORDS_MAX) -> float:
    """Share of the sentences that have at most so many words; 100 where there are none."""
    if not found:
        return 100.0
    return 100 * sum(sentence.words <= words_max for sentence in found) / len(found)


def _blocks(markdown: str) -> Iterator[tuple[int, str]]:
    """Paragraphs and list items, each with the number of its first line."""
    # A comment may span lines; its line ends stay, so that lines keep their numbers.
    markdown = _COMMENT.sub(lambda found: "\n" * found.group().count("\n"), markdown)
    fence, is_list, is_after_blank = "", False, True
    start, block = 0, ""
    for number, line in enumerate(markdown.splitlines(), 1):
        mark = _FENCE.match(line)
        if fence:
            if mark and mark.group(1) == fence:
                fence = ""
            continue
        is_blank = not line.strip()
        # Four spaces after a blank line are code, unless a list goes on there.
        is_code = line.startswith("    ") and is_after_blank and not is_list
        item = None if is_code else _ITEM.match(line)
        is_other = mark or is_blank or is_code or line.startswith("#")
        if is_other or item or line.lstrip().startswith("|"):
            if block:
                yield start, block
            block = ""
        if mark:
            fence = mark.group(1)
        elif item:
            is_list, start, block = True, number, line[item.end() :]
        elif not is_other and not line.lstrip().startswith("|"):
            is_list = is_list and (bool(block) or line.startswith(" "))
            start = start if block else number
            block = f"{block} {line.strip().removeprefix('> ')}".strip()
        # A line of code keeps the next one code.
        is_after_blank = is_blank or is_code
    if block:
        yield start, block


def _plain(text: str) -> str:
    """The text as it is read: links by their text, code as one word."""
    text = _CODE.sub(_CODE_WORD, _IMAGE.sub("", text))
    return _LINK.sub(r"\1", text)


def _split(text: str) -> Iterator[str]:
    start = 0
    for end in _END.finditer(text):
        before = text[start : end.end()].rstrip()
        if _ABBREVIATION.search(before):
            continue
        yield before
        start = end.end()
    yield text[start:].strip()


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the counts of the files and the longest sentences; 1 if too few are short."""
    parser = argparse.ArgumentParser(description="Count sentences and the share of short ones.")
    parser.add_argument("files", nargs="*", type=Path, help="Markdown files to read")
    parser.add_argument("--words", type=int, default=WORDS_MAX, help="words of a short sentence")
    parser.add_argument(
        "--share", type=float, default=SHARE_MIN_PERCENT, help="least share in percent"
    )
    parser.add_argument("--longest", type=int, default=10, help="longest sentences to print")
    options = parser.parse_args(arguments)
    files = options.files or [ROOT / page for page in PAGES] + sorted(ROOT.glob("docs/*.md"))
    total: list[tuple[Path, Sentence]] = []
    print(f"{'sentences':>9} {'long':>5} {'short':>8}  file")
    for file in files:
        try:
            found = sentences(file.read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError) as error:
            print(f"sentences.py: error: {file}: {error}", file=sys.stderr)
            return 2
        _print_counts(found, options.words, _short(file))
        total += [(file, sentence) for sentence in found]
    everything = [sentence for _, sentence in total]
    _print_counts(everything, options.words, "together")
    for file, sentence in sorted(total, key=lambda one: -one[1].words)[: options.longest]:
        if sentence.words > options.words:
            print(f"\n{_short(file)}:{sentence.line}: {sentence.words} words\n  {sentence.text}")
    return 0 if share_percent(everything, options.words) >= options.share else 1


def _print_counts(found: Sequence[Sentence], words_max: int, name: str) -> None:
    too_long = sum(sentence.words > words_max for sentence in found)
    share = share_percent(found, words_max)
    print(f"{len(found):>9} {too_long:>5} {share:>6.1f} %  {name}")


def _short(file: Path) -> str:
    path = file.resolve()
    return str(path.relative_to(ROOT)) if path.is_relative_to(ROOT) else str(file)


if __name__ == "__main__":
    sys.exit(main())
