"""Services under an ailment: `go-hog` (HTTP in Go beside a real-time process), `go-quota`, `node-stopped`, `node-hog`, `java-quota`,
`python-frozen`, `traced` (a C program that strace follows)."""

import http.client
import os
import subprocess
import sys
import time
from pathlib import Path

from culprit import draws
from injected import Stops, WORK, begin, end, hog, hogs, kept_by_hog, schedstat, some_cpu, throttled, victim

kind = sys.argv[1]
tools = Path(os.environ["CULPRIT_TOOLS"])
cpu, thief = some_cpu(), f"thief-{draws.randint(10, 99)}"
hogged = kind.endswith("-hog")
NODE = """
const { createHash } = require("node:crypto");
const server = require("node:http").createServer((_, answer) => {
  const end = process.hrtime.bigint() + 1000000n;
  while (process.hrtime.bigint() < end) createHash("sha256").update("text".repeat(200)).digest();
  answer.end("well");
});
server.listen(0, "127.0.0.1", () => console.log(server.address().port));
"""
PYTHON = """
import http.server
class Answers(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    def do_GET(self):
        sum(range(30000))
        self.send_response(200); self.send_header("Content-Length", "4"); self.end_headers(); self.wfile.write(b"well")
    def log_message(self, *words): pass
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answers)
print(server.server_address[1], flush=True)
server.serve_forever()
"""
commands = {"go": [tools / "go/service"], "node": ["node", "-e", NODE], "python": [sys.executable, "-c", PYTHON],
            "java": ["java", "-Dsun.net.httpserver.nodelay=true", "-cp", tools / "java", "Service"]}
service = victim(*commands[kind.split("-")[0]], cpu=cpu if hogged or kind.endswith("quota") else None,
                 grouped=kind.endswith(("quota", "frozen")),
                 stdout=subprocess.PIPE, text=True, env={**os.environ, "GOMAXPROCS": "1"})
connection = http.client.HTTPConnection("127.0.0.1", int(service.stdout.readline()), timeout=8)


def ask():
    connection.request("GET", "/")
    connection.getresponse().read()


for _ in range(20):
    ask()
if hogged:
    hog(thief, cpu, fifo=True)
stops = Stops(service.pid, freezer=kind.endswith("frozen"))
started = begin(service.pid)
before, until, asked = schedstat(service.pid), time.monotonic() + 2.5, 0
hog_before = schedstat(hogs[0]) if hogged else {}
if kind.endswith("quota"):
    stopped = throttled()
while time.monotonic() < until:
    if kind.endswith(("stopped", "frozen")):
        stops.once()
    ask()
    asked += 1
if kind.endswith("quota"):
    lost, times = (now - then for now, then in zip(throttled(), stopped))
    end(started, lost, times, service)
elif hogged:
    end(started, kept_by_hog(service.pid, before, hog_before), asked, service, culprit=thief)
else:
    end(started, stops.lost, stops.times, service, culprit="python3")
