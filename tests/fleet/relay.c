// SPDX-License-Identifier: Apache-2.0
// relay: a line between two network namespaces that is as bad as it is told to be.
//
// It opens a TUN device in each namespace and hands IP packets over from a queue ordered by due time: delay and jitter,
// loss, duplicates, overtaking, and cuts one way or both, all from a seeded generator. It holds nothing but packets:
// addresses and routes are set by its user. Control is by datagrams on a unix socket, each answered with "ok ..." or
// "error ...":
//   delay MS JITTER | loss PERCENT | duplicate PERCENT | reorder PERCENT | cut none|to-a|to-b|both | stats
// It ends with its parent, on SIGTERM, and in any case after its bound.
#include <errno.h>
#include <fcntl.h>
#include <linux/if.h>
#include <linux/if_tun.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/error.h"
#include "common/base/mem.h"

#define PACKET_MAX    2048
#define QUEUE_MAX     8192 // packets under way; more are dropped, as a router does
#define COMMAND_MAX   128
#define SECONDS_MAX   7200
#define REORDER_AHEAD 4 // a packet that overtakes waits a fourth of its delay

enum { TO_A, TO_B, WAYS };

struct packet {
	int64_t due_ns;
	uint64_t order; // among packets due at once
	int way;
	size_t size;
	uint8_t bytes[PACKET_MAX];
};

struct stats {
	uint64_t passed, lost, cut, duplicated, overtook, overflowed;
};

struct relay {
	int tun[WAYS]; // where packets of that way come out
	int control;
	uint64_t random, order;
	double delay_ms, jitter_ms, loss, duplicate, reorder; // percent, the last three
	bool is_cut[WAYS];
	int64_t last_due_ns[WAYS];
	struct packet *queue[QUEUE_MAX]; // a heap
	size_t queued;
	struct stats stats;
};

static volatile sig_atomic_t ended;

static void on_end(int signal)
{
	(void)signal;
	ended = 1;
}

// --- chance ---
static double chance(struct relay *relay)
{
	relay->random += UINT64_C(0x9e3779b97f4a7c15);
	uint64_t z = relay->random;
	z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
	return (double)((z ^ (z >> 31)) >> 11) / (double)(UINT64_C(1) << 53);
}

static bool happens(struct relay *relay, double percent)
{
	return chance(relay) * 100 < percent;
}

// --- the queue ---
static bool is_before(const struct packet *a, const struct packet *b)
{
	return a->due_ns != b->due_ns ? a->due_ns < b->due_ns : a->order < b->order;
}

static void swap(struct relay *relay, size_t a, size_t b)
{
	struct packet *packet = relay->queue[a];
	relay->queue[a] = relay->queue[b];
	relay->queue[b] = packet;
}

static void push(struct relay *relay, struct packet *packet)
{
	if (relay->queued == QUEUE_MAX) {
		relay->stats.overflowed++;
		free(packet);
		return;
	}
	packet->order = relay->order++;
	size_t at = relay->queued++;
	relay->queue[at] = packet;
	for (; at > 0 && is_before(relay->queue[at], relay->queue[(at - 1) / 2]); at = (at - 1) / 2) {
		swap(relay, at, (at - 1) / 2);
	}
}

static struct packet *pop(struct relay *relay)
{
	struct packet *first = relay->queue[0];
	relay->queue[0] = relay->queue[--relay->queued];
	for (size_t at = 0, least;; at = least) {
		least = at;
		for (size_t child = 2 * at + 1; child <= 2 * at + 2 && child < relay->queued; child++) {
			least = is_before(relay->queue[child], relay->queue[least]) ? child : least;
		}
		if (least == at) {
			return first;
		}
		swap(relay, at, least);
	}
}

// --- packets ---
static int64_t due_ns(struct relay *relay, int way)
{
	double wait_ms = relay->delay_ms + (2 * chance(relay) - 1) * relay->jitter_ms;
	int64_t now_ns = berth_boot_ns();
	if (happens(relay, relay->reorder)) {
		relay->stats.overtook++;
		return now_ns + (int64_t)(wait_ms / REORDER_AHEAD * BERTH_NS_PER_MS);
	}
	int64_t due = now_ns + (int64_t)((wait_ms < 0 ? 0 : wait_ms) * BERTH_NS_PER_MS);
	if (due < relay->last_due_ns[way]) {
		due = relay->last_due_ns[way];
	}
	return relay->last_due_ns[way] = due;
}

