"""Writes kernel/sfq/patches/: the modules SFQ and SFQ2 as patches against kernel trees.

The patches hold the files of kernel/sfq in the form that they would have inside a tree, where the
code for other kernels is gone. The tree of each series is that of Debian's linux-source: a folder,
or its tarball.
"""

import argparse
import os
import re
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

MODULE = Path(__file__).parents[1] / "kernel" / "sfq"
PATCHES = MODULE / "patches"
SERIES = ("6.1", "6.12")

CHANGED = ("block/Kconfig.iosched", "block/Makefile", "Documentation/block/index.rst")
"""Files of the tree that the patches change; all others are new."""

AUTHOR = "The nandlab authors <nandlab@example.org>"
DATE = "2026-01-01T00:00:00+0000"
"""Of every patch: the same sources give the same files."""

_CALL = {
    "6.1": (("sfq_insert_flags flags", "bool at_head"), ("flags & SFQ_AT_HEAD", "at_head")),
    "6.12": (("sfq_insert_flags", "blk_insert_t"), ("SFQ_AT_HEAD", "BLK_MQ_INSERT_AT_HEAD")),
}
"""The argument of `insert_requests` that the kernels have."""

_WITHOUT_ZONES = (
    # The block layer of 6.10 and later orders writes to a zone itself.
    (
        "\t/* Only the asynchronous queue holds writes that wait for a zone. */\n"
        "\tlist_for_each_entry(rq, &sq->fifo[direction], queuelist) {\n"
        "\t\tif (sfq_may_send(rq))\n\t\t\treturn rq;\n\t}\n\treturn NULL;\n",
        "\treturn list_first_entry_or_null(&sq->fifo[direction],\n"
        "\t\t\t\t\tstruct request, queuelist);\n",
    ),
    ("\tstruct request *rq;\n\n\treturn list_first_entry", "\treturn list_first_entry"),
    (" && !sfq_needs_zone(rq)", ""),
    (
        "\t/* Writes to zones never leave the order of their queue. */\n"
        "\tif (!sfq_needs_zone(rq))\n"
        "\t\trb_add_cached(&rq->rb_node, &sfqd->by_expiry[direction],\n"
        "\t\t\t      sfq_expires_earlier);\n",
        "\trb_add_cached(&rq->rb_node, &sfqd->by_expiry[direction],\n"
        "\t\t      sfq_expires_earlier);\n",
    ),
    (
        "static inline bool sfq_needs_zone(struct request *rq)\n{\n\treturn false;\n}\n\n"
        "static inline bool sfq_may_send(struct request *rq)\n{\n\treturn true;\n}\n\n"
        "static inline int sfq_zone_of(struct request *rq)\n{\n\treturn -1;\n}\n\n",
        "",
    ),
    (",\n\t\t\t sfq_zone_of(rq));\n", ",\n\t\t\t -1);\n"),
    (
        "The next request, written down; under zone_lock if the disk has zones.",
        "The next request, written down.",
    ),
)


@dataclass(frozen=True)
class Scheduler:
    """One of the module's schedulers, and what is different in its file inside a tree."""

    name: str
    pairs: tuple[tuple[str, str], ...]
    """Made for all series."""
    by_series: Mapping[str, tuple[tuple[str, str], ...]]
    macros: Mapping[str, Mapping[str, bool]]
    """Macros that a series has, or has not."""

    def code(self, series: str) -> str:
        """The C file."""
        text = (MODULE / f"{self.name}-iosched.c").read_text(encoding="utf-8")
        for macro, is_set in self.macros.get(series, {}).items():
            text = resolved(text, macro, is_set=is_set)
        trace = (f'#include "{self.name}-trace.h"', f"#include <trace/events/{self.name}.h>")
        common = (
            ('#include "sfq-compat.h"\n', ""),
            trace,
            ('MODULE_VERSION("1.0");\n', ""),
        )
        pairs = (*common, *_CALL[series], *self.pairs, *self.by_series.get(series, ()))
        return replaced(text, pairs)

    def trace(self) -> str:
        """The header of its tracepoints."""
        text = (MODULE / f"{self.name}-trace.h").read_text(encoding="utf-8")
        old, new = f"_{self.name.upper()}_TRACE_H", f"_TRACE_{self.name.upper()}_H"
        pairs = (
            (f"#if !defined({old})", f"#if !defined({new})"),
            (f"#define {old}\n", f"#define {new}\n"),
            (
                "#undef TRACE_INCLUDE_PATH\n#define TRACE_INCLUDE_PATH .\n"
                f"#undef TRACE_INCLUDE_FILE\n#define TRACE_INCLUDE_FILE {self.name}-trace\n",
                "",
            ),
        )
        return replaced(text, pairs)

    def text(self, name: str) -> str:
        """A text that is written for its patches."""
        return (PATCHES / self.name / name).read_text(encoding="utf-8")


