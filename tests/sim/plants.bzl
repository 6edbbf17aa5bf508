# SPDX-License-Identifier: Apache-2.0
"""Programs of the simulation with one planted bug each: a patched copy of a source file, linked before the original's
archive, so that the production tree holds no trace of them."""

PLANTS = {
    "aged_at_limit": ["coordinator/core/place.c"],
    "aging_ignored": ["coordinator/core/place.c"],
    "ambiguous_tried_again": ["agent/core/lease.c"],
    "amendment_unheard": ["coordinator/core/apply.c"],
    "cancel_forgets_leases": ["coordinator/core/job.c"],
    "claim_believed": ["coordinator/core/fleet.c"],
    "counts_while_resending": ["coordinator/core/report.c"],
    "dispatched_called_unused": ["agent/session/settle.c"],
    "early_record_not_kept": ["coordinator/core/rows.c"],
    "expiry_from_current_hold": ["coordinator/core/fleet.c"],
    "fence_without_margin": ["coordinator/core/fleet.c"],
    "hold_from_answer": ["agent/core/core.c"],
    "hold_from_assignment": ["agent/core/core_trials.c"],
    "hold_never_ends": ["agent/core/core_trials.c"],
    "liar_believed": ["coordinator/core/report.c"],
    "limit_forgets_settled": ["coordinator/budget/state.c"],
    "mark_after_create": ["agent/core/lease.c"],
    "marker_before_records": ["coordinator/service/recorder.c"],
    "no_fencing_wait": ["coordinator/core/fleet.c"],
    "obeyed_not_saved": ["agent/session/driver.c"],
    "older_generation_accepted": ["coordinator/core/report.c"],
    "open_lease_scored": ["coordinator/core/report.c"],
    "outbox_dropped_early": ["agent/core/core_outbox.c"],
    "reap_skipped": ["agent/session/session.c"],
    "record_in_place": ["coordinator/core/rows.c"],
    "refund_on_ambiguous": ["coordinator/core/pay.c"],
    "reply_before_sync": ["coordinator/service/engine.c"],
    "report_applied_twice": ["coordinator/core/report.c"],
    "report_not_synced": ["agent/session/store_write.c"],
    "reservation_leaks": ["coordinator/core/pay.c"],
    "restart_ages_all": ["coordinator/core/job.c"],
    "restart_forgets_silence": ["coordinator/core/emit.c"],
    "restart_keeps_trials": ["coordinator/core/fleet.c"],
    "retired_without_proof": ["agent/core/lease.c"],
    "revoke_forgotten": ["coordinator/core/fleet.c"],
    "share_ignored": ["coordinator/core/place.c"],
    "sweep_too_short": ["agent/session/settle.c"],
    "twin_obeyed": ["agent/core/core.c", "coordinator/core/fleet.c"],
    "unknown_use_is_cheap": ["coordinator/core/pay.c"],
    "unpaid_not_reaped": ["agent/session/settle.c"],
    "wall_clock_waits": ["coordinator/core/fleet.c"],
    "weights_turned_round": ["coordinator/core/place.c"],
}

def sim_plants():
    """plant_NAME for each of PLANTS; built only when named."""
    for name, files in PLANTS.items():
        patched = ["plants/%s/%s" % (name, file) for file in files]
        native.genrule(
            name = "planted_" + name,
            testonly = True,
            srcs = ["plants/%s.patch" % name] + ["//%s:%s" % (file.rpartition("/")[0], file.rpartition("/")[2]) for file in files],
            outs = patched,
            cmd = "folder=$(RULEDIR)/plants/%s && " % name +
                  "".join(["mkdir -p $$(dirname $$folder/{0}) && cp -f {0} $$folder/{0} && chmod u+w $$folder/{0} && ".format(file) for file in files]) +
                  "patch --quiet --strip=1 --directory=$$folder < $(location plants/%s.patch)" % name,
            tags = ["manual"],
        )
        native.cc_binary(
            name = "plant_" + name,
            testonly = True,
            srcs = ["main.c"] + patched,
            linkopts = ["-Wl,--as-needed"],
            linkstatic = True,
            tags = ["manual"],
            deps = [":world"],
        )
