"""The search of a design space as a Python call."""

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from nandlab.api.answer import Answer
from nandlab.api.interrupted import Interrupted
from nandlab.errors import NandlabError

if TYPE_CHECKING:
    import polars

    from nandlab.design_space.answered import Answered
    from nandlab.present import Presented


class Search(Answer):
    """The points of a search, those that no other beats, and the one to take."""

    _presented: "Presented"

    @property
    def headline(self) -> str:
        """The answer in one sentence."""
        return str(self.answer["headline"])

    @property
    def recommended(self) -> dict[str, Any] | None:
        """The choices of the point to take, by axis; None if no point keeps the constraints."""
        taken = self.answer["recommendation"]
        return None if taken is None else dict(taken["choices"])

    @property
    def is_decided(self) -> bool:
        """True if no other point is the same within the intervals."""
        taken = self.answer["recommendation"]
        return taken is not None and bool(taken["is_decided"])

    @property
    def front(self) -> "polars.DataFrame":
        """The points that no other beats, a row each."""
        from nandlab.api.answer import frame_of

        return frame_of([row for row in self.rows if row["is_on_front"]])

    @property
    def folder(self) -> Path:
        """Folder of the report and of the points."""
        return Path(self.answer["folder"])

    @property
    def shown(self) -> "Presented":
        """What the command prints: tables, figures and sentences."""
        return self._presented


def search(
    space: str | Path,
    *,
    objective: Sequence[str] | str,
    constraint: Sequence[str] | str = (),
    runs: int = 200,
    seed: int = 1,
    host_writes: str | None = None,
    sampler: Literal["tpe", "random"] = "tpe",
    jobs: int | None = None,
    cluster: str | None = None,
    out: Path | str | None = None,
) -> Search:
    """Search a space of parts, layers, file systems and options for the best points.

    Raises `NandlabError` for bad input, and `Interrupted` after Ctrl-C; the same call then goes on
    with what was finished.

    Args:
        space: File of the space: a base study and axes. docs/search.md describes it.
        objective: Choose points by these metrics, separated by commas, such as
            write_amplification,ram_bytes. Of a row without a direction say NAME:minimise.
        constraint: Keep this bound, such as 'life_years>=10'. May be repeated.
        runs: Run so many points. Points that cannot be do not count.
        seed: Seed the proposals. The same seed proposes the same points.
        host_writes: Count the life in years at this rate, such as 20GB/day. Without it: the rate of
            the workload, where it has one.
        sampler: Choose what proposes points: tpe learns from the points before, random does not.
        jobs: Run this many points at the same time. Without it: one for each processor. Results do
            not depend on it.
        cluster: Run the points on a Dask cluster: dask://HOST:PORT, local:WORKERS or slurm:FILE.
            The answer stays the same. Needs `pip install 'nandlab[cluster]'`.
        out: Write points and report into this folder, and take finished points from there. Without
            it: out/search-NAME, after the name of the file.

    """
    from nandlab.byte_sizes import bytes_a_day, natural_number
    from nandlab.cells import opened
    from nandlab.cells.place import place_of
    from nandlab.design_space.answer import data_of, points_rows, points_text, write
    from nandlab.design_space.answered import answered
    from nandlab.design_space.metrics import parse_constraint, parse_objectives
    from nandlab.design_space.points import Points
    from nandlab.design_space.sampler import RandomSampler, Sampler
    from nandlab.design_space.search import Asking, Question, check_axes
    from nandlab.design_space.search import search as carry_out
    from nandlab.design_space.space import read_space
    from nandlab.study_runs import processors
    from nandlab.terminal.progress import progress_bar

    natural_number("--runs", runs)
    natural_number("--seed", seed, least=0, bits=64)
    if jobs is not None:
        natural_number("--jobs", jobs, bits=10)
    if cluster is not None:
        place_of(cluster)
    bounds = [constraint] if isinstance(constraint, str) else list(constraint)
    question = Question(
        parse_objectives(objective),
        tuple(parse_constraint(one) for one in bounds),
        runs,
        None if host_writes is None else bytes_a_day(host_writes, "--host-writes"),
    )
    read = read_space(Path(space))
    folder = Path(out) if out is not None else Path("out") / f"search-{read.path.stem}"
    _check_folder(folder)
    asking: Asking
    if sampler == "tpe":
        asking = Sampler(read, seed, [one.is_least_best for one in question.objectives])
    else:
        asking = RandomSampler(read, seed)
    points = Points(read, folder)
    try:
        check_axes(read, points, seed)
        with progress_bar("search") as progress, opened(cluster) as open_cluster:
            outcome = carry_out(
                read, question, asking, points, jobs or processors(), progress, open_cluster
            )
    except KeyboardInterrupt:
        done = points.finished()
        told = f"Interrupted: {done:,} finished point{'s are' if done != 1 else ' is'} in {folder}."
        raise Interrupted(f"{told} The same command goes on there.") from None
    except OSError as error:
        place = error.filename or folder
        raise NandlabError(
            f"{place}: {error.strerror}; finished points, {points.finished():,}, are in {folder}: "
            "the same command goes on there"
        ) from None
    found = answered(read, question, outcome, seed, sampler)
    shown = write(found, folder, _command(found, space, host_writes, folder))
    rows = points_rows(found)
    result = Search(data_of(found, folder), rows, points_text(rows), is_clean=bool(rows))
    object.__setattr__(result, "_presented", shown)
    return result


def _check_folder(folder: Path) -> None:
    """Refuses a folder that holds something else."""
    from nandlab.design_space.points import INPUTS, POINTS

    if folder.is_file():
        raise NandlabError(f"{folder}: this is a file; name a folder with --out")
    own = {POINTS, INPUTS}
    if folder.is_dir() and (names := {one.name for one in folder.iterdir()}) and not own & names:
        raise NandlabError(
            f"{folder}: this folder is not empty and not of a search; name another with --out"
        )


def _command(found: "Answered", space: str | Path, host_writes: str | None, folder: Path) -> str:
    """The command line that does the same."""
    question = found.question
    objectives = ",".join(
        one.name if one.unit else f"{one.name}:{one.direction}" for one in question.objectives
    )
    words = ["nandlab", "search", str(space), "--objective", objectives]
    for one in question.constraints:
        words += ["--constraint", one.text]
    words += ["--runs", str(question.runs), "--seed", str(found.seed)]
    if host_writes is not None:
        words += ["--host-writes", host_writes]
    if found.sampler != "tpe":
        words += ["--sampler", found.sampler]
    return shlex.join([*words, "--out", str(folder)])
