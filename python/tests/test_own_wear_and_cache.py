"""Wear levelling and cache admission in Python: examples, checks, wrong ones, seeds."""

import json
from pathlib import Path
from typing import Any

import pytest
from own_policies import changed, copy_examples, run_study

import nandlab as nl
from nandlab.api.device_replay import DeviceReplay
from nandlab.cli import main
from nandlab.errors import NandlabError

pytestmark = pytest.mark.usefixtures("engine_is_built")

ROOT = Path(__file__).parents[2]
TRACE = ROOT / "traces" / "small" / "fat-mp3-1.parquet"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the examples, which commands name as they lie in it."""
    copy_examples(tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def counts(found: nl.PolicyCheck) -> dict[str, Any]:
    return {row["what"]: row["count"] for row in found.rows}


def test_the_examples_pass_their_checks(here: Path) -> None:
    wear = nl.check("my_wear.py:MyWear", sequences=60)
    assert wear.is_clean, wear.answer
    assert counts(wear)["blocks moved to level wear"] > 10
    assert counts(wear)["power cuts"] > 200
    admission = nl.check("my_admission.py:MyAdmission", sequences=30)
    assert admission.is_clean, admission.answer
    assert 0 < counts(admission)["writes"] - counts(admission)["writes admitted"] < 500


@pytest.mark.parametrize(
    ("example", "old", "new", "said"),
    [
        ("my_wear.py", "int(view.free[view.free_erase_counts.argmin()])", "10_000", "is not free"),
        ("my_wear.py", "int(view.free[view.free_erase_counts.argmin()])", "None", "no number"),
        ("my_wear.py", "int(view.used[coldest]), int", "int(view.free[0]), int", "view.used"),
        ("my_wear.py", ", int(view.free[worn])", ", int(view.used[coldest])", "view.free"),
        ("my_wear.py", "return None", "return 7", "level returned `7`"),
        (
            "my_wear.py",
            "int(view.free[view.free_erase_counts.argmin()])",
            "int(view.free[id(view) // 16 % len(view.free)])",
            "the second time",
        ),
        ("my_wear.py", "apart <=", "apart_ <=", "(line 16 of "),
        ("my_admission.py", "return not (", "not (", "admits returned `None`"),
        (
            "my_admission.py",
            "return not (",
            "MyAdmission.asked = getattr(MyAdmission, 'asked', 0) + 1\n"
            "        return MyAdmission.asked % 3 > 0 and not (",
            "the second time",
        ),
    ],
)
def test_wrong_ones_are_found(here: Path, example: str, old: str, new: str, said: str) -> None:
    policy = changed(here, example, old, new)
    found = nl.check(policy, sequences=60)
    assert not found.is_clean
    assert said in found.answer["broke"]


def test_what_cannot_be_registered_is_told(here: Path) -> None:
    never = "    interval_erases = 0\n\n    def allocate"
    with pytest.raises(NandlabError, match="interval_erases is `0`"):
        nl.check(changed(here, "my_wear.py", "    def allocate", never))
    with pytest.raises(NandlabError, match="the class has no allocate"):
        nl.check(changed(here, "my_wear.py", "def allocate", "def allot"))


def test_it_levels_in_a_study(here: Path) -> None:
    ways = '["none", "static", "my_wear.py:MyWear"]'
    axes = f'ftl = ["page"]\nwear_leveling = {ways}\nwear_threshold = [4]'
    found = run_study(here, axes, writes=20, out=here / "out").frame
    rows = found.filter(found["metric"] == "erase_count_stddev").select("wear_leveling", "value")
    spread = dict(rows.iter_rows())
    assert spread["my_wear.py:MyWear"] < spread["none"] / 2
    assert spread["my_wear.py:MyWear"] == pytest.approx(spread["static"], rel=0.3)
    manifest = json.loads((here / "out" / "manifest.json").read_text(encoding="utf-8"))
    assert [one["name"] for one in manifest["inputs"]] == ["my_wear.py:MyWear"]


def test_it_levels_under_a_layer_in_python(here: Path) -> None:
    def run(policy: str) -> nl.Run:
        return run_study(here, f'ftl = ["my_layer.py:MyLayer"]\nwear_leveling = ["{policy}"]')

    assert run("my_wear.py:MyWear").digest != run("none").digest
    wrong = changed(here, "my_wear.py", "int(view.free[view.free_erase_counts.argmin()])", "9_999")
    # What the policy broke is told, and not what the layer above it made of the exception.
    with pytest.raises(NandlabError, match=r"wrong\.py:MyWear: allocate returned block 9999"):
        run(wrong)


def admitted(**options: Any) -> DeviceReplay:
    device = options.pop("device", "emmc-5.1-64gb")
    found = nl.replay(TRACE, device=device, precondition="none", **options)
    assert isinstance(found, DeviceReplay)
    return found


def test_admission_works_in_a_replay(here: Path) -> None:
    name = "my_admission.py:MyAdmission"
    usual = admitted()
    assert admitted(settings={"cache.admission": "all"}).rows == usual.rows
    own = admitted(settings={"cache.admission": name})
    assert own.rows != usual.rows
    never = changed(here, "my_admission.py", "return not (", "return False and not (")
    past = admitted(settings={"cache.admission": never})
    without = admitted(settings={"cache.bytes": 0})
    mean = [float(one.latencies["mean_ns"].max()) for one in (past, without)]
    assert mean[0] == pytest.approx(mean[1], rel=0.05), "a cache that admits nothing is none"


def test_a_device_file_names_a_policy(here: Path) -> None:
    text = (ROOT / "devices" / "emmc-5.1-64gb.toml").read_text(encoding="utf-8")
    name = "my_admission.py:MyAdmission"
    (here / "mine.toml").write_text(
        text.replace("[cache]\n", f'[cache]\nadmission = "{name}"\n'), encoding="utf-8"
    )
    own = admitted(device="mine.toml")
    assert own.latencies.equals(admitted(settings={"cache.admission": name}).latencies)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"cache.admission": "most"}, "must be `all`, or a policy of your own"),
        ({"cache.admission": "my_wear.py:MyWear"}, "must be `all`, or a policy of your own"),
        ({"cache.admission": "all", "cache.bytes": 0}, "needs cache.bytes above 0"),
    ],
)
def test_what_admission_cannot_be_is_refused(
    here: Path, settings: dict[str, Any], said: str
) -> None:
    with pytest.raises(NandlabError, match=said):
        admitted(settings=settings)


def test_a_policy_draws_by_the_seed_of_the_study(here: Path) -> None:
    notes = here / "drawn"

    def draws(example: str, class_name: str, axes: str, seed: int) -> str:
        made = (
            f"\n\nclass Drawing({class_name}):\n"
            "    def __init__(self, *given):\n"
            "        super().__init__(*given)\n"
            f"        with open({str(notes)!r}, 'a') as file:\n"
            "            file.write(f'{self.random.below(1_000_000)} ')\n"
        )
        text = (here / example).read_text(encoding="utf-8")
        (here / "draws.py").write_text(text + made, encoding="utf-8")
        notes.write_text("", encoding="utf-8")
        run_study(here, axes, seed=seed, writes=1)
        return notes.read_text(encoding="utf-8")

    for example, class_name, axes in [
        ("my_layer.py", "MyLayer", 'ftl = ["draws.py:Drawing"]'),
        ("my_wear.py", "MyWear", 'ftl = ["page"]\nwear_leveling = ["draws.py:Drawing"]'),
        ("my_greedy.py", "MyGreedy", 'ftl = ["page"]\ncleaning = ["draws.py:Drawing"]'),
    ]:
        first, again, other = (draws(example, class_name, axes, seed) for seed in (3, 3, 4))
        assert first == again != other, example
        assert first.strip(), "it was made"


def test_a_scheduler_draws_by_the_seed_of_a_replay(here: Path) -> None:
    text = (here / "my_noop.py").read_text(encoding="utf-8")
    text = text.replace(
        "        self.waiting: list[IoRequest] = []\n",
        "        self.waiting: list[IoRequest] = []\n"
        "        with open('drawn', 'a') as file:\n"
        "            file.write(f'{self.random.below(1_000_000)} ')\n",
    )
    (here / "drawing.py").write_text(text, encoding="utf-8")
    for seed in (1, 2, 2):
        admitted(scheduler="drawing.py:MyNoop", seed=seed)
    first, second, again = (here / "drawn").read_text(encoding="utf-8").split()
    assert first != second == again


def test_check_prints_what_a_way_of_wear_levelling_kept(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check", "my_wear.py:MyWear", "--sequences", "5"]) == 0
    assert "blocks moved to level wear" in capsys.readouterr().out
