// SPDX-License-Identifier: Apache-2.0
#include "tests/integration/coordinator/desk.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/file.h"
#include "common/base/mem.h"

void desk_point_at(struct desk *desk)
{
	free(desk->address);
	free(desk->blobs);
	desk->address = berth_format("127.0.0.1:%d", berth_coordinator_port(desk->quay->daemon));
	desk->blobs = berth_format("127.0.0.1:%d", berth_coordinator_blobs_port(desk->quay->daemon));
	const char *const env[] = {"BERTH_COORDINATOR", desk->address, "BERTH_BLOBS", desk->blobs, "BERTH_CREDENTIALS",
		desk->credentials, "XDG_STATE_HOME", desk->quay->folder, NULL};
	memcpy(desk->env, env, sizeof env);
	desk->shell.env = desk->env;
}

int desk_setup(void **state)
{
	void *quay;
	struct desk *desk = berth_alloc(sizeof *desk);
	quay_setup(&quay);
	desk->quay = quay;
	desk->credentials = berth_path_join(desk->quay->folder, "cred/operator");
	desk->proof = berth_path_join(desk->quay->folder, "proof.json");
	shell_start(&desk->shell, NULL);
	desk_point_at(desk);
	*state = desk;
	return 0;
}

int desk_teardown(void **state)
{
	struct desk *desk = *state;
	void *quay = desk->quay;
	shell_free(&desk->shell);
	free(desk->address);
	free(desk->blobs);
	free(desk->credentials);
	free(desk->proof);
	free(desk);
	return quay_teardown(&quay);
}
