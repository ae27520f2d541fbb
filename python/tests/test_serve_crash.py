"""`nandlab serve-crash` without a machine: scripts, cut points, what a console tells, sentences."""

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import nandlab as nl
from nandlab.api.served_cuts import cuts_answer, ranges
from nandlab.cli import main
from nandlab.cli.served_cuts import sentences
from nandlab.labs import cuts
from nandlab.labs.found import Cut, CutFound, Written, read_console, stopped, unmade
from nandlab.labs.points import drawn_points, given_points
from nandlab.labs.recipes import RECIPES, disk_name
from nandlab.labs.sqlite import TRANSACTIONS
from nandlab.vm import VmRunError

pytestmark = pytest.mark.usefixtures("engine_is_built")

RECOVERY = {"reads": 9, "changes": 0, "ready_ns": 1}


def written(acknowledged: int = 5, *, is_ready: bool = True) -> Written:
    return Written(Cut("acknowledgements", 5), is_ready, acknowledged, 1, 8, RECOVERY)


def told(console: str, acknowledged: int = 5) -> CutFound:
    (found,) = read_console({1: written(acknowledged)}, console).values()
    return found


def answer_of(*found: CutFound) -> dict[str, Any]:
    conditions = {"recipe": "ext4-files", "item": "file", "device": "d", "kernel": "6.1"}
    answer = cuts_answer(conditions | {"by": "acknowledgements"}, found)
    return dict(answer.answer)


SOUND = told("kept 1 1 5\nchecked 1\n")
LOST_ONE = told("kept 1 1 4\nchecked 1\n")
LOST_OLDER = told("kept 1 1 2\nkept 1 4 4\nchecked 1\n")
REPAIRED = told("kept 1 1 6\nrepaired 1\nchecked 1\n")
DAMAGED = told("kept 1 1 4\ndamaged 1 5\nchecked 1\n")
REFUSED = told("refused 1 mount\nrefused 1 checker\nchecked 1\n")


def test_a_console_tells_what_is_there() -> None:
    assert (SOUND.recovered, SOUND.lost, SOUND.is_sound) == (5, (), True)
    assert (LOST_ONE.lost, LOST_ONE.lost_before_kept, LOST_ONE.is_sound) == ((5,), 0, False)
    assert (LOST_OLDER.lost, LOST_OLDER.lost_before_kept) == ((3, 5), 1)
    # Item 6 was on its way: it may be there.
    assert (REPAIRED.recovered, REPAIRED.is_repaired, REPAIRED.is_sound) == (6, True, True)
    assert (DAMAGED.damaged, DAMAGED.lost, DAMAGED.is_sound) == ((5,), (), False)


def test_what_is_not_proven_to_be_there_is_lost() -> None:
    assert REFUSED.refusals == ("mount", "checker")
    assert REFUSED.lost == (1, 2, 3, 4, 5)
    assert not told("refused 1 integrity\nchecked 1\n", 0).is_sound
    late = stopped(written())
    assert (late.lost, late.refusals, late.is_sound) == (
        (1, 2, 3, 4, 5),
        ("machine stopped",),
        False,
    )
    assert unmade(written(0, is_ready=False)).is_sound


def test_only_disks_that_were_checked_to_the_end_are_found() -> None:
    both = {1: written(), 2: written(1)}
    console = "kept 1 1 5\r\nchecked 1\nkept 2 1 1\n".replace("\r", "")
    assert read_console(both, console).keys() == {1}
    # Lines of another disk are none of this one, and the kernel's are none at all.
    found = read_console(both, "kept 1 1 5\nchecked 2\n[1.0] checked 1 no\n")
    assert (found.keys(), found[2].lost) == ({2}, (1,))


@pytest.mark.parametrize(
    ("numbers", "text"),
    [((), ""), ((7,), "7"), ((1, 2, 3), "1-3"), ((1, 3, 4, 9), "1 3-4 9")],
)
def test_numbers_are_told_in_ranges(numbers: Sequence[int], text: str) -> None:
    assert ranges(numbers) == text


