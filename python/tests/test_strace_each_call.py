"""`nandlab strace-import`: a line for each call, on files that stay open."""

import re

import pytest
from strace_logs import log_of

import nandlab
from nandlab.errors import NandlabError
from nandlab.syscall_logs.failed_calls import ERRORS

OPEN = 'openat(AT_FDCWD</r>, "a", O_WRONLY|O_CREAT|O_EXCL, 0666) = 3</r/a>'
MADE = "open f0 a w,creat,excl 644"


def each_of(*calls: str, **options: object) -> list[str]:
    """Lines of the phase `log`."""
    script = nandlab.strace_import(log_of(*calls), root="/r", **options).script  # type: ignore[arg-type]
    lines = script.splitlines()
    return lines[lines.index("phase log") + 1 : -1]


def left_out(*calls: str, **options: object) -> set[tuple[str, str]]:
    rows = nandlab.strace_import(log_of(*calls), root="/r", **options).rows  # type: ignore[arg-type]
    return {(row["call"], row["fate"]) for row in rows if row["fate"] != "changes nothing"}


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ("O_RDONLY", "r"),
        ("O_WRONLY|O_CREAT|O_EXCL, 0666", "w,creat,excl 644"),
        ("O_RDWR|O_CREAT|O_TRUNC|O_CLOEXEC, 0600", "rw,creat,trunc 600"),
        ("O_WRONLY|O_APPEND", "a"),
        ("O_RDWR|O_APPEND|O_DSYNC", "rw,a,dsync"),
        ("O_WRONLY|O_SYNC|O_CREAT, 0222", "w,sync,creat 200"),
        ("O_RDONLY|O_DIRECTORY|O_NOFOLLOW", "r"),
        ("O_WRONLY|O_EXCL", "w"),
        ("O_RDONLY|O_TRUNC", "r"),
    ],
)
def test_flags_and_modes_of_open(flags: str, words: str) -> None:
    assert each_of(f'openat(AT_FDCWD</r>, "a", {flags}) = 3</r/a>') == [f"open f0 a {words}"]


def test_each_call_has_its_place_and_its_size() -> None:
    calls = (
        OPEN,
        'write(3</r/a>, "abc", 3) = 3',
        'write(3</r/a>, "de", 2) = 2',
        'pwrite64(3</r/a>, "f", 1, 100) = 1',
        'write(3</r/a>, "g", 1) = 1',
        "lseek(3</r/a>, 1, SEEK_SET) = 1",
        'writev(3</r/a>, [{iov_base="hi", iov_len=2}, {iov_base="j", iov_len=1}], 2) = 3',
        'write(3</r/a>, "k", 1) = 1',
        "fdatasync(3</r/a>) = 0",
        "ftruncate(3</r/a>, 50) = 0",
        "fsync(3</r/a>) = 0",
        "close(3</r/a>) = 0",
    )
    assert each_of(*calls) == [
        MADE,
        *("write f0 3 h 616263", "write f0 2 h 6465", "pwrite f0 100 1 h 66", "write f0 1 h 67"),
        *("pwrite f0 1 3 h 68696a", "pwrite f0 4 1 h 6b", "fdatasync f0", "ftruncate f0 50"),
        *("fsync f0", "close f0"),
    ]


def test_a_write_with_a_place_keeps_it_where_the_position_is_the_same() -> None:
    calls = (
        OPEN,
        'pwrite64(3</r/a>, "f", 1, 0) = 1',
        'pwritev2(3</r/a>, [{iov_base="g", iov_len=1}], 1, -1, RWF_DSYNC) = 1',
        'pwritev2(3</r/a>, [{iov_base="h", iov_len=1}], 1, 7, RWF_SYNC) = 1',
    )
    assert each_of(*calls) == [
        *(MADE, "pwrite f0 0 1 h 66", "write f0 1 h 67", "fdatasync f0"),
        *("pwrite f0 7 1 h 68", "fsync f0"),
    ]


def test_reads_are_those_that_were_asked_for() -> None:
    calls = (
        'openat(AT_FDCWD</r>, "a", O_RDONLY) = 3</r/a>',
        'read(3</r/a>, "abc"..., 4096) = 4096',
        'read(3</r/a>, "d", 4096) = 1',
        'read(3</r/a>, "", 4096) = 0',
        'pread64(3</r/a>, "b", 1, 1) = 1',
    )
    assert each_of(*calls) == [
        "open f0 a r",
        *("pread f0 0 4096", "pread f0 4096 4096", "pread f0 4097 4096", "pread f0 1 1"),
    ]


def test_appends_go_to_the_end_in_the_script_too() -> None:
    calls = (
        'openat(AT_FDCWD</r>, "a", O_WRONLY|O_APPEND|O_CREAT, 0600) = 3</r/a>',
        'write(3</r/a>, "ab", 2) = 2',
        'pwrite64(3</r/a>, "c", 1, 0) = 1',
    )
    assert each_of(*calls) == ["open f0 a a,creat 600", "write f0 2 h 6162", "write f0 1 h 63"]


