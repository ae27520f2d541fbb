"""Cards that a comparison puts under file systems: a die of the part behind a layer."""

from collections.abc import Sequence
from typing import Any

from nandlab.comparison.named import Named, block_bytes_of, geometry_of

_BINARY_TO_DECIMAL = 1_000_000 / 2**20
"""A card offers decimal megabytes of its binary ones; the rest, 4.6 %, is spare."""

_LEAST_SPARE_BLOCKS = 24
"""Layers with log blocks have 16 where nothing else is said, and need some more to merge into."""

_SECTOR_BYTES = 512

_ON_PART = "-of-"
"""Stands between layer and part in the name of a card, where there are several parts."""


_OF_FILE, _IN_NAME = ".py:", ".py-"
"""Between file and class of a layer in Python, and what stands for it in the name of a card."""


def card_file(layer: str, part: str = "") -> str:
    """Name of the device file of a card, which is its value on the axis `block_device`, too."""
    # A name with a colon in it would be that of a policy.
    name = layer.replace(_OF_FILE, _IN_NAME)
    return f"{name}{_ON_PART}{part.removesuffix('.toml')}.toml" if part else f"{name}.toml"


def layer_of(card: str) -> str:
    """The layer in a card, by the name of its device file."""
    return card.removesuffix(".toml").partition(_ON_PART)[0].replace(_IN_NAME, _OF_FILE)


def cards_of(
    layers: Sequence[str], parts: Sequence[Named], blocks: int | None
) -> dict[str, dict[str, Any]]:
    """A device file for each layer on each part, by its name."""
    return {
        card_file(layer, part.name if len(parts) > 1 else ""): _card(layer, part, blocks)
        for part in parts
        for layer in layers
    }


def _card(layer: str, part: Named, blocks: int | None) -> dict[str, Any]:
    geometry = geometry_of(part)
    count = blocks or geometry["blocks"]
    block_bytes = block_bytes_of(part)
    # All planes are driven together, so that many blocks are one to the layer.
    least_spare_bytes = _LEAST_SPARE_BLOCKS * geometry["planes"] * block_bytes
    flash_bytes = count * block_bytes
    offered = min(int(flash_bytes * _BINARY_TO_DECIMAL), flash_bytes - least_spare_bytes)
    sectors = max(offered, 0) // _SECTOR_BYTES
    return {
        "name": layer,
        "summary": f"SD card of one die of {part.name} with the layer {layer}",
        "host": {
            "bytes_per_second": 25_000_000,
            "command_overhead_ns": 60_000,
            "queue_depth": 1,
            "executes": 1,
        },
        "flash": {
            "part": part.name,
            "blocks": count,
            "channels": 1,
            "dies_per_channel": 1,
            "capacity_bytes": sectors * _SECTOR_BYTES,
            "copy_back": True,
            "ftl": layer,
        },
        "sources": {
            "host.bytes_per_second": "SD 2.00, high speed: 25 MB/s",
            "host.command_overhead_ns": "assumed: that of the preset emmc-4.5-64gb",
            "host.queue_depth": "SD 2.00: one command at a time",
            "host.executes": "SD 2.00: one command at a time",
            "flash": "asked for; capacity assumed: decimal megabytes of the flash's binary ones, "
            "and 24 blocks less at least",
        },
    }
