"""The calls of a log, one after the other."""

from collections.abc import Callable
from dataclasses import dataclass

from nandlab.errors import NandlabError
from nandlab.syscall_logs import data_calls, descriptor_calls, failed_calls, name_calls
from nandlab.syscall_logs.state import NO_CHANGE, NO_WORD, Given, State, given_by
from nandlab.syscall_logs.strace import HOW, Call, Log
from nandlab.syscall_logs.tree import File

Handler = Callable[[State, Given], None]

_HANDLERS: dict[Handler, str] = {
    data_calls.copies_range: "copy_file_range splice",
    data_calls.cuts_descriptor: "ftruncate ftruncate64",
    data_calls.cuts_path: "truncate truncate64",
    data_calls.maps: "mmap mmap2",
    data_calls.reads: "pread64 preadv preadv2 read readv",
    data_calls.reserves: "fallocate",
    data_calls.seeks: "lseek",
    data_calls.sends_file: "sendfile sendfile64",
    data_calls.syncs_all: "sync syncfs",
    data_calls.syncs_file: "fdatasync fsync",
    data_calls.tells_status: "fstat fstat64 fstatat64 lstat lstat64 newfstatat stat stat64 statx",
    data_calls.writes: "pwrite64 pwritev pwritev2 write writev",
    descriptor_calls.changes_folder: "chdir",
    descriptor_calls.changes_root: "chroot",
    descriptor_calls.changes_folder_to_descriptor: "fchdir",
    descriptor_calls.closes: "close",
    descriptor_calls.closes_range: "close_range",
    descriptor_calls.controls: "fcntl fcntl64",
    descriptor_calls.controls_device: "ioctl",
    descriptor_calls.copies: "dup dup2 dup3",
    descriptor_calls.executes: "execve execveat",
    descriptor_calls.forks: "clone clone3 fork vfork",
    descriptor_calls.opens: "creat open openat openat2",
    descriptor_calls.sets_umask: "umask",
    descriptor_calls.tells_folder: "getcwd",
    name_calls.changes_mode: "chmod fchmod fchmodat fchmodat2",
    name_calls.changes_owner: "chown chown32 fchown fchown32 fchownat lchown lchown32",
    name_calls.changes_times: "futimesat utime utimensat utimes",
    name_calls.links: "link linkat",
    name_calls.links_symbolically: "symlink symlinkat",
    name_calls.lists_folder: "getdents getdents64",
    name_calls.makes_folder: "mkdir mkdirat",
    name_calls.makes_node: "mknod mknodat",
    name_calls.reads_link: "readlink readlinkat",
    name_calls.renames: "rename renameat renameat2",
    name_calls.sets_attribute: "fsetxattr lsetxattr setxattr",
    name_calls.unlinks: "rmdir unlink unlinkat",
}
HANDLERS = {name: handler for handler, names in _HANDLERS.items() for name in names.split()}
"""What is done with a call that succeeded."""

_FAILED: dict[Handler, str] = {
    descriptor_calls.failed_to_open: "open openat openat2",
    name_calls.failed_on_path: "access chdir faccessat faccessat2 lstat lstat64 newfstatat "
    "readlink readlinkat rmdir stat stat64 statx unlink unlinkat",
}
FAILED = {name: handler for handler, names in _FAILED.items() for name in names.split()}
"""What a call tells that failed."""

AT_BEGIN = frozenset(["close", "close_range", "fdatasync", "fsync", "sync", "syncfs"])
"""Calls that another process's calls may come into, and that count from their begin.

A number is free as soon as `close` begins (`close_fd`, Linux). No sync promises that what is
written while it waits is durable.
"""

