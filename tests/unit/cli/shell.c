// SPDX-License-Identifier: Apache-2.0
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/mem.h"
#include "coordinator/cli/cli.h"
#include "tests/support/test.h"
#include "tests/unit/cli/fake.h"

#define WORDS_MAX 32

static const char *look_up(void *context, const char *name)
{
	const struct shell *shell = context;
	for (const char *const *at = shell->env; at && *at; at += 2) {
		if (strcmp(at[0], name) == 0) {
			return at[1];
		}
	}
	return NULL;
}

void shell_start(struct shell *shell, const struct fake *fake)
{
	*shell = (struct shell){.fake = fake, .interrupt = berth_cancel_new(NULL), .detach = berth_cancel_new(NULL)};
}

void shell_free(struct shell *shell)
{
	berth_cancel_free(shell->interrupt);
	berth_cancel_free(shell->detach);
	berth_free_cleanup(&shell->out);
	berth_free_cleanup(&shell->err);
}

// What was typed, as a pipe: the command waits for it with poll.
static FILE *typed(const char *text)
{
	int ends[2];
	assert_int_equal(pipe(ends), 0);
	assert_int_equal(write(ends[1], text ? text : "", text ? strlen(text) : 0), text ? strlen(text) : 0);
	close(ends[1]);
	return fdopen(ends[0], "r");
}

int shell_run(struct shell *shell, const char *const *words)
{
	char *argv[WORDS_MAX] = {"berth"};
	int argc = 1;
	for (; *words && argc < WORDS_MAX - 6; words++) {
		argv[argc++] = (char *)*words;
	}
	if (shell->fake) {
		argv[argc++] = "--insecure";
		argv[argc++] = "--coordinator";
		argv[argc++] = shell->fake->address;
		argv[argc++] = "--blobs";
		argv[argc++] = shell->fake->blobs_address;
	}
	berth_free_cleanup(&shell->out);
	berth_free_cleanup(&shell->err);
	size_t out_size, err_size;
	struct berth_cli_io io = {
		.in = typed(shell->input),
		.out = open_memstream(&shell->out, &out_size),
		.err = open_memstream(&shell->err, &err_size),
		.in_tty = shell->input != NULL,
		.err_tty = shell->input != NULL,
		.lookup = look_up,
		.lookup_context = shell,
		.interrupt = shell->interrupt,
		.detach = shell->detach,
	};
	shell->code = berth_cli_main(argc, argv, &io);
	fclose(io.in);
	fclose(io.out);
	fclose(io.err);
	if (shell->fake) {
		// What its threads noted under this lock before they answered is the test's to read from here on.
		pthread_mutex_lock((pthread_mutex_t *)&shell->fake->lock);
		pthread_mutex_unlock((pthread_mutex_t *)&shell->fake->lock);
	}
	return shell->code;
}
