"""A `request` or an `answer` in two writes over TCP: the second one waits for the acknowledgement of the first, which the other end delays."""

import os
import signal
import socket
import sys
import time

from culprit import draws, tell

answers = sys.argv[1:] == ["answer"]
listener = socket.create_server(("127.0.0.1", 0))
server = os.fork()
if server == 0:
    signal.alarm(12)
    peer, _ = listener.accept()
    request = b""
    while data := peer.recv(4096):
        request += data
        while len(request) >= 300:
            request = request[300:]
            peer.sendall(b"y" * 50)
            if answers:
                peer.sendall(b"z" * 200)
    os._exit(0)
client = socket.create_connection(listener.getsockname())
own, lost, times = draws.uniform(0.001, 0.005), 0, 0
begin = time.monotonic_ns()
while time.monotonic_ns() - begin < 2_500_000_000:
    at = time.monotonic_ns()
    if answers:
        client.sendall(b"q" * 300)
        client.recv(250, socket.MSG_WAITALL)
    else:
        client.sendall(b"h" * 100)
        client.sendall(b"b" * 200)
        client.recv(50)
    lost += time.monotonic_ns() - at
    times += 1
    time.sleep(own)
tell(begin, lost, times, peer="python3")
os.kill(server, signal.SIGKILL)
os.waitpid(server, 0)
