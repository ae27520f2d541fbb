"""Random scripts of system calls whose every call succeeds."""

import random

FILE_BYTES_MAX = 96 * 1024


class ScriptWriter:
    """Writes a script line by line, and knows what is there after each line."""

    def __init__(self, seed: int, live_bytes_max: int) -> None:
        """Begin with an empty root; files never hold more than `live_bytes_max` together."""
        self._random = random.Random(seed)
        self._live_bytes_max = live_bytes_max
        self._sizes: dict[str, int] = {}
        self._directories = [""]
        self._links: list[str] = []
        self._count = 0
        self.lines: list[str] = []

    def write(self, operations: int) -> str:
        """So many lines more; the whole script."""
        steps = [
            (self._put, 25),
            (self._write_inside, 20),
            (self._append, 10),
            (self._unlink, 14),
            (self._rename, 8),
            (self._truncate, 6),
            (self._make_directory, 2),
            (self._symlink, 2),
            (self._change_mode, 4),
            (self._set_attribute, 3),
            (self._fsync, 4),
            (self._sync, 2),
        ]
        functions, weights = zip(*steps, strict=True)
        end = len(self.lines) + operations
        while len(self.lines) < end:
            (step,) = self._random.choices(functions, weights)
            step()
        return "\n".join(self.lines) + "\n"

    def _new_name(self) -> str:
        self._count += 1
        return f"{self._random.choice(self._directories)}n{self._count}"

    def _file(self) -> str | None:
        return self._random.choice(sorted(self._sizes)) if self._sizes else None

    def _data(self) -> str:
        return f"{self._random.choice('xxtrz')} {self._random.randrange(1, 10**6)}"

    def _room(self) -> int:
        return self._live_bytes_max - sum(self._sizes.values())

    def _put(self) -> None:
        length = self._random.randrange(FILE_BYTES_MAX) // self._random.choice((1, 4, 64))
        while self._room() < length:
            self._unlink()
        path = self._new_name()
        chunk = self._random.choice((512, 1000, 4096, 32768))
        mode = self._random.choice(("644", "600", "755"))
        self.lines.append(f"put {path} {mode} {length} {chunk} {self._data()}")
        self._sizes[path] = length

    def _write_inside(self) -> None:
        path = self._file()
        if path is None:
            return
        offset = self._random.randrange(self._sizes[path] + 1)
        length = self._random.randrange(1, 8192)
        self.lines.append(f"write {path} {offset} {length} 4096 {self._data()}")
        self._sizes[path] = max(self._sizes[path], offset + length)

    def _append(self) -> None:
        path = self._file()
        if path is None or self._sizes[path] > FILE_BYTES_MAX:
            return
        length = self._random.randrange(1, 6000)
        self.lines.append(f"append {path} {length} 2048 {self._data()}")
        self._sizes[path] += length

    def _unlink(self) -> None:
        path = self._file()
        if path is not None:
            self.lines.append(f"unlink {path}")
            del self._sizes[path]

    def _rename(self) -> None:
        path = self._file()
        if path is None:
            return
        target = self._file() if self._random.random() < 0.3 else self._new_name()
        if target is None or target == path:
            return
        self.lines.append(f"rename {path} {target}")
        self._sizes[target] = self._sizes.pop(path)

    def _truncate(self) -> None:
        path = self._file()
        if path is not None:
            size = self._random.randrange(self._sizes[path] + 1)
            self.lines.append(f"truncate {path} {size}")
            self._sizes[path] = size

    def _make_directory(self) -> None:
        if len(self._directories) < 20:
            path = self._new_name()
            self.lines.append(f"mkdir {path} 755")
            self._directories.append(f"{path}/")

    def _symlink(self) -> None:
        if len(self._links) < 30:
            path = self._new_name()
            self.lines.append(f"symlink some/target{self._count} {path}")
            self._links.append(path)

    def _change_mode(self) -> None:
        path = self._file()
        if path is not None:
            self.lines.append(f"chmod {path} {self._random.choice(('640', '4755', '400'))}")

    def _set_attribute(self) -> None:
        path = self._file()
        if path is not None:
            value = self._random.randbytes(self._random.randrange(1, 40)).hex()
            self.lines.append(f"setxattr {path} user.a{self._random.randrange(3)} {value}")

    def _fsync(self) -> None:
        path = self._file()
        if path is not None:
            self.lines.append(f"fsync {path}")

    def _sync(self) -> None:
        self.lines.append("sync")
