"""Page mapping with one open block and greedy cleaning."""

from nandlab.policy import FlashBlocks, Layer


class MyLayer(Layer):
    """Appends writes to one open block, and cleans the block with the fewest valid pages."""

    @staticmethod
    def blocks_required(pages_per_block: int, logical_pages: int) -> int:
        """Room for all pages, an open block, and a free one that cleaning copies to."""
        return -(-logical_pages // pages_per_block) + 2

    def __init__(self, flash: FlashBlocks, logical_pages: int) -> None:
        self.logical_pages = logical_pages
        self.forget()

    def forget(self) -> None:
        """Starts with empty tables."""
        self.place: dict[int, tuple[int, int]] = {}
        """Block and page of the newest copy of each logical page."""
        self.valid: dict[int, set[int]] = {}
        """Logical pages whose newest copy lies in each block in use."""
        self.open: int | None = None
        self.is_cleaning = False

    def read(self, flash: FlashBlocks, lpn: int) -> bytes | None:
        """A page that is nowhere reads zeros, and costs nothing."""
        if lpn not in self.place:
            return None
        return flash.read(*self.place[lpn], lpn)

    def write(self, flash: FlashBlocks, lpn: int, data: bytes | None) -> None:
        """The page is on the chip before the tables say so."""
        block, page = self.next_page(flash)
        flash.program(block, page, lpn, data)
        self.move(lpn, block, page)

    def trim(self, flash: FlashBlocks, lpn: int) -> None:
        """The old copy stays on the chip until its block is erased."""
        if lpn in self.place:
            block, _ = self.place.pop(lpn)
            self.valid[block].discard(lpn)

    def locate(self, lpn: int) -> tuple[int, int] | None:
        return self.place.get(lpn)

    def ram_bytes(self) -> int:
        """Four bytes an entry of the map."""
        return 4 * self.logical_pages

    def rebuild(self, flash: FlashBlocks) -> None:
        """Of all copies of a page, the one that was programmed last counts."""
        self.forget()
        pages = sorted(flash.scan(), key=lambda found: found[3])
        self.take(flash, pages)
        if flash.free_blocks == 0 and all(self.valid.values()):
            # Only cleaning opens the last free block, and it erases its victim before the next one.
            # So the block opened last holds copies alone: without it, their originals count.
            last = list(dict.fromkeys(block for block, *_ in pages))[-1]
            flash.release(last)
            self.take(flash, [found for found in pages if found[0] != last])
        for block in [block for block, lpns in self.valid.items() if not lpns]:
            del self.valid[block]
            flash.release(block)

    def take(self, flash: FlashBlocks, pages: list[tuple[int, int, int, int]]) -> None:
        """Fills the tables from pages in the order in which they were programmed."""
        self.place = {}
        self.valid = {block: set() for block in flash.blocks_in_use()}
        for block, page, lpn, _ in pages:
            self.move(lpn, block, page)

    def move(self, lpn: int, block: int, page: int) -> None:
        """The newest copy of a page lies here now."""
        if lpn in self.place:
            self.valid[self.place[lpn][0]].discard(lpn)
        self.place[lpn] = (block, page)
        self.valid[block].add(lpn)

    def next_page(self, flash: FlashBlocks) -> tuple[int, int]:
        """The next page of the open block; the last free block is for copies."""
        while self.open is None or flash.next_page(self.open) == flash.pages_per_block:
            if flash.free_blocks > 1 or self.is_cleaning:
                self.open = flash.allocate()
                self.valid[self.open] = set()
            else:
                self.clean(flash)
        return self.open, flash.next_page(self.open)

    def clean(self, flash: FlashBlocks) -> None:
        """Moves the valid pages of one block to a fresh one, which then has room, and erases it."""
        closed = [block for block in self.valid if block != self.open]
        victim = min(closed, key=lambda block: (len(self.valid[block]), block))
        self.is_cleaning = True
        for lpn in sorted(self.valid[victim], key=lambda lpn: self.place[lpn][1]):
            block, page = self.next_page(flash)
            flash.copy(*self.place[lpn], block, page, lpn)
            self.move(lpn, block, page)
        self.is_cleaning = False
        del self.valid[victim]
        flash.release(victim)
