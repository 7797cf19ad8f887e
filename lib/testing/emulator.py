"""Serves MiniStack on one loopback port, and prints the port.

    python3 emulator.py PORT

PORT 0 takes a free one. The port is bound before anything else happens, so that no other program can take it in
between, and a port in use is reported at once. It is written to standard output as `port=N`.
"""

import asyncio
import errno
import os
import resource
import socket
import sys


def bind(port):
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    # This does not take a port in use, only one whose last owner has just ended.
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind(("127.0.0.1", port))
        listener.listen(1024)
    except OSError as error:
        sys.exit(f"port={port} {errno.errorcode.get(error.errno, 'error')}")
    return listener


def main():
    listener = bind(int(sys.argv[1]))
    port = listener.getsockname()[1]
    print(f"port={port}", flush=True)
    # All further output goes to the log.
    os.dup2(2, 1)
    os.environ["GATEWAY_PORT"] = str(port)

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))

    # MiniStack reads its settings from the environment while it is imported, so the import comes last.
    from hypercorn.asyncio import serve
    from hypercorn.config import Config
    from ministack.app import app

    config = Config()
    config.bind = [f"fd://{listener.detach()}"]
    config.keep_alive_timeout = 75
    config.loglevel = os.environ.get("LOG_LEVEL", "WARNING")
    asyncio.run(serve(app, config))


main()