def test_a_file_is_closed_with_its_last_descriptor() -> None:
    fork = "clone(child_stack=NULL, flags=SIGCHLD) = 8"
    copied = (OPEN, "dup2(3</r/a>, 9) = 9</r/a>", "close(3</r/a>) = 0")
    assert each_of(*copied) == [MADE]
    assert each_of(*copied, "close(9</r/a>) = 0") == [MADE, "close f0"]
    child = (OPEN, fork, "close(3</r/a>) = 0", '@8 write(3</r/a>, "x", 1) = 1')
    assert each_of(*child) == [MADE, "write f0 1 h 78"]
    assert each_of(*child, "@8 +++ exited with 0 +++")[-1] == "close f0"
    threads = (OPEN, fork.replace("SIGCHLD", "CLONE_FILES|CLONE_VM|CLONE_THREAD"))
    assert each_of(*threads, "@8 +++ exited with 0 +++") == [MADE]
    executes = 'execve("/bin/x", ["x"], 0x7f /* 3 vars */) = 0'
    assert each_of(OPEN.replace("O_EXCL", "O_EXCL|O_CLOEXEC"), executes) == [MADE, "close f0"]
    other = 'openat(AT_FDCWD</r>, "b", O_RDONLY) = 4</r/b>'
    assert each_of(OPEN, other, "dup2(4</r/b>, 3) = 3</r/b>") == [MADE, "open f1 b r", "close f0"]
    # The number of the name is free again, as that of a descriptor.
    again = OPEN.replace('"a"', '"c"').replace("</r/a>", "</r/c>")
    assert each_of(OPEN, other, "close(3</r/a>) = 0", again)[2:] == [
        *("close f0", "open f0 c w,creat,excl 644"),
    ]


GONE = (
    OPEN,
    'write(3</r/a>, "x", 1) = 1',
    'unlink("a") = 0',
    'write(3</r/a>(deleted), "y", 1) = 1',
    "fdatasync(3</r/a>(deleted)) = 0",
    "close(3</r/a>(deleted)) = 0",
)


def test_a_file_without_a_name_stays_open() -> None:
    assert each_of(*GONE) == [
        *(MADE, "write f0 1 h 78", "unlink a", "write f0 1 h 79", "fdatasync f0", "close f0"),
    ]
    assert each_of(*GONE, join=True) == [
        *("put a 644 1 1 h 78", "open f0 a w", "unlink a"),
        *("pwrite f0 1 1 h 79", "fdatasync f0", "close f0"),
    ]
    # A file that is replaced, of which another descriptor is open; a name of it that stays.
    replaced = (*GONE[:2], 'rename("b", "a") = 0', 'write(3</r/a>(deleted), "y", 1) = 1')
    assert each_of(*replaced, join=True)[1:] == [
        *("open f0 a w", "rename b a", "pwrite f0 1 1 h 79"),
    ]
    linked = (*GONE[:2], 'link("a", "b") = 0', 'unlink("a") = 0', 'write(3</r/b>, "y", 1) = 1')
    assert each_of(*linked, join=True)[1:] == ["link a b", "unlink a", "write b 1 1 1 h 79"]
    assert not left_out(*GONE) | left_out(*GONE, join=True) | left_out(*replaced, join=True)


def test_what_was_open_before_the_log_is_opened_for_its_first_call() -> None:
    assert each_of("fstat(5</r/a>, {st_mode=S_IFREG|0644, st_size=4, ...}) = 0") == []
    calls = ('write(5</r/a>, "x", 1) = 1', "fsync(5</r/a>) = 0", "fsync(6</r/d>) = 0")
    assert each_of(*calls) == [
        *("open f0 a rw", "write f0 1 h 78", "fsync f0", "open f1 d rw", "fsync f1"),
    ]


def test_directories_are_opened_and_synced() -> None:
    calls = (
        'openat(AT_FDCWD</r>, ".", O_RDONLY|O_DIRECTORY) = 3</r>',
        "fsync(3</r>) = 0",
        'openat(3</r>, "a", O_WRONLY|O_CREAT, 0600) = 4</r/a>',
        'openat(AT_FDCWD</r>, "a", O_RDONLY|O_PATH) = 5</r/a>',
        "close(5</r/a>) = 0",
    )
    assert each_of(*calls) == ["open f0 . r", "fsync f0", "open f1 a w,creat 600"]


