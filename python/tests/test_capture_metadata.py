"""What captures wrote to metadata: counts of tiny traces, tables, and the page that holds them."""

import json
from pathlib import Path

import polars as pl
import pytest

from nandlab import capture_metadata, engine
from nandlab.canonical import command_of
from nandlab.capture_metadata import BEGIN, END, tables, with_tables, written_by_phase
from nandlab.data import folder
from nandlab.errors import NandlabError

REGIONS = {"boot": ((0, 4),), "tables": ((4, 200),), "directory": ((304, 4), (316, 8))}


def test_requests_count_where_they_begin_and_sectors_where_they_lie() -> None:
    writes = [(0, 4, 0), (0, 8, 1), (308, 12, 2), (1000, 128, 2), (203, 2, 3)]
    assert written_by_phase(REGIONS, writes) == {
        "set_up": {
            "boot": {"requests": 1, "sectors": 4},
            "tables": {"requests": 0, "sectors": 0},
            "directory": {"requests": 0, "sectors": 0},
            "data": {"requests": 0, "sectors": 0},
        },
        "operations": {
            "boot": {"requests": 1, "sectors": 4},
            "tables": {"requests": 1, "sectors": 5},
            "directory": {"requests": 0, "sectors": 4},
            "data": {"requests": 2, "sectors": 137},
        },
    }


def test_a_trace_without_writes_has_counts_of_zero() -> None:
    found = written_by_phase({"boot": ((0, 4),)}, [])
    assert found["operations"]["boot"] == {"requests": 0, "sectors": 0}


def trace(path: Path, file_system: str, seed: int, *, tables_sectors: int, regions: bool) -> None:
    """Write a canonical trace of a write to data, one to the tables, and the set-up."""
    facts = {
        "file_system": file_system,
        "file_set": "mp3",
        "processes": "1",
        "seed": str(seed),
        "copied_bytes": str(100 * 512),
    }
    if regions:
        facts["regions"] = json.dumps(REGIONS)
    frame = pl.DataFrame(
        {
            "operation": ["write", "write", "read", "write"],
            "offset_bytes": [0, 1000 * 512, 0, 4 * 512],
            "length_bytes": [2048, 100 * 512, 4096, tables_sectors * 512],
            "file_operation": [0, 1, 1, 2],
        },
        schema_overrides={"offset_bytes": pl.UInt64, "length_bytes": pl.UInt32},
    )
    frame.write_parquet(path, metadata=facts)


def test_ratios_have_an_interval_over_seeds(tmp_path: Path) -> None:
    for seed, sectors in ((1, 20), (2, 30), (3, 40)):
        for system, factor in (("fat", 1), ("ntfs", 1 + seed)):
            name = f"{system}-mp3-1-{seed}.parquet"
            trace(tmp_path / name, system, seed, tables_sectors=sectors * factor, regions=True)
    text = tables([tmp_path])
    assert "| fat | mp3 | 1 | 3 | 2 ± 0 | 0.1 ± 0.0 | 50.0% | 23.1% |" in text
    assert "| mp3 | 1 | 0 / 0 | 1 / 30 | 0 / 0 | 1 / 100 |" in text
    # Ratios of bytes: 140 / 120, 190 / 130 and 260 / 140; of metadata bytes: 2, 3 and 4.
    ratios = text.splitlines()[-2]
    assert ratios.startswith("| mp3 | 1 | 3 | 1.468 (0.")
    bytes_of, requests, metadata_bytes, _ = ratios.split(" | ")[3:]
    # An interval over all answers, one at 1, and one above 1.
    assert bytes_of.endswith(", undecided")
    assert requests == "1.000 (1.000 to 1.000), contradicted"
    assert metadata_bytes.startswith("2.884 (1.2")
    assert metadata_bytes.endswith(", supported")


def test_regions_of_a_trace_may_lie_beside_it(tmp_path: Path) -> None:
    trace(tmp_path / "fat-mp3-1.parquet", "fat", 1, tables_sectors=20, regions=False)
    with pytest.raises(NandlabError, match=r"fat-mp3-1\.parquet: it holds no regions"):
        tables([tmp_path])
    capture = tmp_path / "fat-mp3-1.json"
    capture.write_text(json.dumps({"regions": REGIONS}))
    kept = tmp_path / "regions.json"
    assert capture_metadata.main(["--keep", str(kept), str(capture)]) == 0
    assert "| mp3 | 1 | 0 / 0 | 1 / 20 |" in tables([tmp_path])


def test_bad_input_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert capture_metadata.main([str(tmp_path)]) == 2
    assert "no captured trace" in capsys.readouterr().err
    capture = tmp_path / "old.json"
    capture.write_text("{}")
    assert capture_metadata.main(["--keep", str(tmp_path / "kept"), str(capture)]) == 2
    assert "no regions are in it" in capsys.readouterr().err
    assert not (tmp_path / "kept").exists()


