// SPDX-License-Identifier: Apache-2.0
#include "coordinator/governor/governor.h"

#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "common/base/clock.h"
#include "common/base/mem.h"
#include "common/base/table.h"

#define DISPATCHES_MAX 10000
#define PERIOD_MS_MAX  (24 * 60 * 60 * 1000)
#define REST_MS        1000 // where the provider gave no time

enum ticket_state { WAITING, GRANTED, USED };

struct account;

struct ticket {
	char id[BERTH_ID_SIZE];
	struct account *account;
	enum ticket_state state;
	int64_t until_ns;           // WAITING: when it is late; GRANTED: when it expires
	struct ticket *prev, *next; // in the line, or among the granted
	UT_hash_handle hh;
};

struct account {
	char name[BERTH_GOVERNOR_ACCOUNT_SIZE];
	struct berth_governor_policy policy;
	struct ticket *line, *granted; // oldest first
	uint32_t waiting, taken;
	uint32_t places; // in force; 0: none
	uint32_t slower; // times the policy's spacing
	int64_t last_ns; // of the newest permit
	int64_t rests_until_ns, quiet_since_ns, raised_ns;
	uint64_t sequence, expired, refused;
	struct account *prev, *next; // in the order in which they are asked
	UT_hash_handle hh;
};

struct berth_governor {
	int64_t begun_ns;
	struct account *accounts, *turns;
	struct ticket *tickets;
};

struct berth_governor_policy berth_governor_e2b(uint32_t places)
{
	return (struct berth_governor_policy){.dispatches = 4, .period_ms = 1000, .places = places, .permit_ms = 30000};
}

struct berth_governor *berth_governor_new(int64_t now_ns)
{
	struct berth_governor *governor = berth_alloc(sizeof *governor);
	governor->begun_ns = now_ns;
	return governor;
}

void berth_governor_free(struct berth_governor *governor)
{
	if (!governor) {
		return;
	}
	struct ticket *ticket, *next_ticket;
	HASH_ITER (hh, governor->tickets, ticket, next_ticket) {
		HASH_DEL(governor->tickets, ticket);
		free(ticket);
	}
	struct account *account, *next_account;
	HASH_ITER (hh, governor->accounts, account, next_account) {
		HASH_DEL(governor->accounts, account);
		free(account);
	}
	free(governor);
}

static struct account *find_account(const struct berth_governor *governor, const char *name)
{
	struct account *account;
	HASH_FIND_STR(governor->accounts, name, account);
	return account;
}

static struct ticket *find_ticket(const struct berth_governor *governor, const char *id)
{
	struct ticket *ticket;
	HASH_FIND_STR(governor->tickets, id, ticket);
	return ticket;
}

static bool check_policy(const char *account, const struct berth_governor_policy *policy, struct berth_error *err)
{
	if (policy->dispatches < 1 || policy->dispatches > DISPATCHES_MAX) {
		return berth_fail(err, BERTH_ERROR_INVALID, "account %s: %u creates in a period; 1 to %d can be given",
			account, policy->dispatches, DISPATCHES_MAX);
	}
	if (policy->period_ms < 1 || policy->period_ms > PERIOD_MS_MAX) {
		return berth_fail(err, BERTH_ERROR_INVALID, "account %s: a period of %lld ms; 1 to %d can be given",
			account, (long long)policy->period_ms, PERIOD_MS_MAX);
	}
	if (policy->permit_ms < 1) {
		return berth_fail(err, BERTH_ERROR_INVALID, "account %s: a permit that is good for %lld ms", account,
			(long long)policy->permit_ms);
	}
	return strlen(account) < BERTH_GOVERNOR_ACCOUNT_SIZE ||
	       berth_fail(err, BERTH_ERROR_INVALID, "account %s: the name is longer than %d bytes", account,
		       BERTH_GOVERNOR_ACCOUNT_SIZE - 1);
}

bool berth_governor_set(struct berth_governor *governor, const char *name, const struct berth_governor_policy *policy,
	struct berth_error *err)
{
	if (!check_policy(name, policy, err)) {
		return false;
	}
	struct account *account = find_account(governor, name);
	if (!account) {
		account = berth_alloc(sizeof *account);
		strcpy(account->name, name); // its length was checked
		account->slower = 1;
		account->last_ns = account->quiet_since_ns = account->raised_ns = governor->begun_ns;
		HASH_ADD_STR(governor->accounts, name, account);
		DL_APPEND(governor->turns, account);
	}
	account->policy = *policy;
	account->places = policy->places;
	return true;
}

// The policy's spacing is rounded up: a window of one period never holds one too many.
static int64_t spacing_ns(const struct account *account)
{
	int64_t period_ns = account->policy.period_ms * BERTH_NS_PER_MS;
	int64_t dispatches = account->policy.dispatches;
	return (period_ns + dispatches - 1) / dispatches * account->slower;
}

