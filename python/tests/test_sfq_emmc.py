"""Verdict and sections of sfq-emmc on made-up rows whose answers are known."""

from pathlib import Path
from typing import Any

import pytest

from nandlab.report.sfq_emmc_sections import sections
from nandlab.results.reference import read_reference
from nandlab.results.study_result import StudyResult
from nandlab.verdicts import judge
from nandlab.verdicts.sfq_emmc import share_of_effect
from nandlab.verdicts.sfq_emmc_view import METRICS, Load, Pair, View

REFERENCE = Path(__file__).resolve().parents[2] / "studies" / "sfq-emmc.reference.csv"
AXES = ["device", "region", "mechanism", "thinktime_ms", "writers", "request_kib", "scheduler"]
EMMC = "emmc-4.5-64gb"
SIZES = ("4", "64")

# What SFQ changes; without idling the longest read is nearly the same under both.
CHANGES = {
    "read_latency_mean": 0.99,
    "read_latency_max": 0.22,
    "write_latency_mean": 0.97,
    "write_latency_max": 0.68,
}


def rows(mechanism: str, **changes: float) -> list[list[Any]]:
    found: list[list[Any]] = []
    for size in SIZES:
        for repeat in range(3):
            for scheduler in ("cfq-3.4", "sfq", "row"):
                place = [EMMC, "free", mechanism, "0", "direct", size, scheduler, repeat]
                for metric, usual in CHANGES.items():
                    ratio = changes.get(metric, usual) if scheduler == "sfq" else 1.0
                    ratio = 0.5 if scheduler == "row" else ratio
                    value = 1e6 * int(size) * ratio * (1 + 0.001 * repeat)
                    found.append([*place, f"{metric}_ns", value, "ns"])
                found.append([*place, "jain_index", 0.9 if scheduler == "sfq" else 0.5, "ratio"])
                found.append([*place, "throughput_bytes_per_s", 1e7, "bytes/s"])
                found.append([*place, "read_longest_bio_ns", 5e9, "ns"])
                found.append([*place, "read_longest_bio_overtaken", 321.0, "requests"])
                for kind in ("reads", "writes", "cleaning", "idling"):
                    found.append([*place, f"read_longest_bio_behind_{kind}_ns", 1e9, "ns"])
                    found.append([*place, f"read_behind_{kind}_mean_ns", 1e6, "ns"])
    return found


@pytest.fixture
def result() -> StudyResult:
    return StudyResult.from_engine(
        {
            "study": {"name": "sfq-emmc", "title": "made up", "seed": 1},
            "columns": AXES,
            "rows": rows("all") + rows("no-idling", read_latency_max=0.95) + rows("no-cache"),
            "results_digest": "cd" * 32,
            "tables": [],
        },
        read_reference(REFERENCE),
    )


def test_changes_are_those_that_were_put_in(result: StudyResult) -> None:
    view = View(result)
    assert view.loads() == [Load()]
    for metric, ratio in CHANGES.items():
        for found in (
            view.change(metric, Pair()),
            view.pooled_change(metric, Pair()),
            view.change_at(metric, Pair(), "64"),
        ):
            assert found is not None
            assert found.value == pytest.approx(ratio - 1)
            assert found.low == pytest.approx(found.high)


def test_the_mechanism_that_takes_the_effect_with_it_is_named(result: StudyResult) -> None:
    view = View(result)
    share = share_of_effect(view, "read_latency_max", "no-idling", Load())
    assert share is not None
    assert share > 0.9
    assert share_of_effect(view, "read_latency_max", "no-cache", Load()) == pytest.approx(0.0)
    sentences = " ".join(judge(result).sentences)
    assert "idling makes most of the difference" in sentences
    assert "overtaken by at least 321 requests" in sentences


def test_claims_follow_the_rows(result: StudyResult) -> None:
    verdict = judge(result)
    holds = {claim.identifier: claim.evaluations[0].holds for claim in verdict.claims}
    assert all(holds[f"{metric.replace('_', '-')}-amount"] for metric in METRICS)
    assert holds["read-latency-max-falls"]
    assert holds["row-mean-falls"]
    assert not holds["row-max-stays"]
    assert "78 % shorter" in verdict.headline


def test_every_section_that_can_be_filled_is_there(result: StudyResult) -> None:
    found = {section.identifier for section in sections(result, judge(result), [])}
    assert {"published", "claims", "mechanisms", "waits", "schedulers", "unexplained"} <= found


def test_without_the_pair_there_is_no_verdict(result: StudyResult) -> None:
    lone = StudyResult.from_engine(
        {
            "study": {"name": "sfq-emmc", "seed": 1},
            "columns": AXES,
            "rows": [row for row in rows("all") if row[6] == "row"],
            "results_digest": "cd" * 32,
        }
    )
    assert judge(lone).headline.startswith("No verdict")
    assert sections(lone, judge(lone), []) == []
