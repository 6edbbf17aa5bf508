# SPDX-License-Identifier: Apache-2.0
"""The servers of the benchmark: each started from its own configuration, in its own folder, on loopback ports."""
import os
import shutil
import signal
import socket
import subprocess
import time

READY_SECONDS = 60
POSTGRES_BIN = "/usr/lib/postgresql/15/bin"


def free_port():
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return sock.getsockname()[1]


def wait_for(what, ready):
    end = time.monotonic() + READY_SECONDS
    while not ready():
        if time.monotonic() > end:
            raise RuntimeError(what + " does not get ready")
        time.sleep(0.002)


def says(port, request, expected):
    """False while it is not there, or too busy to answer within a second."""
    try:
        with socket.create_connection(("127.0.0.1", port), 1) as sock:
            sock.sendall(request)
            return expected in sock.recv(4096)
    except OSError:
        return False


class Server:
    """A process in a folder; `flags` are what a load needs to reach it."""

    def __init__(self, binaries, folder):
        self.binaries, self.folder, self.process = binaries, folder, None

    def spawn(self, command, **kwargs):
        with open(os.path.join(self.folder, "log"), "ab") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, **kwargs)

    def make(self):
        shutil.rmtree(self.folder, ignore_errors=True)
        os.makedirs(self.folder)

    def kill(self):
        """At once, as a power cut would end it but for what the kernel holds."""
        self.end(signal.SIGKILL)

    def stop(self):
        self.end(signal.SIGTERM)

    def end(self, number):
        if self.process:
            self.process.send_signal(number)
            self.process.wait()
            self.process = None

    def log(self):
        with open(os.path.join(self.folder, "log"), errors="replace") as file:
            return file.read()[-2000:]


class Berth(Server):
    def __init__(self, binaries, folder, options=()):
        super().__init__(binaries, folder)
        self.options = list(options)
        self.credentials = os.path.join(folder, "credentials")
        self.port = self.blobs_port = 0

    def make(self):
        super().make()
        subprocess.run([self.binaries["coordinator"], "init", "--fleet", "bench", "--out", self.credentials],
                       check=True, stdout=subprocess.DEVNULL)

    def start(self):
        ready = os.path.join(self.folder, "ready")
        if os.path.exists(ready):
            os.remove(ready)
        began = time.monotonic()
        self.spawn([self.binaries["coordinator"], "serve", "--data", os.path.join(self.folder, "data"),
                    "--credentials", os.path.join(self.credentials, "coordinator"), "--listen", "127.0.0.1:0",
                    "--blobs-listen", "127.0.0.1:0", "--ready-file", ready, "--log-level", "warn"] + self.options)
        wait_for("berth-coordinator", lambda: os.path.exists(ready) and os.path.getsize(ready))
        seconds = time.monotonic() - began
        with open(ready) as file:
            ports = dict(line.strip().split("=") for line in file)
        self.port, self.blobs_port = int(ports["listen"]), int(ports["blobs"])
        return seconds

    def flags(self):
        return ["credentials=" + self.credentials, "port=%d" % self.port, "blobs-port=%d" % self.blobs_port,
                "server=%d" % self.process.pid]

    def load(self, verb="run"):
        return [self.binaries["load"], verb] + self.flags()


class Peer(Server):
    kind = None

    def load(self, verb="run"):
        return [self.binaries["peer"], self.kind, verb, "address=" + self.address(), "server=%d" % self.process.pid]

    def address(self):
        return "127.0.0.1:%d" % self.port


class Redis(Peer):
    kind = "redis"

    def __init__(self, binaries, folder, durable=True):
        super().__init__(binaries, folder)
        self.durable, self.port = durable, free_port()

    def start(self):
        # The default keeps snapshots and no log: what came after the last is lost.
        durability = ["--appendonly", "yes", "--appendfsync", "always", "--save", ""] if self.durable else []
        self.spawn(["redis-server", "--port", str(self.port), "--bind", "127.0.0.1", "--dir", self.folder,
                    "--daemonize", "no", "--auto-aof-rewrite-percentage", "0"] + durability)
        wait_for("redis-server", lambda: says(self.port, b"PING\r\n", b"PONG"))


class Etcd(Peer):
    kind = "etcd"

    def __init__(self, binaries, folder):
        super().__init__(binaries, folder)
        self.port, self.peer_port = free_port(), free_port()

    def start(self):
        url, peer_url = "http://127.0.0.1:%d" % self.port, "http://127.0.0.1:%d" % self.peer_port
        self.spawn(["etcd", "--data-dir", os.path.join(self.folder, "data"), "--listen-client-urls", url,
                    "--advertise-client-urls", url, "--listen-peer-urls", peer_url, "--initial-advertise-peer-urls",
                    peer_url, "--initial-cluster", "default=" + peer_url, "--log-level", "error",
                    "--heartbeat-interval", "50", "--election-timeout", "300", "--quota-backend-bytes",
                    str(4 << 30)])
        wait_for("etcd", lambda: says(self.port, b"GET /health HTTP/1.0\r\n\r\n", b'"true"'))


class Postgres(Peer):
    kind = "postgres"

    def __init__(self, binaries, folder, durable=True):
        super().__init__(binaries, folder)
        self.durable, self.port = durable, free_port()

    def as_user(self, command):
        return ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"] + command

    def make(self):
        super().make()
        shutil.chown(self.folder, "postgres", "postgres")
        subprocess.run(self.as_user([POSTGRES_BIN + "/initdb", "-D", os.path.join(self.folder, "data"), "-A", "trust",
                                     "--no-instructions", "-E", "UTF8", "--locale=C"]),
                       check=True, stdout=subprocess.DEVNULL, cwd=self.folder)

    def start(self):
        self.spawn(self.as_user([POSTGRES_BIN + "/postgres", "-D", os.path.join(self.folder, "data"), "-p",
                                 str(self.port), "-c", "listen_addresses=127.0.0.1", "-k", self.folder, "-c",
                                 "max_connections=300", "-c", "shared_buffers=512MB", "-c",
                                 "synchronous_commit=" + ("on" if self.durable else "off")]), cwd=self.folder)
        wait_for("postgres", self.answers)

    def answers(self):
        return subprocess.run([POSTGRES_BIN + "/pg_isready", "-q", "-h", "127.0.0.1", "-p",
                               str(self.port)]).returncode == 0

    def kill(self):
        children = subprocess.run(["pgrep", "-P", str(self.process.pid)], capture_output=True, text=True)
        pids = [int(text) for text in children.stdout.split()]
        self.process.kill()
        for pid in pids:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        self.process.wait()
        self.process = None
        # A start is refused while one of them still holds the shared memory.
        wait_for("the end of postgres", lambda: not any(os.path.exists("/proc/%d" % pid) for pid in pids))

    def stop(self):
        self.end(signal.SIGINT)  # the fast end: it does not wait for clients

    def address(self):
        return "host=127.0.0.1 port=%d user=postgres dbname=postgres" % self.port