static struct ticket *add_ticket(struct berth_governor *governor, struct account *account, const char *id)
{
	struct ticket *ticket = berth_alloc(sizeof *ticket);
	snprintf(ticket->id, sizeof ticket->id, "%s", id);
	ticket->account = account;
	HASH_ADD_STR(governor->tickets, id, ticket);
	return ticket;
}

static struct account *known_account(
	const struct berth_governor *governor, const char *name, const char *ticket, struct berth_error *err)
{
	struct account *account = find_account(governor, name);
	if (!account) {
		berth_fail(err, BERTH_ERROR_NOT_FOUND, "there is no policy for the account %s", name);
	} else if (strlen(ticket) >= BERTH_ID_SIZE) {
		berth_fail(err, BERTH_ERROR_INVALID, "%s is no ticket", ticket);
		return NULL;
	}
	return account;
}

bool berth_governor_lives(
	struct berth_governor *governor, const char *name, const char *ticket, struct berth_error *err)
{
	struct account *account = known_account(governor, name, ticket, err);
	if (account && !find_ticket(governor, ticket)) {
		add_ticket(governor, account, ticket)->state = USED;
		account->taken++;
	}
	return account;
}

bool berth_governor_ask(struct berth_governor *governor, const char *name, const char *id, int64_t until_ns,
	int64_t now_ns, struct berth_error *err)
{
	struct account *account = known_account(governor, name, id, err);
	if (!account || find_ticket(governor, id)) {
		return account;
	}
	if (until_ns <= now_ns) {
		return berth_fail(err, BERTH_ERROR_TIMEOUT, "the time for a create on account %s is over", name);
	}
	if (account->waiting >= BERTH_GOVERNOR_WAITING_MAX) {
		return berth_fail(err, BERTH_ERROR_EXHAUSTED, "%d creates wait for the account %s already",
			BERTH_GOVERNOR_WAITING_MAX, name);
	}
	struct ticket *ticket = add_ticket(governor, account, id);
	ticket->until_ns = until_ns;
	DL_APPEND(account->line, ticket);
	account->waiting++;
	return true;
}

static void remove_ticket(struct berth_governor *governor, struct ticket *ticket)
{
	struct account *account = ticket->account;
	if (ticket->state == WAITING) {
		DL_DELETE(account->line, ticket);
		account->waiting--;
	} else if (ticket->state == GRANTED) {
		DL_DELETE(account->granted, ticket);
	}
	account->taken -= ticket->state != WAITING;
	HASH_DEL(governor->tickets, ticket);
	free(ticket);
}

// Permits of an account have one length but where its policy was changed, so the oldest need not be the first to
// expire.
static void expire(struct berth_governor *governor, struct account *account, int64_t now_ns)
{
	struct ticket *ticket, *next;
	DL_FOREACH_SAFE (account->granted, ticket, next) {
		if (ticket->until_ns <= now_ns) {
			account->expired++;
			remove_ticket(governor, ticket);
		}
	}
}

// What a while of quiet gives back.
static void recover(struct account *account, int64_t now_ns)
{
	int64_t period_ns = account->policy.period_ms * BERTH_NS_PER_MS;
	while (account->slower > 1 && now_ns - account->quiet_since_ns >= period_ns) {
		account->slower /= 2;
		account->quiet_since_ns += period_ns;
	}
	int64_t raise_ns = BERTH_GOVERNOR_RAISE_MS * BERTH_NS_PER_MS;
	while (account->places != account->policy.places && now_ns - account->raised_ns >= raise_ns) {
		account->raised_ns += raise_ns;
		account->places++;
		if (!account->policy.places && account->places >= account->taken + account->waiting) {
			account->places = 0; // it bounds nobody any more
		}
	}
}

static bool has_room(const struct account *account)
{
	return !account->places || account->taken < account->places;
}

static int64_t next_ns(const struct account *account)
{
	int64_t spaced_ns = account->last_ns + spacing_ns(account);
	return spaced_ns > account->rests_until_ns ? spaced_ns : account->rests_until_ns;
}

static void grant(struct account *account, struct ticket *ticket, int64_t now_ns, struct berth_permit *permit)
{
	DL_DELETE(account->line, ticket);
	account->waiting--;
	DL_APPEND(account->granted, ticket);
	account->taken++;
	account->last_ns = now_ns;
	ticket->state = GRANTED;
	ticket->until_ns = now_ns + account->policy.permit_ms * BERTH_NS_PER_MS;
	*permit = (struct berth_permit){
		.sequence = ++account->sequence, .granted_ns = now_ns, .expires_ns = ticket->until_ns};
	memcpy(permit->ticket, ticket->id, sizeof permit->ticket);
	memcpy(permit->account, account->name, sizeof permit->account);
}

