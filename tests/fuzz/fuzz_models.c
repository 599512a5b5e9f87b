/* SPDX-License-Identifier: ISC */
/*
 * fuzz_models.c - any bytes as an aliases file, as a model name, and as the
 * file list of a repository (one per line; the first line is a format).
 */
#include <stdlib.h>
#include <string.h>

#include "models/models.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { FILES_MAX = 64 };

static void
names(char *text)
{
	struct qwen_name n;

	if (qwen_name_parse(&n, text, NULL) < 0)
		return;
	/* what goes into a path stays where it is put */
	if ((n.org != NULL && !qwen_repo_path_is_safe(n.org)) ||
	    !qwen_repo_path_is_safe(n.repo) ||
	    (n.path != NULL && !qwen_repo_path_is_safe(n.path)) ||
	    (n.rev != NULL && !qwen_repo_path_is_safe(n.rev)) ||
	    (n.host != NULL && strchr(n.host, '/') != NULL))
		abort();
	qwen_name_fini(&n);
}

static void
files(char *text)
{
	const char *v[FILES_MAX], *quant = strtok(text, "\n");
	size_t n = 0, pick[FILES_MAX], i, k;
	char *s;

	while (n < FILES_MAX && (s = strtok(NULL, "\n")) != NULL)
		v[n++] = s;
	k = qwen_repo_match(v, n, quant, pick);
	for (i = 0; i < k; i++) {
		if (pick[i] >= n || !qwen_repo_is_model(v[pick[i]]))
			abort();
		s = qwen_repo_part(v[pick[i]], 0,
		    qwen_repo_n_parts(v[pick[i]]));
		if (s == NULL || strcmp(s, v[pick[i]]) != 0)
			abort();
		free(s);
	}
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct qwen_aliases a;
	char *text = malloc(size + 1);

	if (text == NULL)
		abort();
	if (size > 0)
		memcpy(text, data, size);
	text[size] = '\0';
	if (qwen_aliases_parse(&a, text, size, NULL) == 0)
		qwen_aliases_fini(&a);
	names(text);
	files(text);
	free(text);
	return 0;
}
