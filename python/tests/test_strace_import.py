"""`nandlab strace-import`: what becomes of each call of a log written by hand."""

import json
import random
import re
from pathlib import Path
from typing import Literal

import pytest
from strace_logs import ONE_OF_EACH, log_of

import nandlab
from nandlab.cli import main
from nandlab.errors import NandlabError
from nandlab.syscall_logs.arguments import descriptor, parts, split, string, unescaped, vector
from nandlab.syscall_logs.calls import HANDLERS

OPEN = 'openat(AT_FDCWD</r>, "a", O_WRONLY|O_CREAT|O_EXCL, 0666) = 3</r/a>'
OLD = 'openat(AT_FDCWD</r>, "a", O_RDWR) = 3</r/a>'


def lines_of(*calls: str, **options: str) -> list[str]:
    """Joined lines of the script of a log, without its head."""
    whole = nandlab.strace_import(log_of(*calls), root="/r", join=True, **options)  # type: ignore[arg-type]
    return _lines(whole.script)


def each_of(*calls: str, **options: str) -> list[str]:
    """Lines of the script of a log, one for each call."""
    return _lines(nandlab.strace_import(log_of(*calls), root="/r", **options).script)  # type: ignore[arg-type]


def _lines(script: str) -> list[str]:
    return [line for line in script.splitlines() if not line.startswith("#")][1:-1]


def left_out(*calls: str) -> set[tuple[str, str]]:
    rows = nandlab.strace_import(log_of(*calls), root="/r").rows
    return {(row["call"], row["fate"]) for row in rows if row["fate"] != "changes nothing"}


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (r"a\n\"\\\0\0011\377\t", b'a\n"\\\x00\x011\xff\t'),
        (r"\x61\x0a\xff", b"a\n\xff"),
        (r"\x61b", b"ab"),
        ("", b""),
    ],
)
def test_escapes(text: str, found: bytes) -> None:
    assert unescaped(text) == found


def test_arguments_are_divided_outside_of_strings_names_and_structures() -> None:
    text = (
        r'3</r/a, b) = 1>, "x\", y) = 2", [{iov_base=")", iov_len=1}, {a, b}], 1<<12 /* (, */) = '
        "4</r/c) = 5>"
    )
    arguments, result = split(text)
    assert arguments == [
        "3</r/a, b) = 1>",
        r'"x\", y) = 2"',
        '[{iov_base=")", iov_len=1}, {a, b}]',
        "1<<12 /* (, */",
    ]
    assert (result.value, result.descriptor) == (4, descriptor("4</r/c) = 5>"))
    assert split(") = 7")[0] == []
    assert parts(arguments[2]) == ['{iov_base=")", iov_len=1}', "{a, b}"]


@pytest.mark.parametrize(
    ("text", "value", "error", "took_ns"),
    [
        ("1) = -1 ENOENT (No such file or directory)", -1, "ENOENT", None),
        ("1)       = 5 <0.000123>", 5, None, 123_000),
        ("1) = 0x8000 (flags O_RDONLY|O_LARGEFILE)", 0x8000, None, None),
        ("1) = ?", None, None, None),
        ("1) = ? ERESTARTSYS (To be restarted)", None, "ERESTARTSYS", None),
        ("1) = 3</r/a <0.5>> <0.000007>", 3, None, 7000),
    ],
)
def test_results(text: str, value: int | None, error: str | None, took_ns: int | None) -> None:
    result = split(text)[1]
    assert (result.value, result.error, result.took_ns) == (value, error, took_ns)


def test_names_of_descriptors() -> None:
    assert descriptor(r"4</a\76b\74c>(deleted)").name == b"/a>b<c"
    assert descriptor(r"4</a>(deleted)").is_deleted
    assert descriptor(r"4</a (deleted)>") == descriptor(r"4</a>(deleted)")
    assert descriptor(r"4<\x2f\x61>").name == b"/a"
    assert descriptor("0</dev/null<char 1:3>>").name == b"/dev/null"
    assert descriptor("AT_FDCWD</r>").number is None
    arguments, _ = split("3<TCP:[1.2.3.4:5->6.7.8.9:10]>, 4<pipe:[7]>) = 0")
    assert [descriptor(one).name for one in arguments] == [
        b"TCP:[1.2.3.4:5->6.7.8.9:10]",
        b"pipe:[7]",
    ]
    with pytest.raises(ValueError, match="no descriptor"):
        descriptor('"a"')


