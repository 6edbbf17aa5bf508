// SPDX-License-Identifier: Apache-2.0
#include "tests/crash/port.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/cancel.h"
#include "common/base/file.h"
#include "common/base/mem.h"
#include "coordinator/init.h"
#include "tests/crash/failpoint.h"

#define READY_MS  30000
#define GONE_MS   10000
#define STOP_MS   30000
#define LOOK_MS   1
#define TEXT_MAX  65536
#define ENV_MOST  (PORT_PLAN_MOST + 8)
#define FAULT_MS  1500 // after which a refusal is one, where the disk fails
#define REFUSALS  10
#define BEAT_TEXT "200"
#define FREE_TEXT "16"

static void rest(void)
{
	berth_sleep_ms(LOOK_MS, berth_within_ms(READY_MS, NULL), NULL);
}

_Noreturn void port_broken(struct port *port, const char *format, ...)
{
	va_list args;
	va_start(args, format);
	BERTH_AUTO_FREE char *text = berth_vformat(format, args);
	va_end(args);
	printf("broken\t%s\n", text);
	fflush(stdout);
	port_kill(port);
	_exit(1);
}

static char *read_text(struct port *port, const char *name)
{
	struct berth_error err;
	struct berth_buf text = {0};
	BERTH_AUTO_FREE char *path = berth_path_join(port->options.folder, name);
	if (!berth_file_read(path, TEXT_MAX, &text, &err)) {
		port_broken(port, "%s", err.message);
	}
	return berth_buf_steal(&text);
}

static void read_credentials(struct port *port, const char *role, struct credentials *into)
{
	BERTH_AUTO_FREE char *authority = berth_format("cred/%s/authority.pem", role);
	BERTH_AUTO_FREE char *certificate = berth_format("cred/%s/certificate.pem", role);
	BERTH_AUTO_FREE char *key = berth_format("cred/%s/key.pem", role);
	*into = (struct credentials){read_text(port, authority), read_text(port, certificate), read_text(port, key)};
}

