// SPDX-License-Identifier: Apache-2.0
#include <string.h>

#include "common/base/mem.h"
#include "coordinator/cli/command.h"

#define WORD_MAX 64 // longer words are near to nothing

static size_t least(size_t a, size_t b)
{
	return a < b ? a : b;
}

// Insertions, deletions, replacements and swaps of neighbours.
size_t cli_edit_distance(const char *a, const char *b)
{
	size_t rows = strlen(a), columns = strlen(b);
	if (rows > WORD_MAX || columns > WORD_MAX) {
		return SIZE_MAX;
	}
	size_t cost[WORD_MAX + 1][WORD_MAX + 1];
	for (size_t i = 0; i <= rows; i++) {
		for (size_t j = 0; j <= columns; j++) {
			if (i == 0 || j == 0) {
				cost[i][j] = i + j;
				continue;
			}
			cost[i][j] = least(
				cost[i - 1][j - 1] + (a[i - 1] != b[j - 1]), least(cost[i - 1][j], cost[i][j - 1]) + 1);
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
				cost[i][j] = least(cost[i][j], cost[i - 2][j - 2] + 1);
			}
		}
	}
	return cost[rows][columns];
}

const char *cli_nearest(const char *word, const char *const *candidates, size_t count)
{
	const char *nearest = NULL;
	// A third of the word may be wrong, and at least one letter.
	size_t best = strlen(word) / 3 + 2;
	for (size_t i = 0; i < count; i++) {
		size_t distance = cli_edit_distance(word, candidates[i]);
		if (distance < best) {
			best = distance;
			nearest = candidates[i];
		}
	}
	return nearest;
}