def test_vectors_are_cut_at_what_was_written() -> None:
    text = r'[{iov_base="ab", iov_len=2}, {iov_base="c\0", iov_len=2}]'
    assert vector(text, 4) == b"abc\0"
    assert vector(text, 3) == b"abc"
    assert vector(text, 5) is None
    assert vector('[{iov_base="ab"..., iov_len=40}]', 40) is None
    assert vector("0x7ffe", 3) is None
    assert string('"ab"...') == (b"ab", False)


def test_a_file_that_is_made_written_and_synced_is_one_line() -> None:
    write = 'write(3</r/a>, "hello", 5) = 5'
    assert lines_of(OPEN, write, "fsync(3</r/a>) = 0") == ["put a 644 5 5 h 68656c6c6f fsync"]
    assert lines_of(OPEN, write, write) == ["put a 644 10 5 h 68656c6c6f68656c6c6f"]
    each = (write, "fdatasync(3</r/a>) = 0")
    assert lines_of(OPEN, *each, *each) == ["put a 644 10 5 h 68656c6c6f68656c6c6f fsynceach"]
    # A sync that was made of two writes is not one of each.
    assert lines_of(OPEN, write, write, each[1], *each) == [
        "put a 644 10 5 h 68656c6c6f68656c6c6f fsync",
        "write a 10 5 5 h 68656c6c6f fsync",
    ]


def test_larger_calls_and_other_places_begin_a_line() -> None:
    calls = ('write(3</r/a>, "ab", 2) = 2', 'write(3</r/a>, "abc", 3) = 3')
    assert lines_of(OPEN, *calls) == ["put a 644 2 2 h 6162", "write a 2 3 3 h 616263"]
    there = 'pwrite64(3</r/a>, "x", 1, 9) = 1'
    assert lines_of(OPEN, there, calls[0]) == [
        "put a 644 0 4096 z 0",
        "write a 9 1 1 h 78",
        "write a 0 2 2 h 6162",
    ]
    smaller = ('write(3</r/a>, "a", 1) = 1', 'write(3</r/a>, "b", 1) = 1')
    assert lines_of(OPEN, calls[0], *smaller) == ["put a 644 3 2 h 616261", "write a 3 1 1 h 62"]


def test_bytes_are_kept_drawn_or_zeros() -> None:
    cut = 'write(3</r/a>, "abc"..., 4000) = 4000'
    assert lines_of(OPEN, cut) == ["put a 644 4000 4000 x 1"]
    short = 'write(3</r/a>, "abc"..., 4000) = 2'
    assert lines_of(OPEN, short) == ["put a 644 2 2 h 6162"]
    assert lines_of(OPEN, r'write(3</r/a>, "\0\0", 2) = 2') == ["put a 644 2 2 z 0"]
    words = f'write(3</r/a>, "{"word " * 20}", 100) = 100'
    noise = 'write(3</r/a>, "q8Z!kd0Lw", 9) = 9'
    assert lines_of(OPEN, words, data="drawn") == ["put a 644 100 100 t 1"]
    assert lines_of(OPEN, noise, data="drawn") == ["put a 644 9 9 x 1"]
    found = nandlab.strace_import(log_of(OPEN, cut, words), root="/r")
    assert (found.answer["bytes_kept"], found.answer["bytes_drawn"]) == (100, 4000)
    assert found.complaints == ("4000 bytes are drawn: the log does not hold them.",)
    drawn = nandlab.strace_import(log_of(OPEN, words), root="/r", data="drawn")
    assert drawn.complaints == ("100 bytes are drawn, as --data drawn asks.",)


def test_appends_go_to_the_end_wherever_the_descriptor_stands() -> None:
    opened = 'openat(AT_FDCWD</r>, "a", O_RDWR|O_APPEND) = 4</r/a>'
    write = 'write(4</r/a>, "z", 1) = 1'
    at_place = 'pwrite64(4</r/a>, "y", 1, 0) = 1'
    first = (OPEN, 'write(3</r/a>, "ab", 2) = 2')
    assert lines_of(*first, opened, write, "lseek(4</r/a>, 0, SEEK_SET) = 0", at_place)[1:] == [
        "append a 2 1 h 7a79"
    ]
    # A descriptor that is copied shares its place; F_SETFL turns appending off.
    off = "fcntl(4</r/a>, F_SETFL, O_RDWR) = 0"
    copied = "dup(4</r/a>) = 9</r/a>"
    seek = "lseek(9</r/a>, 1, SEEK_SET) = 1"
    assert lines_of(*first, opened, copied, off, seek, write)[1:] == ["write a 1 1 1 h 7a"]


