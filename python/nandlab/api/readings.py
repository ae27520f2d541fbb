"""The search of readings as a Python call."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from nandlab.api.answer import Answer
from nandlab.api.interrupted import Interrupted
from nandlab.errors import NandlabError

if TYPE_CHECKING:
    import polars

CACHE = Path("out") / "readings"


class Readings(Answer):
    """The joint readings that come nearest to the reference, and how far to trust them."""

    @property
    def best(self) -> dict[str, str]:
        """The option of each choice in the best joint reading, of all searches."""
        taken = (one["readings"][0]["choices"] for one in self.searches)
        return {name: option for one in taken for name, option in one.items()}

    @property
    def searches(self) -> list[dict[str, Any]]:
        """The answer of each search: one, or several where studies share no choice."""
        return list(self.answer.get("searches", [self.answer]))

    @property
    def effects(self) -> "polars.DataFrame":
        """Choices with the share of the variance of the score that each explains alone."""
        from nandlab.api.answer import frame_of

        return frame_of([{key: row[key] for key in ("choice", "unsaid", "share")}
                         for one in self.searches for row in one["effects"]])  # fmt: skip


def search_readings(
    study: Sequence[str] | str,
    *,
    by: Literal["level", "shape", "order"] = "level",
    most: int = 200_000,
    jobs: int | None = None,
    cache: Path | str | None = None,
    out: Path | str | None = None,
) -> Readings:
    """Search what publications leave unsaid, and score every joint reading.

    Raises `NandlabError` for bad input, and `Interrupted` after Ctrl-C; the same call then goes on
    with what was finished.

    Args:
        study: Names of shipped studies (see `nandlab list studies`), or study folders. Several
            are scored jointly: choices of the same name are one. Studies that share no
            choice are searched apart, and the answer names them as such.
        by: Choose the score that ranks: level, shape (one common scale a study allowed) or order.
        most: Set the largest number of joint readings. A larger product is drawn from, evenly.
        jobs: Run this many combinations at the same time. Without it: one for each processor.
        cache: Use this folder for finished runs. Without it: out/readings.
        out: Write the answer to this file: JSON, or the page if the name ends in .md.

    """
    from nandlab.byte_sizes import natural_number
    from nandlab.outputs import check_file
    from nandlab.readings.page import page_of
    from nandlab.readings.search import Search, apart, search, text_of, together
    from nandlab.readings.spec import load_readings
    from nandlab.study_runs import processors
    from nandlab.terminal.progress import progress_bar
    from nandlab.whole_files import keep_text

    names = [study] if isinstance(study, str) else list(dict.fromkeys(study))
    if not names:
        raise NandlabError("name at least one study, such as scheduler-filesystem")
    natural_number("--most", most)
    if jobs is not None:
        natural_number("--jobs", jobs, bits=10)
    target = None if out is None else Path(out)
    if target is not None:
        check_file(target)
    studies = [load_readings(one) for one in names]
    folder = Path(cache) if cache is not None else CACHE
    answers, done = [], 0
    with progress_bar("readings") as progress:
        for group in apart(studies):
            found = search(group, most, folder, jobs or processors(), progress)
            if not isinstance(found, Search):
                told = f"Interrupted: {done + found} of the missing runs were carried out"
                raise Interrupted(f"{told} and are in {folder}. The same command goes on there.")
            done += found.carried_out
            answers.append(found.answer(by))
    answer: dict[str, Any] = answers[0] if len(answers) == 1 else together(answers)
    page = page_of(answer)
    is_page = target is not None and target.suffix == ".md"
    result = Readings(answer, answer["readings"], page)
    try:
        keep_text(target, page if is_page else text_of(answer))
    except NandlabError as error:
        error.result = result
        raise
    return result
