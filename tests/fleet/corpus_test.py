# SPDX-License-Identifier: Apache-2.0
"""Every sample task through a whole fleet: what a user finds in the job's folder is what the tables say."""
import os
import sys
import time

from corpus import Corpus
from fleet import Fleet
from runner import fleet_test
from world import check

TIMEOUT_MULTIPLIER = "4"  # as on a busy machine an upload alone may take the three seconds of slow-agent
HANG_SECONDS = 1500  # no measure: what is still not over then hangs; a slow machine of two cores takes 400


@fleet_test()
def every_row_of_the_corpus_comes_out_of_a_fleet_as_the_tables_say(stage):
    sys.path.insert(0, os.path.join(stage.world.source, "tests/support"))
    import harbor_reader
    corpus = Corpus(stage.world.source)
    fleet = Fleet(stage.world, "corpus", agents=2, slots=4).start()
    tasks = corpus.copy(fleet.folder + "/corpus")
    before, begun = fleet.coordinator.cpu_ms(), time.monotonic()
    code, _, err = fleet.command("run", "-p", tasks, "-a", "oracle", "-a", "nop", "-o", fleet.jobs, "--job-name", "corpus",
                                 "--timeout-multiplier", TIMEOUT_MULTIPLIER, "-y", bound=HANG_SECONDS)
    seconds = time.monotonic() - begun
    check(code == 6, "some cells of this job have no score, so `berth run` ends with 6, not %d: %s" % (code, err[-900:]))
    job = fleet.json("job", "list")[0]["job_id"]
    faults, results = harbor_reader.read(fleet.jobs + "/corpus", len(corpus.expected))
    ran = set()
    for name, result in results.items():
        key = (name.rsplit("__", 1)[0], result["config"]["agent"]["name"])
        ran.add(key)
        faults += ["%s %s: %s" % (key + (fault,)) for fault in corpus.faults(*key, "%s/corpus/%s" % (fleet.jobs, name), result)]
    faults += ["%s %s was not run" % key for key in sorted(corpus.expected.keys() - ran)]
    check(not faults, "\n      ".join(["%d differences:" % len(faults)] + faults[:40]))
    shown = fleet.show(job)
    again = [t["trial_name"] for t in shown["trials"] if t["key"]["generation"] != 1]
    check(not again, "run more than once: %s" % again)
    hosts = {trial["agent_host"] for trial in shown["trials"]}
    check(len(hosts) == 2, "only %s worked" % sorted(hosts))
    stage.figure("%d sample trials on two hosts: %.1f s, %.1f CPU ms of the coordinator a trial" % (
        len(results), seconds, (fleet.coordinator.cpu_ms() - before) / len(results)))
    fleet.wait_retired(job)
    fleet.stop()