static void map_phase(struct port *port)
{
	BERTH_AUTO_FREE char *path = berth_path_join(port->options.folder, "phase");
	BERTH_AUTO_CLOSE int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	void *mapped = fd < 0 || ftruncate(fd, FAILPOINT_PHASE_SIZE) < 0
	                       ? MAP_FAILED
	                       : mmap(NULL, FAILPOINT_PHASE_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (mapped == MAP_FAILED) {
		port_broken(port, "cannot map %s: %s", path, strerror(errno));
	}
	port->phase = mapped;
}

void port_open(struct port *port, const struct port_options *options)
{
	struct berth_error err;
	*port = (struct port){.options = *options};
	pthread_mutex_init(&port->lock, NULL);
	BERTH_AUTO_FREE char *credentials = berth_path_join(options->folder, "cred");
	BERTH_AUTO_FREE char *signing = berth_path_join(options->folder, "signing.pem");
	if (!berth_file_exists(credentials) &&
		!berth_coordinator_init("quay", credentials, "localhost,127.0.0.1", &err)) {
		port_broken(port, "%s", err.message);
	}
	read_credentials(port, "coordinator", &port->quay.coordinator);
	read_credentials(port, "operator", &port->quay.operator_);
	port->quay.signing = berth_signing_key_open(signing, &err);
	if (!port->quay.signing) {
		port_broken(port, "%s", err.message);
	}
	map_phase(port);
}

static void close_channels(struct port *port)
{
	berth_rpc_channel_free(BERTH_STEAL(port->quay.main));
	berth_rpc_channel_free(BERTH_STEAL(port->quay.blobs));
	berth_rpc_channel_free(BERTH_STEAL(port->quay.agent_main));
	berth_rpc_channel_free(BERTH_STEAL(port->user_main));
}

void port_close(struct port *port)
{
	port_kill(port);
	port_wait(port);
	munmap(port->phase, FAILPOINT_PHASE_SIZE);
	quay_free_credentials(&port->quay.coordinator);
	quay_free_credentials(&port->quay.operator_);
	quay_free_credentials(&port->quay.agent);
	quay_free_credentials(&port->user);
	berth_signing_key_free(port->quay.signing);
	pthread_mutex_destroy(&port->lock);
}

void port_phase(struct port *port, const char *phase)
{
	char text[FAILPOINT_PHASE_SIZE] = "";
	snprintf(text, sizeof text, "%s", phase);
	memcpy(port->phase, text, sizeof text);
}

// --- a life ---

struct spawn {
	char *env[ENV_MOST];
	size_t count;
	char *ready;
};

static void fill_env(struct port *port, const char *const *plan, struct spawn *spawn)
{
	spawn->env[spawn->count++] = berth_strdup("PATH=/usr/sbin:/usr/bin:/sbin:/bin");
	if (!plan || !port->options.preload) {
		return;
	}
	spawn->env[spawn->count++] = berth_format("LD_PRELOAD=%s", port->options.preload);
	spawn->env[spawn->count++] = berth_format(FAILPOINT_ROOT "=%s/data", port->options.folder);
	spawn->env[spawn->count++] = berth_format(FAILPOINT_LOG "=%s/points", port->options.folder);
	spawn->env[spawn->count++] = berth_format(FAILPOINT_PHASE "=%s/phase", port->options.folder);
	for (size_t i = 0; plan[i] && i < PORT_PLAN_MOST; i++) {
		spawn->env[spawn->count++] = berth_strdup(plan[i]);
	}
}

static void spawn_process(struct port *port, const char *const *plan, struct spawn *spawn)
{
	const char *folder = port->options.folder;
	BERTH_AUTO_FREE char *data = berth_path_join(folder, "data");
	BERTH_AUTO_FREE char *credentials = berth_path_join(folder, "cred/coordinator");
	BERTH_AUTO_FREE char *log = berth_path_join(folder, "coordinator.log");
	spawn->ready = berth_format("%s/ready-%u", folder, port->lives);
	const char *argv[] = {port->options.coordinator, "serve", "--data", data, "--credentials", credentials,
		"--listen", "127.0.0.1:0", "--blobs-listen", "127.0.0.1:0", "--ready-file", spawn->ready, "--hold-ms",
		port->options.hold_ms, "--heartbeat-ms", BEAT_TEXT, "--disk-free-min-mb", FREE_TEXT, "--checkpoint-ms",
		port->options.checkpoint_ms, "--max-generations", "100", NULL};
	fill_env(port, plan, spawn);
	posix_spawn_file_actions_t actions;
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
	posix_spawn_file_actions_addopen(&actions, 1, log, O_WRONLY | O_CREAT | O_APPEND, 0600);
	posix_spawn_file_actions_adddup2(&actions, 1, 2);
	pthread_mutex_lock(&port->lock);
	int status =
		posix_spawn(&port->pid, port->options.coordinator, &actions, NULL, (char *const *)argv, spawn->env);
	pthread_mutex_unlock(&port->lock);
	posix_spawn_file_actions_destroy(&actions);
	if (status != 0) {
		port->pid = 0;
		port_broken(port, "cannot start %s: %s", port->options.coordinator, strerror(status));
	}
}

static bool reap(struct port *port)
{
	pthread_mutex_lock(&port->lock);
	bool gone = !port->pid || waitpid(port->pid, &port->end, WNOHANG) == port->pid;
	if (gone && port->pid) {
		port->pid = 0;
		port->serves = false;
		port->first_end = port->deaths++ ? port->first_end : port->end;
	}
	pthread_mutex_unlock(&port->lock);
	if (gone && !port->options.faults && !(WIFSIGNALED(port->end) && WTERMSIG(port->end) == SIGKILL) &&
		!(WIFEXITED(port->end) && WEXITSTATUS(port->end) == 0)) {
		port_broken(port, "life %u ended by itself: wait status %#x (see coordinator.log)", port->lives,
			(unsigned)port->end);
	}
	return gone;
}

static bool read_ports(struct port *port, const char *path, int *blobs)
{
	struct berth_error err;
	BERTH_AUTO(berth_buf_free) struct berth_buf text = {0};
	if (!berth_file_exists(path)) {
		return false;
	}
	if (!berth_file_read(path, TEXT_MAX, &text, &err) ||
		sscanf(berth_buf_text(&text), "listen=%d\nblobs=%d", &port->main_port, blobs) != 2) {
		port_broken(port, "%s does not name two ports", path);
	}
	return true;
}

void port_open_channels(struct port *port)
{
	if (port->quay.agent.key && !port->quay.agent_main) {
		port->quay.agent_main = quay_channel(port->main_port, &port->quay.agent);
	}
	if (port->user.key && !port->user_main) {
		port->user_main = quay_channel(port->main_port, &port->user);
	}
}

// Also as a line of FOLDER/recoveries. The first life recovers nothing.
static void note_recovery(struct port *port)
{
	if (port->lives == 1) {
		return;
	}
	port->worst_ms = port->recovery_ms > port->worst_ms ? port->recovery_ms : port->worst_ms;
	BERTH_AUTO_FREE char *path = berth_path_join(port->options.folder, "recoveries");
	FILE *file = fopen(path, "a");
	if (!file || fprintf(file, "%.1f\n", port->recovery_ms) < 0 || fclose(file) != 0) {
		port_broken(port, "cannot write %s", path);
	}
}

bool port_start(struct port *port, const char *const *plan)
{
	struct spawn spawn = {.count = 0};
	int blobs;
	close_channels(port);
	port->lives++;
	int64_t begun_ns = berth_boot_ns();
	struct berth_until until = berth_within_ms(READY_MS, NULL);
	spawn_process(port, plan, &spawn);
	bool ready = false;
	while (!(ready = read_ports(port, spawn.ready, &blobs)) && !reap(port)) {
		if (berth_until_over(until)) {
			port_broken(port, "life %u does not serve after %d ms", port->lives, READY_MS);
		}
		rest();
	}
	if (ready) {
		port->recovery_ms = (double)(berth_boot_ns() - begun_ns) / (double)BERTH_NS_PER_MS;
		note_recovery(port);
		port->quay.main = quay_channel(port->main_port, &port->quay.operator_);
		port->quay.blobs = quay_channel(blobs, &port->quay.operator_);
		port_open_channels(port);
		pthread_mutex_lock(&port->lock);
		port->serves = port->pid != 0;
		pthread_mutex_unlock(&port->lock);
	}
	unlink(spawn.ready);
	free(spawn.ready);
	for (size_t i = 0; i < spawn.count; i++) {
		free(spawn.env[i]);
	}
	return ready;
}

void port_kill(struct port *port)
{
	pthread_mutex_lock(&port->lock);
	if (port->pid) {
		kill(port->pid, SIGKILL);
	}
	pthread_mutex_unlock(&port->lock);
}

int port_wait(struct port *port)
{
	struct berth_until until = berth_within_ms(STOP_MS, NULL);
	while (!reap(port)) {
		if (berth_until_over(until)) {
			port_broken(port, "life %u does not end", port->lives);
		}
		rest();
	}
	close_channels(port);
	return port->end;
}

bool port_stop(struct port *port)
{
	pthread_mutex_lock(&port->lock);
	if (port->pid) {
		kill(port->pid, SIGTERM);
	}
	pthread_mutex_unlock(&port->lock);
	int end = port_wait(port);
	return WIFEXITED(end) && WEXITSTATUS(end) == 0;
}

void port_is_gone(struct port *port, const char *what, const struct berth_error *err)
{
	struct berth_until until = berth_within_ms(port->options.faults ? FAULT_MS : GONE_MS, NULL);
	while (!reap(port)) {
		if (berth_until_over(until) && port->options.faults) {
			if (++port->refusals % REFUSALS == 0) {
				port_kill(port);
			}
			return;
		}
		if (berth_until_over(until)) {
			port_broken(port, "%s failed while life %u goes on: %s: %s", what, port->lives,
				berth_error_text(err->code), err->message);
		}
		rest();
	}
}
