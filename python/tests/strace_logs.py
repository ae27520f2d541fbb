"""Logs of strace for tests: written by hand, and recorded."""

import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

TRACED = "%file,%desc,%process,sync,syncfs,msync,umask"
HOW = ("-f", "-ttt", "-y", "-e", f"trace={TRACED}")
WHOLE = ("-xx", "-s", "16777216")


def log_of(*calls: str, process: int = 7, step_us: int = 10) -> str:
    """A log of calls; `/r` is the root. A call that begins with `@N ` is of process N."""
    lines = []
    for number, call in enumerate(calls):
        maker, _, text = call.partition(" ") if call.startswith("@") else (f"@{process}", "", call)
        micros = number * step_us
        stamp = f"17956{micros // 10**6:05d}.{micros % 10**6:06d}"
        lines.append(f"{maker[1:]} {stamp} {text}\n")
    return "".join(lines)


def need_strace() -> str:
    """The program, where it may trace; else the test is left out by its name."""
    found = shutil.which("strace")
    if found is None:
        pytest.skip("strace is not installed")
    done = subprocess.run([found, "-o", "/dev/null", "true"], capture_output=True, check=False)
    if done.returncode:
        pytest.skip(f"strace may not trace here: {done.stderr.decode(errors='replace').strip()}")
    return found


def record(log: Path, program: Sequence[str], folder: Path, *options: str) -> str:
    """Runs a program in a folder under strace, with umask 022; the text of the log."""
    words = [need_strace(), *HOW, *options, "-o", str(log), *program]
    done = subprocess.run(words, cwd=folder, capture_output=True, check=False, umask=0o022)
    assert done.returncode == 0, done.stderr.decode(errors="replace")
    return log.read_text(encoding="ascii")


def python(text: str) -> tuple[str, ...]:
    """A program of Python, without files of its own beside."""
    return (sys.executable, "-I", "-B", "-c", text)


LOG = log_of(
    'openat(AT_FDCWD</r>, "a", O_WRONLY|O_CREAT|O_EXCL, 0666) = 3</r/a>',
    'write(3</r/a>, "hello", 5) = 5',
    "fsync(3</r/a>) = 0",
    'unlink("a") = 0',
)
"""A short log, whose root is `/r`."""

ONE_OF_EACH = log_of(
    "umask(022) = 022",
    'getcwd("/r", 4096) = 3',
    'mkdirat(AT_FDCWD</r>, "d", 0755) = 0',
    'openat(AT_FDCWD</r>, "a", O_RDWR|O_CREAT|O_TRUNC, 0666) = 3</r/a>',
    'write(3</r/a>, "hello", 5) = 5',
    r'pwritev2(3</r/a>, [{iov_base="a\0", iov_len=2}, {iov_base="b", iov_len=1}], 2, 9, 0) = 3',
    "fsync(3</r/a>) = 0",
    "lseek(3</r/a>, 0, SEEK_SET) = 0",
    'read(3</r/a>, "hello"..., 4096) = 12',
    "fstat(3</r/a>, {st_mode=S_IFREG|0644, st_size=12, ...}) = 0",
    "ftruncate(3</r/a>, 8) = 0",
    'truncate("a", 9) = 0',
    "fallocate(3</r/a>, 0, 0, 100) = 0",
    "dup2(3</r/a>, 9) = 9</r/a>",
    "fcntl(3</r/a>, F_DUPFD_CLOEXEC, 0) = 4</r/a>",
    "ioctl(4</r/a>, FIOCLEX) = 0",
    "mmap(NULL, 8, PROT_READ|PROT_WRITE, MAP_SHARED, 3</r/a>, 0) = 0x7f",
    'openat(AT_FDCWD</r>, "old", O_RDONLY) = 5</r/old>',
    "copy_file_range(5</r/old>, NULL, 3</r/a>, NULL, 100, 0) = 10",
    "sendfile(3</r/a>, 5</r/old>, [10], 5) = 5",
    "clone(child_stack=NULL, flags=CLONE_CHILD_SETTID|SIGCHLD) = 8",
    '@8 execve("/bin/x", ["x", "y"], 0x7f /* 3 vars */) = 0',
    '@8 write(9</r/a>, "child", 5) = 5',
    "@8 exit_group(0) = ?",
    "@8 +++ exited with 0 +++",
    "--- SIGCHLD {si_signo=SIGCHLD, si_code=CLD_EXITED, si_pid=8} ---",
    'rename("a", "d/b") = 0',
    'link("d/b", "l") = 0',
    'symlink("d/b", "s") = 0',
    'readlink("old-link", "d", 99) = 1',
    'chmod("l", 0600) = 0',
    'chown("l", 1, -1) = 0',
    'utimensat(AT_FDCWD</r>, "l", [{tv_sec=5, tv_nsec=0}, UTIME_NOW], 0) = 0',
    'setxattr("l", "user.a", "v", 1, 0) = 0',
    'mknod("f", S_IFIFO|0644) = 0',
    'openat(AT_FDCWD</r>, "d", O_RDONLY|O_DIRECTORY) = 6</r/d>',
    "getdents64(6</r/d>, 0x7f /* 3 entries */, 32768) = 72",
    "fchdir(6</r/d>) = 0",
    'chdir("..") = 0',
    'newfstatat(AT_FDCWD</r>, "none", 0x7f, 0) = -1 ENOENT (No such file or directory)',
    'openat(AT_FDCWD</r>, "none", O_RDONLY) = -1 ENOENT (No such file or directory)',
    "sync() = 0",
    'chroot("/r") = 0',
    'unlink("l") = 0',
    "close(3</r/d/b>) = 0",
    "close_range(3, 4294967295, 0) = 0",
)
"""A call for each that is understood, of a log whose root is `/r`."""