static void take(struct relay *relay, int way, const uint8_t *bytes, size_t size)
{
	if (relay->is_cut[way]) {
		relay->stats.cut++;
		return;
	}
	if (happens(relay, relay->loss)) {
		relay->stats.lost++;
		return;
	}
	int copies = happens(relay, relay->duplicate) ? 2 : 1;
	relay->stats.duplicated += (uint64_t)copies - 1;
	while (copies-- > 0) {
		struct packet *packet = berth_alloc(sizeof *packet);
		packet->way = way;
		packet->size = size;
		memcpy(packet->bytes, bytes, size);
		packet->due_ns = due_ns(relay, way);
		push(relay, packet);
	}
}

// Packets for A come out of B's device, and the other way round.
static void read_packets(struct relay *relay, int way)
{
	uint8_t bytes[PACKET_MAX];
	ssize_t size;
	while ((size = read(relay->tun[way == TO_A ? TO_B : TO_A], bytes, sizeof bytes)) > 0) {
		take(relay, way, bytes, (size_t)size);
	}
}

// What was under way when the line was cut is lost too.
static void write_due(struct relay *relay)
{
	int64_t now_ns = berth_boot_ns();
	while (relay->queued && relay->queue[0]->due_ns <= now_ns) {
		struct packet *packet = pop(relay);
		if (relay->is_cut[packet->way]) {
			relay->stats.cut++;
		} else if (write(relay->tun[packet->way], packet->bytes, packet->size) == (ssize_t)packet->size) {
			relay->stats.passed++;
		} else {
			relay->stats.overflowed++;
		}
		free(packet);
	}
}

// --- control ---
static bool set_cut(struct relay *relay, const char *which)
{
	bool both = strcmp(which, "both") == 0, none = strcmp(which, "none") == 0;
	bool to_a = strcmp(which, "to-a") == 0, to_b = strcmp(which, "to-b") == 0;
	relay->is_cut[TO_A] = both || to_a;
	relay->is_cut[TO_B] = both || to_b;
	return both || none || to_a || to_b;
}

static bool set_percent(const char *name, double value, struct relay *relay)
{
	double *percents[] = {&relay->loss, &relay->duplicate, &relay->reorder};
	static const char *const NAMES[] = {"loss", "duplicate", "reorder"};
	for (size_t i = 0; i < BERTH_COUNT(NAMES); i++) {
		if (strcmp(name, NAMES[i]) == 0 && value >= 0 && value <= 100) {
			*percents[i] = value;
			return true;
		}
	}
	return false;
}

static bool obey(struct relay *relay, const char *command)
{
	char word[16], which[16];
	double a, b;
	if (sscanf(command, "cut %15s", which) == 1) {
		return set_cut(relay, which);
	}
	if (sscanf(command, "delay %lf %lf", &a, &b) == 2 && a >= 0 && b >= 0) {
		relay->delay_ms = a;
		relay->jitter_ms = b;
		return true;
	}
	if (sscanf(command, "%15s %lf", word, &a) == 2) {
		return set_percent(word, a, relay);
	}
	return strcmp(command, "stats") == 0;
}

static void answer(struct relay *relay)
{
	char command[COMMAND_MAX];
	struct sockaddr_un from;
	socklen_t length = sizeof from;
	ssize_t size = recvfrom(relay->control, command, sizeof command - 1, 0, (struct sockaddr *)&from, &length);
	if (size < 0) {
		return;
	}
	command[size] = '\0';
	const struct stats *s = &relay->stats;
	BERTH_AUTO_FREE char *reply =
		obey(relay, command)
			? berth_format(
				  "ok passed=%llu lost=%llu cut=%llu duplicated=%llu overtook=%llu overflowed=%llu",
				  (unsigned long long)s->passed, (unsigned long long)s->lost,
				  (unsigned long long)s->cut, (unsigned long long)s->duplicated,
				  (unsigned long long)s->overtook, (unsigned long long)s->overflowed)
			: berth_format("error: not a command: %s", command);
	sendto(relay->control, reply, strlen(reply), 0, (struct sockaddr *)&from, length);
}

