# SPDX-License-Identifier: Apache-2.0
"""Hosts on one machine: a network namespace each, links that can be cut or made bad, and Docker Engines.

Host c is the coordinator's, w is a twin's with the same address, a1 a2 a3 run agents. Everything that is made carries
the world's root folder in its environment or its name, so that `sweep` finds all of it again, also after a crash.
"""
import concurrent.futures
import glob
import http.client
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.parse

import sanitizer

HERE = os.path.dirname(os.path.abspath(__file__))
MARK = "BERTH_FLEET_ROOT"
ADDRESS = "10.77.0.1"  # the coordinator's, and the twin's
PATH = "/usr/sbin:/usr/bin:/sbin:/bin"
ENGINE_SECONDS = 120
BASE_TAGS = ["debian:bookworm-slim", "berth-sample-base"]


class Failure(Exception):
    """A test's own verdict: its text says what was wanted and what was seen."""


class Ended(Failure):
    """A program ended that no test told to end."""


def check(condition, text):
    if not condition:
        raise Failure(text)


def patience():
    """1 on a machine that is ours; more where others keep its CPUs busy or a sanitizer is in, at most 6. Waits grow with it,
    promises never."""
    return min(6.0, max(sanitizer.SLOWNESS[World.sanitizer], os.getloadavg()[0] / os.cpu_count() / 3))


def wait_until(what, seconds, look, every=0.1):
    """The first value of look() that is true; look may also raise Failure to say what it sees."""
    begun, seen = time.monotonic(), None
    seconds *= patience()
    while True:
        check_running()
        try:
            value = look()
            if value:
                return value
        except Ended:
            raise
        except Failure as failure:
            value = failure
        seen = value
        if time.monotonic() - begun > seconds:
            raise Failure("waited %.0f s for this: %s (last seen: %s)" % (seconds, what, str(seen)[:600]))
        time.sleep(every)


def pause(seconds):
    """A rest in which a program that dies is noticed."""
    limit = time.monotonic() + seconds
    while (rest := limit - time.monotonic()) > 0:
        check_running()
        time.sleep(min(rest, 0.2))


def run(arguments, bound=60, **options):
    """Standard output of a command that must succeed."""
    done = subprocess.run(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=bound, text=True, **options)
    if done.returncode != 0:
        raise Failure("%s ended with %d: %s" % (" ".join(arguments), done.returncode, (done.stderr or done.stdout)[-900:]))
    return done.stdout


def at_once(calls):
    """Runs functions side by side; the first failure is raised after all have ended."""
    with concurrent.futures.ThreadPoolExecutor(max(1, len(calls))) as pool:
        return [future.result() for future in [pool.submit(call) for call in calls]]


# --- processes ---
RUNNING = set()  # programs that go on until a test ends them


def check_running():
    """A program that ended by itself ends its test at once, and says how."""
    for process in list(RUNNING):
        if not process.alive() and process in RUNNING:  # another thread may just have ended it
            RUNNING.discard(process)
            raise Ended("%s (pid %d) ended by itself with %s; its last words: %s" % (
                process.name, process.pid, how(process.child.returncode), process.text()[-800:]))


def how(code):
    return "exit code %d" % code if code >= 0 else signal.Signals(-code).name


class Process:
    """A program in a host. Known and ended by its pid alone."""

    def __init__(self, world, host, name, arguments, environment=None, may_end=False):
        self.name, self.host = name, host
        self.log = os.path.join(world.root, "log", name + ".log")
        with open(self.log, "ab") as log:
            self.child = subprocess.Popen(
                host.enter + arguments, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
                env=dict(world.environment, **(environment or {})))
        self.pid = self.child.pid
        world.processes.append(self)
        if not may_end:
            RUNNING.add(self)

    def alive(self):
        return self.child.poll() is None

    def signal(self, number):
        if self.alive():
            os.kill(self.pid, number)

    def kill(self):
        RUNNING.discard(self)
        self.signal(signal.SIGKILL)
        self.child.wait()

    def stop(self, seconds=30):
        """An orderly end; its exit code."""
        check_running()
        RUNNING.discard(self)
        self.signal(signal.SIGCONT)
        self.signal(signal.SIGTERM)
        try:
            return self.child.wait(seconds * patience())
        except subprocess.TimeoutExpired:
            self.kill()
            raise Failure("%s (pid %d) did not end within %d s of SIGTERM" % (self.name, self.pid, seconds))

    def text(self):
        with open(self.log, errors="replace") as log:
            return log.read()

    def rss_mb(self, field="VmRSS"):
        with open("/proc/%d/status" % self.pid) as status:
            for line in status:
                if line.startswith(field + ":"):
                    return int(line.split()[1]) / 1024
        raise Failure("%s has no %s" % (self.name, field))

    def cpu_ms(self):
        with open("/proc/%d/stat" % self.pid) as stat:
            fields = stat.read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) * 1000 // os.sysconf("SC_CLK_TCK")


