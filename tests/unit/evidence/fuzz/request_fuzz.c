// SPDX-License-Identifier: Apache-2.0
// PKCS#10 requests come from whoever holds an enrolment token: any bytes must end in a certificate or a typed refusal.
#include <stdint.h>
#include <stdlib.h>

#include "common/evidence/x509.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char *authority;
static char *authority_key;

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct berth_error err;
	if (!authority && !berth_x509_authority_new("fuzz", 10, &authority, &authority_key, &err)) {
		abort();
	}
	char *certificate = NULL;
	if (berth_x509_issue(authority, authority_key, data, size, "agent", "a", NULL, 1, &certificate, &err)) {
		free(certificate);
		return 0;
	}
	if (certificate || (err.code != BERTH_ERROR_INVALID && err.code != BERTH_ERROR_CORRUPT)) {
		abort();
	}
	return 0;
}
