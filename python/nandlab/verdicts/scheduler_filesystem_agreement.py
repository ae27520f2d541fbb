"""How near the study scheduler-filesystem comes to the published times and orders."""

from nandlab.verdicts.model import Agreement
from nandlab.verdicts.scheduler_filesystem_nilfs2 import orders
from nandlab.verdicts.scheduler_filesystem_view import MAIN, View


def agreements(view: View) -> list[Agreement]:
    """One for each test of each file system that ran and is published."""
    return [
        Agreement(
            name,
            order.test,
            order.error,
            _error_of_cells(view, name, order.test),
            order.tau,
            order.p_value,
        )
        for name in view.file_systems()
        for order in orders(view, name)
    ]


def _error_of_cells(view: View, name: str, test: str) -> float:
    errors = []
    for size in view.sizes(name):
        cells = view.published_cells(name, test, size)
        for scheduler, seconds in cells.items():
            ours = view.seconds(name, test, size, MAIN, scheduler)
            if ours is not None:
                errors.append(abs(ours / seconds - 1))
    return sum(errors) / len(errors)