# --- hosts and links ---
class Here:
    """The machine itself, for programs that enter namespaces on their own."""

    name, enter = "here", []


class Host:
    def __init__(self, world, name, number):
        self.world, self.name = world, name
        self.namespace = "%s-%s" % (world.name, name)
        self.address = ADDRESS if name in "cw" else "10.78.0.%d" % number
        # Not `ip netns exec`: that mounts /sys anew, and the control groups are gone.
        self.enter = ["nsenter", "--net=/run/netns/" + self.namespace]
        run(["ip", "netns", "add", self.namespace])
        self.ip("link", "set", "lo", "up")
        # Links come and go below one address.
        self.run("sh", "-c", "for f in /proc/sys/net/ipv4/conf/*/rp_filter; do echo 0 > $f; done")

    def run(self, *arguments, **options):
        return run(self.enter + list(arguments), **options)

    def ip(self, *arguments):
        return run(["ip", "-n", self.namespace] + list(arguments))

    def filter(self, rules):
        """Replaces this host's packet rules; none: lets everything in."""
        text = "table inet fleet\ndelete table inet fleet\n"
        if rules:
            text += "table inet fleet {\n chain in {\n  type filter hook input priority -10; policy accept;\n"
            text += "".join("  %s\n" % rule for rule in rules) + " }\n}\n"
        self.run("nft", "-f", "-", input=text)


class Link:
    """Between an agent's host and the coordinator's: a plain wire, which can be cut or be swapped for a bad line."""

    def __init__(self, world, agent):
        self.world, self.agent, self.relay = world, agent, None
        for hub in (world.c, world.w):
            run(["ip", "link", "add", agent.name, "netns", hub.namespace, "type", "veth",
                 "peer", "name", hub.name, "netns", agent.namespace])
            hub.ip("link", "set", agent.name, "up")
            hub.ip("route", "add", agent.address, "dev", agent.name, "src", ADDRESS)
            agent.ip("addr", "add", agent.address + "/32", "dev", hub.name)
            agent.ip("link", "set", hub.name, "up")
        self.to(world.c)

    def to(self, hub):
        """Which of the two hosts with the coordinator's address this agent reaches."""
        self.agent.ip("route", "replace", ADDRESS, "dev", hub.name, "src", self.agent.address)

    def cut(self, way):
        """both; deaf: the agent hears nothing; mute: it is not heard; none."""
        check(way in ("both", "deaf", "mute", "none"), "no such cut: " + way)
        self.agent.filter(["ip saddr %s drop" % ADDRESS] if way in ("both", "deaf") else [])
        muted = self.world.muted
        muted.add(self.agent.address) if way in ("both", "mute") else muted.discard(self.agent.address)
        self.world.c.filter(["ip saddr %s drop" % address for address in sorted(muted)])

    def tell(self, command):
        """A command for the relay (see relay.c); its answer."""
        mine = "%s.%d" % (self.socket, time.monotonic_ns())
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as control:
            control.bind(mine)
            try:
                control.settimeout(5)
                control.sendto(command.encode(), self.socket)
                answer = control.recv(512).decode()
            finally:
                os.unlink(mine)
        check(answer.startswith("ok"), answer)
        return answer

    def degrade(self, seed, commands):
        """Puts the relay into the line and tells it what to do."""
        name = "relay-" + self.agent.name
        self.socket = os.path.join(self.world.root, name)
        self.relay = Process(self.world, Here(), name, [
            self.world.relay, self.socket, self.world.c.namespace, "bad-" + self.agent.name, self.agent.namespace, "bad",
            str(seed), "900"])
        wait_until("the relay of " + self.agent.name, 10, lambda: "ready" in self.relay.text())
        for command in commands:
            self.tell(command)
        self.agent.ip("link", "set", "bad", "up")
        self.world.c.ip("link", "set", "bad-" + self.agent.name, "up")
        self.agent.ip("route", "replace", ADDRESS, "dev", "bad", "src", self.agent.address)
        self.world.c.ip("route", "replace", self.agent.address, "dev", "bad-" + self.agent.name, "src", ADDRESS)

    def restore(self):
        self.to(self.world.c)
        self.world.c.ip("route", "replace", self.agent.address, "dev", self.agent.name, "src", ADDRESS)
        self.cut("none")
        if self.relay:
            self.relay.stop()
            self.relay = None