def test_names_follow_renames_and_links_while_a_file_is_open() -> None:
    calls = (
        OPEN,
        'mkdir("d", 0777) = 0',
        'rename("a", "d/b") = 0',
        'write(3</r/d/b>, "x", 1) = 1',
        'renameat(AT_FDCWD</r>, "d", AT_FDCWD</r>, "e") = 0',
        'write(3</r/e/b>, "y", 1) = 1',
        'linkat(AT_FDCWD</r>, "e/b", AT_FDCWD</r>, "l", 0) = 0',
        'unlink("e/b") = 0',
        'write(3</r/l>, "z", 1) = 1',
        'unlinkat(AT_FDCWD</r>, "l", 0) = 0',
        'write(3</r/l>(deleted), "!", 1) = 1',
        'unlinkat(AT_FDCWD</r>, "e", AT_REMOVEDIR) = 0',
    )
    assert lines_of(*calls) == [
        "put a 644 0 4096 z 0",
        "mkdir d 755",
        "rename a d/b",
        "write d/b 0 1 1 h 78",
        "rename d e",
        "write e/b 1 1 1 h 79",
        "link e/b l",
        "unlink e/b",
        "write l 2 1 1 h 7a",
        *("open f0 l w", "unlink l", "pwrite f0 3 1 h 21"),
        "rmdir e",
    ]
    assert not left_out(*calls)


def test_paths_are_relative_to_where_a_process_stands() -> None:
    calls = (
        'mkdirat(AT_FDCWD</r>, "d", 0700) = 0',
        'chdir("d") = 0',
        'mkdir("e", 0755) = 0',
        'openat(AT_FDCWD</r/d>, "e", O_RDONLY|O_DIRECTORY) = 5</r/d/e>',
        'mkdirat(5</r/d/e>, "f", 0755) = 0',
        "fchdir(5</r/d/e>) = 0",
        'mkdir("../g", 0755) = 0',
        'mkdir("/r//d/./h", 0755) = 0',
        'mkdir("/elsewhere", 0755) = 0',
        'mkdir("/r2", 0755) = 0',
    )
    assert lines_of(*calls) == [
        *("mkdir d 700", "mkdir d/e 755", "mkdir d/e/f 755", "mkdir d/g 755", "mkdir d/h 755"),
    ]


def test_a_folder_that_the_log_does_not_tell_is_asked_for() -> None:
    text = log_of('mkdir("d", 0755) = 0')
    with pytest.raises(NandlabError, match=r"log:1: mkdir: .*--cwd") as caught:
        nandlab.strace_import(text, root="/r")
    assert "\n" not in str(caught.value)
    script = nandlab.strace_import(text, root="/r", cwd="/r/x").script
    assert _lines(script)[-1] == "mkdir x/d 755"


def test_children_begin_with_what_their_parents_had() -> None:
    calls = (
        OPEN,
        "clone(child_stack=NULL, flags=CLONE_CHILD_SETTID|SIGCHLD, child_tidptr=0x7f) = 8",
        "close(3</r/a>) = 0",
        'openat(AT_FDCWD</r>, "b", O_WRONLY|O_CREAT|O_TRUNC, 0600) = 3</r/b>',
        '@8 write(3</r/a>, "x", 1) = 1',
        'chdir("/r/d") = 0',
        '@8 mkdir("c", 0755) = 0',
        "@8 exit_group(0) = ?",
        "@8 +++ exited with 0 +++",
    )
    assert lines_of(*calls) == [
        "put a 644 0 4096 z 0",
        "put b 600 0 4096 z 0",
        "write a 0 1 1 h 78",
        "mkdir c 755",
    ]


