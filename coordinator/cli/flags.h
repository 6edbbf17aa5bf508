// SPDX-License-Identifier: Apache-2.0
// The one table of flags. Parsing, help pages, "did you mean" and completion are all made from it and from the table of
// commands (command.h).
#pragma once

// Which commands take a flag.
enum cli_group {
	CLI_ALL = 1 << 0,
	CLI_LINK = 1 << 1,    // talks to a coordinator
	CLI_JOB = 1 << 2,     // describes a job, in Harbor's names
	CLI_SUBMIT = 1 << 3,  // describes a job, in ours
	CLI_RUN = 1 << 4,     // berth run
	CLI_RESULTS = 1 << 5, // writes result folders
	CLI_LOGS = 1 << 6,
	CLI_REASON = 1 << 7,
	CLI_ENROLL = 1 << 8,
	CLI_LEASES = 1 << 9,
	CLI_LIST = 1 << 10,  // pages
	CLI_TABLE = 1 << 11, // prints data
	CLI_AMEND = 1 << 12,
	CLI_RESERVATIONS = 1 << 13,
	CLI_HEADS = 1 << 14, // checks signed heads of the ledger
	CLI_PROVE = 1 << 15,
	CLI_HOLDS = 1 << 16, // finds keys among the credentials without a coordinator
	CLI_EXPORT = 1 << 17
};

enum cli_shape { CLI_SWITCH, CLI_ONE, CLI_MANY }; // takes no value, the last one counts, may be repeated

