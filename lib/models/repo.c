/* SPDX-License-Identifier: ISC */
/*
 * repo.c - which files of a repository are models, and which of them a format
 * selects.
 */
#define _GNU_SOURCE	/* strcasestr */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "models/source.h"

/* length of "-00001-of-00003.gguf" */
enum { SPLIT_LEN = 20 };

int
qwen_repo_is_gguf(const char *path)
{
	size_t n = strlen(path);

	return n > 5 && strcasecmp(path + n - 5, ".gguf") == 0;
}

/*
 * Reads the numbers at the end of a split file's name; returns 0 if it has
 * none.
 */
static int
split_of(const char *path, unsigned *no, unsigned *count)
{
	size_t len = strlen(path), i;
	const char *s = path + len - SPLIT_LEN;
	static const char form[] = "-ddddd-of-ddddd.gguf";

	if (len <= SPLIT_LEN)
		return 0;
	for (i = 0; i < SPLIT_LEN; i++) {
		if (form[i] == 'd' ?
		    !isdigit((unsigned char)s[i]) : s[i] != form[i])
			return 0;
	}
	*no = (unsigned)strtoul(s + 1, NULL, 10);
	*count = (unsigned)strtoul(s + 10, NULL, 10);
	return *no >= 1 && *no <= *count;
}

int
qwen_repo_is_projector(const char *path)
{
	return qwen_repo_is_gguf(path) &&
	    strcasestr(qwen_base_name(path), "mmproj") != NULL;
}

int
qwen_repo_is_model(const char *path)
{
	/*
	 * draft models begin with these; models with an MTP block may contain
	 * them
	 */
	static const char *const drafts[] = { "mtp-", "eagle3-", "dflash-",
	    "dspark-" };
	const char *name = qwen_base_name(path);
	unsigned no, count;
	size_t i;

	if (!qwen_repo_is_gguf(name) || strcasestr(name, "mmproj") != NULL ||
	    strcasestr(name, "imatrix") != NULL)
		return 0;
	for (i = 0; i < sizeof drafts / sizeof drafts[0]; i++) {
		if (strncasecmp(name, drafts[i], strlen(drafts[i])) == 0)
			return 0;
	}
	return !split_of(path, &no, &count) || no == 1;
}

unsigned
qwen_repo_n_parts(const char *path)
{
	unsigned no, count;

	return split_of(path, &no, &count) ? count : 1;
}

char *
qwen_repo_part(const char *first, unsigned i, unsigned n)
{
	size_t len = strlen(first);
	char *s = strdup(first);

	if (s != NULL && n > 1 && len > SPLIT_LEN)
		snprintf(s + len - SPLIT_LEN, SPLIT_LEN + 1,
		    "-%05u-of-%05u.gguf", (i + 1) % 100000, n % 100000);
	return s;
}

int
qwen_repo_path_is_safe(const char *path)
{
	const char *s = path;
	size_t n;

	for (; *s != '\0'; s++) {
		if (iscntrl((unsigned char)*s) || *s == '\\')
			return 0;
	}
	for (s = path;; s += n + 1) {
		n = strcspn(s, "/");
		if (n == 0 || (n == 1 && s[0] == '.') ||
		    (n == 2 && s[0] == '.' && s[1] == '.'))
			return 0;
		if (s[n] == '\0')
			return 1;
	}
}

/* Returns 1 if the path is below the folder (both relative to the same one). */
static int
is_under(const char *path, const char *folder)
{
	size_t n = strlen(folder);

	return strncmp(path, folder, n) == 0 && path[n] == '/';
}

/*
 * Returns the length of the common beginning of all models' file names, up to
 * the last separator.
 */
static size_t
common(const char *const *path, size_t n)
{
	const char *first = NULL, *name;
	size_t i, k, same = 0;

	for (i = 0; i < n; i++) {
		if (!qwen_repo_is_model(path[i]))
			continue;
		name = qwen_base_name(path[i]);
		if (first == NULL) {
			first = name;
			same = strlen(name);
		}
		for (k = 0; k < same && tolower((unsigned char)name[k]) ==
		    tolower((unsigned char)first[k]); k++)
			;
		same = k;
	}
	while (same > 0 && strchr("-.", first[same - 1]) == NULL)
		same--;
	return same;
}

/*
 * Returns how well a format fits a path: 0 not at all; 1 ends a longer word; 2
 * a whole word; 3 the word at which the file names begin to differ; 4 the whole
 * file name.
 */
static int
match_score(const char *path, const char *quant, size_t same)
{
	const char *s = path, *name = qwen_base_name(path);
	size_t n = strlen(quant);
	int best = 0, now;

	if (strncasecmp(name, quant, n) == 0 &&
	    (strcasecmp(name + n, ".gguf") == 0 || name[n] == '\0'))
		return 4;
	for (; (s = strcasestr(s, quant)) != NULL; s++) {
		if (s[n] == '\0' || strchr(".-/", s[n]) == NULL)
			continue;
		now = s == path || strchr("-._/", s[-1]) != NULL ? 2 : 1;
		if (now == 2 && s == name + same)
			now = 3;
		best = now > best ? now : best;
	}
	return best;
}

size_t
qwen_repo_match(const char *const *path, size_t n, const char *quant,
    size_t *pick)
{
	size_t i, n_pick = 0, same = common(path, n);
	int best = 1, now;

	for (i = 0; i < n; i++) {
		if (!qwen_repo_is_model(path[i]))
			continue;
		now = quant != NULL ? match_score(path[i], quant, same) : 1;
		if (now > best) {
			best = now;
			n_pick = 0;
		}
		if (now == best)
			pick[n_pick++] = i;
	}
	return n_pick;
}

size_t
qwen_repo_pick(const char *const *path, size_t n, const struct qwen_name *name,
    size_t *pick)
{
	const char *want = name != NULL ? name->path : NULL;
	size_t i, n_pick = 0, len;

	for (i = 0; want != NULL && i < n; i++) {
		if (strcmp(path[i], want) == 0) {
			pick[0] = i;
			return 1;
		}
	}
	len = qwen_repo_match(path, n, name != NULL ? name->quant : NULL, pick);
	if (want == NULL)
		return len;
	/* a folder: some repositories have one per format */
	for (i = 0; i < len; i++) {
		if (is_under(path[pick[i]], want))
			pick[n_pick++] = pick[i];
	}
	return n_pick;
}
