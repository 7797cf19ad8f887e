"""A worker in Python, with nothing but its standard library: python3 worker.py PORT

`fairlead fleet-worker --forward http://127.0.0.1:PORT` claims the jobs, keeps them alive and stores their results.
"""
import json
import sys
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Permanent(Exception):
    """A retry would not help."""


class Later(Exception):
    """Try again in some seconds."""


def resize(payload, job):
    if "key" not in payload:
        raise Permanent("the payload has no key")
    if payload.get("busy"):
        raise Later(30)
    job.post("progress", {"done": 0.5})
    job.post("checkpoint", {"resized": payload["key"]})
    return {"key": payload["key"], "attempt": job.attempt}


HANDLERS = {"resize": resize, "conformance": lambda payload, job: payload}


class Job(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        handler = HANDLERS.get(self.path.removeprefix("/jobs/"))
        self.attempt = int(self.headers["fairlead-attempt"])
        if handler is None:
            return self.answer(404, {"detail": "no such type"})
        try:
            self.answer(200, handler(json.loads(body), self))
        except Permanent as error:
            self.answer(422, {"detail": str(error)})
        except Later as error:
            self.answer(503, {"detail": "busy"}, {"retry-after": str(error)})
        except BrokenPipeError:
            pass  # The connection is closed: the job was cancelled.
        except Exception as error:
            self.answer(500, {"detail": repr(error)})

    def post(self, what, data):
        """Progress, or a checkpoint that the next attempt can continue from. 410: this attempt is over, so stop."""
        request = urllib.request.Request(
            f"{self.headers['fairlead-callback']}/{what}",
            data=json.dumps(data).encode(),
            headers={"content-type": "application/json"},
        )
        urllib.request.urlopen(request, timeout=10).close()

    def answer(self, status, value, headers={}):
        body = json.dumps(value).encode()
        self.send_response(status)
        for name, text in {"content-type": "application/json", "content-length": str(len(body)), **headers}.items():
            self.send_header(name, text)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


if __name__ == "__main__":
    server = ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Job)
    print(server.server_port, flush=True)
    server.serve_forever()