SCHEDULERS = (
    Scheduler(
        "sfq",
        (
            (
                " * Rules, which are those of the scheduler `sfq` of the nandlab simulator:",
                " * Rules:",
            ),
        ),
        # Where the scheduler orders writes to zones, it does so if the kernel knows of zones.
        {"6.1": (("SFQ_LOCKS_ZONES", "CONFIG_BLK_DEV_ZONED"),), "6.12": _WITHOUT_ZONES},
        {"6.12": {"SFQ_LOCKS_ZONES": False}},
    ),
    Scheduler(
        "sfq2",
        (
            (
                " * The rules are those of the scheduler `sfq2` of the nandlab simulator, which\n"
                " * has them in crates/host/sched/src/sfq2/mod.rs, and docs/sfq2.md derives how\n"
                " * long a request waits. In short:\n",
                " * Rules:\n",
            ),
            # Said by the dependency on 64BIT.
            (
                "#if BITS_PER_LONG != 64\n"
                '#error "a time in nanoseconds must fit into a pointer"\n#endif\n\n',
                "",
            ),
        ),
        {},
        {
            "6.1": {"ELEVATOR_FLAG_DISABLE_WBT": False},
            "6.12": {"ELEVATOR_FLAG_DISABLE_WBT": True},
        },
    ),
)


class DoesNotFitError(Exception):
    """A place that a replacement is for is not in the source any more."""


def resolved(text: str, macro: str, *, is_set: bool) -> str:
    """Resolve `#ifdef MACRO` as a kernel does that has the macro, or has not."""
    kept, depth, is_kept = [], 0, True
    for line in text.splitlines(keepends=True):
        word = line.split()[0] if line.startswith("#") else ""
        if depth == 0:
            if line.strip() == f"#ifdef {macro}":
                depth, is_kept = 1, is_set
            else:
                kept.append(line)
            continue
        # Within, `depth` counts the conditions that are open, the outer one included.
        depth += word.startswith("#if")
        depth -= word == "#endif"
        if depth == 1 and word == "#else":
            is_kept = not is_set
        elif depth > 0 and is_kept:
            kept.append(line)
    return "".join(kept)


def replaced(text: str, pairs: Iterable[tuple[str, str]]) -> str:
    """Make all replacements, each of which must find its place."""
    for old, new in pairs:
        if old not in text:
            raise DoesNotFitError(f"kernel/sfq has no {old.strip().splitlines()[0]!r} any more")
        text = text.replace(old, new)
    return text


def patches(series: str, tree: Path) -> list[tuple[str, dict[str, str]]]:
    """Message and files of each patch of a series; the files by their place in a tree."""
    now = {name: (tree / name).read_text(encoding="utf-8") for name in CHANGED}
    found = []
    for scheduler in SCHEDULERS:
        name = scheduler.name
        kbuild = f"obj-$(CONFIG_MQ_IOSCHED_{name.upper()})\t+= {name}-iosched.o\n"
        now["block/Kconfig.iosched"] = replaced(
            now["block/Kconfig.iosched"],
            [("config IOSCHED_BFQ\n", f"{scheduler.text('Kconfig')}config IOSCHED_BFQ\n")],
        )
        bfq = "bfq-y\t\t\t\t:="
        now["block/Makefile"] = replaced(now["block/Makefile"], [(bfq, kbuild + bfq)])
        code = {
            "block/Kconfig.iosched": now["block/Kconfig.iosched"],
            "block/Makefile": now["block/Makefile"],
            f"block/{name}-iosched.c": scheduler.code(series),
            f"include/trace/events/{name}.h": scheduler.trace(),
        }
        found.append((scheduler.text("code.txt"), code))
        index = "Documentation/block/index.rst"
        now[index] = replaced(now[index], [("   stat\n", f"   {name}-iosched\n   stat\n")])
        page = {
            index: now[index],
            f"Documentation/block/{name}-iosched.rst": scheduler.text(f"{name}-iosched.rst"),
        }
        found.append((scheduler.text("documentation.txt"), page))
    return found


