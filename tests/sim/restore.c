// SPDX-License-Identifier: Apache-2.0
// A ledger that is lost and goes on from a backup: an operator makes one as `berth ledger backup` does, and some time
// later the coordinator dies with its disk and starts again on the copy, as after `berth ledger restore`.
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/cancel.h"
#include "common/base/file.h"
#include "common/base/mem.h"
#include "common/codec/proto.h"
#include "coordinator/audit/audit.h"
#include "coordinator/audit/restored.h"
#include "tests/sim/audit.h"
#include "tests/sim/check.h"
#include "tests/sim/world.h"

#define CALL_MS     10000
#define PAUSE_MS    1000
#define KEEPER_LINK (SIM_LINKS_MAX - 4)

static struct {
	struct sim_process process;
	struct berth_cancel *stop;
	char folder[300]; // of the backup; its ledger lies below
	int64_t lost_after_ns;
	struct berth_restored mark;
} keeper;

static struct sim_disk *kept(void)
{
	BERTH_AUTO_FREE char *folder = berth_format("%s/ledger", keeper.folder);
	return sim_disk_of(folder);
}

static void *call(struct berth_rpc_channel *channel, const char *method, const ProtobufCMessage *request)
{
	ProtobufCMessage *response = NULL;
	struct berth_error err = {0};
	if (!berth_rpc_unary(channel, &berth__v1__ledger_service__descriptor, method, request, &response,
		    berth_within_ms(CALL_MS, keeper.stop), &err)) {
		sim_trace("keeper: %s: %s", method, err.message);
		return NULL;
	}
	return response;
}

// --- the backup ---
static bool copy(const Berth__V1__BeginBackupResponse *begun)
{
	if (!begun->backup_id[0]) {
		sim_trace("keeper: %zu agents are to keep their reports", begun->n_waits_for);
		berth_sleep_ms((int64_t)begun->wait_ms,
			(struct berth_until){.deadline_ns = BERTH_NO_DEADLINE_NS, .cancel = keeper.stop}, NULL);
		return false; // every agent keeps its reports now: the next one is a copy
	}
	BERTH_AUTO_FREE char *made = berth_format("%s/backup/ledger", sim_world.coordinator.folder);
	sim_disk_copy(sim_disk_of(made), kept());
	sim_trace("keeper: a copy is made");
	return true;
}

static bool finish(struct berth_rpc_channel *channel, const char *id)
{
	struct berth_audit audit;
	struct berth_error err = {0};
	struct berth_core *core = berth_audit_ledger(keeper.folder, &audit, &err);
	if (!core) {
		sim_violation("I3", "a backup can't be read: %s", err.message);
		return false;
	}
	keeper.mark = (struct berth_restored){
		.size = audit.head.sequence, .leaf = audit.head.leaf, .root = audit.head.root, .reason = "the tide"};
	BERTH_AUTO(berth_proto_cleanup)
	Berth__V1__FinishBackupRequest *request = berth_alloc(sizeof *request);
	berth__v1__finish_backup_request__init(request);
	berth_proto_set_string(&request->backup_id, id);
	request->head = berth_alloc(sizeof *request->head);
	berth__v1__ledger_head__init(request->head);
	request->head->sequence = audit.head.sequence;
	berth_proto_set_bytes(&request->head->root_hash, audit.head.root.bytes, BERTH_DIGEST_SIZE);
	request->n_applied = berth_core_applied(core, &request->applied);
	berth_core_free(core);
	ProtobufCMessage *finished = call(channel, "FinishBackup", &request->base);
	bool ok = finished != NULL;
	sim_trace("keeper: the backup of %llu events is %s", (unsigned long long)keeper.mark.size,
		ok ? "verified" : "not heard of");
	berth_proto_free(finished);
	return ok;
}

