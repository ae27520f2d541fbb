"""Options that all commands on traces share."""

from dataclasses import dataclass
from typing import Annotated, Any, Literal

from cyclopts import Parameter


@Parameter(name="*")
@dataclass
class TraceOptions:
    """How to read a trace."""

    format: str | None = None
    "Format of the trace (see `nandlab list formats`); recognised from the content if left out."
    time_unit: Literal["ps", "ns", "us"] | None = None
    "Unit of the times, for formats that do not say."
    event: Literal["D", "Q"] | None = None
    "Which blktrace event is a request: D issued to the driver (default), Q queued."
    device: int | None = None
    "Only this device, of a trace that holds several."
    skip_bad_lines: Annotated[bool, Parameter(negative=())] = False
    "Leave out lines that cannot be read, and count them, instead of stopping."

    def for_engine(self) -> dict[str, Any]:
        """As the engine takes them."""
        from nandlab.byte_sizes import natural_number

        if self.device is not None:
            natural_number("--device", self.device, least=0)
        return {
            "format": self.format,
            "time_unit": self.time_unit,
            "event": self.event,
            "device": self.device,
            "skip_bad_lines": self.skip_bad_lines,
        }
