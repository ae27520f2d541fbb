"""Claims and reports about schedulers, on made-up rows whose answers are known."""

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
from made_up import run_of
from test_claims import FOLDERS

from nandlab.claims import load_claims
from nandlab.errors import NandlabError
from nandlab.frame.reference import read_reference
from nandlab.present import Presented, present
from nandlab.present.page import render
from nandlab.present.spec import load_report
from nandlab.present.tables import published_beside

REFERENCE = FOLDERS["sfq-emmc"] / "reference.csv"
KERNEL = ("kernel", "device", "writers", "request_kib", "scheduler")
CARD = ("device", "region", "mechanism", "thinktime_ms", "writers", "request_kib", "scheduler")

# What SFQ changes: the four published changes.
PUBLISHED = {
    "read_latency_mean_ns": 0.99,
    "read_latency_max_ns": 0.22,
    "write_latency_mean_ns": 0.97,
    "write_latency_max_ns": 0.68,
}
OTHERS = {"jain_index": 1.5, "throughput_bytes_per_s": 1.0, "processor_ns_per_request": 0.8}


def rows(
    place: Sequence[Any], schedulers: Sequence[str], changes: Mapping[str, float]
) -> list[list[Any]]:
    """Three repeats at two sizes; `changes` are those of SFQ, all others are alike."""
    found = []
    for size in (4, 64):
        for scheduler in schedulers:
            for repeat in range(3):
                at = [*place, size, scheduler, repeat]
                for metric, ratio in {**PUBLISHED, **OTHERS, **changes}.items():
                    value = 1e6 * size * (1 + 0.001 * repeat)
                    value *= ratio if scheduler == "sfq" else 1.0
                    found.append([*at, metric, value, "ns" if metric.endswith("_ns") else "ratio"])
    return found


def shown(
    study: str, axes: Sequence[str], made_up: list[list[Any]], **study_keys: Any
) -> Presented:
    answer = {
        "study": {"name": study, "title": "made up", "seed": 1, "repeats": 3, **study_keys},
        "columns": list(axes),
        "rows": made_up,
        "results_digest": "cd" * 32,
        "tables": [
            {
                "name": "latencies",
                "csv": "device,scheduler,request_kib,direction,from_ns,to_ns,count\n"
                "flash-card,bfq,64,read,1000000,1151999,5\nflash-card,sfq,64,read,4000000,4607999,1\n",
            }
        ],
    }
    return present(run_of(answer, read_reference(REFERENCE), FOLDERS[study]))


def statuses(found: Presented, reading: str) -> dict[str, str]:
    own = found.claims.filter(found.claims["reading"] == reading)
    return dict(zip(own["id"], own["status"], strict=True))


def kernel_rows(schedulers: Sequence[str], **changes: float) -> list[list[Any]]:
    return [
        row
        for device in ("null-blk", "flash-card")
        for row in rows(["6.12", device, "direct"], schedulers, changes)
    ]


def card_rows(mechanism: str, **changes: float) -> list[list[Any]]:
    place = ["emmc-4.5-64gb", "free", mechanism, 0, "direct"]
    return rows(place, ("cfq-3.4", "sfq", "row"), changes)


def test_a_card_that_does_what_is_published_supports_it() -> None:
    found = shown("sfq-emmc", CARD, card_rows("all") + card_rows("no-cleaning"))
    direct = statuses(found, "direct writers, no pause")
    for claim in ("read-latency-mean", "read-latency-max", "write-latency-max"):
        assert direct[f"{claim}-amount"] == "supported"
    assert direct["read-latency-max-falls"] == direct["write-latency-max-falls"] == "supported"
    assert direct["fairness"] == "supported"
    # ROW is as CFQ here, and cleaning takes nothing: equal ones never differ.
    assert direct["row-mean-falls"] == "contradicted"
    assert direct["row-max-stays"] == "supported"
    assert direct["cleaning-delays-reads"] == direct["cleaning-effect"] == "contradicted"
    assert set(statuses(found, "sync writers, no pause").values()) == {"not run"}
    assert found.headline.startswith("SFQ changes CFQ's longest read by -78 % and mean read by -1")
    assert len(found.headline.split()) <= 25


