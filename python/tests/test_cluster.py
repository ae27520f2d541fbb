"""Cells on a Dask cluster: the digest of one machine, whatever becomes of the workers."""

import subprocess
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from cell_runs import counts, run, words, write_study
from dask_workers import Workers
from distributed import Client, LocalCluster

from nandlab import engine
from nandlab.cells import work
from nandlab.cells.batches import BatchSizes
from nandlab.cells.bundles import bundle_of
from nandlab.cells.choice import CellStudy, OpenCluster
from nandlab.cells.cluster import carry_out_missing
from nandlab.cells.dask_clusters import job_script
from nandlab.cells.place import place_of
from nandlab.cells.store import CellFolder
from nandlab.engine_identity import engine_identity
from nandlab.errors import NandlabError

SLURM = """jobs = 4
cores = 8
memory = "16GB"
walltime = "02:00:00"
queue = "batch"
account = "flash"
job_script_prologue = ["module load python"]
job_extra_directives = ["--exclusive"]
"""


def test_local_workers_give_the_digest_of_one_machine(tmp_path: Path) -> None:
    study = write_study(tmp_path, repeats=100)
    here = run(study, "--out", "here")
    there = run(study, "--out", "there", "--cluster", "local:2")
    assert counts(there) == (0, 400, 0)
    assert there["results_digest"] == here["results_digest"]
    assert not (tmp_path / "there.cells").exists()


def test_a_worker_is_killed_and_another_one_comes(tmp_path: Path) -> None:
    study = write_study(tmp_path, repeats=100, writes=40)
    whole = run(study, "--out", "whole")
    begun_again = []
    # The worker may be killed between two batches, and then nothing is begun again.
    while not any(begun_again) and len(begun_again) < 5:
        done = run_with_a_killed_worker(tmp_path, study, f"out-{len(begun_again)}")
        assert done["results_digest"] == whole["results_digest"]
        assert counts(done) == (0, 400, 0), "each cell is taken once"
        begun_again.append(done["cells"]["begun_again"])
    # What the worker had begun or not handed over yet: at most two batches, each of which has at
    # most a quarter of the cells where there are two workers.
    assert 1 <= begun_again[-1] <= 2 * 400 // 4


def run_with_a_killed_worker(folder: Path, study: Path, out: str) -> dict[str, Any]:
    """The record of a run that loses one of two workers and gains a third."""
    with Workers(folder) as cluster:
        cluster.add()
        cluster.add()
        kept = folder / f"{out}.cells"

        def change() -> None:
            # The second file: the first batches are of single cells, and over at once.
            while len(list(kept.glob("*.cells"))) < 2:
                time.sleep(0.01)
            cluster.kill(0)
            cluster.add()

        changing = threading.Thread(target=change, daemon=True)
        changing.start()
        done = run(study, "--out", out, "--cluster", f"dask://{cluster.address}")
        changing.join(60)
    assert cluster.workers[0].returncode == -9
    assert len(cluster.workers) == 3
    return done


def test_a_cluster_goes_on_where_one_machine_stopped(tmp_path: Path) -> None:
    study = write_study(tmp_path, repeats=4)
    run(study, "--out", "half", "--cells", "kept", "--set", "repeats=2")
    done = run(study, "--out", "done", "--cells", "kept", "--cluster", "local:1")
    assert counts(done) == (8, 8, 0)
    assert done["results_digest"] == run(study, "--out", "whole")["results_digest"]


def failed(study: Path, *more: str) -> str:
    done = subprocess.run(
        words(study, *more), capture_output=True, encoding="utf-8", cwd=study.parent, check=False
    )
    assert done.returncode == 2, (done.returncode, done.stdout, done.stderr)
    return done.stderr


def test_a_worker_with_another_engine_is_refused(tmp_path: Path) -> None:
    study = write_study(tmp_path)
    preload = tmp_path / "older.py"
    preload.write_text(
        "from nandlab import engine_identity as one\none.engine_identity = lambda: 'nandlab 0'\n",
        encoding="utf-8",
    )
    with Workers(tmp_path) as cluster:
        cluster.add("--preload", str(preload))
        message = failed(study, "--cluster", f"dask://{cluster.address}", "--out", "out")
    assert "--cluster: workers have another engine than nandlab" in message
    assert "has nandlab 0; install the same wheel everywhere" in message
    assert not (tmp_path / "out").exists()


