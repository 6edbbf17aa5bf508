// SPDX-License-Identifier: Apache-2.0
// An Echo server for clients of other makers. interop_server FOLDER: writes ca.pem, and the certificates and keys of
// an agent and a user, to FOLDER, and prints "PLAIN TLS" (two ports). Then each line on stdin is done and answered:
// "serving" and "not-serving" set the health, "seen METHOD WHAT" waits for a line of the record, and the end of input
// stops both servers.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/file.h"
#include "common/base/mem.h"
#include "common/base/thread.h"
#include "tests/unit/rpc/certificates.h"
#include "tests/unit/rpc/echo_server.h"

#define GRACE_MS      1000
#define LINE_MAX_SIZE 256

static bool write_part(const char *folder, const char *name, const char *text)
{
	BERTH_AUTO_FREE char *path = berth_path_join(folder, name);
	struct berth_error err;
	if (berth_file_write(path, text, strlen(text), 0600, &err)) {
		return true;
	}
	fprintf(stderr, "%s\n", err.message);
	return false;
}

static bool write_identity(const char *folder, const char *name, struct authority *authority, const char *uri)
{
	struct berth_rpc_tls *identity = identity_new(authority, authority, uri);
	BERTH_AUTO_FREE char *cert = berth_format("%s.pem", name);
	BERTH_AUTO_FREE char *key = berth_format("%s.key", name);
	bool written = write_part(folder, "ca.pem", identity->authority) &&
	               write_part(folder, cert, identity->certificate) && write_part(folder, key, identity->key);
	identity_free(identity);
	return written;
}

static void obey(struct echo *plain, struct echo *tls, const char *line)
{
	if (strcmp(line, "serving") == 0 || strcmp(line, "not-serving") == 0) {
		berth_rpc_server_set_serving(echo_server(plain), strcmp(line, "serving") == 0);
		berth_rpc_server_set_serving(echo_server(tls), strcmp(line, "serving") == 0);
		printf("ok\n");
	} else if (strncmp(line, "seen ", 5) == 0) {
		printf("%s\n", echo_wait(plain, line + 5, 1) ? "ok" : "never");
	} else {
		printf("unknown\n");
	}
	fflush(stdout);
}

static int serve(struct echo *plain, struct echo *tls)
{
	printf("%d %d\n", berth_rpc_server_port(echo_server(plain)), berth_rpc_server_port(echo_server(tls)));
	fflush(stdout);
	char line[LINE_MAX_SIZE];
	while (fgets(line, sizeof line, stdin)) {
		line[strcspn(line, "\n")] = 0;
		obey(plain, tls, line);
	}
	echo_stop(plain, GRACE_MS);
	echo_stop(tls, GRACE_MS);
	return 0;
}

int main(int argc, char **argv)
{
	berth_threads_setup();
	if (argc != 2) {
		fprintf(stderr, "usage: interop_server FOLDER\n");
		return 2;
	}
	struct authority *authority = authority_new("interop");
	struct berth_rpc_tls *server =
		identity_new(authority, authority, "URI:spiffe://fleet-1/coordinator/c,DNS:localhost,IP:127.0.0.1");
	bool written = write_identity(argv[1], "agent", authority, "URI:spiffe://fleet-1/agent/quay-1") &&
	               write_identity(argv[1], "user", authority, "URI:spiffe://fleet-1/user/anna");
	authority_free(authority);
	struct berth_error err = {0};
	struct echo *plain = written ? echo_start(&(struct echo_options){.threads = 2}, &err) : NULL;
	struct echo *tls =
		plain ? echo_start(&(struct echo_options){.tls = server, .fleet = "fleet-1", .roles = BERTH_ROLE_AGENT},
				&err)
		      : NULL;
	identity_free(server);
	if (!tls) {
		fprintf(stderr, "%s\n", err.message);
		return 1;
	}
	return serve(plain, tls);
}