// id, long name, letter (0: none), shape, value's name (choices are "a|b"), groups, help
#define CLI_FLAGS(X)                                                                                                   \
	X(CONFIG, "config", 'c', CLI_ONE, "FILE", CLI_JOB, "job configuration, YAML or JSON, as Harbor reads it")      \
	X(PATH, "path", 'p', CLI_ONE, "FOLDER", CLI_JOB, "a task folder, or a folder of task folders")                 \
	X(AGENT, "agent", 'a', CLI_MANY, "NAME", CLI_JOB, "what solves the tasks: oracle or nop")                      \
	X(MODEL, "model", 'm', CLI_MANY, "NAME", CLI_JOB, "the agent's model; one agent for each that is given")       \
	X(AGENT_KWARG, "ak", 0, CLI_MANY, "K=V", CLI_JOB, "argument of the agent; the value is read as JSON")          \
	X(AGENT_ENV, "ae", 0, CLI_MANY, "K=V", CLI_JOB, "variable of the agent")                                       \
	X(VERIFIER_ENV, "ve", 0, CLI_MANY, "K=V", CLI_JOB, "variable of the verifier")                                 \
	X(N_ATTEMPTS, "n-attempts", 'k', CLI_ONE, "N", CLI_JOB, "trials of each task and agent")                       \
	X(N_CONCURRENT, "n-concurrent", 'n', CLI_ONE, "N", CLI_JOB, "most trials at once in the fleet")                \
	X(MAX_RETRIES, "max-retries", 'r', CLI_ONE, "N", CLI_JOB, "runs after a failure of task or agent")             \
	X(RETRY_INCLUDE, "retry-include", 0, CLI_MANY, "EXCEPTION", CLI_JOB, "run again after this one only")          \
	X(RETRY_EXCLUDE, "retry-exclude", 0, CLI_MANY, "EXCEPTION", CLI_JOB, "never run again after this one")         \
	X(TIMEOUT_MULTIPLIER, "timeout-multiplier", 0, CLI_ONE, "X", CLI_JOB, "for every phase without its own")       \
	X(AGENT_MULTIPLIER, "agent-timeout-multiplier", 0, CLI_ONE, "X", CLI_JOB, "for the agent")                     \
	X(VERIFIER_MULTIPLIER, "verifier-timeout-multiplier", 0, CLI_ONE, "X", CLI_JOB, "for the verifier")            \
	X(SETUP_MULTIPLIER, "agent-setup-timeout-multiplier", 0, CLI_ONE, "X", CLI_JOB, "for the agent's setup")       \
	X(BUILD_MULTIPLIER, "environment-build-timeout-multiplier", 0, CLI_ONE, "X", CLI_JOB,                          \
		"for the environment's start")                                                                         \
	X(INCLUDE, "include-task-name", 'i', CLI_MANY, "GLOB", CLI_JOB, "take only tasks of such names")               \
	X(EXCLUDE, "exclude-task-name", 'x', CLI_MANY, "GLOB", CLI_JOB, "leave out tasks of such names")               \
	X(N_TASKS, "n-tasks", 'l', CLI_ONE, "N", CLI_JOB, "take the first N tasks by name")                            \
	X(JOB_NAME, "job-name", 0, CLI_ONE, "NAME", CLI_JOB, "the results' folder; the local time by default")         \
	X(JOBS_DIR, "jobs-dir", 'o', CLI_ONE, "FOLDER", CLI_JOB | CLI_RESULTS, "where results go (default jobs)")      \
	X(ENVIRONMENT, "env", 'e', CLI_ONE, "docker|e2b", CLI_JOB, "where environments run")                           \
	X(ENVIRONMENT_ENV, "ee", 0, CLI_MANY, "K=V", CLI_SUBMIT, "variable of the environment")                        \
	X(FORCE_BUILD, "force-build", 0, CLI_SWITCH, 0, CLI_JOB, "build images even where the task names one")         \
	X(NO_FORCE_BUILD, "no-force-build", 0, CLI_SWITCH, 0, CLI_JOB, "take the image that the task names")           \
	X(DELETE, "delete", 0, CLI_SWITCH, 0, CLI_JOB, "remove a trial's images and volumes at its end")               \
	X(NO_DELETE, "no-delete", 0, CLI_SWITCH, 0, CLI_JOB, "keep a trial's images and volumes")                      \
	X(CPUS, "override-cpus", 0, CLI_ONE, "N", CLI_JOB, "instead of what tasks declare")                            \
	X(MEMORY, "override-memory-mb", 0, CLI_ONE, "MB", CLI_JOB, "instead of what tasks declare")                    \
	X(STORAGE, "override-storage-mb", 0, CLI_ONE, "MB", CLI_JOB, "instead of what tasks declare")                  \
	X(ARTIFACT, "artifact", 0, CLI_MANY, "PATH", CLI_JOB, "also keep this path of the environment")                \
	X(EXTRA_INSTRUCTION, "extra-instruction", 0, CLI_MANY, "TEXT", CLI_JOB, "put after every instruction")         \
	X(EXTRA_INSTRUCTION_PATH, "extra-instruction-path", 0, CLI_MANY, "FILE", CLI_JOB, "the same from a file")      \
	X(DISABLE_VERIFICATION, "disable-verification", 0, CLI_SWITCH, 0, CLI_JOB, "run no verifier")                  \
	X(QUIET, "quiet", 'q', CLI_SWITCH, 0, CLI_JOB, "show no progress")                                             \
	X(YES, "yes", 'y', CLI_SWITCH, 0, CLI_JOB, "do not ask before this host's variables are sent")                 \
	X(LEFTOVERS, "leftovers", 0, CLI_ONE, "keep|kill", CLI_SUBMIT,                                                 \
		"what the agent left running when the verifier starts (default keep, as Harbor)")                      \
	X(CLIENT_KEY, "client-key", 0, CLI_ONE, "KEY", CLI_SUBMIT, "submitting twice with one key gives one job")      \
	X(TASK_SIZE_LIMIT, "task-size-limit", 0, CLI_ONE, "MB", CLI_SUBMIT, "largest task folder (default 1024)")      \
	X(BUDGET, "budget", 0, CLI_ONE, "NAME", CLI_SUBMIT | CLI_EXPORT,                                               \
		"the budget that pays; with a job, needs --phase")                                                     \
	X(PHASE, "phase", 0, CLI_ONE, "NAME", CLI_SUBMIT, "the budget's phase that pays; needs --budget")              \
	X(PRIORITY, "priority", 0, CLI_ONE, "N", CLI_SUBMIT, "weight of the fair share, 1 to 100 (default 10)")        \
	X(DETACH, "detach", 0, CLI_SWITCH, 0, CLI_RUN, "print the job's id and return")                                \
	X(FILE, "file", 0, CLI_ONE, "PATH", CLI_LOGS, "one file of the trial's folder, such as agent/oracle.txt")      \
	X(REASON, "reason", 0, CLI_ONE, "TEXT", CLI_REASON, "why; kept in the ledger for good")                        \
	X(HARD_LIMIT, "hard-limit", 0, CLI_ONE, "USD", CLI_AMEND, "of the whole budget")                               \
	X(PHASE_LIMIT, "phase-limit", 0, CLI_MANY, "PHASE=USD", CLI_AMEND, "of one phase")                             \
	X(JOB_LIMIT, "job-limit", 0, CLI_MANY, "JOB=USD", CLI_AMEND,                                                   \
		"of one job, by its whole id; none: the policy's")                                                     \
	X(USER_LIMIT, "user-limit", 0, CLI_MANY, "USER=USD", CLI_AMEND,                                                \
		"of one user, as user/NAME; none: the policy's")                                                       \
	X(ROLE, "role", 0, CLI_ONE, "agent|user|operator", CLI_ENROLL, "what the certificate allows (default agent)")  \
	X(OUT, "out", 0, CLI_ONE, "FOLDER", CLI_ENROLL, "where the key and certificates go; made if missing")          \
	X(DAYS, "days", 0, CLI_ONE, "N", CLI_ENROLL, "how long the certificate lasts (default 365)")                   \
	X(LEASE_JOB, "job", 0, CLI_ONE, "JOB", CLI_LEASES, "only this job's")                                          \
	X(EVERY, "all", 0, CLI_SWITCH, 0, CLI_LEASES | CLI_RESERVATIONS, "those that have ended too")                  \
	X(KEY, "key", 0, CLI_ONE, "PEM", CLI_HEADS, "the ledger's public key (default ledger.pem of the credentials)") \
	X(LEASE, "lease", 0, CLI_ONE, "ID", CLI_PROVE, "the newest event of this lease")                               \
	X(TRIAL, "trial", 0, CLI_ONE, "JOB/INDEX", CLI_PROVE, "the event with this trial's result")                    \
	X(LIMIT, "limit", 0, CLI_ONE, "N", CLI_LIST, "show at most this many (default 100)")                           \
	X(COORDINATOR, "coordinator", 0, CLI_ONE, "ADDRESS", CLI_LINK,                                                 \
		"host:port or unix:PATH (default $BERTH_COORDINATOR, else 127.0.0.1:7311)")                            \
	X(BLOBS, "blobs", 0, CLI_ONE, "ADDRESS", CLI_LINK,                                                             \
		"its blob port (default $BERTH_BLOBS, else port 7312 of the coordinator's host)")                      \
	X(CREDENTIALS, "credentials", 0, CLI_ONE, "FOLDER", CLI_LINK | CLI_HOLDS,                                      \
		"authority.pem, certificate.pem and key.pem (default $BERTH_CREDENTIALS, else ~/.config/berth)")       \
	X(INSECURE, "insecure", 0, CLI_SWITCH, 0, CLI_LINK, "plain text, for a coordinator that was started so")       \
	X(TIMEOUT, "timeout", 0, CLI_ONE, "SECONDS", CLI_LINK,                                                         \
		"give up when the coordinator is away for so long (default 300)")                                      \
	X(OUTPUT, "output", 0, CLI_ONE, "table|json|plain", CLI_TABLE, "how data is printed (default table)")          \
	X(NO_COLOR, "no-color", 0, CLI_SWITCH, 0, CLI_ALL, "no colours; $NO_COLOR does the same")                      \
	X(HELP, "help", 'h', CLI_SWITCH, 0, CLI_ALL, "show the command's page")

enum cli_flag_id {
#define X(id, ...) CLI_FLAG_##id,
	CLI_FLAGS(X)
#undef X
		CLI_FLAGS_COUNT
};

struct cli_flag {
	const char *name;
	char letter;
	enum cli_shape shape;
	const char *value; // its name; with "|" inside, the choices
	unsigned groups;
	const char *help;
};

extern const struct cli_flag CLI_FLAG_TABLE[CLI_FLAGS_COUNT];

// The flag of this long name or letter; CLI_FLAGS_COUNT when there is none.
enum cli_flag_id cli_flag_find(const char *name, size_t length);
enum cli_flag_id cli_flag_find_letter(char letter);
