"""Options that all commands on traces share."""

from dataclasses import dataclass
from typing import Annotated, Any, Literal

from cyclopts import Parameter


@Parameter(name="*")
@dataclass
class TraceOptions:
    """How to read a trace."""

    format: str | None = None
    "Read the trace in this format (see `nandlab list formats`). Without it: recognise the format."
    time_unit: Literal["ps", "ns", "us"] | None = None
    "Set the unit of times, for formats that do not state it."
    event: Literal["D", "Q"] | None = None
    "Count this blktrace event as a request: D issued to the driver (default), Q queued."
    device: int | None = None
    "Read only this device of a trace with several."
    skip_bad_lines: Annotated[bool, Parameter(negative=())] = False
    "Skip lines that cannot be read, and report how many."

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
