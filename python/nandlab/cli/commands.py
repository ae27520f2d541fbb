"""The commands, in the order of the help.

`nandlab --help` is written from this table alone, so that it loads no command.
"""

COMMANDS: dict[str, tuple[str, str]] = {
    "run": ("run:run", "Run a study: every combination of its axes, then verdict and report."),
    "report": ("report:report", "Render the report of a run again, from its results."),
    "compare": (
        "compare:compare",
        "Compare two runs, or candidates on a workload of your own.",
    ),
    "index": ("index:index", "Write a page that links the reports of all runs in a folder."),
    "readings": (
        "readings:readings",
        "Search what publications leave unsaid, and score every joint reading.",
    ),
    "search": (
        "search:search",
        "Search a space of parts, layers and options, down to one recommendation.",
    ),
    "replay": (
        "requests:replay",
        "Replay a trace: count a chip's operations, or measure latencies on a device.",
    ),
    "life": ("life:life", "Say how many years flash lasts if a workload goes on without end."),
    "fio": ("fio:fio", "Run a job file of fio on a simulated device and print fio's report."),
    "mqsim": ("mqsim:mqsim", "Run the flows of MQSim's own files on nandlab's devices."),
    "schedule": ("requests:schedule", "Print what an I/O scheduler does with a table of requests."),
    "script": ("scripts:script", "Run a script of system calls on a simulated file system."),
    "crash": (
        "scripts:crash",
        "Cut the power at every chip operation of a script and check recovery.",
    ),
    "crash-search": (
        "crash_search:crash_search",
        "Search random scripts of system calls for those whose power cuts break a guarantee.",
    ),
    "strace-import": (
        "syscall_logs:strace_import",
        "Make a script of system calls of a log of strace.",
    ),
    "serve": (
        "serving:serve",
        "Offer a simulated device to NBD clients: QEMU, nbdcopy, fio or the kernel.",
    ),
    "serve-ctl": ("serving:serve_ctl", "Send a command to a device that `nandlab serve` offers."),
    "serve-replay": (
        "serving:serve_replay",
        "Carry the log of `nandlab serve` out again, and compare the digest of the chips.",
    ),
    "serve-crash": (
        "served_cuts:serve_crash",
        "Fail the power of a served device under a real kernel, and compare what is left.",
    ),
    "serve-raw": (
        "raw_chips:serve_raw",
        "Run a shell script in a real kernel on a raw chip from an image.",
    ),
    "check": (
        "policies:check",
        "Check a policy of your own: a layer, a scheduler, cleaning, wear levelling, admission.",
    ),
    "image": ("image:image", "Make, list, extract, check and compare images of file systems."),
    "convert": ("requests:convert", "Convert a trace to Parquet and summarise it."),
    "capture": ("kernels:capture", "Capture a block trace, in a virtual machine or of a disk."),
    "validate": ("kernels:validate", "Compare operation counts with those of real kernels."),
    "list": ("listing:list_command", "List available items."),
    "explain": ("listing:explain", "Explain an item of any list."),
    "new": ("new:new", "Write a commented template of a part, a workload or a study."),
    "completion": ("completion:completion", "Print the completion script of a shell."),
}
"""Where each command is, below `nandlab.cli`, and the first line of its help."""

EXIT_STATUSES = (
    ("0", "success"),
    ("1", "a difference, a violation, or damage was found"),
    ("2", "bad input"),
    ("3", "an image whose format is not certain"),
    ("130", "interrupted with Ctrl-C"),
    ("141", "the reader of standard output ended early"),
    ("143", "terminated with SIGTERM"),
)
