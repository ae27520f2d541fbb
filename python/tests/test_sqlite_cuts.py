"""The page on SQLite's settings is current, and its sentences follow from its figures."""

import subprocess
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from script_modules import script_modules

from nandlab.labs.recipes import RECIPES
from nandlab.vm.programs import find_program

pytestmark = pytest.mark.usefixtures("engine_is_built")

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def script() -> Iterator[ModuleType]:
    with script_modules("sqlite_cuts") as (module,):
        yield module


def cut(acknowledged: int = 10, lost: int = 0, **changes: Any) -> dict[str, Any]:
    found = {"at": acknowledged, "acknowledged": acknowledged, "lost": lost, "older_lost": 0}
    found |= {"recovered": acknowledged - lost}
    found |= {"damaged": 0, "is_repaired": False, "refusals": ""}
    return found | changes


def record(**cuts: list[dict[str, Any]]) -> dict[str, Any]:
    """A record of settings on ext4, such as `wal_full`, each with the cuts given."""
    return {
        f"ext4-sqlite-{name.replace('_', '-')} by acknowledgements": {"cuts": rows}
        for name, rows in cuts.items()
    }


def told(script: ModuleType, found: dict[str, Any]) -> list[str]:
    return list(script.findings(found, "acknowledgements"))


def test_the_page_is_current(script: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    assert script.write_or_check(*arguments(script)) == 0, "docs/sqlite-cuts.md is old: make docs"
    whole = script.recorded()
    key = next(iter(whole))
    whole[key]["cuts"][0]["lost"] += 1
    monkeypatch.setattr(script, "recorded", lambda: whole)
    assert script.write_or_check(*arguments(script)) == 1


def arguments(script: ModuleType) -> tuple[Any, ...]:
    return script.PAGE, lambda: script.page(script.recorded()), "", ["--check"]


def test_the_record_has_every_setting_once(script: ModuleType) -> None:
    """Its conditions are the same throughout, so that rows can be compared."""
    known = [one.key for one in script.settings()]
    assert len(known) == len(set(known)) == 4 * 7
    whole = script.recorded()
    assert set(whole) <= set(known)
    for key in ("device", "capacity", "kernel", "seed", "items", "programs", "precondition"):
        assert len({str(one[key]) for one in whole.values()}) == 1, key
    for name, one in whole.items():
        assert name == f"{one['recipe']} by {one['by']}"
        assert one["totals"]["cuts"] == len(one["cuts"])


def test_what_must_be_durable_is_and_the_control_is_not(script: ModuleType) -> None:
    groups: dict[str, list[dict[str, int]]] = {}
    for setting in script.settings():
        if setting.key in script.recorded():
            name = f"{setting.journal_mode}-{setting.synchronous}"
            groups.setdefault(name, []).append(script.summary(script.recorded()[setting.key]))
    for name in ("delete-extra", "wal-full"):
        assert all(one["lost"] == one["refused"] == 0 for one in groups[name]), name
    for name in ("delete-off", "wal-off", "wal-normal"):
        assert sum(one["lost"] for one in groups[name]) > 0, name


def test_sentences_say_what_the_figures_say(script: ModuleType) -> None:
    assert told(script, {}) == []
    assert told(script, record(wal_full=[cut()])) == [
        "**Nothing lost** in 1 cut: `wal` with `full`."
    ]
    both = record(delete_extra=[cut(), cut()], wal_full=[cut()])
    assert told(script, both) == [
        "**Nothing lost** in 3 cuts: `delete` with `extra` and `wal` with `full`."
    ]
    assert told(script, record(delete_full=[cut(lost=1), cut()])) == [
        "**`delete` with `full`**: lost 1 acknowledged transaction in 1 of 2 cuts, never more than "
        "one; only the newest were lost."
    ]
    assert told(script, record(wal_off=[cut(lost=4, older_lost=1), cut(lost=4)])) == [
        "**`wal` with `off`**: lost 8 acknowledged transactions in 2 of 2 cuts, at most 4 in one."
    ]
    assert told(script, record(wal_off=[cut(lost=10)])) == [
        "**`wal` with `off`**: lost 10 acknowledged transactions in 1 of 1 cut, at most 10 in one; "
        "nothing was left."
    ]
    assert told(script, record(delete_off=[cut(refusals="integrity")])) == [
        "**`delete` with `off`**: integrity failed in 1 of 1 cut."
    ]
    assert script.findings(record(wal_full=[cut()]), "programs") == []
    # Damage alone is an integrity failure too.
    assert "integrity failed in 1" in told(script, record(delete_off=[cut(damaged=2)]))[0]


def test_a_row_has_the_sums_and_the_interval(script: ModuleType) -> None:
    (setting,) = (
        one for one in script.settings() if one.key == "ext4-sqlite-wal-off by acknowledgements"
    )
    text = script.table([(setting, {"cuts": [cut(lost=3, is_repaired=True)] * 2 + [cut()] * 2})])
    assert text.splitlines()[-1] == (
        "| ext4 | `wal` | `off` | 4 | 40 | 6 | 2: 50% (15% to 85%) | 3 | 0 | 0 | 2 |"
    )
    assert script.share(1, 2) == "1 of 2"


SHELL = find_program("busybox")
needs_sqlite = pytest.mark.skipif(
    SHELL is None or find_program("sqlite3") is None, reason="no sqlite3 (make system-packages)"
)


@needs_sqlite
def test_the_check_finds_what_is_missing_damaged_or_unreadable(tmp_path: Path) -> None:
    """The scripts of the guest, on a file of this machine."""
    workload = RECIPES["ext4-sqlite-delete-full"].workload
    for path, text in workload.texts.items():
        (tmp_path / Path(path).name).write_text(text, encoding="utf-8")
    database = tmp_path / "rows.db"

    def ran(text: str) -> list[str]:
        local = text.replace("/nandlab/", "./").replace("/tmp/", "./")
        command = [str(SHELL), "sh", "-c", local]
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
        told = [line for line in done.stdout.splitlines() if line]
        return [line for line in told if line.split()[0] in ("ack", "kept", "damaged", "refused")]

    write, check = workload.write(3, "."), workload.check(3, ".")
    assert ran(check) == []
    acknowledged = ran(write)
    assert (acknowledged[0], acknowledged[-1]) == ("ack 3 1", f"ack 3 {workload.items}")
    assert ran(check) == [f"kept 3 1 {workload.items}"]
    changes = "DELETE FROM rows WHERE id = 7; UPDATE rows SET value = 1 WHERE id = 9"
    ran(f"sqlite3 rows.db '{changes}'")
    assert ran(check) == ["kept 3 1 6", "kept 3 8 8", "kept 3 10 100", "damaged 3 9"]
    pages = bytearray(database.read_bytes())
    pages[2 * 4096 : 4 * 4096] = bytes(8192)
    database.write_bytes(pages)
    assert "refused 3 integrity" in ran(check)
    database.write_bytes(b"x" * 9000)
    assert ran(check) == ["refused 3 integrity", "refused 3 unreadable"]
