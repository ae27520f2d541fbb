"""Lines of a script that must fail, by the rules of Linux for paths and kinds of files."""

from tearing_lab.script_tree import Inode, ScriptTree


class FailingCalls(ScriptTree):
    """Adds lines that are refused wherever the rules of Linux hold."""

    def fail(self) -> None:
        """Add a line that fails."""
        wrong = [*self._wrong_names(), *self._wrong_kinds(), *self._wrong_ends()]
        if self._dialect.has_links:
            wrong += self._wrong_links()
        self._say(self._random.choice(wrong))

    def _wrong_names(self) -> list[str]:
        """Names that are missing, too long, or there already."""
        long = "y" * 256
        lines = [
            "unlink missing",
            "put missing/f 644 5 5 x 1",
            "mkdir missing/d 755",
            "rmdir missing",
            f"rename missing {self._new_name()}",
            "truncate missing 5",
            "append missing 5 5 x 1",
            "read missing 512",
            f"put {long} 644 5 5 x 1",
            f"mkdir {long} 755",
            f"unlink {long}",
            f"rmdir {long}",
            f"put {long}/f 644 5 5 x 1",
            "chmod missing 644",
            "utime missing 1 1",
        ]
        if path := self._pick("-d"):
            lines += [f"mkdir {path} 755", f"rename {path} {long}"]
        return lines

    def _wrong_kinds(self) -> list[str]:
        """A directory where a file is wanted, or the other way round."""
        lines = []
        if path := self._pick("d"):
            lines += [
                f"unlink {path}",
                f"put {path} 644 5 5 x 1",
                f"append {path} 5 5 x 1",
                f"truncate {path} 5",
                f"read {path} 512",
                f"rename {path} {path}/below",
                f"rename {path} {path}/./in/../x",
            ]
            if below := self._below(path):
                inside = self._random.choice(below)
                lines += [f"rename {inside} {path}", f"rmdir {path}"]
                if other := self._pick("d"):
                    lines.append(f"rename {other} {path}")
        if path := self._pick("-"):
            lines += [
                f"rmdir {path}",
                f"put {path}/f 644 5 5 x 1",
                f"unlink {path}/f",
                f"mkdir {path}/d 755",
                f"read {path}/ 512",
                f"truncate {path}/ 5",
                f"chmod {path}/. 644",
            ]
            if directory := self._pick("d"):
                lines += [f"rename {path} {directory}", f"rename {directory} {path}"]
        return lines

    def _wrong_ends(self) -> list[str]:
        """Paths that end in `.`, `..` or a slash."""
        lines = ["rename . x", "unlink .", "mkdir . 755", "put ./ 644 5 5 x 1", "rmdir ."]
        new = self._new_name()
        lines += [f"put {new}/ 644 5 5 x 1", f"unlink {new}/", f"rmdir {new}/"]
        if path := self._pick("d"):
            lines += [
                f"rmdir {path}/.",
                f"rmdir {path}/..",
                f"unlink {path}/.",
                f"unlink {path}/",
                f"unlink {path}/..",
                f"rename {path}/. {new}",
                f"rename {path}/.. {new}",
                f"rename {path} {path}/..",
                f"rename {path} {path}/.",
                f"mkdir {path}/.. 755",
                f"mkdir {path}/ 755",
                f"put {path}/.. 644 5 5 x 1",
                f"put {path}/ 644 5 5 x 1",
                f"truncate {path}/. 7",
            ]
        if path := self._pick("-"):
            lines += [
                f"unlink {path}/",
                f"put {path}/ 644 5 5 x 1",
                f"rename {path}/ {new}",
                f"rename {path} {new}/",
                f"rmdir {path}/",
                f"append {path}/ 5 5 x 1",
            ]
        return lines

    def _wrong_links(self) -> list[str]:
        """Links that lead nowhere, in rings, or to what no call wants; files of other kinds."""
        self._count += 1
        link, new = f"bad{self._count}", self._new_name()
        target = self._random.choice((link, f"./{link}", "nowhere", "nowhere/", f"{link}/.."))
        self._say(f"symlink {target} {link}")
        self._add(link, Inode("l"))
        lines = [
            f"read {link} 512",
            f"append {link} 5 5 x 1",
            f"put {link} 644 5 5 x 1",
            f"truncate {link} 5",
            f"chmod {link} 600",
            f"utime {link} 1 1",
            f"put {link}/f 644 5 5 x 1",
            f"unlink {link}/",
            f"rmdir {link}",
            f"rmdir {link}/",
            f"mkdir {link} 755",
            f"mkdir {link}/ 755",
            f"symlink x {link}",
            f"symlink x {new}/",
            f"mknod {new}/ 600 p",
            f"rename {link}/ {new}",
            f"chown {link}/ 1 1",
            f"link {link}/ {new}",
            f"link missing {new}",
            f"link {link} {link}",
        ]
        if path := self._pick("d"):
            lines += [f"link {path} {new}", f"link {path} {path}", f"symlink x {path}"]
        if path := self._pick("-"):
            lines += [f"link {path} {new}/", f"link {path} {path}/x", f"mknod {path} 600 p"]
        if path := self._pick("cbps"):
            lines += [f"append {path} 5 5 x 1", f"put {path} 644 5 5 x 1", f"rmdir {path}"]
            lines += [f"unlink {path}/", f"put {path}/f 644 5 5 x 1"]
            if self._dialect.has_attributes:
                lines.append(f"setxattr {path} user.a 00")
        if self._dialect.has_attributes and (path := self._pick("-d")):
            lines += [f"setxattr {path} bogus.a 00", f"setxattr {path} user. 00"]
            lines += ["setxattr missing user.a 00", f"setxattr {link} user.a 00"]
        return lines
