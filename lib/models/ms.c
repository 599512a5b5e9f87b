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

static const char label[] = "ModelScope";

/*
 * Possible folders of OWNER/NAME, newest first; and entries that are not
 * owners.
 */
static const char *const bases[] = { "models/", "hub/models/", "hub/", "" };
static const char *const no_owner[] = { "models", "hub", "datasets",
    "modules" };

/*
 * Returns a copy of s with "___" for each ".", for free(); NULL without memory.
 * unescape() does the reverse in place.
 */
static char *
escaped(const char *s)
{
	char *out = malloc(3 * strlen(s) + 1), *p = out;

	for (; p != NULL && *s != '\0'; s++) {
		if (*s == '.') {
			memcpy(p, "___", 3);
			p += 3;
		} else
			*p++ = *s;
	}
	if (p != NULL)
		*p = '\0';
	return out;
}

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
 * first that has the file.
 */
static int
find_in(struct qwen_founds *out, const char *repo, const char *prefix,
    const struct qwen_name *name, struct qwen_err *err)
{
	char *folder = qwen_models_text("%s/snapshots", repo), *path;
	struct qwen_names l = { 0 };
	size_t i, before = out->n;
	int rc;

	rc = folder == NULL ? qwen_oom(err) :
	    qwen_names_read(&l, out, folder, 1, 1, err);
	for (i = 0; rc == 0 && i < l.n && out->n == before; i++) {
		if (name != NULL && name->rev != NULL &&
		    strcmp(name->rev, l.v[i]) != 0)
			continue;
		path = qwen_models_text("%s/%s", folder, l.v[i]);
		rc = path != NULL ? qwen_founds_add_repo(out, label, path,
		    prefix, name, err) : qwen_oom(err);
		free(path);
	}
	free(folder);
	qwen_names_fini(&l);
	return rc;
}

/* Searches the layouts of older clients. */
static int
find_old(struct qwen_founds *out, const char *folder, const char *prefix,
    const struct qwen_name *name, struct qwen_err *err)
{
	char *repo = escaped(name->repo), *path;
	size_t i, before = out->n;
	int rc = repo == NULL ? qwen_oom(err) : 0;

	for (i = 0; rc == 0 && out->n == before &&
	    i < sizeof bases / sizeof bases[0]; i++) {
		path = qwen_models_text("%s/%s%s/%s", folder, bases[i],
		    name->org, repo);
		rc = path != NULL ? qwen_founds_add_repo(out, label, path,
		    prefix, name, err) : qwen_oom(err);
		free(path);
	}
	free(repo);
	return rc;
}

static int
find_in_ms(struct qwen_founds *out, const char *folder,
    const struct qwen_name *name,
    struct qwen_err *err)
{
	size_t before = out->n;
	char *repo, *prefix;
	int rc;

	if (name->kind != QWEN_NAME_MS && name->kind != QWEN_NAME_REPO)
		return 0;
	repo = qwen_models_text("%s/models/%s--%s", folder, name->org,
	    name->repo);
	prefix = qwen_models_text("ms:%s/%s", name->org, name->repo);
	if (repo == NULL || prefix == NULL)
		rc = qwen_oom(err);
	else
		rc = find_in(out, repo, prefix, name, err);
	/* folders of older clients do not name the revision */
	if (rc == 0 && out->n == before && name->rev == NULL)
		rc = find_old(out, folder, prefix, name, err);
	free(repo);
	free(prefix);
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

/* Adds all models of OWNER/NAME folders under base. */
static int
all_old(struct qwen_founds *out, const char *base, struct qwen_err *err)
{
	struct qwen_names l;
	char *path, *prefix;
	size_t i;
	int rc = qwen_names_read(&l, out, base, 2, 1, err);

	for (i = 0; rc == 0 && i < l.n; i++) {
		if (!is_owner(l.v[i]) || strstr(l.v[i], "--") != NULL)
			continue;
		path = qwen_models_text("%s/%s", base, l.v[i]);
		unescape(l.v[i]);
		prefix = qwen_models_text("ms:%s", l.v[i]);
		rc = path != NULL && prefix != NULL ? qwen_founds_add_repo(out,
		    label, path, prefix, NULL, err) : qwen_oom(err);
		free(path);
		free(prefix);
	}
	qwen_names_fini(&l);
	return rc;
}

/* Adds all models of OWNER--NAME folders under base. */
static int
all_new(struct qwen_founds *out, const char *base, struct qwen_err *err)
{
	struct qwen_names l;
	char *path, *prefix, *cut;
	size_t i;
	int rc = qwen_names_read(&l, out, base, 1, 1, err);

	for (i = 0; rc == 0 && i < l.n; i++) {
		if ((cut = strstr(l.v[i], "--")) == NULL)
			continue;
		path = qwen_models_text("%s/%s", base, l.v[i]);
		prefix = qwen_models_text("ms:%.*s/%s", (int)(cut - l.v[i]),
		    l.v[i], cut + 2);
		rc = path != NULL && prefix != NULL ? find_in(out, path, prefix,
		    NULL, err) : qwen_oom(err);
		free(path);
		free(prefix);
	}
	qwen_names_fini(&l);
	return rc;
}

static int
all(struct qwen_founds *out, const char *folder, struct qwen_err *err)
{
	char *base = qwen_models_text("%s/models", folder);
	size_t i;
	int rc = base != NULL ? all_new(out, base, err) : qwen_oom(err);

	free(base);
	for (i = 0; rc == 0 && i < sizeof bases / sizeof bases[0]; i++) {
		base = qwen_models_text("%s/%s", folder, bases[i]);
		rc = base != NULL ? all_old(out, base, err) : qwen_oom(err);
		free(base);
	}
	return rc;
}

const struct qwen_model_source qwen_source_ms = { label, find_in_ms, all };
