// SPDX-License-Identifier: Apache-2.0
// Ends what an exec left where the daemon's groups are out of reach: by a mark in the environment, by session and
// ancestry, and by a picture of the processes from before. Looks from inside the container, as root, with bash alone.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/runner/local/internal.h"
#include "common/base/buf.h"
#include "common/base/digest.h"
#include "common/base/mem.h"

#define PICTURE_SIZE_MAX (1024 * 1024)

// Fields of /proc/N/stat behind the name, which may hold anything: state, parent, group, session, ... start (20th).
#define READ_PROCESSES                                                                                                 \
	"shopt -s nullglob\n"                                                                                          \
	"look() {\n"                                                                                                   \
	"  pids=(); declare -gA parent=() session=() start=()\n"                                                       \
	"  local d s f\n"                                                                                              \
	"  for d in /proc/[0-9]*; do\n"                                                                                \
	"    mapfile -d '' -t s < $d/stat || continue\n"                                                               \
	"    [ ${#s[@]} -gt 0 ] || continue\n"                                                                         \
	"    f=(${s[0]##*) })\n"                                                                                       \
	"    [[ ${f[0]} == [ZX] ]] && continue\n"                                                                      \
	"    d=${d#/proc/}; pids+=($d); parent[$d]=${f[1]}; session[$d]=${f[3]}; start[$d]=${f[19]}\n"                 \
	"  done 2> /dev/null\n"                                                                                        \
	"}\n"

static const char picture_script[] =
	READ_PROCESSES "look\n"
		       "for p in ${pids[@]}; do [ $p = $$ ] || echo -n \"$p:${start[$p]}:${session[$p]} \"; done\n";

// Doomed is what carries the mark, is of the exec's session, has a doomed parent, or is new and an orphan with a
// session of its own. A service that was there before keeps its children, and so does the container's first process
// what it starts in a session that is known.
static const char end_script[] = READ_PROCESSES
	"for s in $KNOWN; do seen[${s%%:*}]=${s#*:}; old[${s##*:}]=1; done\n"
	"for ((round = 0; round < 100; round++)); do\n"
	"  look; doomed=(); list=()\n"
	"  for p in ${pids[@]}; do\n"
	"    [ $p = $$ ] && continue\n"
	"    [ \"${seen[$p]:-}\" = \"${start[$p]}:${session[$p]}\" ] && continue\n"
	"    hit=0\n"
	"    [ $SESSION != 0 ] && [ ${session[$p]} = $SESSION ] && hit=1\n"
	"    [ ${parent[$p]} = 1 ] && [ -z \"${old[${session[$p]}]:-}\" ] && hit=1\n"
	"    if [ $hit = 0 ]; then\n"
	"      mapfile -d '' -t e < /proc/$p/environ\n"
	"      for v in \"${e[@]}\"; do [ \"$v\" = \"" LOCAL_MARK_NAME "=$MARK\" ] && hit=1; done\n"
	"    fi\n"
	"    [ $hit = 1 ] && doomed[$p]=1\n"
	"  done 2> /dev/null\n"
	"  for ((more = 1; more;)); do\n"
	"    more=0\n"
	"    for p in ${pids[@]}; do\n"
	"      if [ -z \"${doomed[$p]:-}\" ] && [ -n \"${doomed[${parent[$p]}]:-}\" ]; then doomed[$p]=1; more=1; fi\n"
	"    done\n"
	"  done\n"
	"  [ ${#doomed[@]} = 0 ] && exit 0\n"
	"  kill -STOP ${!doomed[@]} 2> /dev/null\n"
	"  kill -KILL ${!doomed[@]} 2> /dev/null\n"
	"done\n"
	"echo ${!doomed[@]}\n"
	"exit 1\n";

struct text_limit {
	struct berth_buf text;
};

static bool keep_text(void *context, enum berth_docker_stream stream, const void *data, size_t size)
{
	struct text_limit *limit = context;
	if (stream == BERTH_DOCKER_STDOUT && limit->text.size + size <= PICTURE_SIZE_MAX) {
		berth_buf_add(&limit->text, data, size);
	}
	return true;
}

static bool run_script(struct berth_environment *environment, const char *script, const char *const *env,
	struct text_limit *output, int *exit_code, struct berth_until until, struct berth_error *err)
{
	const struct berth_docker_exec request = {
		.argv = (const char *const[]){"bash", "-c", script, NULL},
		.env = env,
		.user = "0:0",
		.workdir = "/",
		.output = keep_text,
		.context = output,
	};
	return berth_docker_exec(environment->local->docker, environment->id, &request, exit_code, until, err) ||
	       local_explain(environment, err);
}

bool local_marks_begin(struct berth_environment *environment, struct local_marks *marks, struct berth_until until,
	struct berth_error *err)
{
	struct text_limit output = {0};
	int exit_code = 0;
	bool good = run_script(environment, picture_script, NULL, &output, &exit_code, until, err);
	if (good && exit_code != 0) {
		good = berth_fail(
			err, BERTH_ERROR_INVALID, "leftovers = kill needs bash in the image (exit code %d)", exit_code);
	}
	if (good) {
		marks->known = berth_strdup(berth_buf_text(&output.text));
		berth_random_id(marks->mark);
	}
	berth_buf_free(&output.text);
	return good;
}

bool local_marks_end(struct berth_environment *environment, struct local_marks *marks, struct berth_until until,
	struct berth_error *err)
{
	BERTH_AUTO_FREE char *known = berth_format("KNOWN=%s", marks->known);
	BERTH_AUTO_FREE char *mark = berth_format("MARK=%s", marks->mark);
	BERTH_AUTO_FREE char *session = berth_format("SESSION=%lld", (long long)marks->session);
	const char *const env[] = {known, mark, session, NULL};
	struct text_limit output = {0};
	int exit_code = 0;
	bool good = run_script(environment, end_script, env, &output, &exit_code, until, err);
	if (good && exit_code != 0) {
		good = berth_fail(
			err, BERTH_ERROR_INTERNAL, "processes stay alive: %.200s", berth_buf_text(&output.text));
	}
	berth_buf_free(&output.text);
	return good;
}

void local_marks_free(struct local_marks *marks)
{
	free(marks->known);
	*marks = (struct local_marks){0};
}
