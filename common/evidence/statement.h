// SPDX-License-Identifier: Apache-2.0
// Statements of trials, signed in groups: an agent signs those that reach its disk together once, and each result
// carries what ties it to that signature, so that it is checked alone. What is signed is one line of canonical JSON,
//   {"root":"sha256:HEX","size":N}
// in an envelope with a type of its own (sign.h): the RFC 6962 root over the group's statements and how many they are.
// A leaf is SHA-256(0x00 || statement). One statement is a group of one, with an empty path. Pure.
#pragma once

#include "common/evidence/sign.h"

#define BERTH_STATEMENTS_TYPE     "application/vnd.berth.trial-statements+json"
#define BERTH_STATEMENT_GROUP_MAX 256
#define BERTH_STATEMENT_PATH_MAX  8 // hashes: the levels of a full group

// --- signing ---
struct berth_statement_group;
struct berth_statement_group *berth_statement_group_new(void); // empty
void berth_statement_group_free(struct berth_statement_group *group);
// At most BERTH_STATEMENT_GROUP_MAX of them.
void berth_statement_group_add(struct berth_statement_group *group, const void *statement, size_t size);
size_t berth_statement_group_size(const struct berth_statement_group *group);
bool berth_statement_group_sign(const struct berth_statement_group *group, const struct berth_signing_key *key,
	uint8_t signature[static BERTH_SIGNATURE_SIZE], struct berth_error *err);
// The inclusion path of the statement that was added as number `index`, from 0: how many hashes.
size_t berth_statement_group_path(const struct berth_statement_group *group, size_t index,
	struct berth_digest path[static BERTH_STATEMENT_PATH_MAX]);

// --- checking ---
// What a result carries.
struct berth_signed_statement {
	const void *statement;
	size_t size;
	uint64_t index, group_size;
	const uint8_t *path; // hashes of BERTH_DIGEST_SIZE, from the leaf's side up
	size_t path_size;    // bytes
	const uint8_t *signature;
	size_t signature_size;
};

// The newest group whose signature was found good under one key: the others of it need no second check. Starts zeroed;
// its owner keeps it to that key and to one thread at a time.
struct berth_checked_group {
	uint64_t size; // 0: none yet
	struct berth_digest root;
	uint8_t signature[BERTH_SIGNATURE_SIZE];
};

// INVALID when the index, size and path name no place in a group; CORRUPT when the group that they give was not signed
// with this key (SubjectPublicKeyInfo). `checked` is used and updated.
bool berth_statement_verify(const void *public_der, size_t public_size, const struct berth_signed_statement *of,
	struct berth_checked_group *checked, struct berth_error *err);
