/* SPDX-License-Identifier: ISC */
/* near.c - edit distance between words, for hints. */
#include <string.h>

#include "base/near.h"

static int
least(int a, int b)
{
	return a < b ? a : b;
}

int
qwen_near(const char *a, size_t n, const char *b)
{
	int d[QWEN_NEAR_MAX + 1][QWEN_NEAR_MAX + 1];
	size_t m = strlen(b), i, j;

	if (n > QWEN_NEAR_MAX || m > QWEN_NEAR_MAX)
		return QWEN_NEAR_MAX;
	for (i = 0; i <= n; i++) {
		for (j = 0; j <= m; j++) {
			if (i == 0 || j == 0) {
				d[i][j] = (int)(i + j);
				continue;
			}
			d[i][j] = least(least(d[i - 1][j], d[i][j - 1]) + 1,
			    d[i - 1][j - 1] + (a[i - 1] != b[j - 1]));
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] &&
			    a[i - 2] == b[j - 1])
				d[i][j] = least(d[i][j], d[i - 2][j - 2] + 1);
		}
	}
	return d[n][m];
}

int
qwen_near_enough(size_t n)
{
	return least((int)(n < QWEN_NEAR_MAX ? n : QWEN_NEAR_MAX) / 3 + 1, 4);
}