def test_sentences_say_what_happened_and_nothing_else() -> None:
    assert sentences(answer_of()) == ["No cut was made."]
    assert sentences(answer_of(SOUND)) == [
        "1 cut, 5 files acknowledged.",
        "Nothing that was acknowledged is lost.",
    ]
    one = told("kept 1 1 1\nchecked 1\n", 1)
    assert sentences(answer_of(one))[0] == "1 cut, 1 file acknowledged."
    assert sentences(answer_of(told("checked 1\n", 0))) == ["1 cut, 0 files acknowledged."]
    assert sentences(answer_of(LOST_ONE, SOUND)) == [
        "2 cuts, 10 files acknowledged.",
        "1 acknowledged file lost, in 1 cut.",
        "Only the newest are lost: nothing older than what was kept.",
    ]
    assert sentences(answer_of(LOST_OLDER, LOST_OLDER))[1:] == [
        "4 acknowledged files lost, in 2 cuts.",
        "2 of them are older than one that was kept.",
    ]
    assert sentences(answer_of(told("checked 1\n")))[1:] == [
        "5 acknowledged files lost, in 1 cut.",
        "Nothing is left.",
    ]
    assert sentences(answer_of(LOST_OLDER))[2] == "1 of them is older than one that was kept."
    assert sentences(answer_of(REPAIRED))[1:] == [
        "Nothing that was acknowledged is lost.",
        "The checker had something to repair after 1 cut.",
    ]
    assert sentences(answer_of(DAMAGED, REFUSED))[3:] == [
        "1 file damaged.",
        "A mount or a check failed after 1 cut.",
    ]
    early = unmade(written(0, is_ready=False))
    assert sentences(answer_of(early, early))[1:] == [
        "2 cuts came before the file system was mounted, and promised nothing."
    ]


def test_cut_points_come_from_the_seed() -> None:
    few = drawn_points(5, "acknowledgements", 1, 40, 7)
    assert drawn_points(9, "acknowledgements", 1, 40, 7)[:5] == few
    assert drawn_points(5, "acknowledgements", 1, 40, 8) != few
    many = [one.at for one in drawn_points(500, "programs", 11, 13, 1)]
    assert set(many) == {11, 12, 13}
    assert given_points(["5", "1, 40"], "acknowledgements", 40) == [
        Cut("acknowledgements", at) for at in (5, 1, 40)
    ]
    assert given_points(["4000"], "programs", 40) == [Cut("programs", 4000)]


def test_every_recipe_has_a_script_of_the_shell() -> None:
    assert list(RECIPES) == sorted(RECIPES)
    for recipe in RECIPES.values():
        for script in (recipe.write_script([1, 2]), recipe.check_script([2])):
            subprocess.run(["sh", "-n"], input=script, text=True, check=True)
            assert "/dev/vdb" in script
            assert "{" not in script.replace("() {", "").replace("{ ", ""), script
    assert (disk_name(1), disk_name(26)) == ("/dev/vda", "/dev/vdz")


def test_sqlite_is_told_what_the_recipe_is_called() -> None:
    texts = {
        name: "".join(recipe.workload.texts.values())
        for name, recipe in RECIPES.items()
        if "sqlite" in name
    }
    assert len(texts) == 4 * 2 * 4
    for name, text in texts.items():
        *_, mode, level = name.split("-")
        assert f"PRAGMA journal_mode = {mode};" in text
        assert text.rindex(f"PRAGMA synchronous = {level};") < text.index("INSERT")
        assert text.count("INSERT") == text.count(".print ack @ ") == TRANSACTIONS
        # The acknowledgement stands behind the transaction.
        assert text.index("INSERT INTO rows VALUES (1,") < text.index(".print ack @ 1\n")


