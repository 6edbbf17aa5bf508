// SPDX-License-Identifier: Apache-2.0
// How fast creates are sent to a provider's account and how many resources live there, for the whole fleet. Pure: no
// clock, no I/O, no randomness.
//
// A create needs a *permit*, which is taken before money is reserved for it. Who asks waits in one line an account, in
// the order of asking, whichever agent it is for. Permits are granted at even spacing, ceil(period / dispatches) after
// the one before and without credit for a pause, so that no window of one period holds more creates than the policy
// allows. A permit that is not used before it expires is void; its place in time is spent.
//
// A permit takes one of the account's places until its ticket is ended. When all are taken the line waits.
//
// A provider that refuses for its rate (429 with a time) stops the account until then and doubles the spacing; each
// whole period of quiet halves what was added. One that refuses for the number of what lives lowers the places to what
// lived then; each BERTH_GOVERNOR_RAISE_MS of quiet gives one back.
//
// Volatile: nothing is replayed. A new governor acts as if every account had granted a permit just before it began, and
// the caller says what already lives (berth_governor_lives).
//
// Times are the coordinator's boot clock in nanoseconds, and never run backwards. One thread.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/digest.h"
#include "common/base/error.h"

#define BERTH_GOVERNOR_ACCOUNT_SIZE 80 // "provider/fingerprint of the credential" with its NUL
#define BERTH_GOVERNOR_WAITING_MAX  100000
#define BERTH_GOVERNOR_RAISE_MS     60000
#define BERTH_GOVERNOR_SLOWER_MAX   64 // times the policy's spacing

struct berth_governor;

struct berth_governor_policy {
	uint32_t dispatches; // 1 to 10,000 in each period
	int64_t period_ms;   // 1 to 86,400,000
	uint32_t places;     // resources that may live at once; 0: as many as the provider takes
	int64_t permit_ms;   // how long a permit is good; 1 or more
};
// E2B takes creates at exactly 4 a second; `places` is the account's own limit.
struct berth_governor_policy berth_governor_e2b(uint32_t places);

struct berth_permit {
	char ticket[BERTH_ID_SIZE];
	char account[BERTH_GOVERNOR_ACCOUNT_SIZE];
	uint64_t sequence; // of the account, from 1
	int64_t granted_ns, expires_ns;
};

struct berth_governor *berth_governor_new(int64_t now_ns);
void berth_governor_free(struct berth_governor *governor); // NULL is allowed

// Makes an account known or gives it another policy. INVALID names what is out of range.
bool berth_governor_set(struct berth_governor *governor, const char *account,
	const struct berth_governor_policy *policy, struct berth_error *err);
// A resource that lives there without a permit of this governor: begun in an earlier life of the coordinator.
bool berth_governor_lives(
	struct berth_governor *governor, const char *account, const char *ticket, struct berth_error *err);

// Joins the account's line; a ticket that is known already keeps its place and what it was granted. NOT_FOUND for an
// account without a policy, EXHAUSTED when the line is full. After `until_ns` it is not granted any more.
bool berth_governor_ask(struct berth_governor *governor, const char *account, const char *ticket, int64_t until_ns,
	int64_t now_ns, struct berth_error *err);
// The next permit that is due. False when none is yet.
bool berth_governor_grant(struct berth_governor *governor, int64_t now_ns, struct berth_permit *permit);
// A ticket that waited past its time and has come to the head of its line, taken out of it. False when there is none.
bool berth_governor_late(struct berth_governor *governor, int64_t now_ns, char ticket[static BERTH_ID_SIZE]);
// When a permit, or a ticket that is late, is due at the earliest. INT64_MAX: not before something else happens.
int64_t berth_governor_due_ns(const struct berth_governor *governor);

// The create is being sent. False when the permit has expired or there is none: it must not be sent.
bool berth_governor_use(struct berth_governor *governor, const char *ticket, int64_t now_ns);
// The ticket needs its place no more: nothing was created, what was is proven dead, or nobody waits. Unknown ones are
// no error.
void berth_governor_end(struct berth_governor *governor, const char *ticket, int64_t now_ns);

// The provider refused a create for its rate; the account rests for `retry_after_ms` (0: it gave no time).
void berth_governor_too_fast(
	struct berth_governor *governor, const char *account, int64_t retry_after_ms, int64_t now_ns);
// The provider refused a create because too many live; the refused ticket is ended by the caller.
void berth_governor_too_many(struct berth_governor *governor, const char *account, int64_t now_ns);

struct berth_governor_state {
	uint32_t waiting, taken, places; // places 0: no limit is known
	int64_t spacing_ns, rests_until_ns;
	uint64_t granted, expired, refused;
};
bool berth_governor_state(const struct berth_governor *governor, const char *account,
	struct berth_governor_state *state); // false: unknown
