// SPDX-License-Identifier: Apache-2.0
// How data reaches the reader: aligned tables, tab-separated lines, or JSON; and nothing in it that moves a cursor.
#pragma once

#include <protobuf-c/protobuf-c.h>

#include "common/base/buf.h"
#include "common/codec/json.h"
#include "coordinator/cli/command.h"

// Appends `text` without control characters (C0, DEL and, in UTF-8, C1) and without invalid UTF-8: what a trial wrote
// must not steer the reader's terminal. Line ends and tabs stay when `lines` is set, else they become spaces.
void cli_text_clean(const char *text, size_t size, bool lines, struct berth_buf *out);
// The same for one line, as a text that the caller frees.
char *cli_text_line(const char *text);
// Bytes at the end of data[0 .. size) that begin a UTF-8 character whose rest is not there yet (0 to 3).
size_t cli_text_torn(const char *data, size_t size);

struct cli_table;
// Column heads, NULL-terminated, literals. Cells are cleaned when they are added.
struct cli_table *cli_table_new(const char *const *heads);
void cli_table_add(struct cli_table *table, const char *format, ...) __attribute__((format(printf, 2, 3))); // one cell
// Aligned under its heads, or tab-separated without them when the output is plain.
void cli_table_print(const struct cli *cli, const struct cli_table *table);
void cli_table_cleanup(struct cli_table **table);

// Any message as JSON: fields by their names, enumerations by theirs, bytes as hex.
berth_json *cli_message_json(const ProtobufCMessage *message);
// A value on its own lines (indented), or on one line. Takes the value.
void cli_json_print(FILE *out, berth_json *value, bool one_line);
// A list of messages as one JSON array.
void cli_messages_print(FILE *out, void *messages, size_t count);

// Local time of a wall clock value, "-" for 0; the caller frees.
char *cli_time_text(int64_t wall_ns);
// "JOB_RUNNING" to "running": the part after the first "_" in lower case; the caller frees.
char *cli_state_text(const ProtobufCEnumDescriptor *type, int value);