def tree_of(source: Path, scratch: Path) -> Path:
    """The folder of a kernel source; of a tarball only the files that the patches change."""
    if source.is_dir():
        return source
    wanted = re.compile(rf"[^/]+/({'|'.join(map(re.escape, CHANGED))})$")
    with tarfile.open(source) as archive:
        archive.extractall(
            scratch, (one for one in archive if wanted.match(one.name)), filter="data"
        )
    return next(scratch.iterdir())


def write_series(series: str, tree: Path, out: Path) -> None:
    """Write the cover letter and the patches of a series into a folder."""
    with tempfile.TemporaryDirectory(prefix="sfq-patches-") as name:
        work = Path(name)
        _git(work, "init", "-q", "-b", "main")
        _write(work, {file: (tree / file).read_text(encoding="utf-8") for file in CHANGED})
        _commit(work, f"Linux {series}")
        made = patches(series, tree)
        for message, content in made:
            _write(work, content)
            _commit(work, message)
        out.mkdir(parents=True, exist_ok=True)
        for old in out.glob("*.patch"):
            old.unlink()
        _git(
            work,
            "format-patch",
            "-q",
            "--no-signature",
            "--zero-commit",
            "--full-index",
            "--cover-letter",
            "--stat=72",
            f"--subject-prefix=PATCH {series}",
            "-o",
            str(out.resolve()),
            f"HEAD~{len(made)}",
        )
    subject, _, body = (PATCHES / "cover-letter.txt").read_text(encoding="utf-8").partition("\n\n")
    cover = next(out.glob("0000-*.patch"))
    text = cover.read_text(encoding="utf-8")
    # git dates the cover letter, and only that, with the time of the call.
    text = re.sub(r"(?m)^Date: .*$", f"Date: {_DATE_OF_MAIL}", text, count=1)
    cover.write_text(
        replaced(
            text,
            [("*** SUBJECT HERE ***", subject.strip()), ("*** BLURB HERE ***\n", body)],
        ),
        encoding="utf-8",
    )


_DATE_OF_MAIL = "Thu, 1 Jan 2026 00:00:00 +0000"


def _write(work: Path, content: dict[str, str]) -> None:
    for name, text in content.items():
        path = work / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def _commit(work: Path, message: str) -> None:
    _git(work, "add", "-A")
    _git(work, "commit", "-q", "-m", message)


def _git(work: Path, *arguments: str) -> None:
    name, _, address = AUTHOR.rstrip(">").partition(" <")
    # No configuration of the user's: it may sign, or change the form of patches.
    identity = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
    for role in ("AUTHOR", "COMMITTER"):
        identity |= {
            f"GIT_{role}_NAME": name,
            f"GIT_{role}_EMAIL": address,
            f"GIT_{role}_DATE": DATE,
        }
    subprocess.run(["git", *arguments], cwd=work, check=True, env={**os.environ, **identity})


def main(arguments: list[str]) -> int:
    """Write the patches of the series whose sources are given."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("sources", nargs="+", metavar="SERIES=SOURCE", help="as in 6.1=linux-6.1/")
    for pair in parser.parse_args(arguments).sources:
        series, _, source = pair.partition("=")
        if series not in SERIES or not Path(source).exists():
            parser.error(f"{pair}: name a series of {', '.join(SERIES)} and its source")
        with tempfile.TemporaryDirectory(prefix="sfq-source-") as scratch:
            write_series(series, tree_of(Path(source), Path(scratch)), PATCHES / series)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