// --- opening ---
static bool enter(const char *namespace, struct berth_error *err)
{
	BERTH_AUTO_FREE char *path = berth_format("/run/netns/%s", namespace);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	bool entered = fd >= 0 && setns(fd, CLONE_NEWNET) == 0;
	int failure = errno;
	if (fd >= 0) {
		close(fd);
	}
	return entered || berth_fail(err, BERTH_ERROR_UNAVAILABLE, "cannot enter the network namespace %s: %s", path,
				  strerror(failure));
}

static bool open_tun(const char *namespace, const char *device, int *tun, struct berth_error *err)
{
	if (!enter(namespace, err)) {
		return false;
	}
	*tun = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
	struct ifreq request = {.ifr_flags = IFF_TUN | IFF_NO_PI};
	snprintf(request.ifr_name, sizeof request.ifr_name, "%s", device);
	if (*tun < 0 || ioctl(*tun, TUNSETIFF, &request) != 0) {
		return berth_fail(err, BERTH_ERROR_UNAVAILABLE, "cannot make the TUN device %s in %s: %s", device,
			namespace, strerror(errno));
	}
	return true;
}

static bool open_control(const char *path, int *control, struct berth_error *err)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	if (snprintf(address.sun_path, sizeof address.sun_path, "%s", path) >= (int)sizeof address.sun_path) {
		return berth_fail(err, BERTH_ERROR_INVALID, "the socket's path %s is too long", path);
	}
	unlink(path); // of a relay that was killed
	*control = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (*control < 0 || bind(*control, (struct sockaddr *)&address, sizeof address) != 0) {
		return berth_fail(err, BERTH_ERROR_UNAVAILABLE, "cannot bind %s: %s", path, strerror(errno));
	}
	return true;
}

static int wait_ms(const struct relay *relay, int64_t end_ns)
{
	int64_t until_ns = relay->queued && relay->queue[0]->due_ns < end_ns ? relay->queue[0]->due_ns : end_ns;
	int64_t wait_ns = until_ns - berth_boot_ns();
	return wait_ns <= 0 ? 0 : (int)((wait_ns + BERTH_NS_PER_MS - 1) / BERTH_NS_PER_MS);
}

static void run(struct relay *relay, int64_t end_ns)
{
	while (!ended && berth_boot_ns() < end_ns) {
		struct pollfd fds[] = {
			{relay->tun[TO_A], POLLIN, 0}, {relay->tun[TO_B], POLLIN, 0}, {relay->control, POLLIN, 0}};
		poll(fds, BERTH_COUNT(fds), wait_ms(relay, end_ns));
		read_packets(relay, TO_A);
		read_packets(relay, TO_B);
		if (fds[2].revents) {
			answer(relay);
		}
		write_due(relay);
	}
}

static void end_with_parent(void)
{
	struct sigaction action = {.sa_handler = on_end};
	sigaction(SIGTERM, &action, NULL);
	sigaction(SIGINT, &action, NULL);
	prctl(PR_SET_PDEATHSIG, SIGTERM);
	ended = getppid() == 1;
}

int main(int argc, char **argv)
{
	if (argc != 8) {
		fputs("usage: relay SOCKET NAMESPACE-A DEVICE-A NAMESPACE-B DEVICE-B SEED SECONDS\n", stderr);
		return 2;
	}
	struct berth_error err = {0};
	struct relay *relay = berth_alloc(sizeof *relay);
	relay->random = strtoull(argv[6], NULL, 10);
	long seconds = strtol(argv[7], NULL, 10);
	seconds = seconds < 1 || seconds > SECONDS_MAX ? SECONDS_MAX : seconds;
	end_with_parent();
	bool opened = open_control(argv[1], &relay->control, &err) &&
	              open_tun(argv[2], argv[3], &relay->tun[TO_A], &err) &&
	              open_tun(argv[4], argv[5], &relay->tun[TO_B], &err);
	if (opened) {
		puts("ready");
		fflush(stdout);
		run(relay, berth_boot_ns() + seconds * 1000 * BERTH_NS_PER_MS);
	} else {
		fprintf(stderr, "relay: %s\n", err.message);
	}
	unlink(argv[1]);
	while (relay->queued) {
		free(pop(relay));
	}
	free(relay);
	return opened ? 0 : 1;
}
