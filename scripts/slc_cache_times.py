"""What the times of a device with an SLC cache permit, as docs/slc-cache.md has it.

All dies work at once, each on its own: no more than the sum of the steps of a page decides.
"""

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]

_BUS_PS_PER_BYTE = {"nv-ddr3-800": 1250}
"""ONFI 4.0, as docs/chips.md lists it."""

_BITS = {"mlc": 2, "tlc": 3, "qlc": 4}


@dataclass(frozen=True)
class Times:
    """Times of a page of all planes of a die, nanoseconds, and the rates that follow."""

    dies: int
    planes: int
    page_bytes: int
    transfer_ns: float
    program_ns: int
    slc_program_ns: int
    slc_read_ns: int
    slc_erase_ns: int
    slc_pages_per_block: int

    def rate(self, page_ns: float) -> float:
        """MB/s of all dies, if each needs so long for a page."""
        return self.dies * self.page_bytes / page_ns * 1e3

    @property
    def cache_mb_per_s(self) -> float:
        """Writes with one bit a cell."""
        return self.rate(self.transfer_ns + self.slc_program_ns)

    @property
    def bypass_ns(self) -> float:
        """A page with the bits that the part has."""
        return self.transfer_ns + self.program_ns

    @property
    def bypass_mb_per_s(self) -> float:
        """Writes past the cache."""
        return self.rate(self.bypass_ns)

    @property
    def fold_ns(self) -> float:
        """A page that is written to the cache, read, written again, and its part of an erase."""
        into = self.transfer_ns + self.slc_program_ns
        out = self.slc_read_ns + self.transfer_ns
        return into + out + self.bypass_ns + self.slc_erase_ns / self.slc_pages_per_block

    @property
    def fold_mb_per_s(self) -> float:
        """Writes of which each page is folded before another one comes."""
        return self.rate(self.fold_ns)

    @property
    def fold_block_ns(self) -> float:
        """Until a full block of the cache is folded and erased."""
        one = self.slc_read_ns + self.transfer_ns + self.bypass_ns
        return one * self.slc_pages_per_block + self.slc_erase_ns

    @property
    def fill_block_ns(self) -> float:
        """Until writes have filled a block of the cache."""
        return (self.transfer_ns + self.slc_program_ns) * self.slc_pages_per_block

    @property
    def one_plane_ns(self) -> float:
        """A page of one plane with the bits that the part has."""
        return self.transfer_ns / self.planes + self.program_ns

    @property
    def one_plane_mb_per_s(self) -> float:
        """Writes past the cache, if a die programs one plane at a time."""
        return self.rate(self.one_plane_ns) / self.planes

    def program_ns_for(self, mb_per_s: float) -> float:
        """The program time with which writes past the cache had this rate."""
        return self.dies * self.page_bytes / mb_per_s * 1e3 - self.transfer_ns


def _read(path: Path) -> dict[str, Any]:
    return tomllib.loads(path.read_text(encoding="utf-8"))


def _device(name: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """A device and its part."""
    device = _read(ROOT / "devices" / f"{name}.toml")
    return device, _read(ROOT / "parts" / f"{device['flash']['part']}.toml")


def _dies(device: dict[str, Any]) -> int:
    return int(device["flash"]["channels"] * device["flash"]["dies_per_channel"])


def cache_bytes(name: str) -> tuple[int, int]:
    """Bytes of the static and of the dynamic SLC cache of a device."""
    device, part = _device(name)
    shape = part["geometry"]
    block = shape["page_data_bytes"] * shape["pages_per_block"] // _BITS[shape["cell"]]
    slc = device["slc"]
    static, dynamic = slc["blocks_per_die"], slc["dynamic_blocks_per_die"]
    return static * block * _dies(device), dynamic * block * _dies(device)


def times(name: str) -> Times:
    """The times of a device, from its file and that of its part."""
    device, part = _device(name)
    shape, slc = part["geometry"], device["slc"]
    page = shape["planes"] * (shape["page_data_bytes"] + shape["page_oob_bytes"])
    (program_ns,) = set(part["timing"]["program_ns"])
    return Times(
        dies=_dies(device),
        planes=shape["planes"],
        page_bytes=shape["planes"] * shape["page_data_bytes"],
        transfer_ns=page * _BUS_PS_PER_BYTE[part["timing"]["bus"]] / 1000,
        program_ns=program_ns,
        slc_program_ns=slc["program_ns"],
        slc_read_ns=slc["read_ns"],
        slc_erase_ns=slc["erase_ns"],
        slc_pages_per_block=shape["pages_per_block"] // _BITS[shape["cell"]],
    )