// True once the coordinator has heard that the copy was verified.
static bool back_up(struct berth_rpc_channel *channel)
{
	const Berth__V1__BeginBackupRequest request = BERTH__V1__BEGIN_BACKUP_REQUEST__INIT;
	BERTH_AUTO(berth_proto_cleanup)
	Berth__V1__BeginBackupResponse *begun = call(channel, "BeginBackup", &request.base);
	return begun && copy(begun) && finish(channel, begun->backup_id);
}

// --- the loss ---
static void lose(void *context)
{
	(void)context;
	struct sim_coordinator *coordinator = &sim_world.coordinator;
	if (sim_world.healing) {
		return;
	}
	sim_trace("keeper: the ledger is lost");
	coordinator->is_lost = true;
	if (!coordinator->process.dead && coordinator->process.threads_count) {
		coordinator->power = true;
		sim_process_die(&coordinator->process);
	}
}

void sim_restore_put_back(struct sim_coordinator *coordinator)
{
	struct berth_error err;
	BERTH_AUTO_FREE char *floor = berth_path_join(coordinator->folder, "ledger.floor");
	sim_audit_losing();
	sim_disk_copy(kept(), sim_disk_of(coordinator->ledger_folder));
	unlink(floor);
	if (!berth_restored_write(coordinator->folder, &keeper.mark, &err)) {
		abort();
	}
	coordinator->is_lost = false;
	sim_world.restores++;
	sim_trace("keeper: restored, with %llu events", (unsigned long long)keeper.mark.size);
	sim_audit_restored();
	sim_user_restored();
	sim_operator_restored();
}

// --- the process ---
static void run(struct sim_process *process)
{
	(void)process;
	struct berth_rpc_channel *channel =
		sim_net_channel(&sim_world.user_address, KEEPER_LINK, BERTH_ROLE_OPERATOR, "ann", NULL);
	keeper.stop = berth_cancel_new(NULL);
	struct berth_until until = {.deadline_ns = BERTH_NO_DEADLINE_NS, .cancel = keeper.stop};
	bool has = false;
	while (!has && !sim_world.healing && berth_sleep_ms(PAUSE_MS, until, NULL)) {
		has = back_up(channel);
	}
	if (has) {
		sim_at(sim_now() + keeper.lost_after_ns, lose, NULL);
	}
	berth_cancel_free(BERTH_STEAL(keeper.stop));
}

static void stop(struct sim_process *process)
{
	(void)process;
	if (keeper.stop) {
		berth_cancel_fire(keeper.stop);
	}
}

static void died(struct sim_process *process)
{
	sim_net_process_died(process);
}

// What is in it lies on a simulated disk; a file that RocksDB would have there says that it is a ledger.
static void make_folder(void)
{
	BERTH_AUTO_FREE char *ledger = berth_format("%s/ledger", keeper.folder);
	BERTH_AUTO_FREE char *current = berth_path_join(ledger, "CURRENT");
	struct berth_error err;
	if (!berth_mkdir_all(ledger, 0700, &err) || !berth_file_write(current, "", 0, 0600, &err)) {
		abort();
	}
}

// A twin has what was lost, and one that lies never says that it has said everything: neither belongs to a fleet that
// is restored.
void sim_restore_begin(int64_t lost_after_ns)
{
	struct sim_process *process = &keeper.process;
	if (sim_world.backs_up || sim_world.liar.main || sim_world.twin.has_copy) {
		return;
	}
	sim_world.backs_up = true;
	memset(&keeper, 0, sizeof keeper);
	keeper.lost_after_ns = lost_after_ns;
	snprintf(keeper.folder, sizeof keeper.folder, "%s.kept", sim_world.coordinator.folder);
	make_folder();
	snprintf(process->name, sizeof process->name, "keeper");
	process->host = &sim_world.user_host;
	process->main = run;
	process->stop = stop;
	process->died = died;
	sim_process_begin(process);
}

void sim_restore_end(void)
{
	if (sim_world.backs_up && !keeper.process.dead && keeper.process.threads_count) {
		sim_process_die(&keeper.process);
	}
}
