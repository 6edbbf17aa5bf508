// SPDX-License-Identifier: Apache-2.0
// The small rules on any text: templates, sizes, names, instructions, options.
#include <stdlib.h>
#include <string.h>

#include "common/base/mem.h"
#include "common/task/jobfile.h"
#include "common/task/reward.h"
#include "common/task/task.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	BERTH_AUTO_FREE char *text = berth_strndup((const char *)data, size);
	struct berth_template template = berth_template_parse(text);
	if (template.default_value && !template.variable) {
		abort();
	}
	berth_template_free(&template);
	int64_t mb;
	berth_size_mb(text, &mb, NULL);
	static const uint8_t random[BERTH_TRIAL_NAME_RANDOM_SIZE];
	free(berth_trial_name(text, random));
	BERTH_AUTO_FREE char *project = berth_compose_project(text);
	if (strspn(project, "abcdefghijklmnopqrstuvwxyz0123456789_-") != strlen(project)) {
		abort();
	}
	BERTH_AUTO_FREE char *once = berth_instruction_strip(text);
	if (strlen(once) > strlen(text) || strcmp(once, text + strlen(text) - strlen(once)) != 0) {
		abort();
	}
	char *key = NULL;
	berth_json *value = NULL;
	if (berth_kwarg_parse(text, &key, &value, NULL)) {
		free(key);
		berth_json_free(value);
	}
	return 0;
}
