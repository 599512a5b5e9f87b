/* SPDX-License-Identifier: ISC */
/* ms.c - ModelScope: its listings, and the cache that its library has. */
#include <dirent.h>
#include <stdlib.h>
#include <string.h>

#include "json.h"

/* A listing of this length is truncated, without a word from the server. */
enum { CUT_AT = 3000, DEEPEST = 16, LISTINGS_MAX = 1000 };

static void
init(struct fetch_repo *r)
{
	r->endpoint = fetch_endpoint("MODELSCOPE_ENDPOINT",
	    strstr(r->name->text, "modelscope.ai/") != NULL ?
	    "https://www.modelscope.ai" : "https://modelscope.cn");
	r->token = fetch_token(fetch_env("MODELSCOPE_API_TOKEN"),
	    "MODELSCOPE_API_TOKEN");
}

/* ENDPOINT/api/v1/models/ORG/REPO/repo what Revision=REV query arg */
static char *
api(const struct fetch_repo *r, const char *what, const char *query,
    const char *arg)
{
	char *rev = fetch_escape(r->rev, 0);
	char *text = *arg != '\0' ? fetch_escape(arg, 1) : NULL;
	char *url = cli_format("%s/api/v1/models/%s/%s/repo%s?Revision=%s%s%s",
	    r->endpoint, r->name->org, r->name->repo, what, rev, query,
	    text != NULL ? text : "");

	free(rev);
	free(text);
	return url;
}

/* A listing, of all or of a folder; its "Files" go to *files. */
static yyjson_doc *
ask(const struct fetch_repo *r, const char *root, int deep, yyjson_val **files)
{
	char *url = api(r, "/files", root == NULL ?
	    deep ? "&Recursive=True" : "&Recursive=False" :
	    deep ? "&Recursive=True&Root=" : "&Recursive=False&Root=",
	    root != NULL ? root : "");
	struct http_ask a = { .url = url, .repo = r };
	yyjson_val *top, *ok;
	yyjson_doc *doc;

	doc = fetch_json(&a, NULL);
	free(url);
	if (doc == NULL)
		return NULL;
	top = yyjson_doc_get_root(doc);
	ok = yyjson_obj_get(top, "Success");
	*files = yyjson_obj_get(yyjson_obj_get(top, "Data"), "Files");
	if (yyjson_is_true(ok) && yyjson_is_arr(*files))
		return doc;
	fetch_fail("%s has no such model, or it is private: check the name, or "
	    "set MODELSCOPE_API_TOKEN", r->endpoint);
	yyjson_doc_free(doc);
	return NULL;
}

static int
is_kind(yyjson_val *e, const char *kind)
{
	return yyjson_equals_str(yyjson_obj_get(e, "Type"), kind);
}

static int
take_file(struct fetch_repo *r, yyjson_val *e)
{
	const char *path = fetch_member(e, "Path");
	uint64_t bytes;
	size_t i;

	if (path == NULL)
		return fetch_fail("the listing has a file without a name");
	if (!qwen_repo_is_gguf(path))
		return 0;
	for (i = 0; i < r->n; i++) {
		if (strcmp(r->v[i].path, path) == 0)
			return 0;
	}
	if (!fetch_number(e, "Size", &bytes))
		return fetch_fail("the listing does not say how large %.120s "
		    "is", path);
	return fetch_add(r, path, bytes, fetch_member(e, "Sha256"));
}

/* List a folder recursively; if the listing is truncated, folder by folder. */
static int
walk(struct fetch_repo *r, const char *root, int depth, int *listings)
{
	yyjson_doc *doc = NULL;
	yyjson_val *files, *e;
	size_t i, n;
	int deep, rc = 0;

	for (deep = 1; deep >= 0 && rc == 0; deep--) {
		if (++*listings > LISTINGS_MAX || depth > DEEPEST)
			return fetch_fail("the repository has too many "
			    "folders");
		if ((doc = ask(r, root, deep, &files)) == NULL)
			return -1;
		yyjson_arr_foreach(files, i, n, e) {
			if (is_kind(e, "tree") && !deep && rc == 0 &&
			    fetch_member(e, "Path") != NULL)
				rc = walk(r, fetch_member(e, "Path"), depth + 1,
				    listings);
			else if (is_kind(e, "blob") && rc == 0)
				rc = take_file(r, e);
		}
		n = yyjson_arr_size(files);
		yyjson_doc_free(doc);
		if (deep && n < CUT_AT)
			break;
	}
	return rc;
}

static int
list(struct fetch_repo *r)
{
	int listings = 0;

	return walk(r, NULL, 0, &listings);
}

static char *
url_of(const struct fetch_repo *r, const struct fetch_file *f)
{
	return api(r, "", "&FilePath=", f->path);
}

/* Whether a folder is there that has something in it. */
static int
is_used(const char *path)
{
	DIR *d = opendir(path);
	struct dirent *e;
	int used = 0;

	while (d != NULL && !used && (e = readdir(d)) != NULL)
		used = strcmp(e->d_name, ".") != 0 && strcmp(e->d_name,
		    "..") != 0;
	if (d != NULL)
		closedir(d);
	return used;
}

/*
 * The folder of a repository: as older versions of the hub's library have it,
 * where there is such a one, for newer ones look there first.
 */
static char *
folder(const struct fetch_repo *r)
{
	static const char *const old[] = { "models", "hub/models" };
	char *name = cli_check_alloc(qwen_ms_escape(r->name->repo));
	char *path = NULL;
	size_t i;

	for (i = 0; path == NULL && i < sizeof old / sizeof old[0]; i++) {
		path = cli_format("%s/%s/%s/%s", r->root, old[i], r->name->org,
		    name);
		if (!is_used(path)) {
			free(path);
			path = NULL;
		}
	}
	free(name);
	return path != NULL ? path : cli_format("%s/models/%s--%s/snapshots/%s",
	    r->root, r->name->org, r->name->repo, r->rev);
}

static void
place_in_ms(struct fetch_paths *p, const struct fetch_repo *r,
    const struct fetch_file *f)
{
	static const char version[] = "modelscope-hub-download-lock-v2";
	struct qwen_text key = { 0 };
	char sum[FETCH_HASH], *top = folder(r);

	p->path = cli_format("%s/%s", top, f->path);
	free(top);
	/* the lock that its library takes for this file */
	qwen_text_fmt(&key, "%s%cfile%cmodel%c%s/%s%c%s", version, 0, 0, 0,
	    r->name->org, r->name->repo, 0, f->path);
	if (key.failed)
		cli_must(NULL, qwen_oom(&cli_err));
	fetch_sha256(key.s, key.n, sum);
	p->lock = cli_format("%s/.lock/file_%s.lock", r->root, sum);
	p->moves = 1;
	qwen_text_fini(&key);
}

const struct fetch_hub fetch_ms = { "master", tool_modelscope_cache, init, list,
    url_of, place_in_ms, NULL };