def test_names_are_exchanged_kept_and_whited_out() -> None:
    calls = (
        OPEN,
        'renameat2(AT_FDCWD</r>, "a", AT_FDCWD</r>, "d", RENAME_EXCHANGE) = 0',
        'openat(AT_FDCWD</r>, "a/in", O_RDONLY) = 4</r/a/in>',
        'renameat2(AT_FDCWD</r>, "d", AT_FDCWD</r>, "c", RENAME_NOREPLACE) = 0',
        'renameat2(AT_FDCWD</r>, "c", AT_FDCWD</r>, "e", RENAME_WHITEOUT) = 0',
        'write(3</r/e>, "x", 1) = 1',
        "fallocate(3</r/e>, 0, 5, 7) = 0",
        "fallocate(3</r/e>, FALLOC_FL_KEEP_SIZE|FALLOC_FL_PUNCH_HOLE, 0, 4096) = 0",
        "fallocate(3</r/e>, FALLOC_FL_KEEP_SIZE, 0, 9) = 0",
        "fallocate(3</r/e>, FALLOC_FL_ZERO_RANGE, 0, 9) = 0",
    )
    found = nandlab.strace_import(log_of(*calls), root="/r").script.splitlines()
    before, log = found.index("phase before"), found.index("phase log")
    assert found[before + 1 : log] == ["mkdir d 755", "put d/in 644 0 4096 x 1", "sync"]
    assert found[log + 1 : -1] == [
        MADE,
        *("rename a d exchange", "open f1 a/in r", "rename d c noreplace", "rename c e whiteout"),
        *("write f0 1 h 78", "fallocate e 5 7", "fallocate e 0 4096 punch-hole"),
        "fallocate e 0 9 keep-size",
    ]
    assert left_out(*calls) == {("fallocate", "left out")}


FAILED = (
    'openat(AT_FDCWD</r>, "none", O_RDONLY) = -1 ENOENT (No such file or directory)',
    'openat(AT_FDCWD</r>, "lock", O_RDWR|O_CREAT|O_EXCL, 0600) = -1 EEXIST (File exists)',
    'mkdir("d", 0777) = -1 EEXIST (File exists)',
    'rmdir("none") = -1 ENOENT (No such file or directory)',
    'unlink("u") = -1 EACCES (Permission denied)',
    OPEN,
    'write(3</r/a>, "abc", 3) = -1 ENOSPC (No space left on device)',
    'pwrite64(3</r/a>, "abc", 3, 9) = -1 EFBIG (File too large)',
    "fsync(3</r/a>) = -1 EIO (Input/output error)",
    'rename("none", "b") = -1 ENOENT (No such file or directory)',
    'link("none", "b") = -1 ENOENT (No such file or directory)',
    'symlink("x", "none/l") = -1 ENOENT (No such file or directory)',
)


def test_calls_that_failed_fail_in_the_script_if_that_is_asked_for() -> None:
    assert each_of(*FAILED) == [MADE]
    assert each_of(*FAILED, failed="fails") == [
        "fails ENOENT open t1 none r",
        "fails EEXIST open t2 lock rw,creat,excl 600",
        "fails EEXIST mkdir d 755",
        "fails ENOENT rmdir none",
        MADE,
        "fails ENOSPC write f0 3 z 0",
        "fails EFBIG pwrite f0 9 3 z 0",
        "fails EIO fsync f0",
        "fails ENOENT rename none b",
        "fails ENOENT link none b",
        "fails ENOENT symlink x none/l",
    ]
    assert each_of(*FAILED, failed="try")[:3] == [
        *("try open t1 none r", "try open t2 lock rw,creat,excl 600", "try mkdir d 755"),
    ]
    assert left_out(*FAILED, failed="fails") == {("unlink", "failed")}


@pytest.mark.usefixtures("engine_is_built")
def test_failures_of_the_log_are_those_of_the_simulation() -> None:
    calls = (*FAILED[:4], *FAILED[-3:])
    found = nandlab.strace_import(log_of(*calls), root="/r", failed="fails")
    assert "put lock 644 0 " in found.script
    assert not nandlab.script(found.script, fs="ubifs").failures
    # A call that succeeds there ends the script.
    lost = re.sub(r"(?m)^put lock .*\n", "", found.script)
    with pytest.raises(NandlabError, match=r"EEXIST.* was expected, but the call succeeded"):
        nandlab.script(lost, fs="ubifs")


@pytest.mark.usefixtures("engine_is_built")
def test_every_error_may_stand_behind_fails() -> None:
    with pytest.raises(NandlabError, match="is no error: ") as told:
        nandlab.script("fails ENOWAY sync\n", fs="ubifs")
    known = str(told.value).partition("is no error: ")[2].partition(" are")[0]
    assert set(known.split(", ")) == ERRORS


def test_paths_begin_at_the_root_that_a_process_took() -> None:
    calls = (
        'chroot("/r/d") = 0',
        'mkdir("/e", 0755) = 0',
        'openat(AT_FDCWD</r>, "/f", O_WRONLY|O_CREAT, 0600) = 3</r/d/f>',
        'symlink("/f", "/l") = 0',
        'chdir("/e") = 0',
        'mkdir("y", 0700) = 0',
    )
    assert each_of(*calls) == [
        *("mkdir d/e 755", "open f0 d/f w,creat 600", "symlink /d/f d/l", "mkdir d/e/y 700"),
    ]