def test_only_what_is_between_the_marks_is_replaced() -> None:
    page = f"before\n{BEGIN}\nold\n{END}\nafter\n"
    assert with_tables(page, "new\n") == f"before\n{BEGIN}\n\nnew\n\n{END}\nafter\n"
    with pytest.raises(NandlabError, match="begin of the tables"):
        with_tables("no marks", "new\n")
    with pytest.raises(NandlabError, match="end of the tables"):
        with_tables(f"{BEGIN}\n", "new\n")


def test_the_command_of_a_capture_names_its_writer() -> None:
    metadata = {
        "file_system": "fat",
        "file_set": "mp3",
        "processes": 1,
        "operations": 60,
        "seed": 2,
    }
    plain = command_of(metadata)
    assert plain.endswith("--operations 60 --seed 2")
    assert command_of({**metadata, "writer": {"name": "synced"}}) == plain
    assert command_of({**metadata, "writer": {"name": "lazy"}}) == f"{plain} --writer lazy"


def test_all_cells_have_one_mean_of_whole_seeds(tmp_path: Path) -> None:
    """A seed without all cells is left out of the row of all cells."""
    for seed in (1, 2, 3, 4):
        for system, sectors in (("fat", 20), ("ntfs", 20 * seed)):
            for processes in (1, 4) if seed < 4 else (1,):
                path = tmp_path / f"{system}-mp3-{processes}-{seed}.parquet"
                trace(path, system, seed, tables_sectors=sectors, regions=True)
                if processes == 4:
                    again = pl.read_parquet_metadata(path) | {"processes": "4"}
                    again.pop("ARROW:schema", None)
                    pl.read_parquet(path).write_parquet(path, metadata=again)
    one, four, both = tables([tmp_path]).splitlines()[-3:]
    # Metadata bytes: the fourth root of 1 * 2 * 3 * 4, then the cube root of 1 * 2 * 3.
    assert one.startswith("| mp3 | 1 | 4 |")
    assert "| 2.213 (" in one
    assert four.startswith("| mp3 | 4 | 3 |")
    assert both.startswith("| all | all | 3 |")
    assert "| 1.817 (" in four
    assert "| 1.817 (" in both


def test_the_page_has_the_tables_of_the_shipped_sets() -> None:
    page = (folder("traces") / "README.md").read_text(encoding="utf-8")
    shipped = tables(capture_metadata.shipped_sets())
    assert with_tables(page, shipped) == page
    marks = capture_metadata.FILES_BEGIN, capture_metadata.FILES_END
    assert with_tables(page, capture_metadata.shipped_files(), marks) == page


def test_a_row_of_files_has_what_is_in_the_trace(tmp_path: Path) -> None:
    path = tmp_path / "fat-mp3-1.parquet"
    trace(path, "fat", 1, tables_sectors=20, regions=True)
    facts = pl.read_parquet_metadata(path) | {"digest": "0123456789abcdef" * 4}
    facts.pop("ARROW:schema", None)
    pl.read_parquet(path).write_parquet(path, metadata=facts)
    row = capture_metadata.files_table([tmp_path]).splitlines()[-1]
    # Sectors 0 to 3, 1000 to 1099 and 4 to 23; the read is no write.
    expected = "| 4 | 1 | 3 | 0 | 124 | 124 | `0123456789abcdef` |"
    assert row == f"| {tmp_path.name}/fat-mp3-1.parquet {expected}"


@pytest.mark.parametrize("name", [*capture_metadata.SETS, capture_metadata.BEGINNINGS])
def test_the_digest_in_a_shipped_trace_is_that_of_its_records(name: str, tmp_path: Path) -> None:
    """The engine counts and digests the records anew when it writes them to another file."""
    paths = sorted((folder("traces") / name).glob("*.parquet"))
    assert paths
    for path in paths:
        again = engine.convert(path, tmp_path / "again.parquet", {"metadata": {}})
        assert again["digest"] == pl.read_parquet_metadata(path)["digest"], path.name


@pytest.mark.parametrize("path", capture_metadata.shipped_sets(), ids=lambda path: path.name)
def test_data_and_metadata_of_a_shipped_trace_are_apart(path: Path) -> None:
    """Data that were written are the bytes of files, rounded up to clusters of 4 KiB at most."""
    for one in capture_metadata.read_set(path):
        data_bytes = one.written["data"]["sectors"] * 512
        assert one.file_bytes <= data_bytes, one
        mean_bytes = 240 << 10 if one.file_set == "jpg" else 4700 << 10
        # A cluster a file, and pages that were written twice.
        assert data_bytes / one.file_bytes < 1.01 + 4096 / mean_bytes, one
