"""Calls of the chart engine, which take seconds and look for no signal."""

import copy
import threading
from collections.abc import Callable, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeVar

from nandlab.interruption import leaves_work_behind
from nandlab.outputs import write_whole

_LOOK_S = 0.02

_ENTRY = "window.vegaEmbed = vegaEmbed;"
"""What the bundle of the chart engine offers to the page."""

_VEGA_LITE = "6.4"
"""The version of Vega-Lite that the specifications are written for."""

_WIDTH_PX = 640

Drawn = TypeVar("Drawn")


def waited_for(call: Callable[[], Drawn]) -> Drawn:
    """What the call returns; a signal ends the wait, not the call.

    The engine lets other threads go on while it works, so that handlers of signals run here.
    """
    results: list[Drawn] = []
    errors: list[BaseException] = []

    def work() -> None:
        try:
            results.append(call())
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    try:
        while thread.is_alive():
            thread.join(_LOOK_S)
    except KeyboardInterrupt:
        leaves_work_behind()
        raise
    if errors:
        raise errors[0]
    return results[0]


def engine() -> str:
    """The chart engine, once for all charts of a page.

    The build keeps it beside the package's data, as making it takes two seconds of every report.
    """
    kept = _kept()
    return kept.read_text(encoding="utf-8") if kept.is_file() else _made()


def keep_engine() -> Path:
    """Writes the chart engine where `engine` finds it; an older one goes."""
    kept = _kept()
    if not kept.is_file():
        for old in kept.parent.glob("chart-engine-*.js"):
            old.unlink()
        write_whole(kept, _made().encode("utf-8"))
    return kept


def _kept() -> Path:
    """The file of the installed versions: another version is another file."""
    name = f"chart-engine-{version('vl-convert-python')}-{_VEGA_LITE}.js"
    return Path(__file__).parents[1] / "data" / name


def _made() -> str:
    import vl_convert

    return str(waited_for(lambda: vl_convert.javascript_bundle(_ENTRY, vl_version=_VEGA_LITE)))


def picture(specification: Mapping[str, Any], title: str) -> bytes:
    """A chart on white as PNG, drawn without a browser."""
    import vl_convert

    drawn = copy.deepcopy(dict(specification))
    drawn.update(width=_WIDTH_PX, background="white", title={"text": title, "anchor": "start"})
    drawn.update(autosize={"type": "pad"}, padding=12)
    return bytes(
        waited_for(lambda: vl_convert.vegalite_to_png(drawn, vl_version=_VEGA_LITE, scale=2))
    )
