/* SPDX-License-Identifier: ISC */
/*
 * ollama.c - Ollama's models: manifests/HOST/NAMESPACE/NAME/TAG is a JSON file
 * that lists layers by digest; the model's layer is the GGUF file
 * blobs/sha256-HEX.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <yyjson.h>

#include "base/err.h"
#include "base/map.h"
#include "models/source.h"
#include "text/json/json.h"

enum { MANIFEST_MAX = 1 << 20 };

/* Returns the manifest as JSON; NULL if it is missing, too large or damaged. */
static yyjson_doc *
read_manifest(struct qwen_founds *out, const char *path)
{
	yyjson_doc *doc = NULL;
	const void *p;
	size_t n;

	if (qwen_map_file(&p, &n, path, NULL) < 0) {
		if (errno == EACCES && out->forbidden == NULL)
			out->forbidden = strdup(path);
		return NULL;
	}
	if (n > 0 && n <= MANIFEST_MAX)
		doc = qwen_json_open(p, n, NULL);
	qwen_unmap_file(p, n);
	return doc;
}

static int
is_type(yyjson_val *layer, const char *type)
{
	return yyjson_equals_str(yyjson_obj_get(layer, "mediaType"), type);
}

/*
 * Returns the digest, "sha256:HEX", of the model's layer; NULL if there is
 * none. *tensors: the manifest has layers of safetensors.
 */
static const char *
model_digest(yyjson_val *root, int *tensors)
{
	yyjson_val *layers = yyjson_obj_get(root, "layers"), *layer;
	const char *digest;
	size_t i, n;

	*tensors = 0;
	yyjson_arr_foreach(layers, i, n, layer) {
		*tensors |= is_type(layer, "application/vnd.ollama.image.tensor");
		digest = yyjson_get_str(yyjson_obj_get(layer, "digest"));
		if (!is_type(layer, "application/vnd.ollama.image.model") ||
		    digest == NULL || strlen(digest) != 71 ||
		    strncmp(digest, "sha256:", 7) != 0 ||
		    strspn(digest + 7, "0123456789abcdef") != 64)
			continue;
		return digest;
	}
	return NULL;
}

/*
 * Adds the model of a manifest.  Takes ownership of name. strict: fail if it is
 * not GGUF.
 */
static int
add_manifest(struct qwen_founds *out, const char *folder, const char *manifest,
    char *name, int strict, struct qwen_err *err)
{
	yyjson_doc *doc;
	const char *digest;
	int tensors, rc = 0;

	if (name == NULL)
		return qwen_oom(err);
	doc = read_manifest(out, manifest);
	digest = model_digest(yyjson_doc_get_root(doc), &tensors);
	if (digest != NULL)
		rc = qwen_founds_add(out, qwen_format("%s/blobs/sha256-%s",
		    folder, digest + 7), name, err);
	else {
		if (tensors && strict)
			rc = qwen_fail(err, QWEN_EUNSUP, "Ollama stores %s as "
			    "safetensors, not as GGUF: get a GGUF file of it",
			    name);
		free(name);
	}
	yyjson_doc_free(doc);
	return rc;
}

static int
find_in_ollama(struct qwen_founds *out, const char *folder,
    const struct qwen_name *name,
    struct qwen_err *err)
{
	const char *part[] = { "manifests", name->host, name->org, name->repo,
	    name->rev };
	char *at, *next;
	size_t i;
	int rc = 0;

	if (name->kind != QWEN_NAME_OLLAMA)
		return 0;
	if ((at = strdup(folder)) == NULL)
		return qwen_oom(err);
	for (i = 0; at != NULL && i < sizeof part / sizeof part[0]; i++) {
		rc = qwen_models_entry(&next, at, part[i], err);
		if (next == NULL && rc == 0 && errno == EACCES &&
		    out->forbidden == NULL)
			out->forbidden = strdup(at);
		free(at);
		at = next;
	}
	if (at != NULL)
		rc = add_manifest(out, folder, at, strdup(name->text), 1, err);
	free(at);
	return rc;
}

/* Returns the shortest name for HOST/NAMESPACE/NAME/TAG, for free(). */
static char *
name_of(const char *path)
{
	static const char *const usual[] = { "registry.ollama.ai/library/",
	    "registry.ollama.ai/" };
	const char *tag;
	size_t i;

	for (i = 0; i < 2; i++) {
		if (strncmp(path, usual[i], strlen(usual[i])) == 0) {
			path += strlen(usual[i]);
			break;
		}
	}
	if ((tag = strrchr(path, '/')) == NULL)
		return strdup(path);
	/* a name with a namespace would be taken for a Hugging Face name */
	return qwen_format("%s%.*s:%s", i == 0 ? "" : "ollama:",
	    (int)(tag - path), path, tag + 1);
}

static int
add_entry(struct qwen_founds *out, const char *manifests, char *entry,
    struct qwen_err *err)
{
	char *path = qwen_format("%s/%s", manifests, entry);
	char *folder = qwen_format("%.*s",
	    (int)(strlen(manifests) - strlen("/manifests")), manifests);
	int rc = path != NULL && folder != NULL ? add_manifest(out, folder,
	    path, name_of(entry), 0, err) : qwen_oom(err);

	free(folder);
	free(path);
	return rc;
}

const struct qwen_model_source qwen_source_ollama = { .label = "Ollama",
    .find = find_in_ollama, .add = add_entry, .below = "/manifests",
    .depth = 4 };