def test_threads_share_and_a_child_may_speak_before_its_parent_does() -> None:
    flags = "CLONE_VM|CLONE_FS|CLONE_FILES|CLONE_THREAD"
    calls = (
        OPEN,
        f"clone3({{flags={flags}, child_tid=0x7f, exit_signal=0}} <unfinished ...>",
        '@8 write(3</r/a>, "x", 1) = 1',
        "@8 close(3</r/a>) = 0",
        "<... clone3 resumed> => {parent_tid=[8]}, 88) = 8",
        'openat(AT_FDCWD</r>, "b", O_WRONLY|O_CREAT|O_EXCL, 0666) = 3</r/b>',
        '@8 write(3</r/b>, "y", 1) = 1',
    )
    assert lines_of(*calls) == ["put a 644 1 1 h 78", "put b 644 1 1 h 79"]


def test_a_process_that_no_call_made_has_what_its_descriptors_are_called() -> None:
    calls = (OPEN, 'write(3</r/a>, "one", 3) = 3', '@8 write(3</r/a>, "two", 3) = 3')
    assert lines_of(*calls) == ["put a 644 3 3 h 6f6e65", "write a 3 3 3 h 74776f"]
    (told,) = nandlab.strace_import(log_of(*calls), root="/r").complaints
    assert told.startswith("Processes whose making is not in the log: 1. ")
    assert nandlab.strace_import(log_of(*calls[:2]), root="/r").complaints == ()


def test_a_number_is_free_as_soon_as_close_begins() -> None:
    thread = "clone(child_stack=0x7f, flags=CLONE_FILES|CLONE_THREAD) = 8"
    calls = (
        OPEN,
        thread,
        "close(3</r/a> <unfinished ...>",
        '@8 openat(AT_FDCWD</r>, "b", O_WRONLY|O_CREAT|O_EXCL, 0666) = 3</r/b>',
        "<... close resumed>) = 0",
        '@8 write(3</r/b>, "y", 1) = 1',
    )
    assert lines_of(*calls) == ["put a 644 0 4096 z 0", "put b 644 1 1 h 79"]


def test_a_sync_stands_where_it_began() -> None:
    calls = (
        OPEN,
        'write(3</r/a>, "x", 1) = 1',
        "fsync(3</r/a> <unfinished ...>",
        '@8 openat(AT_FDCWD</r>, "a", O_WRONLY) = 4</r/a>',
        '@8 write(4</r/a>, "y", 1) = 1',
        "<... fsync resumed>) = 0",
    )
    assert lines_of(*calls) == ["put a 644 1 1 h 78 fsync", "write a 0 1 1 h 79"]


def test_another_program_loses_the_descriptors_that_close_on_exec() -> None:
    calls = (
        OPEN,
        'openat(AT_FDCWD</r>, "b", O_WRONLY|O_CREAT|O_EXCL|O_CLOEXEC, 0666) = 4</r/b>',
        "fcntl(3</r/a>, F_DUPFD_CLOEXEC, 5) = 5</r/a>",
        'execve("/bin/x", ["x"], 0x7f /* 3 vars */) = 0',
        'openat(AT_FDCWD</r>, "c", O_WRONLY|O_CREAT|O_EXCL, 0666) = 4</r/c>',
        'write(4</r/c>, "c", 1) = 1',
        'write(3</r/a>, "a", 1) = 1',
    )
    assert lines_of(*calls)[2:] == ["put c 644 1 1 h 63", "write a 0 1 1 h 61"]


def test_what_was_there_before_is_made_first_in_the_sizes_that_show() -> None:
    calls = (
        "fstat(3</r/d/seen>, {st_mode=S_IFREG|0640, st_size=5000, ...}) = 0",
        'openat(AT_FDCWD</r>, "d/seen", O_RDWR) = 3</r/d/seen>',
        'pwrite64(3</r/d/seen>, "x", 1, 100) = 1',
        'openat(AT_FDCWD</r>, "read", O_RDONLY) = 4</r/read>',
        'read(4</r/read>, "abc"..., 4096) = 4096',
        'read(4</r/read>, "abc"..., 4096) = 10',
        'openat(AT_FDCWD</r>, "log", O_WRONLY|O_CREAT|O_APPEND, 0666) = 5</r/log>',
        'write(5</r/log>, "line", 4) = 4',
        "lseek(5</r/log>, 0, SEEK_END) = 304",
        'openat(AT_FDCWD</r>, "new", O_WRONLY|O_CREAT|O_APPEND, 0666) = 6</r/new>',
        'write(6</r/new>, "line", 4) = 4',
        "lseek(6</r/new>, 0, SEEK_END) = 4",
        'unlink("gone") = 0',
    )
    assert lines_of(*calls) == [
        "mkdir d 755",
        "put d/seen 640 5000 4096 x 1",
        "put gone 644 0 4096 x 2",
        "put log 644 300 4096 x 3",
        "put read 644 4106 4096 x 4",
        "sync",
        "phase log",
        "write d/seen 100 1 1 h 78",
        "read read 4096 0 4106",
        "append log 4 4 h 6c696e65",
        "put new 644 4 4 h 6c696e65",
        "unlink gone",
    ]