def test_a_card_that_does_nothing_contradicts_it() -> None:
    same = dict.fromkeys(PUBLISHED, 1.0)
    found = shown("sfq-emmc", CARD, card_rows("all", **same))
    direct = statuses(found, "direct writers, no pause")
    assert direct["read-latency-max-falls"] == direct["read-latency-max-amount"] == "contradicted"
    assert direct["read-latency-mean-amount"] == "supported"
    assert direct["cleaning-effect"] == "not run"
    assert found.headline.startswith(
        "SFQ measurably changes neither CFQ's longest read nor mean read."
    )


def test_changes_of_tables_and_figures_are_those_that_were_put_in() -> None:
    found = shown("sfq-emmc", CARD, card_rows("all"))
    loads = next(one for one in found.tables if one.identifier == "loads")
    assert loads.rows == (("0", "direct", "-1.0 %", "-78 %", "-3.0 %", "-32 %"),)
    assert found.first_chart is not None
    values = {(point["x"], point["series"]): point["value"] for point in found.first_chart.data}
    assert values[4, "direct"] == pytest.approx(-78)
    assert values[64, "published"] == pytest.approx(-78)


def test_a_published_cell_is_not_divided_by_itself() -> None:
    found = shown("sfq-emmc", CARD, card_rows("all"))
    spec = next(one for one in found.report.figures if one.identifier == "longest-read")
    published = {"metric": "read_latency_max", "column": "sfq_relative_to_cfq"}
    with pytest.raises(NandlabError, match="direct = true"):
        published_beside(found.run, replace(spec.column, published=published), {})


def test_figure_3_has_all_of_its_panels() -> None:
    """Reads and writes of six sizes, as distributions; the short form runs three of the sizes."""
    folder = FOLDERS["sfq-emmc"]
    study = tomllib.loads((folder / "study.toml").read_text(encoding="utf-8"))
    panels = {
        (one.column.quantity.select["direction"], one.column.quantity.select["request_kib"]): one
        for one in load_report(folder, load_claims(folder)).figures
        if one.table == "latencies"
    }
    sizes = study["axes"]["request_kib"]
    assert panels.keys() == {(way, size) for way in ("read", "write") for size in sizes}
    short = study["quick_form"]["axes"]["request_kib"]
    assert {size for (_, size), one in panels.items() if not one.full_only} == set(short)


def test_a_kernel_is_judged_disk_by_disk() -> None:
    made_up = kernel_rows(("none", "mq-deadline", "bfq", "sfq"), read_latency_mean_ns=1.5)
    found = shown("sfq-kernel", KERNEL, made_up)
    for device in ("flash-card", "null-blk"):
        own = statuses(found, device)
        assert own["read-latency-max-falls"] == own["read-latency-max-amount"] == "supported"
        assert own["read-latency-mean-amount"] == "contradicted"
        assert own["processor-less-than-bfq"] == "supported"
        assert own["processor-less-than-kyber"] == "not run"
    assert found.headline.startswith(
        "SFQ changes BFQ's longest read by -78 % and mean read by +50 %."
    )
    figures = {one.identifier for one in found.charts}
    assert {"longest-read", "mean-read", "schedulers", "processor", "distribution"} <= figures
    assert ("kernel", "6.12") in found.conditions
    page = render(found, "nandlab run sfq-kernel")
    assert "has no mapping" in page
    assert "supported" in page


@pytest.mark.parametrize("schedulers", [("none", "sfq"), ("bfq",), ("sfq",)])
def test_without_a_pair_nothing_is_judged(schedulers: Sequence[str]) -> None:
    found = shown("sfq-kernel", KERNEL, kernel_rows(schedulers))
    assert set(found.claims["status"]) == {"not run"}
    assert found.headline == "Of 10 claims 10 are not run."
    assert render(found, "nandlab run sfq-kernel")


def test_a_quick_form_of_a_kernel_is_not_judged() -> None:
    found = shown("sfq-kernel", KERNEL, kernel_rows(("bfq", "sfq")), quick=True)
    assert set(found.claims["status"]) == {"not judged"}
    assert all(one.get("low") is None for chart in found.charts for one in chart.data)


def test_a_headline_without_intervals_says_nothing_of_changes() -> None:
    found = shown("sfq-emmc", CARD, [row for row in card_rows("all") if row[7] == 0])
    assert found.headline.startswith("Of 11 claims")
