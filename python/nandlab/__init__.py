"""nandlab: a laboratory for NAND flash storage stacks.

`import nandlab as nl` gives `nl.run`, `nl.replay`, `nl.compare`, `nl.script`, `nl.image.ls` and
more. Importing the package is cheap: a module of `nandlab.api` is loaded with the first use of a
name in it.
"""

from nandlab.errors import NandlabError, UncertainError

# The module `typing` takes longer to load than all of this; type checkers know the name.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from nandlab.api import image
    from nandlab.api.answer import Answer
    from nandlab.api.crash_search import CrashSearch, crash_search
    from nandlab.api.fio import FioReport, fio
    from nandlab.api.interrupted import Interrupted
    from nandlab.api.kernels import capture_trace, validate
    from nandlab.api.listings import (
        boards,
        devices,
        explain,
        file_systems,
        formats,
        ftls,
        guarantees,
        listing,
        oob_layouts,
        parts,
        policies,
        schedulers,
        script_commands,
        studies,
        tests,
        workloads,
    )
    from nandlab.api.mqsim import Mqsim, mqsim
    from nandlab.api.policies import PolicyCheck, check
    from nandlab.api.raw_chips import serve_raw
    from nandlab.api.readings import Readings, search_readings
    from nandlab.api.requests import Replay, convert, replay, schedule
    from nandlab.api.runs import Run, open_run, run
    from nandlab.api.scripts import Crash, Script, crash, script
    from nandlab.api.search import Search, search
    from nandlab.api.served_cuts import ServeCrash, serve_crash
    from nandlab.api.serving import ServedDevice, serve, serve_ctl, serve_replay
    from nandlab.api.study import Study
    from nandlab.api.syscall_logs import StraceImport, strace_import
    from nandlab.api.tools import Comparison, compare

__all__ = [
    "Answer",
    "Comparison",
    "Crash",
    "CrashSearch",
    "FioReport",
    "Interrupted",
    "Life",
    "Mqsim",
    "NandlabError",
    "PolicyCheck",
    "Readings",
    "Replay",
    "Run",
    "Script",
    "Search",
    "ServeCrash",
    "ServedDevice",
    "StraceImport",
    "Study",
    "UncertainError",
    "__version__",
    "boards",
    "capture_trace",
    "check",
    "compare",
    "convert",
    "crash",
    "crash_search",
    "devices",
    "explain",
    "file_systems",
    "fio",
    "formats",
    "ftls",
    "guarantees",
    "image",
    "life",
    "listing",
    "mqsim",
    "oob_layouts",
    "open_run",
    "parts",
    "policies",
    "replay",
    "run",
    "schedule",
    "schedulers",
    "script",
    "script_commands",
    "search",
    "search_readings",
    "serve",
    "serve_crash",
    "serve_ctl",
    "serve_raw",
    "serve_replay",
    "strace_import",
    "studies",
    "tests",
    "validate",
    "workloads",
]

__version__ = "0.1.0"

_NAMES = {
    "answer": "Answer",
    "crash_search": "CrashSearch crash_search",
    "fio": "FioReport fio",
    "interrupted": "Interrupted",
    "kernels": "capture_trace validate",
    "life": "Life life",
    "listings": "boards devices explain file_systems formats ftls guarantees listing "
    "oob_layouts parts policies schedulers script_commands studies tests workloads",
    "mqsim": "Mqsim mqsim",
    "policies": "PolicyCheck check",
    "raw_chips": "serve_raw",
    "readings": "Readings search_readings",
    "requests": "Replay convert replay schedule",
    "runs": "Run open_run run",
    "search": "Search search",
    "scripts": "Crash Script crash script",
    "served_cuts": "ServeCrash serve_crash",
    "serving": "ServedDevice serve serve_ctl serve_replay",
    "study": "Study",
    "syscall_logs": "StraceImport strace_import",
    "tools": "Comparison compare",
}
"""Public names by the module of `nandlab.api` that has them."""

_MODULES = {name: module for module, names in _NAMES.items() for name in names.split()}


def __getattr__(name: str) -> "Any":
    """Load what has a public name with its first use."""
    if name != "image" and name not in _MODULES:
        raise AttributeError(f"module 'nandlab' has no attribute {name!r}")
    from importlib import import_module

    value: Any
    if name == "image":
        value = import_module("nandlab.api.image")
    else:
        value = getattr(import_module(f"nandlab.api.{_MODULES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """Every public name, for completion."""
    return sorted(__all__)