def test_a_file_below_a_folder_that_moved_was_there_under_its_old_name() -> None:
    calls = (
        'rename("/r/d", "/r/e") = 0',
        'openat(AT_FDCWD</r>, "e/f", O_RDWR) = 3</r/e/f>',
        'write(3</r/e/f>, "x", 1) = 1',
    )
    assert lines_of(*calls)[:2] == ["mkdir d 755", "put d/f 644 0 4096 x 1"]


def test_what_appears_in_a_folder_of_the_log_is_made_there() -> None:
    calls = (
        'mkdirat(AT_FDCWD</r>, "d", 0755) = 0',
        'openat(AT_FDCWD</r>, "d/f", O_RDWR) = 3</r/d/f>',
        'write(3</r/d/f>, "x", 1) = 1',
    )
    assert lines_of(*calls) == ["mkdir d 755", "put d/f 644 0 4096 z 0", "write d/f 0 1 1 h 78"]
    assert left_out(*calls) == {("openat", "approximated")}


def test_an_emptied_file_and_other_sizes() -> None:
    calls = (
        OLD,
        "lseek(3</r/a>, 0, SEEK_END) = 100",
        'openat(AT_FDCWD</r>, "a", O_WRONLY|O_TRUNC) = 4</r/a>',
        'write(4</r/a>, "x", 1) = 1',
        "ftruncate(4</r/a>, 9) = 0",
        'truncate("a", 8) = 0',
        "fallocate(4</r/a>, 0, 0, 8192) = 0",
        "fallocate(4</r/a>, FALLOC_FL_KEEP_SIZE, 0, 9000) = 0",
        'openat(AT_FDCWD</r>, "a", O_WRONLY|O_CREAT|O_TRUNC, 0666) = 5</r/a>',
        'write(5</r/a>, "y", 1) = 1',
    )
    assert lines_of(*calls)[3:] == [
        "truncate a 0",
        "write a 0 1 1 h 78",
        "truncate a 9",
        "truncate a 8",
        "fallocate a 0 8192",
        "fallocate a 0 9000 keep-size",
        "put a 644 1 1 h 79",
    ]
    assert not left_out(*calls)


def test_modes_owners_times_attributes_and_nodes() -> None:
    calls = (
        "umask(027) = 022",
        OPEN,
        'chmod("a", 0600) = 0',
        "fchmod(3</r/a>, 0640) = 0",
        "fchown(3</r/a>, 5, -1) = 0",
        'fchownat(AT_FDCWD</r>, "a", -1, 6, AT_SYMLINK_NOFOLLOW) = 0',
        'utimensat(AT_FDCWD</r>, "a", [{tv_sec=5, tv_nsec=0} /* 1970 */, {tv_sec=6}], 0) = 0',
        "utimensat(3</r/a>, NULL, NULL, 0) = 0",
        'setxattr("a", "user.a", "v\\0", 2, 0) = 0',
        'mknod("f", S_IFIFO|0666) = 0',
        'mknodat(AT_FDCWD</r>, "c", S_IFCHR|0600, makedev(0x1, 0x3)) = 0',
        'symlink("/r/a", "l") = 0',
        'symlinkat("../out", AT_FDCWD</r>, "m n") = 0',
        'chmod("l", 0400) = 0',
        "sync() = 0",
        "syncfs(3</r/a>) = 0",
    )
    assert lines_of(*calls) == [
        "put a 640 0 4096 z 0",
        "chmod a 600",
        "chmod a 640",
        "chown a 5 0",
        "chown a 5 6",
        "utime a 5 6",
        "utime a 1795600000 1795600000",
        "setxattr a user.a 7600",
        "mknod f 640 p",
        "mknod c 600 c 1 3",
        "symlink /a l",
        "symlink ../out m%20n",
        "chmod a 400",
        "sync",
        "sync",
    ]


