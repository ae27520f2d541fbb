"""Runs every shipped study and writes their reports and a page over them.

`python -m nandlab.reproduce --out out` runs the quick forms, `--full` the whole studies.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from nandlab import engine
from nandlab.cli import EXIT_NO_READER, heedful
from nandlab.errors import NandlabError
from nandlab.interruption import received
from nandlab.present.front import write_index
from nandlab.study_files import shipped_studies
from nandlab.study_runs import RunRequest, run
from nandlab.terminal.output import print_text
from nandlab.terminal.progress import progress_bar
from nandlab.terminal.streams import prepare_streams, silence


def reproduce(out: Path, *, full: bool, jobs: int | None = None) -> int:
    """Runs the studies; returns an exit code."""
    finished = 0
    left_out: list[str] = []
    for name, path in shipped_studies().items():
        study = engine.describe_study(path, [], None, quick=not full)
        if study.get("needs_vm") and not full:
            left_out.append(f"{name} (needs a virtual machine; run it with --full)")
            continue
        with progress_bar(name) as progress:
            done = run(RunRequest(name, str(path), out / name, quick=not full, jobs=jobs), progress)
        done.shown.print()
        print_text(f"Report: {done.folder / 'report.html'}\n")
        if done.run.interrupted:
            raise received() or KeyboardInterrupt
        finished += 1
    if finished:
        page = write_index(out).path
        print_text(f"All reports: {page}")
    for reason in left_out:
        print_text(f"Left out: {reason}")
    print_text(f"{finished} studies run, {len(left_out)} left out")
    if not finished and not left_out:
        raise NandlabError("no study was found; run this in the source tree of nandlab")
    return 0


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line of this module."""
    parser = argparse.ArgumentParser(prog="nandlab.reproduce", description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("out"))
    parser.add_argument("--full", action="store_true", help="whole studies, not the quick forms")
    parser.add_argument("--jobs", type=int, default=None)
    given = parser.parse_args(arguments)

    def work() -> int:
        prepare_streams()
        try:
            code = reproduce(given.out, full=given.full, jobs=given.jobs)
            sys.stdout.flush()
            return code
        except NandlabError as error:
            print(f"nandlab: error: {error}", file=sys.stderr)
            return 2
        except BrokenPipeError:
            # Python flushes standard output at exit and would report the closed pipe again.
            silence(sys.stdout)
            return EXIT_NO_READER
        except OSError as error:
            place = error.filename or "standard output"
            print(f"nandlab: error: {place}: {error.strerror or error}", file=sys.stderr)
            silence(sys.stdout)
            return 2

    return heedful(work, is_process=arguments is None)


if __name__ == "__main__":
    sys.exit(main())
