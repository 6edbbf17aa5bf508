// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/keys.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/buf.h"
#include "common/base/file.h"
#include "common/base/mem.h"

#define KEY_SIZE_MAX 4096

void sim_key_make(struct sim_key *key)
{
	char path[] = "/tmp/berth-sim-key-XXXXXX";
	struct berth_error err = {0};
	BERTH_AUTO(berth_buf_free) struct berth_buf text = {0};
	int fd = mkstemp(path);
	if (fd < 0 || close(fd) < 0 || unlink(path) < 0 || !(key->key = berth_signing_key_open(path, &err)) ||
		!berth_signing_key_public(key->key, &key->der, &key->der_size, &err) ||
		!berth_file_read(path, KEY_SIZE_MAX, &text, &err)) {
		fprintf(stderr, "sim: no key can be made: %s\n", err.message);
		exit(EXIT_FAILURE);
	}
	unlink(path);
	berth_signing_key_id(key->der, key->der_size, key->id);
	key->pem = berth_buf_steal(&text);
}

void sim_key_put(const struct sim_key *key, const char *path)
{
	struct berth_error err;
	berth_file_write(path, key->pem, strlen(key->pem), 0600, &err);
}
