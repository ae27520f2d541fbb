"""What the engine hands to policies: the flash, requests, random numbers, its exceptions."""

from nandlab._native import (
    DataLost,
    FlashBlocks,
    IoRequest,
    NoFreeBlock,
    PowerLost,
    RandomStream,
)

__all__ = ["DataLost", "FlashBlocks", "IoRequest", "NoFreeBlock", "PowerLost", "RandomStream"]
