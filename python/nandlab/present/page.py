"""The report of a run: the answer on one screen, everything else folded below."""

import html
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nandlab import __version__, engine
from nandlab.claims import counts, evaluate, load_claims
from nandlab.claims.evaluate import counted
from nandlab.claims.schema import ClaimFile, Reading, has_claims
from nandlab.frame import RunFrame
from nandlab.interruption import held
from nandlab.json_text import json_text
from nandlab.outputs import write_whole
from nandlab.present.charts import Chart, chart
from nandlab.present.discussion import discussion
from nandlab.present.drawing import engine as chart_engine
from nandlab.present.drawing import picture
from nandlab.present.headline import headline
from nandlab.present.spec import ReportSpec, load_report
from nandlab.present.tables import ShownTable, claims_table, table
from nandlab.present.units import number, scale_of

if TYPE_CHECKING:
    import polars

REPORT = "report.html"
VERDICT = "verdict.json"
FIGURES = "figures"
TEMPLATES = Path(__file__).parent / "templates"

FIRST_CLAIMS = 8
"""Claims on the first screen; the others are folded."""

FIRST_ROWS = 16
"""Rows of another table on the first screen."""

PRINTED_ROWS = 40
"""Rows of a table that the terminal prints."""


@dataclass(frozen=True)
class Presented:
    """Everything a report shows, as data."""

    run: RunFrame
    claims: "polars.DataFrame"
    definitions: ClaimFile
    report: ReportSpec
    headline: str
    conditions: tuple[tuple[str, str], ...]
    tables: tuple[ShownTable, ...]
    charts: tuple[Chart, ...]
    discussion: str = ""
    remarks: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """Sentences under headings of their own."""
    open_remarks: frozenset[str] | None = None
    """Headings whose sentences are not folded; all if it is None."""

    def print(self) -> None:
        """Prints conditions, first tables and claims in the terminal, the headline last."""
        from nandlab.terminal.output import print_text

        print_text(f"Conditions: {in_words(self.conditions)}")
        wanted = self.report.first_tables
        for one in self.tables:
            if wanted is None or one.identifier in wanted:
                one.head(PRINTED_ROWS).print()
        if self.definitions.claims:
            claims_table(self.claims, self.report).print()
        for _, sentences in self.remarks:
            print_text("\n".join(sentences))
        print_text(f"\n{self.headline}" if self.remarks else self.headline)

    def as_dict(self) -> dict[str, Any]:
        """Plain data, the content of `verdict.json`."""
        found = counts(self.claims)
        return {
            "study": self.run.name,
            "results_digest": self.run.results_digest,
            "quick": self.run.is_quick,
            "headline": self.headline,
            "publication": dict(self.report.publication),
            "conditions": dict(self.conditions),
            "counts": {status.value: count for status, count in found.items()},
            "claims": self.claims.to_dicts(),
            "tables": {one.identifier: one.as_dict() for one in self.tables},
            "figures": {one.identifier: one.as_dict() for one in self.charts},
            "remarks": {title: list(sentences) for title, sentences in self.remarks},
        }

    @property
    def first_chart(self) -> Chart | None:
        """The figure of the first screen."""
        wanted = self.report.first_figure
        # A short form need not draw the figure that the whole one shows first.
        spare = self.charts[0] if wanted and self.charts else None
        return next((one for one in self.charts if one.identifier == wanted), spare)

    @property
    def first_table(self) -> ShownTable | None:
        """The table of the first screen: claims, or the first of a study without any."""
        if not self.definitions.claims:
            return self.tables[0].head(FIRST_ROWS) if self.tables else None
        return claims_table(self.claims.filter(self.claims["id"].is_in(self._first())), self.report)

    @property
    def folded_tables(self) -> tuple[ShownTable, ...]:
        """The tables that are not wholly on the first screen."""
        return tuple(one for one in self.tables if one is not self.first_table)

    def other_claims(self) -> ShownTable | None:
        """The other claims; None if all are on the first screen."""
        rest = self.claims.filter(~self.claims["id"].is_in(self._first()))
        return claims_table(rest, self.report, "The other claims") if rest.height else None

    def readings(self) -> ShownTable | None:
        """Every claim under every reading; None if there is one reading or nothing is judged."""
        if len(self.definitions.readings) < 2 or self.run.is_quick:
            return None
        names = [one.name for one in self.definitions.readings]
        rows = []
        for row in counted(self.claims).to_dicts():
            own = self.claims.filter(self.claims["id"] == row["id"])
            by_reading = dict(zip(own["reading"], own["status"], strict=True))
            rows.append((row["text"], *(by_reading.get(name, "-") for name in names)))
        title = "Status under every reading"
        return ShownTable("readings", title, ("claim", *names), tuple(rows), len(names) + 1)

    def unsaid(self) -> tuple[ShownTable, tuple[str, ...]] | None:
        """What a search of readings found, from the record in the folder of the study."""
        from nandlab.readings.page import chapter

        return chapter(self.run.folder, self.run.name) if self.run.folder is not None else None

    def under_readings(self) -> list[ShownTable]:
        """Claims, numbers and contradictions under the joint readings on record.

        None in a quick form: its page has no verdict, and these are verdicts of whole runs.
        """
        from nandlab.readings.page import chapter_tables

        folder = self.run.folder
        if folder is None or self.run.is_quick:
            return []
        return chapter_tables(folder, self.run.name)

    def details(self) -> list[tuple[str, str, str]]:
        """Claim by claim: text and where; tolerance and note; reason of the status."""
        reasons = {row["id"]: row["reason"] for row in counted(self.claims).to_dicts()}
        found = []
        for one in self.definitions.claims:
            tolerance = f"Tolerance {one.tolerance:g}: {one.tolerance_why}" if one.tolerance else ""
            said = " ".join(part for part in (tolerance, one.note) if part)
            found.append((f"{one.text} ({one.where})", said, reasons.get(one.identifier, "")))
        return found

    def _first(self) -> Sequence[str]:
        wanted = self.report.first_claims
        return wanted or [one.identifier for one in self.definitions.claims[:FIRST_CLAIMS]]

    def _repr_html_(self) -> str:
        tables = [self.first_table, *self.tables[: 1 if self.definitions.claims else 0]]
        shown = "".join(one._repr_html_() for one in tables if one is not None)
        return f"<p><strong>{html.escape(self.headline)}</strong></p>{shown}"


