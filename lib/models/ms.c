/* SPDX-License-Identifier: ISC */
/*
 * ms.c - the cache of ModelScope: models/OWNER--NAME/snapshots/REV/PATH; or of
 * older clients: models/OWNER/NAME/PATH, with or without hub/ before it, where
 * names have "___" for ".".
 */
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "models/source.h"

/*
 * Possible folders of OWNER/NAME, newest first; and entries that are not
 * owners.
 */
static const char *const bases[] = { "models/", "hub/models/", "hub/", "" };
static const char *const no_owner[] = { "models", "hub", "datasets",
    "modules" };

char *
qwen_ms_escape(const char *s)
{
	struct qwen_text t = { 0 };

	for (; *s != '\0'; s++)
		qwen_text_add(&t, *s == '.' ? "___" : s, *s == '.' ? 3 : 1);
	if (t.failed)
		qwen_text_fini(&t);
	return t.s;
}

/* Does the reverse in place. */
static void
unescape(char *s)
{
	char *p;

	while ((p = strstr(s, "___")) != NULL) {
		*p = '.';
		memmove(p + 1, p + 3, strlen(p + 3) + 1);
		s = p + 1;
	}
}

/*
 * Searches the newest layout: the snapshot of the revision, or without one the
 * first that has the file.  Takes ownership of repo and prefix.
 */
static int
find_in(struct qwen_founds *out, char *repo, char *prefix,
    const struct qwen_name *name, struct qwen_err *err)
{
	char *folder = repo != NULL && prefix != NULL ?
	    qwen_format("%s/snapshots", repo) : NULL;
	struct qwen_strings l = { 0 };
	size_t i, before = out->n;
	int rc;

	rc = folder == NULL ? qwen_oom(err) :
	    qwen_names_read(&l, out, folder, 1, 1, err);
	for (i = 0; rc == 0 && i < l.n && out->n == before; i++) {
		if (name == NULL || name->rev == NULL ||
		    strcmp(name->rev, l.v[i]) == 0)
			rc = qwen_founds_add_repo(out, qwen_format("%s/%s",
			    folder, l.v[i]), strdup(prefix), name, err);
	}
	free(folder);
	free(repo);
	free(prefix);
	qwen_strings_fini(&l);
	return rc;
}

static int
find_in_ms(struct qwen_founds *out, const char *folder,
    const struct qwen_name *name, struct qwen_err *err)
{
	size_t before = out->n, i;
	char *repo;
	int rc;

	if (name->kind != QWEN_NAME_MS && name->kind != QWEN_NAME_REPO)
		return 0;
	rc = find_in(out,
	    qwen_format("%s/models/%s--%s", folder, name->org, name->repo),
	    qwen_format("ms:%s/%s", name->org, name->repo), name, err);
	/* folders of older clients do not name the revision */
	if (rc < 0 || out->n > before || name->rev != NULL)
		return rc;
	if ((repo = qwen_ms_escape(name->repo)) == NULL)
		return qwen_oom(err);
	for (i = 0; rc == 0 && out->n == before &&
	    i < sizeof bases / sizeof bases[0]; i++)
		rc = qwen_founds_add_repo(out, qwen_format("%s/%s%s/%s",
		    folder, bases[i], name->org, repo), qwen_format(
		    "ms:%s/%s", name->org, name->repo), name, err);
	free(repo);
	return rc;
}

static int
is_owner(const char *s)
{
	size_t n = strcspn(s, "/"), i;

	for (i = 0; i < sizeof no_owner / sizeof no_owner[0]; i++) {
		if (strncmp(s, no_owner[i], n) == 0 && no_owner[i][n] == '\0')
			return 0;
	}
	return s[n] == '/' && strncmp(s, "._", 2) != 0;
}

/* Adds the models of a folder OWNER/NAME. */
static int
add_old(struct qwen_founds *out, const char *base, char *entry,
    struct qwen_err *err)
{
	char *path;

	if (!is_owner(entry) || strstr(entry, "--") != NULL)
		return 0;
	path = qwen_format("%s/%s", base, entry);
	unescape(entry);
	return qwen_founds_add_repo(out, path, qwen_format("ms:%s", entry),
	    NULL, err);
}

/* Adds the models of a folder OWNER--NAME. */
static int
add_new(struct qwen_founds *out, const char *base, char *entry,
    struct qwen_err *err)
{
	const char *cut = strstr(entry, "--");

	return cut == NULL ? 0 : find_in(out, qwen_format("%s/%s", base,
	    entry), qwen_format("ms:%.*s/%s", (int)(cut - entry), entry,
	    cut + 2), NULL, err);
}

static int
all(struct qwen_founds *out, const char *folder, struct qwen_err *err)
{
	size_t i;
	int rc = qwen_founds_each(out, qwen_format("%s/models", folder), 1,
	    1, add_new, err);

	for (i = 0; rc == 0 && i < sizeof bases / sizeof bases[0]; i++)
		rc = qwen_founds_each(out, qwen_format("%s/%s", folder,
		    bases[i]), 2, 1, add_old, err);
	return rc;
}

const struct qwen_model_source qwen_source_ms = { .label = "ModelScope",
    .find = find_in_ms, .all = all };
