/* SPDX-License-Identifier: ISC */
/*
 * ollama.c - Ollama's registry, and others that speak its protocol; its store.
 *
 * A manifest lists layers by their SHA-256: the model is one of them, and Ollama
 * itself needs all, so that in its store all are put.
 */
#include <stdlib.h>
#include <string.h>

#include "json.h"

static const char type[] = "application/vnd.ollama.image.";
static const char accept[] =
    "application/vnd.docker.distribution.manifest.v2+json";

static void
init(struct fetch_repo *r)
{
	r->endpoint = cli_format("https://%s", r->name->host);
}

/*
 * A layer as a file: what may be used as a model is called NAME-TAG.gguf, the
 * others by what they are, without that end.
 */
static int
take_layer(struct fetch_repo *r, yyjson_val *layer)
{
	const char *kind = fetch_member(layer, "mediaType");
	const char *digest = fetch_member(layer, "digest");
	char *path;
	uint64_t bytes;
	int rc;

	if (digest == NULL || strncmp(digest, "sha256:", 7) != 0 ||
	    !fetch_is_hex(digest + 7, 64) ||
	    !fetch_number(layer, "size", &bytes))
		return fetch_fail("the manifest has a layer without a SHA-256 "
		    "or a size");
	if (kind != NULL && strncmp(kind, type, sizeof type - 1) == 0)
		kind += sizeof type - 1;
	else
		kind = "config";
	if (strcmp(kind, "tensor") == 0)
		return fetch_fail("the registry has this model in another "
		    "format than GGUF");
	if (strcmp(kind, "model") == 0)
		path = cli_format("%s-%s.gguf", r->name->repo, r->rev);
	else if (strcmp(kind, "projector") == 0)
		path = cli_format("%s-%s-mmproj.gguf", r->name->repo, r->rev);
	else
		path = cli_format("%s-%.8s", kind, digest + 7);
	rc = fetch_add(r, path, bytes, digest + 7);
	free(path);
	return rc;
}

static int
list(struct fetch_repo *r)
{
	char *url = cli_format("%s/v2/%s/%s/manifests/%s", r->endpoint,
	    r->name->org, r->name->repo, r->rev);
	struct http_ask a = { .url = url, .repo = r, .accept = accept };
	yyjson_val *top, *layers, *e;
	struct qwen_text t = { 0 };
	yyjson_doc *doc = NULL;
	size_t i, n;
	int rc = -1;

	if (fetch_text(&t, &a, NULL) == 0 &&
	    (doc = qwen_json_open(t.s, t.n, &cli_err)) != NULL) {
		top = yyjson_doc_get_root(doc);
		layers = yyjson_obj_get(top, "layers");
		rc = yyjson_is_arr(layers) ? 0 :
		    fetch_fail("the registry's answer is not a manifest");
		yyjson_arr_foreach(layers, i, n, e)
			rc = rc < 0 ? rc : take_layer(r, e);
		if (rc == 0 && yyjson_is_obj(yyjson_obj_get(top, "config")))
			rc = take_layer(r, yyjson_obj_get(top, "config"));
	}
	yyjson_doc_free(doc);
	free(url);
	r->manifest = t.s;
	r->manifest_n = t.n;
	return rc;
}

static char *
url_of(const struct fetch_repo *r, const struct fetch_file *f)
{
	return cli_format("%s/v2/%s/%s/blobs/sha256:%s", r->endpoint,
	    r->name->org, r->name->repo, f->hash);
}

static void
place_in_ollama(struct fetch_paths *p, const struct fetch_repo *r,
    const struct fetch_file *f)
{
	p->path = cli_format("%s/blobs/sha256-%s", r->root, f->hash);
	p->by_hash = 1;
}

/* From now on Ollama has the model, too. */
static int
done(const struct fetch_repo *r)
{
	char *path = cli_format("%s/manifests/%s/%s/%s/%s", r->root,
	    r->name->host, r->name->org, r->name->repo, r->rev);
	int rc = fetch_write(path, r->manifest, r->manifest_n);

	free(path);
	return rc;
}

const struct fetch_hub fetch_ollama = { NULL, tool_ollama_models, init, list,
    url_of, place_in_ollama, done };