def present(run: RunFrame) -> Presented:
    """What the report of a run shows: claims, candidates side by side, or what an axis changes.

    Raises `NandlabError` if the files of claims and report hold an error.
    """
    from nandlab.comparison.answer import is_comparison, side_by_side
    from nandlab.present.default import default

    if run.folder is None or not has_claims(run.folder):
        return side_by_side(run) if is_comparison(run) else default(run)
    definitions = load_claims(run.folder)
    report = load_report(run.folder, definitions)
    frame = evaluate(run, definitions)
    specs = (one for one in report.figures if not (one.full_only and run.is_quick))
    drawn = (chart(run, one, report) for one in specs)
    shown = (one for one in report.tables if not (one.full_only and run.is_quick))
    built = (table(run, one, report) for one in shown)
    return Presented(
        run=run,
        claims=frame,
        definitions=definitions,
        report=report,
        headline=headline(run, frame, report),
        # A claim's status is that of its first reading, which the headline counts.
        conditions=(*conditions(run), ("reading", definitions.readings[0].name)),
        # A quick form need not run what a table shows.
        tables=tuple(one for one in built if one.rows),
        charts=tuple(one for one in drawn if one is not None),
        discussion=discussion(run.folder, frame, is_quick=run.is_quick),
    )


def unclaimed(
    run: RunFrame,
    headline: str,
    tables: Sequence[ShownTable],
    charts: Sequence[Chart],
    conditions: tuple[tuple[str, str], ...],
    remarks: tuple[tuple[str, tuple[str, ...]], ...] = (),
) -> Presented:
    """What the report of a study without claims shows; the first table and figure come first."""
    none = ClaimFile("", (Reading("as run"),), ())
    report = ReportSpec(first_figure=charts[0].identifier if charts else None)
    shown = (headline, conditions, tuple(tables), tuple(charts))
    return Presented(run, evaluate(run, none), none, report, *shown, remarks=remarks)


def in_words(told: Sequence[tuple[str, str]]) -> str:
    """Conditions in one line."""
    return "; ".join(f"{name} {value}" for name, value in told)


def conditions_of(run: RunFrame) -> tuple[tuple[str, str], ...]:
    """The conditions of any run: those of a comparison say more of its candidates."""
    from nandlab.comparison.answer import is_comparison
    from nandlab.comparison.conditions import conditions as of_comparison

    return tuple(of_comparison(run)) if is_comparison(run) else conditions(run)


