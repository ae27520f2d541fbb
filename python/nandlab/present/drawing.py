"""Calls of the chart engine, which take seconds and look for no signal."""

import copy
import hashlib
import json
import threading
import zlib
from collections.abc import Callable, Iterable, Mapping
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

_SIGNATURE, _TEXT, _END = b"\x89PNG\r\n\x1a\n", b"tEXt", b"IEND"
"""What a PNG begins with, and types of its chunks (PNG specification, 5.2, 11.3.4.3, 11.2.5)."""

_MARK = "nandlab chart"
"""Keyword of the chunk that tells pictures of different charts apart."""

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


def picture(specification: Mapping[str, Any], title: str, earlier: Path) -> bytes:
    """A chart on white as PNG, drawn without a browser.

    A whole picture of the same chart in the file `earlier` is the answer: to start the engine takes
    a third of a second.
    """
    drawn = copy.deepcopy(dict(specification))
    drawn.update(width=_WIDTH_PX, background="white", title={"text": title, "anchor": "start"})
    drawn.update(autosize={"type": "pad"}, padding=12)
    origin = [json.dumps(drawn), version("vl-convert-python"), _VEGA_LITE]
    mark = f"{_MARK}\0{hashlib.sha256(json.dumps(origin).encode()).hexdigest()}".encode("latin-1")
    there = earlier.read_bytes() if earlier.is_file() else b""
    if (_TEXT, mark) in chunks(there):
        return there
    import vl_convert

    made = waited_for(lambda: vl_convert.vegalite_to_png(drawn, vl_version=_VEGA_LITE, scale=2))
    return png([*chunks(bytes(made))[:-1], (_TEXT, mark), (_END, b"")])


def chunks(picture: bytes) -> list[tuple[bytes, bytes]]:
    """Type and content of each chunk of a PNG; none if it is not whole."""
    found = []
    place = len(_SIGNATURE)
    while picture.startswith(_SIGNATURE) and place < len(picture):
        size = int.from_bytes(picture[place : place + 4])
        kind, content = picture[place + 4 : place + 8], picture[place + 8 : place + 8 + size]
        found.append((kind, content))
        place += size + 12
    return found if picture == png(found) and found[-1:] == [(_END, b"")] else []


def png(parts: Iterable[tuple[bytes, bytes]]) -> bytes:
    """A PNG of chunks."""
    whole = bytearray(_SIGNATURE)
    for kind, content in parts:
        whole += len(content).to_bytes(4) + kind + content
        whole += zlib.crc32(kind + content).to_bytes(4)
    return bytes(whole)
