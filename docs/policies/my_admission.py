"""Admission: large writes that follow one another go past the cache, which is for small ones."""

from nandlab.policy import CacheAdmission, WriteView


class MyAdmission(CacheAdmission):
    """Refuses a write of 64 KiB or more that begins where the one before ended."""

    def __init__(self) -> None:
        self.last_end = 0

    def admits(self, view: WriteView) -> bool:
        follows = view.sector == self.last_end
        self.last_end = view.sector + view.sectors
        return not (follows and view.sectors >= 128)
