# SPDX-License-Identifier: Apache-2.0
"""Backups of a coordinator that serves: a backup, the first into its folder or the next, or a restore is killed at one point."""
import os
import re
import shutil

from agent_world import NUMBERS, Broken, check, world_of

PHASE = "backup"


def told(world):
    """Events that the coordinator takes for backed up."""
    with open(world.coordinator.log, errors="replace") as log:
        return max((int(text) for text in re.findall(r"a backup was verified.* events=(\d+)", log.read())), default=0)


class Backup:
    def __init__(self, flags, again):
        self.world, self.name = world_of(flags), "backup-%d" % next(NUMBERS)
        self.folder, self.points = self.world.folder + "/" + self.name, "%s/%s.points" % (self.world.folder, self.name)
        if again:
            self.make()
        self.world.submit(self.name)  # something new
        self.before = told(self.world)
        with open(self.points + ".phase", "wb") as file:
            file.write(PHASE.encode().ljust(32, b"\0"))
        self.plan = {"LD_PRELOAD": flags.preload, "BERTH_FAILPOINT_ROOT": self.folder, "BERTH_FAILPOINT_LOG": self.points,
                     "BERTH_FAILPOINT_PHASE": self.points + ".phase"}

    def make(self, **variables):
        return self.world.command("ledger", "backup", self.folder, **variables)

    def restore_to(self, data, variables):
        return self.world.command("ledger", "restore", self.folder, data, "--reason", "a test", **variables)

    def restore(self):
        """Events of what the backup restores to; 0 where it says that there is none."""
        data = self.folder + ".data"
        done = self.restore_to(data, {})
        shutil.rmtree(data, ignore_errors=True)
        if "holds no backup" in done.stderr:
            return 0
        check(done.returncode == 0, "the backup is not restored: " + done.stderr.strip()[-300:])
        return int(done.stdout.splitlines()[-1].split()[1])

    def look(self, again):
        """What agents may have dropped must be there, and the next backup must go on."""
        held, needed = self.restore(), told(self.world)
        check(held >= (needed if needed > self.before or again else 0),
              "the backup holds %d events, and agents were told of %d" % (held, needed))
        done = self.make()
        check(done.returncode == 0, "the next backup failed: " + done.stderr.strip()[-300:])
        check(self.restore() >= told(self.world) > self.before, "the next backup holds less than agents were told")

    def forget(self):
        shutil.rmtree(self.folder, ignore_errors=True)


class Making:
    """`berth ledger backup`: the first into its folder, or the next."""

    def __init__(self, again):
        self.again = again

    def begin(self, flags):
        return Backup(flags, self.again)

    def command(self, backup, variables):
        return backup.make(**variables)

    def look(self, backup):
        backup.look(self.again)


class Restoring:
    """`berth ledger restore`: there is a whole ledger with its mark, or none, and the next restore makes one."""

    def begin(self, flags):
        backup = Backup(flags, again=True)
        backup.plan["BERTH_FAILPOINT_ROOT"] = backup.data = backup.folder + ".restored"
        return backup

    def command(self, backup, variables):
        return backup.restore_to(backup.data, variables)

    def look(self, backup):
        mark, ledger = backup.data + "/restored.json", backup.data + "/ledger"
        if not os.path.exists(ledger):
            done = backup.restore_to(backup.data, {})
            check(done.returncode == 0, "the next restore failed: " + done.stderr.strip()[-300:])
        check(os.path.exists(mark), "a ledger without the mark that it was restored")
        done = backup.world.command("ledger", "verify", backup.data)
        check(done.returncode == 0, "ledger verify: " + (done.stdout + done.stderr).strip()[-300:])
        shutil.rmtree(backup.data)


class Run:
    def __init__(self, scene):
        self.scene = scene

    def record(self, flags):
        backup = self.scene.begin(flags)
        done = self.scene.command(backup, backup.plan)
        check(done.returncode == 0, "the command failed: " + done.stderr)
        self.scene.look(backup)
        with open(backup.points) as file:
            return file.read()

    def kill(self, flags, plan):
        row = {"verdict": "not reached", "recovery_ms": ""}
        backup = self.scene.begin(flags)
        try:
            done = self.scene.command(backup, dict(backup.plan, **plan))
            if os.path.exists(backup.points) and os.path.getsize(backup.points):
                check(done.returncode == -9, "the killed command ended with %d: %s" % (done.returncode, done.stderr[-300:]))
                with open(backup.points) as file:
                    row.update(zip(("call", "kind", "phase", "met"), file.readline().rstrip("\n").split("\t")[1:]), verdict="ok")
            self.scene.look(backup)
            backup.forget()
        except Broken as broken:
            row["verdict"] = str(broken).replace("\t", " ").replace("\n", " ")
            backup.world.keep(backup.name)
        return row
