"""Runs a command, and ends it with everything that it started when the process that started this one ends.

    python3 guard.py COMMAND [ARGUMENT ...]

The command gets a process group of its own, whose number is the first line of standard output: `group=N`. Standard
input must be a pipe. The whole group is killed when the pipe closes, because its other end was closed or the process
there has ended, and when this process is terminated. This process ends after the last process of the group, with the
command's exit code. `release` written to the pipe lets the command run on unguarded.
"""

import ctypes
import os
import select
import signal
import subprocess
import sys

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36


def prctl(option, value):
    """Works on Linux only. Elsewhere a group is killed as well, but this process does not wait for its orphans."""
    try:
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)
    except (AttributeError, OSError):
        pass


def die_with_parent():
    prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def kill_group(group):
    try:
        os.killpg(group, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        pass


def reap_all():
    """Waits for the command's orphans, which are children of this process."""
    try:
        while True:
            os.wait()
    except ChildProcessError:
        pass


def main():
    # Signals wake the loop below through a pipe, so none is missed between two of its steps.
    wakeup, wakeup_end = os.pipe()
    for end in (wakeup, wakeup_end):
        os.set_blocking(end, False)
    signal.set_wakeup_fd(wakeup_end)
    stopping = []
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: stopping.append(True))
    signal.signal(signal.SIGCHLD, lambda *_: None)
    prctl(PR_SET_CHILD_SUBREAPER, 1)

    # The group exists before the command runs, so that a reader of the next line can kill it at once.
    child = subprocess.Popen(
        sys.argv[1:], stdin=subprocess.DEVNULL, start_new_session=True, preexec_fn=die_with_parent
    )
    print(f"group={child.pid}", flush=True)

    watched = [0, wakeup]
    while child.poll() is None and not stopping:
        for ready in select.select(watched, [], [])[0]:
            data = os.read(ready, 4096)
            if ready == 0 and b"release" in data:
                watched.remove(0)
            elif ready == 0 and not data:
                stopping.append(True)
    kill_group(child.pid)
    code = child.wait()
    reap_all()
    # A shell reports an end by a signal in this way.
    sys.exit(128 - code if code < 0 else code)


main()
