// SPDX-License-Identifier: Apache-2.0
#include <string.h>

#include "common/base/mem.h"
#include "coordinator/cli/output.h"

#define BOLD       "\033[1m"
#define PLAIN      "\033[0m"
#define COLUMN_GAP 2

struct cli_table {
	const char *const *heads;
	size_t columns;
	char **cells; // row after row
	size_t count;
};

struct cli_table *cli_table_new(const char *const *heads)
{
	struct cli_table *table = berth_alloc(sizeof *table);
	table->heads = heads;
	while (heads[table->columns]) {
		table->columns++;
	}
	return table;
}

void cli_table_add(struct cli_table *table, const char *format, ...)
{
	va_list args;
	va_start(args, format);
	BERTH_AUTO_FREE char *text = berth_vformat(format, args);
	va_end(args);
	table->cells = berth_grow_array(table->cells, table->count, sizeof(char *));
	table->cells[table->count++] = cli_text_line(text);
}

void cli_table_cleanup(struct cli_table **table)
{
	for (size_t i = 0; *table && i < (*table)->count; i++) {
		berth_free_cleanup(&(*table)->cells[i]);
	}
	if (*table) {
		berth_free_cleanup(&(*table)->cells);
	}
	berth_free_cleanup(table);
}

static size_t width_of(const char *text)
{
	size_t width = 0;
	for (; *text; text++) {
		width += (*text & 0xc0) != 0x80;
	}
	return width;
}

static size_t column_width(const struct cli_table *table, size_t column)
{
	size_t width = width_of(table->heads[column]);
	for (size_t i = column; i < table->count; i += table->columns) {
		size_t cell = width_of(table->cells[i]);
		width = cell > width ? cell : width;
	}
	return width;
}

static void put_row(FILE *out, const struct cli_table *table, const char *const *cells, const size_t *widths)
{
	for (size_t i = 0; i < table->columns; i++) {
		bool last = i + 1 == table->columns;
		int pad = last ? 0 : (int)(widths[i] - width_of(cells[i]) + COLUMN_GAP);
		fprintf(out, "%s%*s", cells[i], pad, "");
	}
	fputc('\n', out);
}

static void print_plain(FILE *out, const struct cli_table *table)
{
	for (size_t i = 0; i < table->count; i++) {
		fprintf(out, "%s%c", table->cells[i], (i + 1) % table->columns == 0 ? '\n' : '\t');
	}
}

void cli_table_print(const struct cli *cli, const struct cli_table *table)
{
	FILE *out = cli->io->out;
	if (cli->output == CLI_OUTPUT_PLAIN) {
		print_plain(out, table);
		return;
	}
	BERTH_AUTO_FREE size_t *widths = berth_alloc(table->columns * sizeof(size_t));
	for (size_t i = 0; i < table->columns; i++) {
		widths[i] = column_width(table, i);
	}
	fputs(cli->color ? BOLD : "", out);
	put_row(out, table, table->heads, widths);
	fputs(cli->color ? PLAIN : "", out);
	for (size_t i = 0; i + table->columns <= table->count; i += table->columns) {
		put_row(out, table, (const char *const *)table->cells + i, widths);
	}
}
