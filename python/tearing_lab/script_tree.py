"""The tree that the lines of a script lead to, and how they name what is in it."""

import random
from dataclasses import dataclass, field

FILE_BYTES_MAX = 48 * 1024
_SIZES_AT_LIMITS = [
    size + step for size in (512, 1024, 2048, 4096, 8192, 16384) for step in (-1, 0, 1)
]
CHUNKS = (511, 512, 1000, 4096, 4097, 16384)
_SYNCS = ("", "", "", "", " fsync", " fsynceach")
_ODD_NAMES = ("%20sp", "p%25c", "nl%0A", "bad%FF", "ünïcode", "-dash", "a" * 250)


@dataclass(frozen=True)
class Dialect:
    """What a file system can do, and what a host can be asked in its place.

    `has_links` also stands for symbolic links, device nodes, owners and modes: FAT has none.
    `name_bytes_max` bounds names that are to be made, `target_bytes_max` targets of links.
    """

    has_links: bool = True
    has_attributes: bool = True
    has_odd_names: bool = True
    name_bytes_max: int = 255
    target_bytes_max: int = 254
    syncs: bool = True


DIALECTS = {
    "jffs2": Dialect(name_bytes_max=254),
    "ubifs": Dialect(target_bytes_max=1000),
    "nilfs2": Dialect(has_attributes=False, target_bytes_max=1000),
    "fat": Dialect(has_links=False, has_attributes=False, has_odd_names=False),
    "tmpfs": Dialect(has_attributes=False, syncs=False),
}


@dataclass(eq=False)
class Inode:
    """What names of the tree stand for: a letter of `ls -l`, bytes of a file, and its names."""

    kind: str
    size: int = 0
    names: set[str] = field(default_factory=set)


class ScriptTree:
    """Lines of a script so far, and what is there after the last of them."""

    def __init__(self, seed: int, dialect: Dialect, live_bytes_max: int = 1 << 20) -> None:
        """Begin with an empty root; files never hold more than `live_bytes_max` together."""
        self._random = random.Random(seed)
        self._dialect = dialect
        self._live_bytes_max = live_bytes_max
        self._tree: dict[str, Inode] = {}
        self._count = 0
        self.lines: list[str] = []

    def _say(self, line: str) -> None:
        self.lines.append(line)

    def _paths(self, kinds: str) -> list[str]:
        return [path for path, inode in sorted(self._tree.items()) if inode.kind in kinds]

    def _pick(self, kinds: str) -> str | None:
        paths = self._paths(kinds)
        return self._random.choice(paths) if paths else None

    def _directories(self) -> list[str]:
        return ["", *(f"{path}/" for path in self._paths("d") if path.count("/") < 4)]

    def _new_name(self) -> str:
        self._count += 1
        name = f"n{self._count}"
        if self._dialect.has_odd_names and self._random.random() < 0.1:
            name += self._random.choice(_ODD_NAMES)
        # Names at the limit are counted in bytes as they are on the medium.
        if self._random.random() < 0.03:
            name = name[:8].replace("%", "") + "x" * (self._dialect.name_bytes_max - 8)
        return name[:300]

    def _new_path(self) -> str:
        path = self._random.choice(self._directories()) + self._new_name()
        return path if path not in self._tree else self._new_path()

    def _spell(self, path: str) -> str:
        """The same path in another way, now and then."""
        style = self._random.randrange(12)
        head, slash, tail = path.rpartition("/")
        if style == 0:
            return f"./{path}"
        if style == 1 and slash:
            return f"{head}/./{tail}"
        if style == 2 and slash:
            return f"{head}//{tail}"
        if style == 3 and slash:
            return f"{head}/../{head.rpartition('/')[2]}/{tail}"
        if style == 4 and (link := self._link_to_directory(head)):
            return f"{link}/{tail}"
        return path

    def _link_to_directory(self, directory: str) -> str | None:
        """A link that leads to a directory: made for it, as others may dangle by now."""
        if not directory or not self._dialect.has_links or "/" in directory:
            return None
        self._count += 1
        link = f"way{self._count}"
        self._say(f"symlink {directory} {link}")
        self._add(link, Inode("l"))
        return link

    def _add(self, path: str, inode: Inode) -> None:
        self._tree[path] = inode
        inode.names.add(path)

    def _take(self, path: str) -> Inode:
        inode = self._tree.pop(path)
        inode.names.discard(path)
        return inode

    def _live_bytes(self) -> int:
        return sum(inode.size for inode in set(self._tree.values()))

    def _data(self) -> str:
        return f"{self._random.choice('xxtrz')} {self._random.randrange(1, 10**6)}"

    def _sync_word(self) -> str:
        return self._random.choice(_SYNCS) if self._dialect.syncs else ""

    def _size(self) -> int:
        if self._random.random() < 0.4:
            return self._random.choice([0, *_SIZES_AT_LIMITS])
        return self._random.randrange(FILE_BYTES_MAX) // self._random.choice((1, 4, 32))

    def _chunk(self, length: int) -> int:
        # A small chunk over many bytes makes calls by the thousand.
        return self._random.choice([chunk for chunk in CHUNKS if length < 100 * chunk])

    def _below(self, directory: str) -> list[str]:
        return [path for path in self._tree if path.startswith(f"{directory}/")]
