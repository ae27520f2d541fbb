"""Charts as PNG files, drawn without a browser."""

import copy
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from nandlab.report.parts import Figure

_WIDTH_PX = 640


def write_pictures(folder: Path, figures: Iterable[Figure]) -> list[Path]:
    """Draws the main figures into `folder`, on white."""
    import vl_convert

    written = []
    for figure in figures:
        if figure.is_main:
            folder.mkdir(parents=True, exist_ok=True)
            path = folder / f"{figure.identifier}.png"
            specification = _on_white(figure.specification, figure.title)
            path.write_bytes(
                vl_convert.vegalite_to_png(specification, vl_version=engine_version(), scale=2)
            )
            written.append(path)
    return written


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
