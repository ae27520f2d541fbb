"""The search for scripts whose power cuts break a guarantee."""

import json
import re
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nandlab.api.answer import Answer
from nandlab.api.given import checked
from nandlab.api.interrupted import Interrupted
from nandlab.errors import NandlabError

if TYPE_CHECKING:
    import polars

_UNITS_S = {"s": 1, "m": 60, "h": 3600, "d": 86_400}


class CrashSearch(Answer):
    """What a search for failing scripts found."""

    @property
    def failures(self) -> "polars.DataFrame":
        """Each different failure, with the file of the smallest script that shows it."""
        return self.frame

    @property
    def runs(self) -> int:
        """Scripts that were run; give it as `runs` to repeat a search that had a time."""
        return int(self.answer["counts"]["runs"])


def crash_search(
    *,
    fs: str,
    runs: int | None = None,
    max_total_time: str | int | None = None,
    part: str | Path = "k9f2g08u0c",
    block_device: str | Path | None = None,
    blocks: int | None = None,
    pages_per_block: int | None = None,
    profile: str | None = None,
    recoveries: int = 2,
    corpus: Path | str | None = None,
    out: Path | str | None = None,
    seed: int = 1,
    jobs: int | None = None,
) -> CrashSearch:
    """Search random scripts of system calls for those whose power cuts break a guarantee.

    Scripts are drawn, run and cut. Those that reach something new are kept and changed. A script
    that fails is made smaller.

    The same seed, corpus and number of runs give the same digest, whatever `jobs` is.

    Raises `NandlabError` for bad input, and `Interrupted` after Ctrl-C.

    Args:
        fs: Use this file system (see `nandlab list file-systems`).
        runs: Run this many scripts.
        max_total_time: Stop after this time, such as 90s, 30m or 8h. Without it and without --runs:
            1000 scripts.
        part: Use this chip: a name (see `nandlab list parts`) or a part file.
        block_device: Put FAT, NILFS2 or jffs2-block2mtd on a partition of this device, as large as
            the chip: a name (see `nandlab list devices`) or a device file.
        blocks: Replace the number of blocks of the part. Without it: 64.
        pages_per_block: Replace the pages of a block of the part. Smaller blocks are collected
            sooner.
        profile: Follow the code of this kernel or library, such as linux-6.12.
        recoveries: Cut recoveries, too: 0 for none, 1 for the mount after a cut, 2 also for the
            mount after a cut of that mount.
        corpus: Run the scripts of this folder first, and keep in it those that reach something new.
        out: Write the failing scripts to this folder, each with the command that shows its failure.
        seed: Seed the draws, and the values that a kernel takes from its clock.
        jobs: Run this many scripts at the same time. Without it: one for each processor.

    """
    from nandlab import engine
    from nandlab.outputs import check_folder
    from nandlab.terminal.progress import progress_bar

    limit_s = None if max_total_time is None else _seconds(max_total_time)
    if runs is None and limit_s is None:
        runs = 1000
    places: dict[str, Any] = {
        "fs": fs,
        "part": part,
        "block_device": block_device,
        "blocks": blocks,
        "pages_per_block": pages_per_block,
        "profile": profile,
        "seed": seed,
    }
    numbers = checked({"runs": runs, "recoveries": recoveries}, from_zero={"recoveries"})
    asked = checked({**places, "jobs": jobs})
    asked["workers"] = asked.pop("jobs")
    folders = [None if one is None else Path(one) for one in (corpus, out)]
    for folder in folders:
        if folder is not None:
            check_folder(folder)
    wanted = {"runs": runs, "depth": numbers["recoveries"], "corpus": _scripts_of(folders[0])}
    with progress_bar(f"search {fs}") as show:
        keeper = _Keeper(folders, places, limit_s, show, runs)
        outcome = engine.search_scripts(asked, wanted, keeper.told)
    keeper.write()
    is_timed_out = keeper.is_late()
    outcome["timed_out"] = is_timed_out
    found = CrashSearch(outcome, keeper.rows, is_clean=not keeper.rows)
    if outcome["interrupted"] and not is_timed_out:
        raise Interrupted(f"Interrupted after {found.runs:,} runs.", found)
    return found