def test_names_that_change_places_and_temporary_files() -> None:
    calls = (
        OPEN,
        'renameat2(AT_FDCWD</r>, "a", AT_FDCWD</r>, "b", RENAME_EXCHANGE) = 0',
        'renameat2(AT_FDCWD</r>, "a", AT_FDCWD</r>, "c", RENAME_NOREPLACE) = 0',
        'openat(AT_FDCWD</r>, ".", O_RDWR|O_TMPFILE, 0600) = 5</r/#9>(deleted)',
        'write(5</r/#9>(deleted), "abc", 3) = 3',
        'linkat(AT_FDCWD</r>, "/proc/self/fd/5", AT_FDCWD</r>, "t", AT_SYMLINK_FOLLOW) = 0',
    )
    assert lines_of(*calls)[3:] == [
        "put a 644 0 4096 z 0",
        *("rename a b exchange", "rename a c noreplace"),
        "put t 644 3 3 x 2",
    ]
    assert left_out(*calls) == {
        ("linkat", "approximated"),
        ("openat", "left out"),
        ("write", "left out"),
    }


def test_what_no_line_can_say_is_counted() -> None:
    calls = (
        OPEN,
        "mmap(NULL, 8, PROT_READ|PROT_WRITE, MAP_SHARED, 3</r/a>, 0) = 0x7f",
        "mmap(NULL, 8, PROT_READ, MAP_SHARED, 3</r/a>, 0) = 0x7f",
        'openat(AT_FDCWD</r>, ".", O_RDONLY|O_DIRECTORY) = 6</r>',
        "fsync(6</r>) = 0",
        "sync_file_range(3</r/a>, 0, 8, 0) = 0",
        'unlink("none") = -1 ENOENT (No such file or directory)',
        "io_uring_enter(9<anon_inode:[io_uring]>, 1, 0, 0, NULL, 8) = 1",
        "read(3</r/a>,  <unfinished ...>",
    )
    assert lines_of(*calls) == ["put a 644 0 4096 z 0", "fsync ."]
    assert left_out(*calls) == {
        *(("mmap", "left out"), ("sync_file_range", "left out")),
        *(("unlink", "failed"), ("io_uring_enter", "left out"), ("read", "left out")),
    }
    found = nandlab.strace_import(log_of(*calls), root="/r")
    assert found.answer["mapped"] == ["a"]
    assert "# Mapped to be written, which no log shows: a.\n" in found.script
    assert any(one.startswith("sync_file_range left out once: ") for one in found.complaints)


def test_copies_that_the_kernel_makes() -> None:
    calls = (
        OPEN,
        'openat(AT_FDCWD</r>, "b", O_RDONLY) = 4</r/b>',
        "copy_file_range(4</r/b>, NULL, 3</r/a>, NULL, 100, 0) = 10",
        "sendfile(3</r/a>, 4</r/b>, NULL, 5) = 5",
        "copy_file_range(4</r/b>, [0], 3</r/a>, [2], 1, 0) = 1",
        "splice(8<pipe:[1]>, NULL, 3</r/a>, NULL, 4, 0) = 4",
    )
    assert lines_of(*calls)[:3] == ["put b 644 15 4096 x 1", "sync", "phase log"]
    assert lines_of(*calls)[3:] == [
        "put a 644 0 4096 z 0",
        "read b 10 0 10",
        "write a 0 10 10 x 2",
        "read b 5 10 5",
        "write a 10 5 5 x 3",
        "read b 1 0 1",
        "write a 2 1 1 x 4",
        "write a 15 4 4 x 5",
    ]


def test_waits_are_whole_milliseconds_and_their_rests_are_not_lost() -> None:
    made = [f'mkdir("/r/{name}", 0755) = 0' for name in "abcd"]
    text = log_of(*made, step_us=1700)
    assert _lines(nandlab.strace_import(text, root="/r", join=True).script) == [
        *("mkdir a 755", "sleep 1", "mkdir b 755", "sleep 2", "mkdir c 755"),
        *("sleep 2", "mkdir d 755"),
    ]
    # What a call is known to have taken is no wait.
    took = log_of(*(f"{one} <0.001500>" for one in made), step_us=1700)
    lines = _lines(nandlab.strace_import(took, root="/r", join=True).script)
    assert [line for line in lines if line.startswith("sleep")] == []
    long = log_of(OPEN, 'write(3</r/a>, "a", 1) = 1', step_us=20_000)
    assert _lines(nandlab.strace_import(long, root="/r", join=True).script) == [
        *("put a 644 0 4096 z 0", "sleep 20", "write a 0 1 1 h 61"),
    ]


