/* SPDX-License-Identifier: ISC */
/* repo.c - a repository: which hub it is on, and the files that it lists. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "gguf-fetch.h"

int
fetch_add(struct fetch_repo *r, const char *path, uint64_t bytes,
    const char *hash)
{
	struct fetch_file *f;
	size_t i;

	if (!qwen_repo_path_is_safe(path))
		return fetch_fail("the listing has a file outside of its "
		    "folder: %.120s", path);
	if (r->n == FETCH_FILES_MAX)
		return fetch_fail("the listing has more than %d files",
		    FETCH_FILES_MAX);
	cli_grow(&r->v, &r->cap, r->n + 1, sizeof *r->v);
	f = &r->v[r->n];
	memset(f, 0, sizeof *f);
	for (i = 0; hash != NULL && hash[i] != '\0' && i < FETCH_HASH - 1; i++)
		f->hash[i] = (char)tolower((unsigned char)hash[i]);
	if (hash == NULL || hash[i] != '\0' || (!fetch_is_hex(f->hash, 64) &&
	    !fetch_is_hex(f->hash, 40)))
		return fetch_fail("the listing has no hash of %.120s", path);
	f->path = cli_check_alloc(strdup(path));
	f->bytes = bytes;
	r->n++;
	return 0;
}

int
fetch_open(struct fetch_repo *r, const struct qwen_name *name)
{
	memset(r, 0, sizeof *r);
	r->name = name;
	r->hub = name->kind == QWEN_NAME_OLLAMA ? &fetch_ollama :
	    name->kind == QWEN_NAME_MS ? &fetch_ms : &fetch_hf;
	r->rev = name->rev != NULL ? name->rev : r->hub->rev;
	r->root = r->hub->cache();
	r->hub->init(r);
	if (r->root == NULL && fetch_opt.to == NULL)
		die("HOME is not set: name a folder with --to");
	return r->hub->list(r);
}

void
fetch_close(struct fetch_repo *r)
{
	size_t i;

	for (i = 0; i < r->n; i++)
		free(r->v[i].path);
	free(r->v);
	free(r->endpoint);
	free(r->token);
	free(r->commit);
	free(r->manifest);
	memset(r, 0, sizeof *r);
}
