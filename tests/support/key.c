// SPDX-License-Identifier: Apache-2.0
#include "tests/support/key.h"

#include <stdlib.h>

#include "common/base/file.h"
#include "common/base/mem.h"
#include "common/evidence/sign.h"
#include "tests/support/test.h"

struct test_key test_key_make(void)
{
	BERTH_AUTO_FREE char *folder = berth_test_folder();
	BERTH_AUTO_FREE char *path = berth_path_join(folder, "signing.pem");
	struct berth_error err;
	struct test_key key = {.own = berth_signing_key_open(path, &err)};
	assert_ok(key.own, err);
	assert_ok(berth_signing_key_public(key.own, &key.der, &key.der_size, &err), err);
	return key;
}

void test_key_clear(struct test_key *key)
{
	berth_signing_key_free(key->own);
	free(key->der);
	*key = (struct test_key){0};
}
