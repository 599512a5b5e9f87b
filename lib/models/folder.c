/* SPDX-License-Identifier: ISC */
/*
 * folder.c - plain folders: the user's own; LM Studio's, PUBLISHER/REPO/FILE;
 * and those of older llama.cpp, ORG_REPO_FILE.
 */
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/err.h"
#include "models/source.h"

/* levels: PUBLISHER, REPO, a folder per format, and the file */
enum { DEPTH = 4 };

/* Returns the length of a file's name without ".gguf" and part number. */
static size_t
stem_len(const char *name)
{
	size_t n = strlen(name) - strlen(".gguf");

	return qwen_repo_n_parts(name) > 1 ? n - strlen("-00001-of-00002") : n;
}

/* Returns 1 if the path is a model whose file name has this stem. */
static int
has_stem(const char *path, const char *stem)
{
	const char *name = qwen_base_name(path);
	size_t n = strlen(stem);

	/* compare names first: most differ, and this is the cheapest check */
	return strncasecmp(name, stem, n) == 0 && qwen_repo_is_model(path) &&
	    (name[n] == '\0' || stem_len(name) == n);
}

/*
 * Adds what matches the name in folder/ORG/REPO, or in folder/REPO if the name
 * has no owner.
 */
static int
find_folder(struct qwen_founds *out, const char *folder,
    const struct qwen_name *name, struct qwen_err *err)
{
	char *at = NULL, *path = NULL;
	int rc;

	/* plain folders do not record revisions */
	if (name->rev != NULL)
		return 0;
	rc = qwen_models_entry(&path, folder, name->org != NULL ? name->org :
	    name->repo, err);
	if (path != NULL && name->org != NULL) {
		at = path;
		rc = qwen_models_entry(&path, at, name->repo, err);
		free(at);
	}
	if (path != NULL && qwen_models_is_folder(path))
		return qwen_founds_add_repo(out, path, name->org != NULL ?
		    qwen_format("%s/%s", name->org, name->repo) :
		    strdup(name->repo), name, err);
	free(path);
	return rc;
}

static int
find_own(struct qwen_founds *out, const char *folder,
    const struct qwen_name *name, struct qwen_err *err)
{
	size_t before = out->n, i;
	struct qwen_strings l = { 0 };
	int rc = 0;

	if (name->kind != QWEN_NAME_STEM)
		return name->kind != QWEN_NAME_REPO ? 0 :
		    find_folder(out, folder, name, err);
	if (qwen_names_read(&l, out, folder, DEPTH, 0, err) < 0)
		return -1;
	for (i = 0; rc == 0 && i < l.n; i++) {
		if (has_stem(l.v[i], name->repo))
			rc = qwen_founds_add_file(out, folder, l.v[i], err);
	}
	qwen_strings_fini(&l);
	return rc < 0 || out->n > before ? rc :
	    find_folder(out, folder, name, err);
}

static int
find_lmstudio(struct qwen_founds *out, const char *folder,
    const struct qwen_name *name, struct qwen_err *err)
{
	return name->kind != QWEN_NAME_REPO ? 0 :
	    find_folder(out, folder, name, err);
}

/* Returns the stem of file i; its path if another file has the same stem. */
static char *
stem_name(const struct qwen_strings *l, size_t i, const char *folder)
{
	const char *name = qwen_base_name(l->v[i]);
	size_t k, same = 0;
	char *stem = qwen_format("%.*s", (int)stem_len(name), name);

	for (k = 0; stem != NULL && k < l->n; k++)
		same += (size_t)has_stem(l->v[k], stem);
	if (stem == NULL || same == 1)
		return stem;
	free(stem);
	return qwen_format("%s/%s", folder, l->v[i]);
}

static int
all_own(struct qwen_founds *out, const char *folder, struct qwen_err *err)
{
	static const struct qwen_name none;
	struct qwen_strings l;
	size_t i, n;
	int rc = qwen_names_read(&l, out, folder, DEPTH, 0, err);

	for (i = 0; rc == 0 && i < l.n; i++) {
		n = strlen(l.v[i]);
		if (qwen_repo_is_model(l.v[i]))
			rc = qwen_founds_add(out, qwen_format("%s/%s",
			    folder, l.v[i]), stem_name(&l, i, folder), err);
		else if (qwen_ends(l.v[i], "/config.json"))	/* of a
						   safetensors folder */
			rc = qwen_founds_add_repo(out,
			    qwen_format("%s/%.*s", folder, (int)n - 12,
			    l.v[i]), qwen_format("%.*s", (int)n - 12,
			    l.v[i]), &none, err);
	}
	qwen_strings_fini(&l);
	return rc;
}

static int
add_lmstudio(struct qwen_founds *out, const char *folder, char *entry,
    struct qwen_err *err)
{
	return strchr(entry, '/') == NULL ? 0 : qwen_founds_add_repo(out,
	    qwen_format("%s/%s", folder, entry), strdup(entry), NULL, err);
}

/* Drops the names that do not begin with prefix, "ORG_REPO_". */
static void
keep_repo(struct qwen_strings *l, const char *prefix)
{
	size_t i, n = 0;

	for (i = 0; i < l->n; i++) {
		if (strncasecmp(l->v[i], prefix, strlen(prefix)) == 0)
			l->v[n++] = l->v[i];
		else
			free(l->v[i]);
	}
	l->n = n;
}

static int
find_llama(struct qwen_founds *out, const char *folder,
    const struct qwen_name *name, struct qwen_err *err)
{
	struct qwen_strings l;
	size_t i, n, *pick;
	char *prefix;
	int rc = 0;

	if ((name->kind != QWEN_NAME_HF && name->kind != QWEN_NAME_REPO) ||
	    name->path != NULL || name->rev != NULL)
		return 0;
	if (qwen_names_read(&l, out, folder, 1, 0, err) < 0)
		return -1;
	prefix = qwen_format("%s_%s_", name->org, name->repo);
	pick = calloc(l.n + 1, sizeof *pick);
	if (prefix == NULL || pick == NULL) {
		rc = qwen_oom(err);
		l.n = 0;
	} else
		keep_repo(&l, prefix);
	n = l.n > 0 ? qwen_repo_match((const char *const *)l.v, l.n,
	    name->quant, pick) : 0;
	for (i = 0; rc == 0 && i < n; i++)
		rc = qwen_founds_add_file(out, folder, l.v[pick[i]], err);
	free(prefix);
	free(pick);
	qwen_strings_fini(&l);
	return rc;
}

static int
add_llama(struct qwen_founds *out, const char *folder, char *entry,
    struct qwen_err *err)
{
	return qwen_repo_is_model(entry) ?
	    qwen_founds_add_file(out, folder, entry, err) : 0;
}

const struct qwen_model_source qwen_source_own = { .label = "own folder",
    .find = find_own, .all = all_own };
const struct qwen_model_source qwen_source_lmstudio = { .label = "LM Studio",
    .find = find_lmstudio, .add = add_lmstudio, .below = "", .depth = 2,
    .folders = 1 };
const struct qwen_model_source qwen_source_llama = { .label = "llama.cpp",
    .find = find_llama, .add = add_llama, .below = "", .depth = 1 };
