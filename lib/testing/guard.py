"""Runs a command so that nothing of it outlives whoever started this.

    python3 guard.py COMMAND [ARGUMENT ...]

To be started as the leader of its own process group, with a pipe as standard input. When the pipe closes, because
its other end was closed or its process is gone, however it ended, the whole group is killed.
"""

import os
import signal
import subprocess
import sys
import threading


def kill_group_at_end_of_input():
    try:
        while os.read(0, 4096):
            pass
    except OSError:
        pass
    os.killpg(0, signal.SIGKILL)


def main():
    if os.getpgrp() != os.getpid():
        sys.exit("guard.py: start it as the leader of its own process group")
    threading.Thread(target=kill_group_at_end_of_input, daemon=True).start()
    with subprocess.Popen(sys.argv[1:], stdin=subprocess.DEVNULL) as child:
        code = child.wait()
    # As a shell reports it.
    sys.exit(128 - code if code < 0 else code)


main()
