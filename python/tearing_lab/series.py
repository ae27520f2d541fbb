"""Series of cuts: scripts are drawn, cut, recovered by the kernel and read here."""

import random
import re
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tearing_lab import chips, disks
from tearing_lab.cases import Keeping, Verdict, judge
from tearing_lab.chips import SHAPES, Bench, Cut, Recovery
from tearing_lab.scripts import DIALECTS, CallWriter

CUTS_A_SCRIPT = 4
_COLLECTING_LINES = 260
_HISTORY_BLOCKS_MAX = 300
_HISTORY_TRIES = 40


@dataclass(frozen=True)
class Series:
    """Cuts of a file system, in a kernel of a series: so many, of scripts from `seed` on.

    `out` is for what is between, `keeping` for cases. `found` has scripts of `nandlab crash-search`
    that are cut in place of drawn ones: the seed of each is its place among those that fit.
    """

    file_system: str
    kernel: str
    seed: int
    cuts: int
    out: Path
    keeping: Keeping
    found: Path | None = None

    @property
    def cuts_a_script(self) -> int:
        """Scripts of a search are many and differ in what they reach: each is cut once."""
        return 1 if self.found else CUTS_A_SCRIPT

    @property
    def seeds(self) -> range:
        """Seeds of the scripts."""
        return range(self.seed, self.seed + -(-self.cuts // self.cuts_a_script))

    def scripts(self) -> dict[int, Path]:
        """Write the scripts. Every fifth one has blocks collected, which few others do."""
        folder = self.out / "scripts"
        folder.mkdir(parents=True, exist_ok=True)
        written = {}
        known = fitting(self.found) if self.found else []
        for seed in self.seeds:
            written[seed] = folder / f"{self.file_system}-{seed}.ops"
            if self.found:
                if seed < len(known):
                    shutil.copyfile(known[seed], written[seed])
                else:
                    del written[seed]
                continue
            writer = CallWriter(seed, DIALECTS[self.file_system])
            lines = random.Random(seed).randrange(60, 160)
            collects = seed % 5 == 0 and self.file_system != "nilfs2"
            text = writer.overwrite(_COLLECTING_LINES) if collects else writer.write(lines)
            written[seed].write_text(text, encoding="utf-8")
        return written

    def verdict(self, case: str, direction: str, seed: int, cut: str) -> Verdict:
        """Begin the verdict of a case."""
        return Verdict(case, self.kernel, direction, seed, cut, "", "")


_LEFT_OUT = re.compile(r"^(?:umount|mount|concurrent)\b", re.MULTILINE)
"""Lines that the program of the machine does not carry out between two mounts of its own."""


def fitting(folder: Path) -> list[Path]:
    """Scripts of a folder that a machine can carry out on one mount, by their names."""
    every = sorted(folder.glob("*.ops"))
    return [path for path in every if not _LEFT_OUT.search(path.read_text(encoding="utf-8"))]


def image_options(file_system: str) -> dict[str, object]:
    """How images are opened. A torn page has no ECC that could tell the layout: it is named."""
    chip = {"oob_layout": "linux-large"} if file_system != "nilfs2" else {}
    return {"fs": file_system, **chip}


def header_offset(seed: int) -> int:
    """Where UBI keeps its second headers in the scripts of a series."""
    return chips.HEADER_OFFSETS[seed // CUTS_A_SCRIPT % len(chips.HEADER_OFFSETS)]


def cut_in_kernel(series: Series) -> tuple[list[Verdict], dict[int, Recovery]]:
    """Tear chips within the kernel: a run of each script without a cut, then the cuts of it.

    The runs without a cut are returned too, by the seeds of their scripts: they end uncleanly, and
    their calls that fail can be compared.
    """
    bench = Bench.of(
        series.kernel, series.file_system, series.out / "module", header_offset(series.seed)
    )
    scripts = series.scripts()
    formats = {seed: seed % 2 == 0 for seed in scripts}
    whole = [
        Cut(f"{path.stem}-end", path, None, seed=seed, formats=formats[seed])
        for seed, path in scripts.items()
    ]
    ended = bench.cut(whole, series.out / "whole")
    runs = {cut.seed: ended[cut.name] for cut in whole}
    cuts = [
        _chosen(number, seed, scripts[seed], runs[seed], formats=formats[seed])
        for number, seed in enumerate(seed for seed in scripts for _ in range(series.cuts_a_script))
        if number < series.cuts and not runs[seed].error
    ]
    torn = bench.cut(cuts, series.out / "torn")
    verdicts = []
    for cut, recovery in [
        *((cut, ended[cut.name]) for cut in whole),
        *zip(cuts, torn.values(), strict=True),
    ]:
        seed = int(cut.script.stem.rsplit("-", 1)[1])
        verdict = series.verdict(cut.name, "torn in the kernel", seed, _shown(cut))
        if recovery.dump is None:
            verdict.faults.append(f"the kernel: {recovery.error}")
            verdicts.append(verdict)
            continue
        verdict.kind, verdict.shape = recovery.torn_kind, SHAPES[cut.shape]
        verdicts.append(_judged(series, verdict, recovery.dump, recovery, cut.script))
    return verdicts, runs


def _chosen(number: int, seed: int, script: Path, run: Recovery, *, formats: bool) -> Cut:
    draw = random.Random(f"{seed} {number}")
    name = f"{script.stem}-{number}"
    chosen = chips.choose_cuts(
        run.counts, script, name, number, draw.randrange(len(SHAPES)), draw.randrange(1, 2**31)
    )
    return Cut(
        name, script, chosen.number, chosen.kinds, chosen.shape, chosen.seed, formats=formats
    )


def _shown(cut: Cut) -> str:
    return "end" if cut.number is None else f"{cut.number} of kinds {cut.kinds}, seed {cut.seed}"


def _judged(
    series: Series, verdict: Verdict, image: Path, recovery: Recovery, script: Path
) -> Verdict:
    options = image_options(series.file_system)
    return judge(verdict, image, options, recovery, series.keeping, script)


def cut_here(series: Series, program: Path) -> list[Verdict]:
    """Tear chips in the simulation, and have the kernel recover them.

    `program` is the example `tear_images` of the crate `script_runner`.
    """
    offset = header_offset(series.seed)
    bench = Bench.of(series.kernel, series.file_system, series.out / "module", offset)
    scripts = series.scripts()
    images: dict[str, Path] = {}
    told: dict[str, tuple[int, str]] = {}
    for number, (seed, path) in enumerate(scripts.items()):
        count = min(series.cuts_a_script, series.cuts - number * series.cuts_a_script)
        folder = series.out / "here"
        made = chips.tear_here(program, series.file_system, path, offset, count, seed, folder)
        for name, operation in made.items():
            images[name] = folder / f"{name}.oob"
            told[name] = (seed, operation)
    recoveries = bench.recover(images, series.out / "recovered")
    verdicts = []
    for name, image in images.items():
        seed, operation = told[name]
        kind, shape, cut = operation.split(" ", 2)
        verdict = series.verdict(name, "torn here", seed, cut)
        verdict.kind, verdict.shape = kind, shape
        verdicts.append(_judged(series, verdict, image, recoveries[name], scripts[seed]))
    return verdicts


def cut_disks(series: Series) -> tuple[list[Verdict], dict[int, list[str]]]:
    """Cut NILFS2 at bios of the kernel; the failed calls of each script too."""
    scripts = series.scripts()
    logs, failures = disks.record_writes(
        series.kernel, list(scripts.values()), series.out / "recorded"
    )
    images: dict[str, Path] = {}
    verdicts: list[tuple[Verdict, Path]] = []
    # The last batch of a folder may have fewer scripts than cuts.
    for number in range(min(series.cuts, len(scripts) * series.cuts_a_script)):
        place, seed = number // series.cuts_a_script, series.seeds[number // series.cuts_a_script]
        cut = disks.choose_cut(logs[place], number, random.Random(f"{seed} {number}"))
        name = f"{scripts[seed].stem}-{number}"
        images[name] = series.out / f"{name}.img"
        images[name].write_bytes(disks.disk_after(logs[place], cut))
        verdict = series.verdict(name, "torn in the kernel", seed, repr(cut))
        verdict.kind, verdict.shape = cut.kind, "prefix"
        verdicts.append((verdict, scripts[seed]))
    return _judge_disks(series, verdicts, images), dict(zip(scripts, failures, strict=True))


def cut_disks_here(series: Series, program: Path) -> list[Verdict]:
    """Cut NILFS2 at blocks that the simulation wrote, and have the kernel recover it.

    `program` is the example `write_history` of the crate `nilfs2`. It cuts in the second half of a
    script, and its device loses some of the blocks that no flush had followed.
    """
    verdicts: list[tuple[Verdict, Path]] = []
    images: dict[str, Path] = {}
    for seed, script in series.scripts().items():
        draw = random.Random(f"{seed} here")
        wanted = min(series.cuts_a_script, series.cuts - len(verdicts))
        for blocks in draw.sample(range(1, _HISTORY_BLOCKS_MAX), _HISTORY_TRIES):
            if wanted == 0:
                break
            name = f"{script.stem}-after-{blocks}"
            image = series.out / f"{name}.img"
            command = [program, script, image, disks.DISK_MEBIBYTES, blocks]
            done = subprocess.run([str(word) for word in command], capture_output=True, check=False)
            # A cut that lies behind the end of the script is none.
            if done.returncode == 0:
                images[name] = image
                verdict = series.verdict(name, "torn here", seed, f"after {blocks} blocks")
                verdict.kind, verdict.shape = "blocks-left-out", "prefix"
                verdicts.append((verdict, script))
                wanted -= 1
    return _judge_disks(series, verdicts, images)


def _judge_disks(
    series: Series, verdicts: Sequence[tuple[Verdict, Path]], images: dict[str, Path]
) -> list[Verdict]:
    recoveries = disks.recover_disks(series.kernel, images, series.out / "recovered")
    judged = []
    for verdict, script in verdicts:
        image, recovery = images[verdict.case], recoveries[verdict.case]
        judged.append(_judged(series, verdict, image, recovery, script))
        image.unlink()
    return judged
