"""Random scripts of system calls: every inode type, values at their limits, calls that fail.

The lines are those of `nandlab script`. The writer knows the tree that its lines lead to, so that a
line that is to succeed does, unless space runs out.
"""

from collections.abc import Callable

from tearing_lab.failing_calls import FailingCalls
from tearing_lab.script_tree import (
    CHUNKS,
    DIALECTS,
    FILE_BYTES_MAX,
    Dialect,
    Inode,
)

__all__ = ["DIALECTS", "CallWriter", "Dialect"]

FAILING_SHARE = 0.11
"""Lines that are meant to fail, of all."""

_MODES = ("000", "400", "644", "755", "4711", "2755", "1777")
_XATTR_BYTES = (0, 1, 59, 300, 1500)


class CallWriter(FailingCalls):
    """Writes a script line by line, and knows what is there after each line."""

    def write(self, lines: int) -> str:
        """So many lines more, or a few over; the whole script."""
        steps: list[tuple[Callable[[], None], int]] = [
            (self._put, 20),
            (self._write, 16),
            (self._append, 8),
            (self._truncate, 10),
            (self._random_writes, 4),
            (self._unlink, 8),
            (self._rename, 10),
            (self._make_directory, 4),
            (self._rename_directory, 2),
            (self._remove_directory, 2),
            (self._set_times, 2),
            (self._read, 1),
            (self._many, 1),
        ]
        if self._dialect.has_links:
            steps += [
                (self._link, 3),
                (self._symlink, 3),
                (self._make_node, 2),
                (self._change_mode, 2),
                (self._change_owner, 2),
                (self._special_after_sync, 6),
            ]
        if self._dialect.has_attributes:
            steps.append((self._set_attribute, 3))
        if self._dialect.syncs:
            steps += [(self._fsync, 3), (self._sync, 2), (self._wait, 1)]
        functions, weights = zip(*steps, strict=True)
        end = len(self.lines) + lines
        while len(self.lines) < end:
            if self._random.random() < FAILING_SHARE:
                self.fail()
            else:
                self._random.choices(functions, weights)[0]()
        return "\n".join(self.lines) + "\n"

    def overwrite(self, lines: int) -> str:
        """So many lines that write the same files over and over, so that blocks are collected."""
        end = len(self.lines) + lines
        names = [f"hot{number}" for number in range(12)]
        for name in names:
            self._put_at(name, 40_000)
        while len(self.lines) < end:
            name = self._random.choice(names)
            step = self._random.random()
            if step < 0.5:
                offset = self._random.randrange(36_000)
                self._say(f"write {name} {offset} 4096 4096 {self._data()}{self._sync_word()}")
            elif step < 0.8:
                self._put_at(name, self._random.randrange(20_000, 48_000))
            elif step < 0.9:
                self._special_after_sync()
            else:
                self._sync()
        return "\n".join(self.lines) + "\n"

    # Calls that succeed.

    def _put_at(self, path: str, length: int) -> None:
        while self._live_bytes() + length > self._live_bytes_max:
            self._unlink()
        mode = self._random.choice(_MODES)
        tail = f"{mode} {length} {self._chunk(length)} {self._data()}{self._sync_word()}"
        self._say(f"put {self._spell(path)} {tail}")
        inode = self._tree.get(path)
        if inode is None:
            inode = Inode("-")
            self._add(path, inode)
        inode.size = length

    def _put(self) -> None:
        old = self._pick("-")
        self._put_at(old if old and self._random.random() < 0.2 else self._new_path(), self._size())

    def _grow(self, path: str, end: int) -> None:
        self._tree[path].size = max(self._tree[path].size, end)

    def _write(self) -> None:
        path = self._pick("-")
        if path is None:
            self._put()
            return
        size = self._tree[path].size
        offsets = [0, size, max(0, size - 1), size + 1, size + 5000]
        offset = self._random.choice([*offsets, self._random.randrange(size + 1)])
        length = self._random.choice([1, 511, 4096, self._random.randrange(1, 9000)])
        tail = f"{offset} {length} {self._chunk(length)} {self._data()}{self._sync_word()}"
        self._say(f"write {self._spell(path)} {tail}")
        self._grow(path, offset + length)

    def _append(self) -> None:
        path = self._pick("-")
        if path is None or self._tree[path].size > FILE_BYTES_MAX:
            self._put()
            return
        length = self._random.randrange(1, 6000)
        self._say(f"append {self._spell(path)} {length} {self._chunk(length)} {self._data()}")
        self._grow(path, self._tree[path].size + length)

    def _truncate(self) -> None:
        path = self._pick("-")
        if path is None:
            self._put()
            return
        size = self._tree[path].size
        choices = [0, size, size // 2, max(0, size - 1), size + 100_000, 4096, 4097]
        self._tree[path].size = self._random.choice(choices)
        self._say(f"truncate {self._spell(path)} {self._tree[path].size}")

    def _random_writes(self) -> None:
        path = self._pick("-")
        if path is None or self._tree[path].size < 8192:
            self._put()
            return
        size = self._tree[path].size
        chunk = self._random.choice((512, 1024, 4096))
        self._say(
            f"rwrite {path} {self._random.randrange(1, 6)} {chunk} {size} "
            f"{self._random.randrange(1, 1000)} {self._data()}"
        )

    def _unlink(self) -> None:
        path = self._pick("-lcbps")
        if path is None:
            self._put_at(self._new_path(), 100)
            return
        self._say(f"unlink {self._spell(path)}")
        self._take(path)

    def _rename(self) -> None:
        path = self._pick("-lcbps")
        if path is None:
            self._put()
            return
        over = self._pick("-lcbps") if self._random.random() < 0.45 else None
        target = over or self._new_path()
        self._say(f"rename {self._spell(path)} {self._spell(target)}")
        self._move(path, target)

    def _move(self, path: str, target: str) -> None:
        """Two names of one inode both stay, as rename(2) has it."""
        if self._tree.get(target) is self._tree[path]:
            return
        if target in self._tree:
            self._take(target)
        self._add(target, self._take(path))

    def _link(self) -> None:
        path = self._pick("-lcbps")
        if path is not None:
            target = self._new_path()
            self._say(f"link {self._spell(path)} {target}")
            self._add(target, self._tree[path])

    def _symlink(self) -> None:
        known = self._paths("-d")
        targets = ["nowhere", "x" * 59, "x" * 60, "x" * 61, "../n1", "."]
        targets.append("t" * self._dialect.target_bytes_max)
        target = self._random.choice([*targets, *known[:3]])
        path = self._new_path()
        self._say(f"symlink {target} {path}")
        self._add(path, Inode("l"))

    def _make_node(self) -> None:
        kind = self._random.choice("cbps")
        device = " 300 70000" if kind in "cb" else ""
        path = self._new_path()
        self._say(f"mknod {path} {self._random.choice(_MODES)} {kind}{device}")
        self._add(path, Inode(kind))

    def _make_directory(self) -> None:
        path = self._new_path()
        slash = "/" if self._random.random() < 0.2 else ""
        self._say(f"mkdir {path}{slash} {self._random.choice(('700', '755', '2755'))}")
        self._add(path, Inode("d"))

    def _rename_directory(self) -> None:
        path = self._pick("d")
        if path is None:
            self._make_directory()
            return
        parents = [
            parent for parent in self._directories() if not f"{parent}".startswith(f"{path}/")
        ]
        target = self._random.choice(parents) + self._new_name()
        if target in self._tree:
            return
        slash = "/" if self._random.random() < 0.2 else ""
        self._say(f"rename {path}{slash} {target}{slash}")
        for below in [path, *self._below(path)]:
            self._add(target + below[len(path) :], self._take(below))

    def _remove_directory(self) -> None:
        empty = [path for path in self._paths("d") if not self._below(path)]
        if empty:
            path = self._random.choice(empty)
            self._say(f"rmdir {path}{self._random.choice(('', '/'))}")
            self._take(path)

    def _change_mode(self) -> None:
        if path := self._pick("-dcbps"):
            self._say(f"chmod {self._spell(path)} {self._random.choice(_MODES[2:6])}")

    def _change_owner(self) -> None:
        if path := self._pick("-dlcbps"):
            self._say(f"chown {path} {self._random.choice((0, 5, 70000))} 6")

    def _set_times(self) -> None:
        if path := self._pick("-d"):
            self._say(f"utime {self._spell(path)} 100 {self._random.randrange(10**9, 2 * 10**9)}")

    def _set_attribute(self, path: str | None = None) -> None:
        path = path or self._pick("-d")
        if path is not None:
            name = self._random.choice(("user.a", "user.b", "user.c", "trusted.t", "security.s"))
            value = self._random.randbytes(self._random.choice(_XATTR_BYTES)).hex() or "00"
            self._say(f"setxattr {path} {name} {value}")

    def _fsync(self) -> None:
        if path := self._pick("-"):
            self._say(f"fsync {self._spell(path)}")

    def _sync(self) -> None:
        if self._dialect.syncs:
            self._say("sync")

    def _wait(self) -> None:
        self._say(f"sleep {self._random.choice((50, 1000, 4000))}")

    def _read(self) -> None:
        if path := self._pick("-"):
            self._say(f"read {path} {self._random.choice(CHUNKS)}")

    def _many(self) -> None:
        """Many files come and go."""
        self._count += 1
        count = self._random.randrange(5, 20)
        self._say(f"putn many{self._count}- 0 {count} 644 {self._random.choice((0, 700))} 512 x 1")
        self._say(f"unlinkn many{self._count}- 0 {count}")

    def _special_after_sync(self) -> None:
        """An inode of a rarer type is on the medium, and loses a name that no commit follows."""
        path, other = self._new_path(), self._new_path()
        kinds = [*"lcbps", "hard", "xattr" if self._dialect.has_attributes else "p"]
        kind = self._random.choice(kinds)
        if kind in ("hard", "xattr"):
            self._put_at(path, self._random.choice((0, 5, 5000)))
        elif kind == "l":
            self._say(f"symlink {self._random.choice(('t', 'x' * 61))} {path}")
            self._add(path, Inode("l"))
        else:
            self._say(f"mknod {path} 600 {kind}{' 300 70000' if kind in 'cb' else ''}")
            self._add(path, Inode(kind))
        if kind == "hard":
            self._say(f"link {path} {other}")
            self._add(other, self._tree[path])
        if kind == "xattr":
            self._set_attribute(path)
        self._sync()
        way = self._random.choice(("unlink", "rename-over", "link-and-unlink"))
        if way == "rename-over":
            source = self._new_path()
            self._put_at(source, self._random.choice((0, 5, 3000)))
            # Room for the file may have been made at the expense of the very name.
            if source in self._tree and path in self._tree:
                self._say(f"rename {source} {path}")
                self._move(source, path)
        else:
            if way == "link-and-unlink" and path in self._tree:
                linked = self._new_path()
                self._say(f"link {path} {linked}")
                self._add(linked, self._tree[path])
            if path in self._tree:
                self._say(f"unlink {path}")
                self._take(path)
        # What follows is safe, and with it the deletion before it.
        if self._dialect.syncs and self._random.random() < 0.7:
            witness = self._new_path()
            self._say(f"put {witness} 644 5 5 x 2 fsync")
            self._add(witness, Inode("-", 5))