bool berth_governor_grant(struct berth_governor *governor, int64_t now_ns, struct berth_permit *permit)
{
	struct account *account;
	DL_FOREACH (governor->turns, account) {
		expire(governor, account, now_ns);
		recover(account, now_ns);
		struct ticket *ticket;
		DL_FOREACH (account->line, ticket) {
			if (ticket->until_ns > now_ns) {
				break; // those before it are late, and told so
			}
		}
		if (!ticket || !has_room(account) || next_ns(account) > now_ns) {
			continue;
		}
		grant(account, ticket, now_ns, permit);
		// The others come first next time.
		DL_DELETE(governor->turns, account);
		DL_APPEND(governor->turns, account);
		return true;
	}
	return false;
}

bool berth_governor_late(struct berth_governor *governor, int64_t now_ns, char ticket[static BERTH_ID_SIZE])
{
	struct account *account;
	DL_FOREACH (governor->turns, account) {
		struct ticket *first = account->line;
		if (first && first->until_ns <= now_ns) {
			memcpy(ticket, first->id, BERTH_ID_SIZE);
			remove_ticket(governor, first);
			return true;
		}
	}
	return false;
}

static int64_t earlier(int64_t a_ns, int64_t b_ns)
{
	return a_ns < b_ns ? a_ns : b_ns;
}

static int64_t account_due_ns(const struct account *account)
{
	if (!account->line) {
		return INT64_MAX;
	}
	int64_t due_ns = account->line->until_ns;
	if (has_room(account)) {
		return earlier(due_ns, next_ns(account));
	}
	const struct ticket *ticket;
	DL_FOREACH (account->granted, ticket) {
		due_ns = earlier(due_ns, ticket->until_ns);
	}
	bool is_lowered = account->places != account->policy.places;
	return is_lowered ? earlier(due_ns, account->raised_ns + BERTH_GOVERNOR_RAISE_MS * BERTH_NS_PER_MS) : due_ns;
}

int64_t berth_governor_due_ns(const struct berth_governor *governor)
{
	int64_t due_ns = INT64_MAX;
	const struct account *account;
	DL_FOREACH (governor->turns, account) {
		due_ns = earlier(due_ns, account_due_ns(account));
	}
	return due_ns;
}

bool berth_governor_use(struct berth_governor *governor, const char *id, int64_t now_ns)
{
	struct ticket *ticket = find_ticket(governor, id);
	if (!ticket || ticket->state != GRANTED || ticket->until_ns <= now_ns) {
		return false;
	}
	DL_DELETE(ticket->account->granted, ticket);
	ticket->state = USED;
	return true;
}

void berth_governor_end(struct berth_governor *governor, const char *id, int64_t now_ns)
{
	struct ticket *ticket = find_ticket(governor, id);
	if (ticket) {
		recover(ticket->account, now_ns);
		remove_ticket(governor, ticket);
	}
}

void berth_governor_too_fast(struct berth_governor *governor, const char *name, int64_t retry_after_ms, int64_t now_ns)
{
	struct account *account = find_account(governor, name);
	if (!account) {
		return;
	}
	recover(account, now_ns);
	account->refused++;
	int64_t rest_ms = retry_after_ms > 0 ? retry_after_ms : REST_MS;
	int64_t until_ns =
		rest_ms > PERIOD_MS_MAX ? now_ns + PERIOD_MS_MAX * BERTH_NS_PER_MS : now_ns + rest_ms * BERTH_NS_PER_MS;
	account->rests_until_ns = until_ns > account->rests_until_ns ? until_ns : account->rests_until_ns;
	account->slower = account->slower < BERTH_GOVERNOR_SLOWER_MAX ? account->slower * 2 : account->slower;
	account->quiet_since_ns = account->rests_until_ns;
}

void berth_governor_too_many(struct berth_governor *governor, const char *name, int64_t now_ns)
{
	struct account *account = find_account(governor, name);
	if (!account) {
		return;
	}
	recover(account, now_ns);
	account->refused++;
	// The one that was refused does not live.
	uint32_t lived = account->taken > 1 ? account->taken - 1 : 1;
	account->places = !account->places || lived < account->places ? lived : account->places;
	account->raised_ns = now_ns;
}

bool berth_governor_state(const struct berth_governor *governor, const char *name, struct berth_governor_state *state)
{
	const struct account *account = find_account(governor, name);
	if (account) {
		*state = (struct berth_governor_state){.waiting = account->waiting,
			.taken = account->taken,
			.places = account->places,
			.spacing_ns = spacing_ns(account),
			.rests_until_ns = account->rests_until_ns,
			.granted = account->sequence,
			.expired = account->expired,
			.refused = account->refused};
	}
	return account;
}
