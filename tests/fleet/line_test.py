# SPDX-License-Identifier: Apache-2.0
"""The harness's own lines: cuts and bad lines do what they are told, or no other verdict counts."""
import os
import signal
import statistics
import subprocess
import sys
import time

from fleet import Fleet
from runner import fleet_test
from world import ADDRESS, Ended, Failure, Process, check, wait_until

ECHO = """
import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind(("%s", 9000))
while True:
    data, peer = s.recvfrom(64)
    s.sendto(data, peer)
"""
# Prints, for each of N datagrams sent 10 ms apart, the milliseconds until its echo; nothing for a lost one.
PROBE = """
import socket, sys, threading, time
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.settimeout(0.4)
sent, got, all_sent = {}, [], threading.Event()
def hear():
    while True:
        last = all_sent.is_set()
        try:
            n = s.recv(64)
            got.append((n, (time.monotonic() - sent[n]) * 1000))
        except TimeoutError:  # a machine may be busy for longer than this
            if last:
                return
s.bind(("0.0.0.0", 0))
t = threading.Thread(target=hear); t.start()
for n in range(int(sys.argv[1])):
    sent[b"%d" % n] = time.monotonic()
    try:
        s.sendto(b"%d" % n, ("ADDRESS", 9000))
    except PermissionError:
        pass
    time.sleep(0.01)
all_sent.set()
t.join()
for n, ms in got: print(n.decode(), ms)
""".replace("ADDRESS", ADDRESS)


def probe(link, count):
    out = link.agent.run(sys.executable, "-c", PROBE, str(count))
    return [(int(line.split()[0]), float(line.split()[1])) for line in out.splitlines()]


@fleet_test(engines=False)
def lines_between_hosts_are_cut_and_made_bad_as_told(stage):
    world = stage.world
    Process(world, world.c, "echo", [sys.executable, "-c", ECHO % ADDRESS])
    first, second = world.links[0], world.links[1]
    wait_until("an echo", 10, lambda: probe(first, 1))
    for way in ("both", "deaf", "mute"):
        first.cut(way)
        check(not probe(first, 3), "an echo came over a line that is cut: " + way)
        check(len(probe(second, 3)) == 3, "cutting one line hurt another one")
    first.cut("none")
    check(len(probe(first, 3)) == 3, "no echo after the line was mended")
    first.degrade(stage.seed, ["delay 40 20"])
    echoes = [ms for _, ms in probe(first, 60)]
    check(len(echoes) == 60, "%d of 60 echoes came over a line without loss" % len(echoes))
    check(60 <= statistics.median(echoes) and min(echoes) >= 40, "delays of 2 x 40±20 ms: %s" % sorted(echoes)[:3])
    first.tell("delay 0 0")
    first.tell("loss 50")
    came = len(probe(first, 200))
    check(20 <= came <= 80, "%d of 200 echoes came at 50 %% loss each way; 50 are due" % came)
    first.tell("loss 0")
    first.tell("duplicate 100")
    check(len(probe(first, 10)) == 40, "each datagram should come twice each way")
    first.tell("duplicate 0")
    first.tell("delay 60 0")
    first.tell("reorder 30")
    order = [n for n, _ in probe(first, 60)]
    check(len(order) == 60 and order != sorted(order), "nothing overtook at reorder 30: %s" % order)
    for way in ("both", "to-a", "to-b"):
        first.tell("cut " + way)
        check(not probe(first, 3), "an echo came through the relay, cut " + way)
    first.restore()
    check(len(probe(first, 3)) == 3, "no echo after the relay was taken out")


@fleet_test(engines=False)
def the_relay_ends_with_its_parent(stage):
    world = stage.world
    socket_path = os.path.join(world.root, "orphan")
    parent = subprocess.Popen([sys.executable, "-c", "import subprocess,sys,time\np=subprocess.Popen(sys.argv[1:])\n"
                               "print(p.pid,flush=True)\ntime.sleep(600)", world.relay, socket_path, world.c.namespace,
                               "orphan", world.agents[0].namespace, "orphan", "1", "600"],
                              stdout=subprocess.PIPE, env=world.environment, text=True, start_new_session=True)
    pid = int(parent.stdout.readline())
    wait_until("the relay is up", 10, lambda: os.path.exists(socket_path))
    parent.kill()
    parent.wait()
    wait_until("the relay is gone", 10, lambda: not os.path.exists("/proc/%d" % pid) or zombie(pid))


def zombie(pid):
    with open("/proc/%d/stat" % pid) as stat:
        return stat.read().rsplit(")", 1)[1].split()[0] == "Z"


@fleet_test()
def a_test_stops_at_once_and_says_why_when_a_program_of_its_fleet_dies(stage):
    fleet = Fleet(stage.world, "dying", agents=1).start()
    waits = [(fleet.agents[0], lambda: wait_until("what never comes", 60, lambda: False)),
             (fleet.coordinator, lambda: fleet.command("job", "list", bound=60))]
    for process, wait in waits:
        os.kill(process.pid, signal.SIGKILL)
        begun = time.monotonic()
        try:
            wait()
        except Ended as ended:
            check(process.name in str(ended) and "SIGKILL" in str(ended), "the message names no program or signal: %s" % ended)
        else:
            raise Failure("%s was killed, and nobody noticed" % process.name)
        check(time.monotonic() - begun < 10, "%s was missed only after %.0f s" % (process.name, time.monotonic() - begun))