class Machine:
    """Stands for the machines: each batch leaves what it is told to."""

    def __init__(self, *batches: Sequence[CutFound] | BaseException) -> None:
        self.batches = list(batches)

    def __call__(self, bench: Any, points: Sequence[Cut], told: Any) -> Any:
        batch = self.batches.pop(0)
        if isinstance(batch, BaseException):
            raise batch
        told("write", len(points))
        return list(batch), {"write": "w", "check": "c"}


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Any:
    def made(*batches: Sequence[CutFound] | BaseException) -> None:
        monkeypatch.setattr(cuts, "cut_batch", Machine(*batches))
        monkeypatch.setattr(
            "nandlab.api.served_cuts._find", lambda *_: SimpleNamespace(release="r")
        )
        monkeypatch.setattr("nandlab.api.served_cuts._versions", lambda _: {})

    return made


def test_the_table_and_the_exit_status(
    machine: Any, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    machine([SOUND, REPAIRED])
    assert main(["serve-crash", "ext4-files", "--at", "5,6"]) == 0
    shown = capsys.readouterr()
    assert "at ack" in shown.out
    assert "Nothing that was acknowledged is lost." in shown.out
    assert shown.err == ""
    for one in (LOST_ONE, DAMAGED, REFUSED):
        machine([one])
        assert main(["serve-crash", "ext4-files", "--at", "5"]) == 1
    machine([LOST_ONE])
    words = ["serve-crash", "ext4-files", "--at", "5", "--json", "--out", str(tmp_path / "out")]
    assert main(words) == 1
    capsys.readouterr()
    kept = json.loads((tmp_path / "out/cuts.json").read_text(encoding="utf-8"))
    assert kept["cuts"][0]["lost_items"] == "5"
    assert kept["totals"]["lost"] == 1
    assert (tmp_path / "out/check-1.txt").read_text(encoding="utf-8") == "c"
    assert len((tmp_path / "out/cuts.csv").read_text(encoding="utf-8").splitlines()) == 2


def test_an_interruption_and_a_failure_keep_the_finished_cuts(machine: Any, tmp_path: Path) -> None:
    places = [str(number) for number in range(1, 31)]
    machine([SOUND] * 20, KeyboardInterrupt())
    with pytest.raises(nl.Interrupted, match="20 of 30 cuts were made") as interrupted:
        nl.serve_crash("ext4-files", at=places, out=tmp_path)
    assert isinstance(interrupted.value.result, nl.ServeCrash)
    assert interrupted.value.result.cuts.height == 20
    assert (tmp_path / "cuts.csv").is_file()
    machine([SOUND] * 20, cuts.InterruptedBatch([LOST_ONE]))
    with pytest.raises(nl.Interrupted, match="21 of 30 cuts were made"):
        nl.serve_crash("ext4-files", at=places)
    machine([SOUND] * 20, VmRunError("the guest failed before the power did", "last line"))
    with pytest.raises(nl.NandlabError, match="failed before the power") as failed:
        nl.serve_crash("ext4-files", at=places)
    assert isinstance(failed.value.result, nl.ServeCrash)


class Served:
    """A device at a socket file that is not there."""

    addresses = ("unix:none",)

    def __init__(self) -> None:
        self.is_on = True

    def __enter__(self) -> "Served":
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def status(self) -> dict[str, Any]:
        outage = {"torn_operations": 1, "lost_cached_sectors": 8}
        return {"is_on": self.is_on, "outage": None if self.is_on else outage}

    def cut(self) -> None:
        self.is_on = False

    def restore(self) -> dict[str, Any]:
        return dict(RECOVERY)


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A bench whose machines print what they are told to, one after the other."""

    def made(*consoles: str | BaseException) -> tuple[cuts.Bench, list[str]]:
        left, scripts = list(consoles), []

        def run(self: Any, script: str, devices: Any, folder: Any, watch: Any = None) -> Any:
            scripts.append(script)
            console = left.pop(0)
            text = console.console if isinstance(console, VmRunError) else str(console)
            for line in text.splitlines():
                if line == "Ctrl-C":
                    raise KeyboardInterrupt
                watch(line)
            if isinstance(console, BaseException):
                raise console
            return SimpleNamespace(console=text)

        monkeypatch.setattr(cuts.Bench, "run", run)
        monkeypatch.setattr(cuts.Bench, "serve", lambda *_, **__: Served())
        return cuts.Bench(RECIPES["ext4-files"], Any, "card"), scripts

    return made


WRITE = "ready 1\nack 1 1\nack 1 2\nack 1 3\nend 1\nready 2\nack 2 1\nend 2\n"
TWO = [Cut("acknowledgements", 2), Cut("acknowledgements", 9)]


def test_what_is_said_after_the_power_failed_does_not_count(bench: Any) -> None:
    whole, scripts = bench(WRITE, "kept 1 1 2\nchecked 1\nkept 2 1 1\nchecked 2\n")
    found, consoles = cuts.cut_batch(whole, TWO)
    # The second disk never came to its cut, so its power fails after the unmount.
    assert [one.written.acknowledged for one in found] == [2, 1]
    assert all(one.is_sound for one in found)
    assert (len(scripts), consoles["write"]) == (2, WRITE)


def test_a_machine_that_stops_in_a_disk_leaves_the_others_to_another(bench: Any) -> None:
    dies = VmRunError("stopped", "checking 1\nrefused 1 integrity\n")
    whole, scripts = bench(WRITE, dies, "kept 2 1 1\nchecked 2\n")
    (first, second), _ = cuts.cut_batch(whole, TWO)
    assert (first.refusals, first.lost) == (("machine stopped",), (1, 2))
    assert second.is_sound
    assert "disk_1" in scripts[1]
    assert "disk_1" not in scripts[2]


def test_a_file_that_was_on_its_way_is_not_damaged(bench: Any) -> None:
    """The first disk acknowledged two items: of the third one nothing was promised."""
    checked = "kept 1 1 2\ndamaged 1 3\nchecked 1\ndamaged 2 1\nchecked 2\n"
    whole, _ = bench(WRITE, checked)
    (first, second), _ = cuts.cut_batch(whole, TWO)
    assert (first.written.acknowledged, first.damaged, first.is_sound) == (2, (), True)
    assert (second.damaged, second.lost, second.is_sound) == ((1,), (), False)


def test_a_machine_that_never_comes_to_a_disk_says_nothing_of_it(bench: Any) -> None:
    whole, _ = bench(WRITE, VmRunError("no boot", "checking\n"))
    with pytest.raises(VmRunError, match="no boot"):
        cuts.cut_batch(whole, TWO)


def test_ctrl_c_keeps_the_disks_that_were_checked(bench: Any) -> None:
    whole, _ = bench(WRITE, "kept 1 1 1\nchecked 1\nkept 2 1 1\nCtrl-C\n")
    with pytest.raises(cuts.InterruptedBatch) as stopped_at:
        cuts.cut_batch(whole, TWO)
    assert [one.lost for one in stopped_at.value.found] == [(2,)]


def test_a_guest_that_fails_with_the_power_on_is_an_error(bench: Any) -> None:
    whole, _ = bench("ready 1\nack 1 1\n")
    with pytest.raises(VmRunError, match="before the power did"):
        cuts.cut_batch(whole, TWO[1:])


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["ext4-file"], "did you mean ext4-files?"),
        (["ext4-files", "--at", "41"], "must be at most 40"),
        (["ext4-files", "--at", "0"], "--at: 0 must be at least 1"),
        (["ext4-files", "--at", "five"], "--at: 'five' is not a number"),
        (["ext4-files", "--at", "5", "--cuts", "1"], "give only one of the two"),
        (["ext4-files", "--cuts", "0"], "--cuts: 0 must be at least 1"),
        (["ext4-files", "--cuts", "10001"], "must be at most 10000"),
        (["ext4-files", "--kernel", "2.6"], "6.12"),
        (["ext4-files", "--by", "flushes"], "programs"),
    ],
)
def test_bad_input_is_refused_before_anything_boots(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["serve-crash", *words]) == 2
    assert message in " ".join(capsys.readouterr().err.split())


def test_what_is_missing_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("nandlab.vm.programs.shutil.which", lambda *_, **__: None)
    assert main(["serve-crash", "ext4-sqlite-wal-full"]) == 2
    shown = capsys.readouterr().err
    assert "qemu-system-x86_64" in shown
    assert "sqlite3" in shown
    assert "apt-get install" in shown