def conditions(run: RunFrame) -> tuple[tuple[str, str], ...]:
    """Under which conditions the figures hold: part, board, kernel, device, fill, seed, repeats."""
    study = run.study
    host = study.get("host") or {}
    workload = study.get("workload") or {}
    found: list[tuple[str, str]] = []
    known = {"kernel": _kernel_of(host.get("board"))}
    if host.get("free_bytes"):
        left = scale_of([host["free_bytes"]], "bytes")
        known["fill"] = f"all but {number(host['free_bytes'] / left.size)} {left.unit}"
    for name in ("part", "board", "kernel", "device", "fill", "flash"):
        value = study.get(name) or host.get(name) or workload.get(name)
        value = value or (None if name in run.axes else known.get(name))
        if not value and name in run.axes:
            value = ", ".join(str(one) for one in run.values_of(name))
        if not value and name == "fill":
            value = _fills(run)
        if value:
            found.append((name, str(value)))
    if study.get("blocks"):
        found.append(("blocks", f"{study['blocks']:,}"))
    if start := _start(workload):
        found.append(("device at the start", start))
    found += [("seed", str(study.get("seed"))), ("repeats", str(study.get("repeats")))]
    found.append(("form", _form(run)))
    return tuple(found)


def _start(workload: Mapping[str, Any]) -> str:
    """What was done to a translation layer's device before anything is counted."""
    if workload.get("kind") == "uniform":
        # A study that does not say how often leaves it to the engine.
        times = workload.get("warm_up_writes")
        often = "as often as by default" if times is None else f"{times} times"
        return f"filled, then written over {often}"
    return str(workload.get("preconditioning") or "") if workload.get("kind") == "trace" else ""


def _kernel_of(board: str | None) -> str | None:
    """Series of the kernel that a board of the laboratory runs; None for one of the user's own."""
    boards = {one["name"]: one for one in engine.listing("boards")} if board else {}
    return str(boards[board]["kernel"]) if board in boards else None


def write_report(folder: Path, run: RunFrame, command: str) -> Presented:
    """Writes page, picture of the first figure, and `verdict.json` into the folder of a run."""
    shown = present(run)
    page = render(shown, command)
    first = shown.first_chart
    drawn = place = None
    if first is not None:
        place = folder / FIGURES / f"{first.identifier}.png"
        drawn = picture(first.specification, first.title, place)
    # No page stands beside an older picture: all is made before anything is written.
    with held():
        write_whole(folder / REPORT, page.encode())
        write_whole(folder / VERDICT, f"{json_text(shown.as_dict())}\n".encode())
        if place is not None and drawn is not None:
            place.parent.mkdir(exist_ok=True)
            write_whole(place, drawn)
    return shown


def render(shown: Presented, command: str) -> str:
    """The page as text."""
    page: str = (
        environment()
        .get_template("run.html.j2")
        .render(
            shown=shown,
            run=shown.run,
            study=shown.run.study,
            first=shown.first_chart,
            others=[one for one in shown.charts if one is not shown.first_chart],
            command=command,
            version=__version__,
            engine=chart_engine() if shown.charts else "",
            specifications=script_safe({one.identifier: one.specification for one in shown.charts}),
        )
    )
    return page


def environment() -> Any:
    """The templates, escaping everything that is put into them."""
    import jinja2

    return jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def script_safe(specifications: Mapping[str, Any]) -> str:
    """JSON that may stand inside a script element whatever names it holds."""
    text = json.dumps(specifications, ensure_ascii=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def _fills(run: RunFrame) -> str:
    """Fills of the states of the flash that were run, in percent."""
    states = run.study.get("flash_states") or {}
    used = run.values_of("flash") if "flash" in run.axes else []
    fills = sorted({float(states[one]["fill_percent"]) for one in used if one in states})
    return f"{', '.join(f'{one:g}' for one in fills)} %" if fills else ""


def _form(run: RunFrame) -> str:
    if not run.is_quick:
        return "interrupted" if run.interrupted else "whole"
    quick = run.study.get("quick_form") or {}
    left = [f"{name} {value}" for name, value in quick.items() if name != "axes"]
    left += [
        f"{axis} {', '.join(str(one) for one in values)}"
        for axis, values in (quick.get("axes") or {}).items()
    ]
    requests = (run.study.get("workload") or {}).get("requests_quick")
    if requests:
        left.append(f"the first {requests:,} requests of each trace")
    return f"quick, only {'; '.join(left)}" if left else "quick"
