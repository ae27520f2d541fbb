"""What each layer did inside, in sentences built from measured numbers."""

from collections.abc import Sequence
from dataclasses import dataclass

from nandlab.verdicts.published_view import View
from nandlab.verdicts.wording import ftl_name, number, percent


@dataclass(frozen=True)
class Mechanics:
    """Inner work of one layer over all workloads, per host page written where it says so."""

    ftl: str
    copies_per_host_page: float
    reads_per_host_page: float
    erases_per_thousand_host_pages: float
    probe_share: float
    """Reads of spare areas only, as a part of all reads."""
    switch_share: float
    """Merges that only renamed a block, as a part of all merges."""
    merges_per_thousand_host_pages: float
    merges_per_log_block: float | None
    """Full merges for each log block that was reclaimed by full merges."""


def mechanics(view: View, ftl: str, **place: str) -> Mechanics | None:
    """The inner work of `ftl`, honestly counted; None where it was not measured."""
    names = ("host_write_pages", "page_reads", "spare_reads", "page_programs", "erases")
    counts = {name: view.total(name, ftl, **place) for name in names}
    merges = {
        kind: view.total(f"merges_{kind}", ftl, **place) or 0.0
        for kind in ("switch", "partial", "full")
    }
    host_pages = counts["host_write_pages"]
    programs, erases, reads = counts["page_programs"], counts["erases"], counts["page_reads"]
    if not host_pages or programs is None or erases is None or reads is None:
        return None
    probes = counts["spare_reads"] or 0.0
    all_merges = sum(merges.values())
    # A switch or partial merge erases the old data block; a full merge erases a data block, and
    # the log block once when all its merges are done. So what is left over are log blocks.
    log_blocks = erases - all_merges
    return Mechanics(
        ftl=ftl,
        copies_per_host_page=max(programs - host_pages, 0.0) / host_pages,
        reads_per_host_page=(reads + probes) / host_pages,
        erases_per_thousand_host_pages=1000 * erases / host_pages,
        probe_share=probes / (reads + probes) if reads + probes else 0.0,
        switch_share=merges["switch"] / all_merges if all_merges else 0.0,
        merges_per_thousand_host_pages=1000 * all_merges / host_pages,
        merges_per_log_block=merges["full"] / log_blocks
        if merges["full"] and log_blocks > 0
        else None,
    )


def probing(view: View, ftls: Sequence[str]) -> str:
    """How many reads only look at spare areas."""
    found = [one for one in (mechanics(view, ftl) for ftl in ftls) if one is not None]
    parts = [
        f"{ftl_name(one.ftl)} reads {number(one.reads_per_host_page)} pages for each page written "
        f"({percent(one.probe_share)} of them spare areas only)"
        for one in found
    ]
    return _sentence(parts)


def copying(view: View, ftls: Sequence[str]) -> str:
    """How many pages are copied and blocks erased."""
    found = [one for one in (mechanics(view, ftl) for ftl in ftls) if one is not None]
    parts = [
        f"{ftl_name(one.ftl)} copies {number(one.copies_per_host_page)} pages for each page "
        f"written and erases {number(one.erases_per_thousand_host_pages)} blocks per 1,000"
        for one in found
    ]
    return _sentence(parts)


def merging(view: View, ftls: Sequence[str]) -> str:
    """How often merges happen and how many only rename a block."""
    found = [one for one in (mechanics(view, ftl) for ftl in ftls) if one is not None]
    parts = [
        f"{ftl_name(one.ftl)} merges {number(one.merges_per_thousand_host_pages)} times per 1,000 "
        f"pages written, {percent(one.switch_share)} of them by switching a full block"
        for one in found
    ]
    return _sentence(parts)


def log_blocks(view: View, ftls: Sequence[str]) -> str:
    """Full merges behind each log block that is taken back."""
    found = [one for one in (mechanics(view, ftl) for ftl in ftls) if one is not None]
    parts = [
        f"{ftl_name(one.ftl)} needs {number(one.merges_per_log_block)} full merges for each log "
        "block it takes back by merging"
        for one in found
        if one.merges_per_log_block is not None
    ]
    return _sentence(parts)


def _sentence(parts: Sequence[str]) -> str:
    return f"{'; '.join(parts)}." if parts else ""