GOOD = log_of(OPEN, 'write(3</r/a>, "hello", 5) = 5')


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (GOOD.rstrip("\n"), ":2: the last line is cut off"),
        (GOOD.replace(") = 5\n", "\n"), ":2: the call `write` is cut off"),
        (GOOD + "\xff\xfe garbage\n", ":3: "),
        (GOOD + "7 1795600001.5 <... read resumed>) = 0\n", ":3: no line begins the `read`"),
        (GOOD + "7 1795600001.5 +++ exi\n", ":3: '+++ exi' is cut off"),
        (GOOD.replace("17956", "0"), ":1: 000000.000000 is no time"),
        ("7 12:34:56 read(3, 4) = 1\n", ":1: the time has no date"),
        ("7 12:34:56.123456 read(3, 4) = 1\n", ":1: the time has no date"),
        ("read(3</r/a>, 4) = 1\n", ":1: the line has no time"),
        ("7 read(3</r/a>, 4) = 1\n", ":1: the line has no time"),
        (GOOD.replace("</r/a>", ""), ":1: openat: the descriptor has no path"),
        (GOOD.replace("3</r/a>, ", "3, "), ":2: write: descriptor 3 has no path"),
        (GOOD.replace("3</r/a>, ", ""), ":2: write: the call cannot be read: "),
        (GOOD.replace(', "hello", 5', ""), ":2: write: the call cannot be read: "),
        ("\n \n", ": no system call is in it"),
    ],
)
def test_bad_logs_are_refused_with_their_line(
    text: str, told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "log"
    path.write_bytes(text.encode("latin-1"))
    assert main(["strace-import", str(path), "--root", "/r"]) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"nandlab: error: {path}{told}")
    assert len(error.splitlines()) == 1


def test_bad_lines_may_be_skipped() -> None:
    found = nandlab.strace_import(GOOD + "garbage\n", root="/r", skip_bad_lines=True)
    assert found.answer["bad_lines"] == 1
    assert "Lines that could not be read: 1." in found.script
    assert _lines(found.script) == _lines(nandlab.strace_import(GOOD, root="/r").script)


def test_a_root_that_the_log_makes_is_the_mount_point() -> None:
    assert lines_of('mkdir("/r", 0755) = 0', 'mkdir("/r/a", 0755) = 0') == ["mkdir a 755"]
    gone = ('mkdir("/r/a", 0755) = 0', 'rmdir("/r") = 0', 'rename("/r", "/s") = 0')
    assert lines_of(*gone) == ["mkdir a 755"]
    assert left_out(*gone) == {("rmdir", "left out"), ("rename", "left out")}


def test_a_root_that_no_call_names_is_told() -> None:
    found = nandlab.strace_import(GOOD, root="/elsewhere")
    assert found.answer["lines"] == 0
    assert found.complaints[0].startswith("No line was made: no call wrote, read or named a file ")


@pytest.mark.parametrize("umask", ["8", "", "0o22", "7777"])
def test_a_umask_is_octal(umask: str) -> None:
    with pytest.raises(NandlabError, match=r"--umask: .* is no mode in octal"):
        nandlab.strace_import(GOOD, root="/r", umask=umask)
    script = nandlab.strace_import(GOOD, root="/r", umask="077").script
    assert _lines(script)[0] == "open f0 a w,creat,excl 600"


@pytest.mark.parametrize(
    "text",
    [
        "# tracer: nop\n cat-1 [000] ..... 5.1: sys_openat(dfd: 3, filename: 7ffe, flags: 0)\n",
        " cat-1 [000] ..... 5.1: sys_enter_openat: dfd: 0x3, filename: 0x7ffe1, flags: 0x0\n",
    ],
)
def test_traces_without_paths_are_refused_with_the_reason(text: str) -> None:
    with pytest.raises(NandlabError, match=r"pointers in place of paths.*strace -f.*bpftrace"):
        nandlab.strace_import(text, root="/r")


