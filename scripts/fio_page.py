"""Writes docs/fio.md: how job files of fio run, and what becomes of each of fio's keys."""

import sys

from generated_page import DOCS, write_or_check

from nandlab.fio_jobs.options import OPTIONS, Option

HEAD = """# Job files of fio

Made by `make docs` from the table of options: do not edit.

`nandlab fio` runs a job file of fio on a simulated device. It reads the file as fio 3.33 reads it
and prints the report that fio prints.

Save this as `out/mixed.fio`:

```ini
[global]
ioengine=libaio
direct=1
size=8m
[reads]
rw=randread
iodepth=8
[writes]
rw=randwrite
iodepth=2
```

```console
$ .venv/bin/nandlab fio out/mixed.fio --device nvme-ssd
$ .venv/bin/nandlab fio out/mixed.fio --device sata-ssd --scheduler kyber --output-format json
$ .venv/bin/nandlab fio out/mixed.fio --showcmd
```

| option | does |
|---|---|
| `--device` | names the device (`nandlab list devices`) |
| `--scheduler` | names the scheduler (`nandlab list schedulers`); otherwise `noop` |
| `--board` | names the host; otherwise `emulated-pc`, or `odroid-xu` if a job uses the page cache |
| `--precondition` | `none`, `fill` (otherwise), `random:PERCENT` or `steady` before the jobs |
| `--seed` | seed of the preconditioning and of the jobs |
| `--most-requests N` | ends each group after N requests; otherwise 2,000,000 are the most |
| `--output-format` | `normal`, `json` or `json+`, as in fio |
| `--output FILE` | writes the report into a file |
| `--logs FOLDER` | writes the logs that the job file asks for |
| `--timeline FILE` | writes requests, dies and processes as tracks for <https://ui.perfetto.dev> |
| `--parse-only`, `--showcmd` | check the file, or show it as a command line; nothing runs |
| `--json` | prints conditions, notes and fio's JSON in the shape of all commands |

Conditions and notes go to standard error, so that standard output is fio's. A wrong file ends with
exit code 2 and one message: file, line, key, reason and suggestion.

## What is simulated

- A job is a job of a [study](studies.md): processes over page cache, scheduler and device. One run
  is made, so n is 1.
- Without `--precondition` every page of the device is written once before the jobs. Files of the
  jobs are at its end.
- Jobs between two `stonewall` run side by side, on the device as the jobs before left it. Clean
  pages are dropped from the page cache in between, as fio's `invalidate` does.
- A random pass takes every block once, as with fio's map of blocks; `norandommap` lets places
  repeat. The order is not that of fio, whose generator is another.
- The direction of a mixed job is drawn for each request. Sequential mixed jobs have a position for
  each direction.
- A pass in order has the requests of fio's own log (`write_iolog`), byte by byte: tests compare
  them.
- `verify` reads again what was written, in fio's order and batches. Contents are not compared: the
  simulated device keeps none.
- `rate_iops` spaces requests evenly. A late request puts off the later ones. In mixed jobs each
  direction catches up.
- A rate that ends in a fraction of a microsecond is rounded to whole ones.

## Simulated time in fio's fields

| field | holds |
|---|---|
| `clat_ns`, `lat_ns` | simulated time from the call to its end; the two are equal |
| `slat_ns` | 0: submission takes no time of its own; `psync` has none, as in fio |
| `sync` | time from a write to the end of the `fsync` after it; without `fdatasync`, as in fio |
| `runtime`, `job_runtime` | simulated milliseconds, rounded up; the ramp is left out |
| `bw_*`, `iops_*` | samples over whole windows of 500 ms |
| `iodepth_level` | requests under way when a request begins |
| `iodepth_submit`, `iodepth_complete` | all in `4`: one at a time |
| `percentile`, `bins` | the middles of fio's 64 bins an octave |
| `usr_cpu`, `sys_cpu`, `ctx`, `majf`, `minf` | 0: the processor of the host is not measured |
| `timestamp`, `time` | the beginning of 1970: nothing is read from a clock |
| `fio version` | `fio-3.33-nandlab-` and the version |
| `disk_util` | absent, as for fio's engines without a disk |

## Stricter than fio

fio takes some files with a mistake in them, and nandlab refuses these: unknown suffixes such as
`size=1x`, `size=-1`, a missing size, a missing included file, and one that includes itself.
`exec_prerun` and `exec_postrun` are never run."""

_TITLES = {
    "honoured": "Keys that are honoured",
    "ignored": "Keys that are ignored",
    "refused": "Keys that are refused",
}
_INTRODUCTIONS = {
    "honoured": "The last column says what is special here.",
    "ignored": "A note on standard error names each that a file uses.",
    "refused": "A value in brackets asks for nothing, and is taken.",
}


def page() -> str:
    """The page as text."""
    parts = [HEAD]
    for verdict, title in _TITLES.items():
        rows = [option for option in OPTIONS if option.verdict == verdict]
        parts.append(f"## {title}\n\n{_INTRODUCTIONS[verdict]}\n\n{_table(rows)}")
    return "\n".join(parts)


def _table(options: list[Option]) -> str:
    """A row for all keys that do the same in fio and meet the same end here."""
    together: dict[tuple[str, str], list[str]] = {}
    for option in options:
        together.setdefault((option.does, option.why), []).append(_name(option))
    lines = ["| key | in fio | here |", "|---|---|---|"]
    lines += [f"| {', '.join(keys)} | {does} | {why} |" for (does, why), keys in together.items()]
    return "\n".join(lines) + "\n"


def _name(option: Option) -> str:
    names = " or ".join(f"`{name}`" for name in (option.name, *option.synonyms))
    return f"{names} ({', '.join(option.harmless)})" if option.harmless else names


if __name__ == "__main__":
    sys.exit(write_or_check(DOCS / "fio.md", page, __doc__, None))
