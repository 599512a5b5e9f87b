/* SPDX-License-Identifier: ISC */
/* hf.c - Hugging Face: its listings, and the cache that its library has. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "json.h"

static char tag[] = "Signature: 8a477f597d28d172789f06886806bc55\n"
    "# This folder is a cache of huggingface_hub.\n"
    "# For what this file is see https://bford.info/cachedir/\n";

/* Of the environment, else of the file that the hub's library keeps it in. */
static char *
token(void)
{
	static const char *const variable[] = { "HF_TOKEN",
	    "HUGGING_FACE_HUB_TOKEN" };
	static const char *const file[][2] = { { "HF_TOKEN_PATH", "" },
	    { "HF_HOME", "/token" }, { "XDG_CACHE_HOME", "/huggingface/token" },
	    { "HOME", "/.cache/huggingface/token" } };
	const char *s;
	char *path, *text, *t;
	size_t n, i;

	for (i = 0; i < 2; i++) {
		if ((s = fetch_env(variable[i])) != NULL)
			return fetch_token(s, variable[i]);
	}
	for (i = 0; i < 4 && (s = fetch_env(file[i][0])) == NULL;)
		i++;
	if (s == NULL)
		return NULL;
	path = cli_format("%s%s", s, file[i][1]);
	text = cli_try_file(path, 4096, &n);
	t = fetch_token(text, path);
	free(text);
	free(path);
	return t;
}

static void
init(struct fetch_repo *r)
{
	r->endpoint = fetch_endpoint("HF_ENDPOINT", "https://huggingface.co");
	r->token = token();
}

/* ENDPOINT/api/models/ORG/REPO/what/REV */
static char *
api(const struct fetch_repo *r, const char *what, const char *rev,
    const char *query)
{
	char *ref = fetch_escape(rev, 0);
	char *url = cli_format("%s/api/models/%s/%s/%s/%s%s", r->endpoint,
	    r->name->org, r->name->repo, what, ref, query);

	free(ref);
	return url;
}

/* All that follows is of this commit, whatever becomes of the branch. */
static int
pin(struct fetch_repo *r)
{
	char *url = api(r, "revision", r->rev, "");
	struct http_ask a = { .url = url, .repo = r };
	yyjson_doc *doc = fetch_json(&a, NULL);
	const char *sha = fetch_member(yyjson_doc_get_root(doc), "sha");
	int rc = -1;

	if (doc != NULL && (sha == NULL || !fetch_is_hex(sha, 40)))
		fetch_fail("the server does not say which commit %s is",
		    r->rev);
	else if (doc != NULL) {
		r->commit = cli_check_alloc(strdup(sha));
		rc = 0;
	}
	yyjson_doc_free(doc);
	free(url);
	return rc;
}

/* One page of the listing. */
static int
take_page(struct fetch_repo *r, yyjson_val *list)
{
	yyjson_val *e, *lfs;
	uint64_t bytes;
	const char *path;
	size_t i, n;

	if (!yyjson_is_arr(list))
		return fetch_fail("the server's listing is not a list");
	yyjson_arr_foreach(list, i, n, e) {
		path = fetch_member(e, "path");
		/* a NUL in it, or no text */
		if (path == NULL && yyjson_is_obj(e))
			return fetch_fail("the listing has a file without a "
			    "name");
		if (path == NULL || !qwen_repo_is_gguf(path) ||
		    !yyjson_equals_str(yyjson_obj_get(e, "type"), "file"))
			continue;
		lfs = yyjson_obj_get(e, "lfs");
		lfs = yyjson_is_obj(lfs) ? lfs : e;
		if (!fetch_number(lfs, "size", &bytes) &&
		    !fetch_number(e, "size", &bytes))
			return fetch_fail("the listing does not say how large "
			    "%.120s is", path);
		if (fetch_add(r, path, bytes, fetch_member(lfs, "oid")) < 0)
			return -1;
	}
	return 0;
}

static int
list(struct fetch_repo *r)
{
	struct http_reply reply;
	struct http_ask a = { .repo = r };
	yyjson_doc *doc;
	char *url;
	int rc, pages;

	if (pin(r) < 0)
		return -1;
	url = api(r, "tree", r->commit, "?recursive=true");
	for (pages = 0; url != NULL; pages++) {
		a.url = url;
		doc = fetch_json(&a, &reply);
		rc = doc == NULL ? -1 : take_page(r, yyjson_doc_get_root(doc));
		yyjson_doc_free(doc);
		free(url);
		url = NULL;
		if (rc < 0)
			return -1;
		if (reply.next[0] == '\0')
			break;
		url = reply.next[0] == '/' ? NULL :
		    cli_check_alloc(strdup(reply.next));
		if (url == NULL || !fetch_same_host(url, r->endpoint) ||
		    pages > FETCH_FILES_MAX / 100) {
			free(url);
			return fetch_fail("the next page of the listing has a "
			    "wrong address: %.120s", reply.next);
		}
	}
	return 0;
}

static char *
url_of(const struct fetch_repo *r, const struct fetch_file *f)
{
	char *path = fetch_escape(f->path, 1);
	char *url = cli_format("%s/%s/%s/resolve/%s/%s", r->endpoint,
	    r->name->org, r->name->repo, r->commit, path);

	free(path);
	return url;
}

static void
place_in_hf(struct fetch_paths *p, const struct fetch_repo *r,
    const struct fetch_file *f)
{
	char *repo = cli_format("models--%s--%s", r->name->org, r->name->repo);
	struct qwen_text up = { 0 };
	const char *s;

	p->path = cli_format("%s/%s/snapshots/%s/%s", r->root, repo, r->commit,
	    f->path);
	p->blob = cli_format("%s/%s/blobs/%s", r->root, repo, f->hash);
	p->lock = cli_format("%s/.locks/%s/%s.lock", r->root, repo, f->hash);
	for (s = f->path; (s = strchr(s, '/')) != NULL; s++)
		qwen_text_str(&up, "../");
	p->link = cli_format("%s../../blobs/%s", up.s != NULL ? up.s : "",
	    f->hash);
	p->by_hash = 1;
	qwen_text_fini(&up);
	free(repo);
}

/* The branch is at this commit; and backups may leave the cache out. */
static int
done(const struct fetch_repo *r)
{
	char *ref = cli_format("%s/models--%s--%s/refs/%s", r->root,
	    r->name->org, r->name->repo, r->rev);
	char *cachedir = cli_format("%s/CACHEDIR.TAG", r->root);

	/* a read-only cache is usable if the file is complete */
	if (strcmp(r->rev, r->commit) != 0)
		fetch_write(ref, r->commit, strlen(r->commit));
	if (access(cachedir, F_OK) != 0)
		fetch_write(cachedir, tag, sizeof tag - 1);
	free(cachedir);
	free(ref);
	return 0;
}

const struct fetch_hub fetch_hf = { "main", tool_hub_cache, init, list, url_of,
    place_in_hf, done };
