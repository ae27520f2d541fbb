"""`strace-import --ack`: lines that a program wrote to its user become `ack` lines."""

import pytest
from strace_logs import log_of

import nandlab
from nandlab.errors import NandlabError

MAKE = 'openat(AT_FDCWD</r>, "a", O_RDWR|O_CREAT, 0666) = 3</r/a>'
DATA = 'write(3</r/a>, "data", 4) = 4'


def lines(*calls: str, ack: str = "stdout", **options: object) -> list[str]:
    """The calls of a script behind its head."""
    found = nandlab.strace_import(log_of(*calls), root="/r", ack=ack, **options)  # type: ignore[arg-type]
    script = found.script.splitlines()
    return script[script.index("phase log") + 1 : script.index("end")]


def test_each_line_is_one_and_stands_where_it_was_written() -> None:
    found = lines(
        MAKE,
        DATA,
        r'write(1<pipe:[7]>, "one\n", 4) = 4',
        DATA,
        r'writev(1<pipe:[7]>, [{iov_base="two\nth", iov_len=6}, {iov_base="r", iov_len=1}], 2) = 7',
        "fsync(3</r/a>) = 0",
        r'write(1<pipe:[7]>, "ee\nfour\n", 8) = 8',
    )
    assert [line for line in found if line.startswith(("ack", "fsync", "write"))] == [
        "write f0 4 h 64617461",
        "ack 1",
        "write f0 4 h 64617461",
        "ack 2",
        "fsync f0",
        "ack 3",
        "ack 4",
    ]


def test_the_descriptor_is_the_one_that_was_given() -> None:
    """A file or a pipe that gets its number later is another; a copy of it is the same."""
    calls = (
        MAKE,
        "dup(1<pipe:[7]>) = 9<pipe:[7]>",
        "dup2(3</r/a>, 1) = 1</r/a>",
        r'write(1</r/a>, "data\n", 5) = 5',
        r'write(9<pipe:[7]>, "one\n", 4) = 4',
        "dup2(5<pipe:[8]>, 1) = 1<pipe:[8]>",
        r'write(1<pipe:[8]>, "to another program\n", 19) = 19',
        "clone(child_stack=NULL, flags=CLONE_CHILD_SETTID|SIGCHLD) = 8",
        r'@8 write(9<pipe:[7]>, "two\n", 4) = 4',
    )
    found = lines(*calls)
    assert [line for line in found if line.startswith(("ack", "write"))] == [
        "write f0 5 h 646174610a",
        "ack 1",
        "ack 2",
    ]
    assert "ack 1" not in lines(*calls, ack="5")[:2]
    assert [line for line in lines(*calls, ack="5") if line.startswith("ack")] == ["ack 1"]


@pytest.mark.parametrize("joins", [False, True])
def test_a_file_of_the_root_is_written_and_acknowledges(joins: bool) -> None:
    found = lines(
        MAKE,
        r'write(3</r/a>, "1\n", 2) = 2',
        r'write(3</r/a>, "2\n", 2) = 2',
        ack="/r/a",
        join=joins,
    )
    kinds = [line.split()[0] for line in found if not line.startswith(("open", "close"))]
    assert kinds == ["put" if joins else "write", "ack", "write", "ack"]


def test_the_answer_counts_them_and_notes_a_line_without_an_end() -> None:
    calls = (MAKE, DATA, r'write(2</dev/pts/0<char 136:0>>, "a\nb", 3) = 3')
    found = nandlab.strace_import(log_of(*calls), root="/r", ack="stderr")
    assert found.answer["acknowledgements"] == 1
    assert "# ack N stands for line N of 1 that were written to stderr.\n" in found.script
    assert found.complaints == ("What was written last to stderr ends no line.",)
    plain = nandlab.strace_import(log_of(*calls), root="/r")
    assert plain.answer["acknowledgements"] == 0
    assert "ack" not in plain.script.partition("phase log")[2]
    assert not any(row["call"] == "write" for row in found.rows)


@pytest.mark.parametrize(
    ("ack", "calls", "reason"),
    [
        ("stdout", (DATA,), "--ack stdout: the log has nothing for descriptor 1"),
        ("7", (DATA,), "--ack 7: the log has nothing for descriptor 7"),
        ("/none", (DATA,), "--ack /none: the log has nothing for /none"),
        (
            "stdout",
            (r'write(1<pipe:[7]>, "one", 3) = 3',),
            "--ack stdout: the log has a text without a line break for descriptor 1",
        ),
        (
            "stdout",
            (r'write(1<pipe:[7]>, "a long line"..., 99) = 99',),
            "log:2: write: --ack stdout: the log cuts what was written",
        ),
        (
            "stdout",
            ("sendfile(1<pipe:[7]>, 3</r/a>, NULL, 100) = 9",),
            "log:2: sendfile: --ack stdout: no log holds what sendfile copies",
        ),
        (" ", (), "--ack: it names nothing"),
    ],
)
def test_what_tells_nothing_is_refused(ack: str, calls: tuple[str, ...], reason: str) -> None:
    with pytest.raises(NandlabError) as found:
        nandlab.strace_import(log_of(MAKE, *calls), root="/r", ack=ack)
    assert str(found.value).startswith(reason)