def test_a_study_and_its_files_travel_by_content(tmp_path: Path) -> None:
    source = Path(__file__).parents[2] / "parts" / "published-small-block.toml"
    part = source.read_text(encoding="utf-8").replace("published-small-block", "mine")
    (tmp_path / "mine.toml").write_text(part, encoding="utf-8")
    study = tmp_path / "study.toml"
    text = write_study(tmp_path).read_text(encoding="utf-8")
    study.write_text(text.replace('"published-small-block"', '"mine.toml"'), encoding="utf-8")
    here = run(study, "--out", "here")
    there = run(study, "--out", "there", "--cluster", "local:1")
    assert there["results_digest"] == here["results_digest"]
    one = bundle_of(
        CellStudy(str(study), (), None, False), [("mine.toml", str(tmp_path / "mine.toml"))]
    )
    assert one.files == (("mine.toml", "files/0/mine.toml", part.encode()),)
    (tmp_path / "mine.toml").write_text(f"{part}# changed\n", encoding="utf-8")
    two = bundle_of(
        CellStudy(str(study), (), None, False), [("mine.toml", str(tmp_path / "mine.toml"))]
    )
    assert one.digest != two.digest


def test_small_cells_are_sent_in_batches_that_last_a_second() -> None:
    sizes = BatchSizes()
    assert sizes.cells(10_000, 2) == 1, "nothing is known of the cells yet"
    sent = []
    left = 10_000
    while left:
        sent.append(sizes.cells(left, 2))
        left -= sent[-1]
        sizes.learn(sent[-1], sent[-1] * 0.004)
    assert sent[:4] == [1, 8, 64, 250]
    assert max(sent) == 250
    assert len(sent) < 70
    # The last ones are small, so that no worker waits long for the other one.
    assert sent[-1] == 1
    sizes.learn(3, 600.0)
    assert sizes.cells(10_000, 2) == 1
    sizes.learn(2000, 0.0)
    assert sizes.cells(1_000_000, 2) == 2000, "results of a batch are in one message"
    assert sizes.cells(0, 0) == 1


def test_a_worker_reads_the_study_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    study = write_study(tmp_path, repeats=50)
    read = []
    batches = []
    original, original_batch = engine.cell_worker, work.batch_of

    def counted(*given: Any, **more: Any) -> Any:
        read.append(given)
        return original(*given, **more)

    def counted_batch(*given: Any) -> Any:
        batches.append(given)
        return original_batch(*given)

    monkeypatch.setattr(engine, "cell_worker", counted)
    monkeypatch.setattr(work, "batch_of", counted_batch)
    # Workers in this process share what they unpacked: a batch that reads the study again shows.
    with (
        LocalCluster(
            n_workers=2, threads_per_worker=1, processes=False, dashboard_address=None
        ) as cluster,
        Client(cluster) as client,
        CellFolder(tmp_path / "kept", engine_identity()) as store,
    ):
        given = CellStudy(str(study), (), None, False)
        carry_out_missing(given, store, OpenCluster(client), None)
    assert store.counts.finished_now == 200
    assert len(batches) >= 4
    # Once for the plan of the caller, once for both workers.
    assert len(read) == 2


def test_the_script_of_a_job_for_slurm(tmp_path: Path) -> None:
    file = tmp_path / "slurm.toml"
    file.write_text(SLURM, encoding="utf-8")
    script = job_script(place_of(f"slurm:{file}")).splitlines()
    for line in (
        "#SBATCH -p batch",
        "#SBATCH -A flash",
        "#SBATCH -t 02:00:00",
        "#SBATCH --cpus-per-task=8",
        "#SBATCH --exclusive",
        "module load python",
    ):
        assert line in script
    # One cell at a time in each process.
    assert "--nworkers 8" in script[-1]
    assert "--nthreads 1" in script[-1]
    study = write_study(tmp_path)
    shown = run(study, "--cluster", f"slurm:{file}", "--dry-run")
    assert "#SBATCH -p batch" in shown["job_script"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("cores = 8\n", "lacks jobs, memory"),
        ("jobz = 1\n", "unknown key 'jobz': did you mean"),
        ('jobs = "many"\n', "jobs: `many` is not a whole number"),
        ("jobs = \n", "Invalid value"),
    ],
)
def test_a_wrong_file_for_slurm_is_refused(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "slurm.toml"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(NandlabError) as error:
        place_of(f"slurm:{file}")
    assert message in str(error.value)
    assert str(file) in str(error.value)


@pytest.mark.parametrize(
    "given",
    ["", "dask", "dask://host", "dask://:1", "dask://host:99999", "local:0", "local:x", "pbs:x"],
)
def test_a_place_that_is_none_is_refused(given: str) -> None:
    with pytest.raises(NandlabError, match="is none of dask://HOST:PORT, local:WORKERS or slurm:F"):
        place_of(given)


def test_no_scheduler_answers(tmp_path: Path) -> None:
    study = write_study(tmp_path)
    message = failed(study, "--cluster", "dask://127.0.0.1:9", "--out", "out")
    assert "--cluster: no scheduler answers at dask://127.0.0.1:9" in message


def test_a_study_of_a_real_kernel_is_refused(tmp_path: Path) -> None:
    study = Path(__file__).parents[2] / "studies" / "sfq-kernel" / "study.toml"
    message = failed(study, "--cluster", "local:1", "--out", str(tmp_path / "out"))
    assert "--cluster: a study of kind `kernel` starts virtual machines" in message