# --- Docker ---
class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path, bound):
        super().__init__("docker", timeout=bound)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


class Engine:
    """A Docker Engine in a host's namespace, below root/<host>."""

    def __init__(self, world, host):
        self.world, self.host = world, host
        self.folder = os.path.join(world.root, host.name)
        self.socket = os.path.join(self.folder, "docker.sock")
        self.url = "unix://" + self.socket

    def start(self):
        self.host.run(self.world.deploy("test-engine.sh"), "start", self.folder, env=self.world.environment,
                      bound=ENGINE_SECONDS)

    def prepare(self):
        run([self.world.deploy("base-image.sh")] + BASE_TAGS, bound=300, env=dict(self.world.environment, DOCKER_HOST=self.url))

    def kill(self):
        """As a daemon that crashes: with its containers, as live restore is off."""
        end_engine(self.folder)

    def pid(self):
        with open(os.path.join(self.folder, "dockerd.pid")) as file:
            return int(file.read())

    def signal(self, number):
        try:
            os.kill(self.pid(), number)
        except (OSError, ValueError):
            pass

    def call(self, method, path, bound=30):
        connection = UnixConnection(self.socket, bound)
        try:
            connection.request(method, path)
            response = connection.getresponse()
            body = response.read()
        finally:
            connection.close()
        check(response.status < 400 or response.status == 404 and method == "DELETE",
              "Engine %s: %s %s: %d %s" % (self.host.name, method, path, response.status, body[:300]))
        return json.loads(body) if body.startswith((b"[", b"{")) else body

    def containers(self, **labels):
        """All of them with these labels (fleet="x" stands for dev.berth.fleet=x), dead ones too."""
        wanted = ["dev.berth.%s=%s" % item for item in labels.items()] or ["dev.berth.fleet"]
        filters = urllib.parse.quote(json.dumps({"label": wanted}))
        return self.call("GET", "/containers/json?all=1&filters=" + filters)

    def renew(self):
        """Up and empty again, whatever a test did to it."""
        self.signal(signal.SIGCONT)
        try:
            self.call("GET", "/_ping", 10)
        except (OSError, http.client.HTTPException, Failure):
            self.start()
        for container in self.call("GET", "/containers/json?all=1"):
            self.call("DELETE", "/containers/%s?force=1&v=1" % container["Id"])
        self.call("POST", "/networks/prune")


# --- the world ---
class World:
    sanitizer = ""  # address or thread: what our programs are built with

    def __init__(self, binaries, source):
        """binaries: name -> path; source: the checkout, where deploy/ and tests/tasks are."""
        self.binaries, self.source = binaries, source
        self.root = tempfile.mkdtemp(prefix="bf-", dir="/tmp")
        self.name = os.path.basename(self.root)
        self.relay = binaries["relay"]
        self.processes, self.muted, self.engines, self.faults = [], set(), [], []
        os.mkdir(os.path.join(self.root, "log"))
        self.environment = {MARK: self.root, "PATH": PATH, "HOME": os.environ.get("HOME") or "/root", "LANG": "C.UTF-8"}
        self.environment.update(sanitizer.options())
        World.sanitizer = sanitizer.of_binary(binaries["berth-coordinator"])
        if os.environ.get("BERTH_CACHE"):
            self.environment["BERTH_CACHE"] = os.environ["BERTH_CACHE"]
        # Outlives this process and sweeps when it could not.
        self.guard = subprocess.Popen(
            [sys.executable, os.path.abspath(__file__), "guard", self.root], stdin=subprocess.PIPE,
            start_new_session=True, env={"PATH": PATH})

    def deploy(self, script):
        return os.path.join(self.source, "deploy", script)

    def build(self):
        self.c, self.w = Host(self, "c", 0), Host(self, "w", 0)
        for hub in (self.c, self.w):
            hub.ip("addr", "add", ADDRESS + "/32", "dev", "lo")
        self.agents = [Host(self, "a%d" % n, n) for n in (1, 2, 3)]
        self.links = [Link(self, host) for host in self.agents]

    def start_engines(self):
        self.engines = [Engine(self, host) for host in self.agents]
        at_once([lambda engine=engine: (engine.start(), engine.prepare()) for engine in self.engines])

    def reset(self):
        """After a test: no process, cut or container of it is left."""
        for process in self.processes:
            process.kill()
        self.processes.clear()
        self.faults.clear()
        for link in self.links:
            link.relay = None
            link.restore()
        at_once([engine.renew for engine in self.engines])
        for folder in glob.glob(self.root + "/fleet-*"):
            shutil.rmtree(folder, ignore_errors=True)

    def close(self):
        left = sweep(self.root)
        self.guard.stdin.close()
        self.guard.wait()
        return left


