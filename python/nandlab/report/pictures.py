"""Charts as PNG files, drawn without a browser."""

import copy
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

from nandlab.report.drawing import waited_for
from nandlab.report.parts import Figure

_WIDTH_PX = 640


def drawn_pictures(figures: Iterable[Figure]) -> dict[str, bytes]:
    """The main figures, on white, as PNG by the name of the file."""
    import vl_convert

    drawn = {}
    for figure in figures:
        if figure.is_main:
            specification = _on_white(figure.specification, figure.title)
            draw = partial(
                vl_convert.vegalite_to_png, specification, vl_version=engine_version(), scale=2
            )
            drawn[f"{figure.identifier}.png"] = waited_for(draw)
    return drawn


def engine_version() -> str:
    """The Vega-Lite version that the chart library writes for, as the converter names it."""
    import altair

    return ".".join(altair.SCHEMA_VERSION.removeprefix("v").split(".")[:2])


def _on_white(specification: Mapping[str, Any], title: str) -> dict[str, Any]:
    drawn = copy.deepcopy(dict(specification))
    drawn.update(width=_WIDTH_PX, background="white", title={"text": title, "anchor": "start"})
    drawn["autosize"] = {"type": "pad"}
    drawn["padding"] = 12
    return drawn