def test_the_script_goes_to_a_file_or_to_standard_output(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log, out = tmp_path / "log", tmp_path / "out.ops"
    log.write_text(GOOD, encoding="ascii")
    assert main(["strace-import", str(log), "--root", "/r"]) == 0
    printed = capsys.readouterr().out
    assert main(["strace-import", str(log), "--root", "/r", "--out", str(out)]) == 0
    assert out.read_text(encoding="ascii") == printed
    assert "2 calls of 1 process became 2 lines;" in capsys.readouterr().out
    assert main(["strace-import", str(log), "--root", "/r", "--json"]) == 0
    result = json.loads(capsys.readouterr().out)["result"]
    assert result["script"] == printed


@pytest.mark.parametrize("name", ["strace", "/usr/bin/strace", "./strace"])
@pytest.mark.parametrize("rest", [" <unfinished ...>\n", ""])
def test_lines_of_a_terminal_name_a_process_only_while_there_are_others(
    name: str, rest: str
) -> None:
    text = (
        '1795600000.1 openat(AT_FDCWD</r>, "a", O_WRONLY|O_CREAT|O_EXCL, 0666) = 3</r/a>\n'
        f"1795600000.2 clone(child_stack=NULL, flags=SIGCHLD{name}: Process 8 attached\n"
        f"{rest}"
        '[pid     8] 1795600000.3 write(3</r/a>, "x", 1) = 1\n'
        "[pid     7] 1795600000.4 <... clone resumed>, child_tidptr=0x7f) = 8\n"
        "[pid     8] 1795600000.5 exit_group(0) = ?\n"
        "[pid     8] 1795600000.6 +++ exited with 0 +++\n"
        '1795600000.7 write(3</r/a>, "y", 1) = 1\n'
        "1795600000.8 +++ exited with 0 +++\n"
    )
    script = nandlab.strace_import(text, root="/r").script
    assert [line for line in _lines(script) if not line.startswith("sleep")] == [
        *("open f0 a w,creat,excl 644", "write f0 1 h 78", "write f0 1 h 79", "close f0"),
    ]


DAMAGE = ("", "0", "-1", "4294967296", "9" * 30, "NULL", "0x7f", " = ", *'"<>()[{,')
"""What stands in place of a word of a damaged line."""


def test_a_damaged_log_is_read_or_refused_with_one_line() -> None:
    draw = random.Random(20261125)
    lines = ONE_OF_EACH.splitlines(keepends=True)
    outcomes = set()
    for _ in range(2000):
        damaged = list(lines)
        for _ in range(draw.randrange(1, 4)):
            at = draw.randrange(len(damaged))
            kind = draw.randrange(4)
            if kind == 0:
                del damaged[at]
            elif kind == 1:
                damaged.insert(draw.randrange(len(damaged)), damaged[at])
            else:
                words = re.split(r"(\W+)", damaged[at])
                words[draw.randrange(len(words))] = draw.choice(DAMAGE)
                damaged[at] = "".join(words)
        text = "".join(damaged)
        told = None
        try:
            root, joins = draw.choice(["/r", "/"]), draw.choice([False, True])
            failed = draw.choice(("left-out", "try", "fails"))
            nandlab.strace_import(text, root=root, join=joins, failed=failed)
        except NandlabError as error:
            told = str(error)
        outcomes.add("read" if told is None else "refused")
        assert told is None or re.fullmatch(r"log:\d+: .+", told), (told, text)
    assert outcomes == {"read", "refused"}


@pytest.mark.usefixtures("engine_is_built")
@pytest.mark.parametrize("joins", [False, True])
@pytest.mark.parametrize("failed", ["left-out", "try", "fails"])
def test_the_script_of_every_call_runs(
    joins: bool, failed: Literal["left-out", "try", "fails"]
) -> None:
    found = nandlab.strace_import(ONE_OF_EACH, root="/r", join=joins, failed=failed)
    ran = nandlab.script(found.script, fs="ubifs", keep_going=True)
    assert len(ran.phases) == 2
    # UBIFS has no `fallocate`; all others succeed, or fail as the log says.
    told = [re.sub(r"^script:\d+: ", "", one) for one in ran.failures]
    assert told[:1] == ["fallocate: EOPNOTSUPP: operation not supported"]
    assert [one.partition(":")[0] for one in told[1:]] == ["open"] * (failed == "try")
    handled = {call for call in HANDLERS if re.search(rf"\b{call}\(", ONE_OF_EACH)}
    # Others are the same call under another name, for other machines.
    assert {HANDLERS[call] for call in handled} == set(HANDLERS.values())
