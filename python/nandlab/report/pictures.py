"""Charts as PNG files, drawn without a browser."""

from collections.abc import Iterable

from nandlab.present.drawing import picture
from nandlab.report.parts import Figure


def drawn_pictures(figures: Iterable[Figure]) -> dict[str, bytes]:
    """The main figures, on white, as PNG by the name of the file."""
    return {
        f"{figure.identifier}.png": picture(figure.specification, figure.title)
        for figure in figures
        if figure.is_main
    }
