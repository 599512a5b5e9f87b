/* SPDX-License-Identifier: ISC */
/* mmproj.c - the image encoder (mmproj file) that lies beside a model. */
#define _GNU_SOURCE	/* strcasestr */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "models/source.h"

enum { STEM_MAX = 128, NAMES_MAX = 8 };

/* Formats of encoders, the best first. */
static const char *const formats[] = { "BF16", "F16", "F32", "Q8_0" };
enum { N_FORMATS = sizeof formats / sizeof formats[0] };

/* Returns the place of a name's format in that list; N_FORMATS for others. */
static size_t
format_of(const char *name)
{
	size_t i;

	for (i = 0; i < N_FORMATS && strcasestr(name, formats[i]) == NULL; i++)
		;
	return i;
}

/* Sets stem to the letters and digits of a name, in lower case. */
static void
squeeze(char stem[STEM_MAX], const char *name)
{
	size_t n = 0;

	for (; *name != '\0' && n + 1 < STEM_MAX; name++) {
		if (isalnum((unsigned char)*name))
			stem[n++] = (char)tolower((unsigned char)*name);
	}
	stem[n] = '\0';
}

static void
blank_out(char *s, const char *word)
{
	char *at = strcasestr(s, word);

	if (at != NULL)
		memset(at, ' ', strlen(word));
}

/*
 * Sets stem to what an encoder's name says of its model: not "mmproj", the
 * format, ".gguf", and "model", by which converters call a file without a name.
 */
static void
stem_of(char stem[STEM_MAX], const char *name)
{
	char s[256];		/* file names are not longer */
	size_t format = format_of(name);

	snprintf(s, sizeof s, "%s", name);
	blank_out(s, "mmproj");
	blank_out(s, ".gguf");
	if (format < N_FORMATS)
		blank_out(s, formats[format]);
	squeeze(stem, s);
	if (strcmp(stem, "model") == 0)
		stem[0] = '\0';
}

/*
 * Returns how well an encoder's stem fits that of a model: best if the model's
 * name begins with all of it; then if the encoder names no model; else by the
 * number of bytes that are the same.
 */
static size_t
fit_of(const char *stem, const char *model)
{
	size_t n = 0;

	while (stem[n] != '\0' && stem[n] == model[n])
		n++;
	return stem[0] == '\0' ? STEM_MAX : stem[n] == '\0' ? STEM_MAX + n : n;
}

size_t
qwen_repo_projector(const char *const *name, size_t n, const char *model,
    size_t *pick)
{
	char of[STEM_MAX], stem[STEM_MAX], first[STEM_MAX];
	size_t i, k, fit, best = 0, n_pick = 0;
	int same = 1;	/* all picks are of the same model */

	squeeze(of, qwen_base_name(model));
	for (i = 0; i < n; i++) {
		if (!qwen_repo_is_projector(name[i]))
			continue;
		stem_of(stem, qwen_base_name(name[i]));
		fit = fit_of(stem, of);
		if (n_pick > 0 && fit < best)
			continue;
		if (n_pick == 0 || fit > best) {
			n_pick = 0;
			same = 1;
			strcpy(first, stem);
		}
		same &= strcmp(stem, first) == 0;
		best = fit;
		pick[n_pick++] = i;
	}
	/* encoders of the same model: the best format */
	for (i = 1, k = n_pick > 0; same && i < n_pick; i++) {
		fit = format_of(qwen_base_name(name[pick[i]]));
		best = format_of(qwen_base_name(name[pick[0]]));
		if (fit < best)
			k = 0;
		if (fit <= best)
			pick[k++] = pick[i];
	}
	return same ? k : n_pick;
}

/* --------------------------------------------------------------- in folders */

/* Fails with the names of several encoders. */
static int
ambiguous(const struct qwen_strings *l, const size_t *pick, size_t n,
    struct qwen_err *err)
{
	struct qwen_text t = { 0 };
	size_t i;

	for (i = 0; i < n && i < NAMES_MAX; i++)
		qwen_text_fmt(&t, "%s%.60s", i > 0 ? ", " : "", l->v[pick[i]]);
	if (t.failed)
		qwen_oom(err);
	else
		qwen_fail(err, QWEN_ERANGE, "%zu image encoders beside the "
		    "model: name one of %s", n, t.s);
	qwen_text_fini(&t);
	return -1;
}

/*
 * Looks in a folder, and sets *out if there is an encoder that fits best;
 * returns 0 or -1.
 */
static int
look(char **out, const char *folder, const char *model, struct qwen_err *err)
{
	struct qwen_founds none = { 0 };
	struct qwen_strings l;
	size_t *pick, n;
	int rc = qwen_names_read(&l, &none, folder, 1, 0, err);

	qwen_founds_fini(&none);
	if (rc < 0)
		return -1;
	if ((pick = calloc(l.n + 1, sizeof *pick)) == NULL) {
		qwen_strings_fini(&l);
		return qwen_oom(err);
	}
	n = qwen_repo_projector((const char *const *)l.v, l.n, model, pick);
	if (n > 1)
		rc = ambiguous(&l, pick, n, err);
	else if (n == 1 && (*out = qwen_format("%s/%s", folder,
	    l.v[pick[0]])) == NULL)
		rc = qwen_oom(err);
	free(pick);
	qwen_strings_fini(&l);
	return rc;
}

/* Returns the folder of a path, for free(); NULL without memory. */
static char *
folder_of(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash == NULL ? strdup(".") : slash == path ? strdup("/") :
	    qwen_format("%.*s", (int)(slash - path), path);
}

int
qwen_models_projector(char **out, const char *model, struct qwen_err *err)
{
	char *folder, *above = NULL;
	int rc;

	*out = NULL;
	if (qwen_models_is_folder(model))
		return look(out, model, model, err);
	if ((folder = folder_of(model)) == NULL)
		return qwen_oom(err);
	rc = look(out, folder, model, err);
	/* repositories may have a folder for each format of the model */
	if (rc == 0 && *out == NULL && strchr(folder, '/') != NULL &&
	    strcasestr(qwen_base_name(model), qwen_base_name(folder)) != NULL) {
		above = folder_of(folder);
		rc = above == NULL ? qwen_oom(err) :
		    look(out, above, model, err);
	}
	free(above);
	free(folder);
	return rc;
}