class _Keeper:
    """Keeps what a search finds while it goes on, and ends it in time."""

    def __init__(
        self,
        folders: list[Path | None],
        places: dict[str, Any],
        limit_s: float | None,
        show: Any,
        runs: int | None,
    ) -> None:
        """Begin with an empty list; the time runs from here."""
        self._corpus, self._out = folders
        self._places, self._limit_s, self._show, self._runs = places, limit_s, show, runs
        self._begin_s = time.monotonic()
        self._waiting: list[dict[str, Any]] = []
        self.rows: list[dict[str, Any]] = []

    def is_late(self) -> bool:
        """True if the time is over."""
        return self._limit_s is not None and time.monotonic() - self._begin_s >= self._limit_s

    def told(self, text: str) -> bool:
        """Takes a state of the search; false if the search is to end."""
        from nandlab.whole_files import keep_text

        state = json.loads(text)
        for script in state["kept"]:
            if self._corpus is not None:
                keep_text(self._corpus / f"{_name(script)}.ops", script)
        if state["found"] is not None:
            self._waiting.append(state["found"])
            # At once, since a search of hours may be ended by force. The digest follows at the end.
            self._keep(state["found"])
        counts, tried = state["counts"], state["tried"]
        elapsed_s = max(time.monotonic() - self._begin_s, 0.001)
        cuts = counts["cuts"] + counts["recovery_cuts"] + counts["second_recovery_cuts"]
        label = (
            f"{counts['calls']:,} calls, {cuts:,} cuts, {counts['kept']:,} new, "
            f"{counts['failures']:,} failures, {cuts / elapsed_s:,.0f} cuts/s"
        )
        if tried is not None:
            label += f"; {tried:,} smaller scripts tried"
        self._show(counts["runs"], self._runs, label)
        return not self.is_late()

    def _keep(self, found: dict[str, Any]) -> None:
        from nandlab.crash_files import command, file_text
        from nandlab.whole_files import keep_text

        if self._out is not None:
            name, failure = self._file(found), found["failure"]
            shown_by = command(name, self._places, failure)
            text = file_text(shown_by, failure["shown"], "not known yet", found["text"])
            keep_text(self._out / name, text)

    def _file(self, found: dict[str, Any]) -> str:
        return f"{self._places['fs']}-{found['name']}-{_name(found['text'])}.ops"

    def write(self) -> None:
        """Writes the failing scripts, each behind its command and with its digest."""
        from nandlab.api.scripts import write_smallest

        for found in self._waiting:
            name, failure = self._file(found), found["failure"]
            row = {"run": found["run"], "kind": found["name"], "shows": failure["shown"]}
            row |= {"lines": found["text"].count("\n"), "file": ""}
            if self._out is not None:
                smallest = {**found, "tried": 0}
                told = write_smallest(self._out / name, smallest, self._places)
                row["file"] = told["file"]
            self.rows.append(row)


def _name(script: str) -> str:
    """A name for a script that depends on its text alone."""
    import hashlib

    return hashlib.sha256(script.encode()).hexdigest()[:12]


def _scripts_of(corpus: Path | None) -> list[str]:
    """The scripts of a folder, by their names."""
    if corpus is None or not corpus.is_dir():
        return []
    return [path.read_text(encoding="utf-8") for path in sorted(corpus.glob("*.ops"))]


def _seconds(given: str | int) -> float:
    """A time with a unit, or a number of seconds."""
    found = re.fullmatch(r"(\d+)([smhd]?)", str(given))
    if found is None or int(found[1]) == 0:
        raise NandlabError(f"--max-total-time {given}: write it as 90s, 30m or 8h")
    return float(int(found[1]) * _UNITS_S[found[2] or "s"])