def marked(root):
    """Pids of processes that were started for this world."""
    mark, found = ("%s=%s" % (MARK, root)).encode(), []
    for entry in os.listdir("/proc"):
        if entry.isdigit() and int(entry) != os.getpid():
            try:
                with open("/proc/%s/environ" % entry, "rb") as environment:
                    if mark in environment.read().split(b"\0"):
                        found.append(int(entry))
            except OSError:
                pass
    return found


def kill_marked(root, only=lambda program: True):
    for pid in marked(root):
        try:
            if only(os.path.basename(os.readlink("/proc/%d/exe" % pid))):
                os.kill(pid, signal.SIGKILL)
        except OSError:
            pass


def end(pid, seconds):
    """SIGTERM, then SIGKILL, until the process is gone or a zombie."""
    for number, bound in ((signal.SIGCONT, 0), (signal.SIGTERM, seconds), (signal.SIGKILL, 10)):
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            return
        limit = time.monotonic() + bound
        while time.monotonic() < limit:
            try:
                with open("/proc/%d/stat" % pid) as stat:
                    if stat.read().rsplit(")", 1)[1].split()[0] == "Z":
                        return
            except OSError:
                return
            time.sleep(0.05)


def end_engine(folder):
    """dockerd, then what it may have left: first processes of containers, which carry no mark, before their shims."""
    try:
        with open(os.path.join(folder, "dockerd.pid")) as file:
            pid = int(file.read())
        with open("/proc/%d/cmdline" % pid) as file:
            if folder + "/dockerd.pid" in file.read():
                end(pid, 3)
    except (OSError, ValueError):
        pass
    for path in glob.glob(folder + "/exec/containerd/daemon/io.containerd.runtime.v2.task/*/*/init.pid"):
        try:
            with open(path) as file:
                end(int(file.read()), 0)
        except (OSError, ValueError):
            pass


def sweep(root):
    """Ends and removes all that belongs to the world at `root`; returns what could not be removed, as texts."""
    name = os.path.basename(root)
    kill_marked(root, lambda program: program.startswith(("berth", "relay")))
    at_once([lambda host=host: end_engine(os.path.join(root, host)) for host in ("a1", "a2", "a3")])
    kill_marked(root)
    with open("/proc/self/mounts") as mounts:
        points = [line.split()[1] for line in mounts]
    for point in sorted((point for point in points if point.startswith(root + "/")), reverse=True):
        subprocess.run(["umount", "-l", point], stderr=subprocess.DEVNULL)
    for host in ("c", "w", "a1", "a2", "a3"):
        if os.path.exists("/run/netns/%s-%s" % (name, host)):
            subprocess.run(["ip", "netns", "del", "%s-%s" % (name, host)])
    for _ in range(20):
        shutil.rmtree(root, ignore_errors=True)
        if not os.path.exists(root) and not marked(root):
            break
        time.sleep(0.1)
    left = ["folder " + root] if os.path.exists(root) else []
    left += ["process %d" % pid for pid in marked(root)]
    left += ["namespace " + entry for entry in os.listdir("/run/netns") if entry.startswith(name + "-")]
    with open("/proc/self/mounts") as mounts:
        left += ["mount " + line.split()[1] for line in mounts if root + "/" in line]
    return left


def guard(root):
    """Waits until whoever holds the other end of standard input is gone."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    sys.stdin.read()
    if os.path.exists(root):
        sweep(root)


if __name__ == "__main__" and sys.argv[1] == "guard":
    guard(sys.argv[2])