_CHANGE_NOTHING = """
    accept accept4 access arch_prctl bind brk clock_nanosleep connect epoll_create epoll_create1
    epoll_ctl epoll_pwait epoll_pwait2 epoll_wait eventfd eventfd2 exit exit_group faccessat
    faccessat2 fadvise64 fgetxattr flistxattr flock fstatfs futex get_mempolicy getegid geteuid
    getgid getpeername getpid getppid getrandom getsockname getsockopt gettid getuid getxattr
    inotify_add_watch inotify_init inotify_init1 inotify_rm_watch kill lgetxattr listen listxattr
    llistxattr madvise memfd_create mprotect munmap name_to_handle_at nanosleep newfstat pidfd_open
    pidfd_send_signal pipe pipe2 poll ppoll prlimit64 process_madvise process_vm_readv pselect6
    readahead recvfrom recvmsg restart_syscall rseq rt_sigaction rt_sigprocmask rt_sigqueueinfo
    sched_yield select sendmmsg sendmsg sendto set_robust_list set_tid_address setns setsockopt
    shutdown signalfd signalfd4 socket socketpair statfs sysinfo tee tgkill timerfd_create
    timerfd_gettime timerfd_settime tkill uname unshare userfaultfd wait4 waitid
"""
CHANGE_NOTHING = frozenset(_CHANGE_NOTHING.split())
"""Calls after which every file is as before: those of the traced groups, and others."""


@dataclass(frozen=True)
class LeftOut:
    """Calls that no line of the script stands for, or only nearly."""

    call: str
    calls: int
    fate: str
    """`left out`, `approximated`, `failed`, or `changes nothing`."""
    reason: str


def _order(log: Log) -> list[tuple[int, int, Call | None, int]]:
    """Calls and the ends of processes by line: line, rank within it, call, process."""
    found: list[tuple[int, int, Call | None, int]] = [
        (call.line if call.name in AT_BEGIN else call.last_line, 0, call, call.process)
        for call in log.calls
    ]
    found += [(line, 1, None, process) for line, process in log.exits]
    return sorted(found, key=lambda one: one[:2])


def carry_out(shown: str, state: State, log: Log) -> None:
    """Takes all calls of a log.

    Raises `NandlabError` with the line of a call that cannot be understood.
    """
    for _, _, call, process in _order(log):
        if call is None:
            state.closed(None, state.processes.ends(process))
            continue
        try:
            _call(state, call)
        except (NandlabError, ValueError, IndexError) as error:
            reason = str(error) if isinstance(error, NandlabError) else _unreadable(call, error)
            raise NandlabError(f"{shown}:{call.line}: {call.name}: {reason}") from None


def _unreadable(call: Call, error: Exception) -> str:
    why = "it has too few arguments" if isinstance(error, IndexError) else str(error)
    return f"the call cannot be read: {why}; record with {HOW}"


def _call(state: State, call: Call) -> None:
    if call.name in CHANGE_NOTHING and call.name not in FAILED:
        state.left_out[call.name, NO_CHANGE] += 1
        return
    given = given_by(state, call)
    if given.result.error is not None:
        if state.how.failed == "left-out" or not failed_calls.line(state, given):
            state.leave_out(given, f"failed with {given.result.error}")
        if (failed := FAILED.get(call.name)) is not None:
            failed(state, given)
        return
    if given.result.value is None:
        state.leave_out(given, "the log has no result of it")
        return
    handler = HANDLERS.get(call.name)
    if handler is not None:
        handler(state, given)
    else:
        state.leave_out(given, NO_CHANGE if call.name in CHANGE_NOTHING else NO_WORD)


def files_before(state: State) -> list[File]:
    """What must be made before the first call, folders before what is in them."""
    found = {file.before: file for file in state.tree.every if file.is_needed and file.was_there}
    return [found[path] for path in sorted(path for path in found if path is not None)]


def rows(state: State, log: Log) -> list[LeftOut]:
    """Calls without a line of their own, those that matter first."""
    found = [
        LeftOut(call, number, _fate(reason), reason)
        for (call, reason), number in state.left_out.items()
    ]
    found += [
        LeftOut(call, number, "approximated", how)
        for (call, how), number in state.approximated.items()
    ]
    for name in sorted(set(log.unfinished)):
        count = log.unfinished.count(name)
        found.append(LeftOut(name, count, "left out", "it had no end when the log ended"))
    order = ("left out", "approximated", "failed", "changes nothing")
    return sorted(found, key=lambda one: (order.index(one.fate), one.call, one.reason))


def _fate(reason: str) -> str:
    if reason.startswith("failed with"):
        return "failed"
    return "changes nothing" if reason in (NO_CHANGE, "outside of the root") else "left out"
