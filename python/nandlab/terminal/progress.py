"""A progress bar on standard error, silent unless that is a terminal."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def progress_bar(title: str) -> Iterator[Callable[[int, int, str], None]]:
    """Yields a function that takes the number done, the total, and a label."""
    if not sys.stderr.isatty():
        yield lambda done, total, label: None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
    )

    with Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[label]}", style="dim", markup=False),
        console=Console(stderr=True),
        transient=True,
    ) as progress:
        task = progress.add_task(title, total=None, label="")

        def update(done: int, total: int, label: str) -> None:
            progress.update(task, completed=done, total=total, label=label)

        yield update
