"""The verdict of ftl-windows, on the published table itself and on made-up results."""

import dataclasses

import pytest
from synthetic_results import REFERENCE, engine_answer

from nandlab.results import Measurements
from nandlab.results.reference import read_reference
from nandlab.results.study_result import StudyResult, Table
from nandlab.verdicts import judge
from nandlab.verdicts.model import Claim, Verdict
from nandlab.verdicts.published_claims import size_rating
from nandlab.verdicts.published_distances import nearest
from nandlab.verdicts.published_view import ERASE_UNITS, READ_UNITS, WRITE_UNITS


def _claim(verdict: Verdict, identifier: str) -> Claim:
    return next(claim for claim in verdict.claims if claim.identifier == identifier)


def _published_as_results(scale: float = 1.0) -> StudyResult:
    """A study that found exactly the published table, times `scale`."""
    reference = read_reference(REFERENCE)
    names = {
        "reads": "reads",
        "writes": "writes",
        "erases": "erases",
        "time_units": "weighted_time",
    }
    rows = [
        (
            row["ftl"],
            "fat",
            "mp3",
            "1",
            "default",
            0,
            f"{metric}_{row['statistic']}",
            row[column] * scale,
            "",
        )
        for row in reference.dicts()
        for column, metric in names.items()
    ]
    axes = ("ftl", "file_system", "file_set", "processes", "settings")
    return StudyResult(
        study={"name": "ftl-windows"},
        axes=axes,
        rows=Table.of((*axes, "repeat", "metric", "value", "unit"), rows),
        curves=Table.of(axes, []),
        results_digest="",
        reference=reference,
    )


def test_published_time_is_reads_and_7_writes_and_63_erases() -> None:
    for row in read_reference(REFERENCE).dicts():
        if row["statistic"] == "mean":
            time = (
                READ_UNITS * row["reads"]
                + WRITE_UNITS * row["writes"]
                + ERASE_UNITS * row["erases"]
            )
            assert abs(time - row["time_units"]) <= 36


def test_the_published_table_agrees_with_itself() -> None:
    verdict = judge(_published_as_results())
    for identifier in (
        "time-order",
        "time-spread-order",
        "read-order",
        "lexar-mitsubishi",
        "log-schemes-erase-less",
        "bast-above-fast",
    ):
        assert [one.holds for one in _claim(verdict, identifier).evaluations] == [True], identifier
    assert _claim(verdict, "use-fat").evaluations[0].holds is None
    assert {cell.ratio for cell in verdict.distances} == {1.0}
    assert verdict.nearness[0].means_factor == pytest.approx(1)


def test_scale_is_told_from_shape() -> None:
    near = nearest(judge(_published_as_results(0.5)).nearness)
    assert near is not None
    assert near.means_factor == pytest.approx(2)
    assert near.scale == pytest.approx(2)
    assert near.shape_factor == pytest.approx(1)


def test_every_variant_is_judged(result: StudyResult) -> None:
    verdict = judge(result)
    assert len(verdict.variants) == 4
    assert len(verdict.claims) == 18
    for claim in verdict.claims:
        assert [one.variant for one in claim.evaluations] == list(verdict.variants)
    assert len({claim.identifier for claim in verdict.claims}) == len(verdict.claims)
    assert verdict.headline.startswith("FAST wins by ")
    assert verdict.unexplained
    assert verdict.as_dict()["distances"][0]["ratio"] > 0


def test_an_order_that_fails_says_where(result: StudyResult) -> None:
    evaluation = _claim(judge(result), "time-order").evaluations[0]
    assert evaluation.holds is False
    assert "fails: M-Systems < Lexar" in evaluation.detail
    assert evaluation.workloads == 8


def test_claims_that_rest_on_the_drivers_are_marked(result: StudyResult) -> None:
    marked = [claim.identifier for claim in judge(result).claims if claim.qualified]
    assert marked == ["ntfs-volume", "metadata-fat", "fat-erases", "use-fat"]


def test_nothing_is_claimed_about_what_was_not_measured(result: StudyResult) -> None:
    kept = [row for row in result.rows.rows if row[0] in ("bast", "fast")]
    verdict = judge(dataclasses.replace(result, rows=Table(result.rows.columns, tuple(kept))))
    assert _claim(verdict, "time-order").evaluations[0].holds is None
    assert _claim(verdict, "bast-above-fast").evaluations[0].holds is not None
    nothing = judge(dataclasses.replace(result, rows=Table(result.rows.columns, ())))
    assert nothing.headline.startswith("No verdict")


@pytest.mark.parametrize(("sensitivity", "rating"), [(0.9, 1), (1.09, 1), (1.2, 2), (1.5, 3)])
def test_ratings(sensitivity: float, rating: int) -> None:
    assert size_rating(sensitivity) == rating


def test_other_studies_get_the_general_verdict() -> None:
    answer = engine_answer()
    answer["study"] = {"name": "another"}
    verdict = judge(StudyResult.from_engine(answer))
    assert verdict.headline.startswith("ftl: fast has the least weighted_time_mean")
    assert not verdict.claims


def test_means_skip_what_is_not_a_number() -> None:
    answer = engine_answer()
    for row in answer["rows"][:1]:
        row[-2] = None
    rows = Measurements(StudyResult.from_engine(answer))
    assert rows.mean("reads_mean") is not None
    assert rows.mean("no_such_metric") is None
