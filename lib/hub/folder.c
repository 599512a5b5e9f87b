/* SPDX-License-Identifier: ISC */
/* folder.c - opens the folder of a model: config.json and the weight files. */
#include <dirent.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/map.h"
#include "base/text.h"
#include "hub/arch.h"
#include "hub/folder.h"
#include "hub/json.h"
#include "text/json/json.h"

enum { FILE_MAX = 1 << 28, FILES_MAX = 100000, KEYS_MAX = 4096 };

#define INDEX "model.safetensors.index.json"

/* ---------------------------------------------------------------- errors */

static int __attribute__((format(printf, 2, 0)))
fail(const struct qwen_hub *h, const char *fmt, va_list ap)
{
	char text[sizeof h->err->msg];

	vsnprintf(text, sizeof text, fmt, ap);
	return qwen_fail(h->err, QWEN_EUNSUP, "%s", text);
}

int
qwen_hub_fail(const struct qwen_hub *h, const char *file, const char *fmt, ...)
{
	va_list ap;

	if (h->err->code != 0)
		return -1;
	va_start(ap, fmt);
	fail(h, fmt, ap);
	va_end(ap);
	return qwen_fail_in(h->err, "%s%s%s", h->path, file != NULL ? "/" : "",
	    file != NULL ? file : "");
}

int
qwen_hub_bad_tensor(const struct qwen_hub *h, const struct qwen_st_tensor *w,
    const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	fail(h, fmt, ap);
	va_end(ap);
	return qwen_fail_in(h->err, "tensor %.100s", w->name);
}

/* ----------------------------------------------------------- small files */

int
qwen_hub_has(const struct qwen_hub *h, const char *name)
{
	char *path = qwen_format("%s/%s", h->path, name);
	int has = path != NULL && access(path, F_OK) == 0;

	free(path);
	return has;
}

/* Maps a file of the folder, for qwen_unmap_file(); returns as below. */
static int
map_text(const struct qwen_hub *h, const char *name, const void **out,
    size_t *n)
{
	char *path;
	int rc;

	if (h->err->code != 0)
		return -1;
	if ((path = qwen_format("%s/%s", h->path, name)) == NULL)
		return qwen_oom(h->err);
	errno = 0;
	rc = qwen_map_file(out, n, path, h->err) < 0 ? -1 : 1;
	if (rc < 0 && errno == ENOENT) {
		h->err->code = 0;
		rc = 0;
	} else if (rc < 0 && errno == ENOTDIR) {
		h->err->code = 0;
		qwen_hub_fail(h, NULL, "not a folder: give the folder with "
		    "config.json and the weights");
	} else if (rc < 0) {
		qwen_fail_in(h->err, "%s", path);
	} else if (*n > FILE_MAX) {
		rc = qwen_hub_fail(h, name, "too large: %zu bytes", *n);
		qwen_unmap_file(*out, *n);
	}
	free(path);
	return rc;
}

int
qwen_hub_text(const struct qwen_hub *h, const char *name, char **out)
{
	const void *map;
	size_t n;
	int rc = map_text(h, name, &map, &n);

	*out = NULL;
	if (rc <= 0)
		return rc;
	if ((*out = strndup(map != NULL ? map : "", n)) == NULL)
		rc = qwen_oom(h->err);
	qwen_unmap_file(map, n);
	return rc;
}

int
qwen_hub_json(const struct qwen_hub *h, const char *name, yyjson_doc **out)
{
	const void *map;
	size_t n;
	int rc = map_text(h, name, &map, &n);

	*out = NULL;
	if (rc <= 0)
		return rc;
	*out = qwen_json_open(map != NULL ? map : "", n, h->err);
	qwen_unmap_file(map, n);
	if (*out == NULL)
		return qwen_fail_in(h->err, "%s/%s", h->path, name);
	if (!yyjson_is_ctn(yyjson_doc_get_root(*out))) {
		yyjson_doc_free(*out);
		*out = NULL;
		return qwen_hub_fail(h, name, "not a JSON object or array");
	}
	return 1;
}

/* ------------------------------------------------------------- the config */

yyjson_val *
qwen_hub_get(const struct qwen_hub *h, const char *key)
{
	yyjson_val *v = yyjson_obj_get(h->text, key);

	if (v == NULL)
		v = yyjson_obj_get(yyjson_doc_get_root(h->config), key);
	return yyjson_is_null(v) ? NULL : v;
}

int
qwen_hub_get_u32(const struct qwen_hub *h, const char *key, uint32_t *out)
{
	yyjson_val *v = qwen_hub_get(h, key);
	uint64_t n;

	if (v == NULL)
		return 0;
	if (qwen_hub_u64(v, &n) < 0 || n > UINT32_MAX)
		return qwen_hub_bad(h, "%s is not a whole number below 2^32",
		    key);
	*out = (uint32_t)n;
	return 1;
}

int
qwen_hub_get_f64(const struct qwen_hub *h, const char *key, double *out)
{
	yyjson_val *v = qwen_hub_get(h, key);

	if (v == NULL)
		return 0;
	if (qwen_hub_f64(v, out) < 0)
		return qwen_hub_bad(h, "%s is not a number in the range of f32",
		    key);
	return 1;
}

int
qwen_hub_need_u32(const struct qwen_hub *h, const char *key, uint32_t *out)
{
	int rc = qwen_hub_get_u32(h, key, out);

	if (rc == 0 || (rc == 1 && *out == 0))
		return qwen_hub_bad(h, "%s is missing", key);
	return rc < 0 ? -1 : 0;
}

/*
 * Limits the size of the objects in which each tensor looks up keys linearly.
 */
static int
check_size(const struct qwen_hub *h)
{
	yyjson_val *const looked_at[] = { yyjson_doc_get_root(h->config),
	    h->text, qwen_hub_get(h, "quantization"),
	    qwen_hub_get(h, "quantization_config") };
	size_t i;

	for (i = 0; i < sizeof looked_at / sizeof looked_at[0]; i++) {
		if (yyjson_obj_size(looked_at[i]) > KEYS_MAX)
			return qwen_hub_bad(h, "an object with more than %d "
			    "keys", KEYS_MAX);
	}
	return 0;
}

static int
open_config(struct qwen_hub *h)
{
	yyjson_val *root, *text;
	int rc = qwen_hub_json(h, "config.json", &h->config);

	if (rc < 0)
		return -1;
	if (rc == 0)
		return qwen_hub_fail(h, NULL, "no config.json: give a model "
		    "folder in Hugging Face format");
	root = yyjson_doc_get_root(h->config);
	text = yyjson_obj_get(root, "text_config");
	h->text = yyjson_is_obj(text) ? text : root;
	return check_size(h) < 0 ? -1 : qwen_hub_find_arch(h);
}

/* ------------------------------------------------------------ the weights */

/* Adds a file name; their number is limited. */
static int
add_name(const struct qwen_hub *h, struct qwen_strings *l, const char *name)
{
	if (l->n == FILES_MAX)
		return qwen_fail(h->err, QWEN_EFORMAT, "too many files");
	return qwen_strings_add(l, strdup(name)) < 0 ? qwen_oom(h->err) : 0;
}

/* Sorts names, each of which stays once. */
static void
sort_names(struct qwen_strings *l)
{
	size_t i, n = 0;

	if (l->n == 0)
		return;
	qwen_strings_sort(l);
	for (i = 1; i < l->n; i++) {
		if (strcmp(l->v[i], l->v[n]) == 0)
			free(l->v[i]);
		else
			l->v[++n] = l->v[i];
	}
	l->n = n + 1;
}

/* Lists the files that the index names. */
static int
names_of_index(const struct qwen_hub *h, struct qwen_strings *l, yyjson_val *map)
{
	yyjson_val *key, *v;
	const char *s, *last = "";
	size_t i, n;

	if (!yyjson_is_obj(map))
		return qwen_fail(h->err, QWEN_EFORMAT, "weight_map is missing");
	yyjson_obj_foreach(map, i, n, key, v) {
		s = yyjson_get_str(v);
		if (s == NULL || *s == '\0' || *s == '.' ||
		    strchr(s, '/') != NULL || strlen(s) != yyjson_get_len(v))
			return qwen_fail(h->err, QWEN_EFORMAT, "tensor %.60s "
			    "has no file in this folder", yyjson_get_str(key));
		if (strcmp(s, last) != 0 && add_name(h, l, s) < 0)
			return -1;
		last = s;
	}
	return 0;
}

/*
 * Lists all model*.safetensors of a folder without an index, and checks that
 * all parts are there if the names count them.
 */
static int
names_of_folder(const struct qwen_hub *h, struct qwen_strings *l)
{
	DIR *d = opendir(h->path);
	struct dirent *e;
	unsigned parts = 0, of;
	const char *tail;
	int rc = 0;

	if (d == NULL)
		return qwen_fail_errno(h->err, "%s", h->path);
	while (rc == 0 && (errno = 0, e = readdir(d)) != NULL) {
		tail = strrchr(e->d_name, '.');
		if (strncmp(e->d_name, "model", 5) == 0 && tail != NULL &&
		    strcmp(tail, ".safetensors") == 0) {
			if (sscanf(e->d_name, "model-%*5u-of-%5u.", &of) == 1)
				parts = of;
			rc = add_name(h, l, e->d_name);
		}
	}
	if (rc == 0 && errno != 0)
		rc = qwen_fail_errno(h->err, "%s", h->path);
	closedir(d);
	if (rc == 0 && l->n == 0)
		rc = qwen_hub_fail(h, NULL, "no weights: there is no file "
		    "model*.safetensors");
	if (rc == 0 && parts != 0 && l->n != parts)
		rc = qwen_hub_fail(h, NULL, "only %zu of %u files with "
		    "weights: get the missing ones", l->n, parts);
	return rc;
}

static int
compare_tensors(const void *a, const void *b)
{
	const struct qwen_st_tensor *const *x = a, *const *y = b;

	return strcmp((*x)->name, (*y)->name);
}

const struct qwen_st_tensor *
qwen_hub_find(const struct qwen_hub *h, const char *name)
{
	struct qwen_st_tensor w = { .name = name };
	const struct qwen_st_tensor *want = &w, **at;

	at = bsearch(&want, h->by_name, h->st.n, sizeof *h->by_name,
	    compare_tensors);
	return at != NULL ? *at : NULL;
}

/* Checks that the index names exactly the tensors of the files. */
static int
check_index(const struct qwen_hub *h, yyjson_val *map)
{
	unsigned char *indexed = calloc(h->st.n, 1);
	const struct qwen_st_tensor *t;
	yyjson_val *key, *v;
	size_t i, max;

	if (indexed == NULL)
		return qwen_oom(h->err);
	yyjson_obj_foreach(map, i, max, key, v) {
		t = qwen_hub_find(h, yyjson_get_str(key));
		if (t != NULL)
			indexed[t - h->st.v] = 1;
		else if (h->err->code == 0)
			qwen_fail(h->err, QWEN_EFORMAT, "%s/%.80s: tensor "
			    "%.60s is missing, but listed in " INDEX ": get "
			    "the file again", h->path, yyjson_get_str(v),
			    yyjson_get_str(key));
	}
	for (i = 0; i < h->st.n; i++) {
		if (!indexed[h->by_name[i] - h->st.v])
			qwen_hub_fail(h, INDEX, "tensor %.60s is in the files, "
			    "but not listed", h->by_name[i]->name);
	}
	free(indexed);
	return h->err->code != 0 ? -1 : 0;
}

/*
 * Sorts the tensors by name, and checks that names are unique and, if there is
 * an index, the same as in it.
 */
static int
index_tensors(struct qwen_hub *h, yyjson_val *map)
{
	const struct qwen_st_tensor **by;
	size_t i, n = h->st.n;

	if (n == 0)
		return qwen_hub_fail(h, NULL, "the files have no weights");
	if ((by = h->by_name = calloc(n, sizeof *by)) == NULL)
		return qwen_oom(h->err);
	for (i = 0; i < n; i++)
		by[i] = &h->st.v[i];
	qsort(by, n, sizeof *by, compare_tensors);
	for (i = 1; i < n; i++) {
		if (strcmp(by[i - 1]->name, by[i]->name) == 0)
			return qwen_hub_fail(h, NULL, "tensor %.60s is in two "
			    "files", by[i]->name);
	}
	return map == NULL ? 0 : check_index(h, map);
}

static int
add_files(struct qwen_hub *h, const struct qwen_strings *l)
{
	char *path;
	size_t i;
	int rc = 0;

	for (i = 0; i < l->n && rc == 0; i++) {
		if ((path = qwen_format("%s/%s", h->path, l->v[i])) == NULL)
			return qwen_oom(h->err);
		if ((rc = qwen_st_add(&h->st, path, h->err)) < 0)
			qwen_fail_in(h->err, "%s", path);
		free(path);
	}
	return rc;
}

static int
open_weights(struct qwen_hub *h)
{
	struct qwen_strings l = { 0 };
	yyjson_doc *index = NULL;
	yyjson_val *map = NULL;
	int rc = qwen_hub_json(h, INDEX, &index);

	if (rc == 1) {
		map = yyjson_obj_get(yyjson_doc_get_root(index), "weight_map");
		if ((rc = names_of_index(h, &l, map)) < 0)
			qwen_fail_in(h->err, "%s/" INDEX, h->path);
	} else if (rc == 0)
		rc = names_of_folder(h, &l);
	if (rc == 0) {
		sort_names(&l);
		rc = add_files(h, &l);
	}
	if (rc == 0)
		rc = index_tensors(h, map);
	qwen_strings_fini(&l);
	yyjson_doc_free(index);
	return rc;
}

/* --------------------------------------------------------------- interface */

struct qwen_hub *
qwen_hub_alloc(const char *folder, struct qwen_err *err)
{
	struct qwen_hub *h = calloc(1, sizeof *h);
	size_t n = strlen(folder);

	if (h == NULL || (h->path = strdup(folder)) == NULL) {
		free(h);
		qwen_oom(err);
		return NULL;
	}
	while (n > 1 && h->path[n - 1] == '/')
		h->path[--n] = '\0';
	h->err = err;
	err->code = 0;
	return h;
}

int
qwen_hub_open_config(struct qwen_hub **out, const char *folder,
    struct qwen_err *err)
{
	*out = qwen_hub_alloc(folder, err);
	if (*out != NULL && open_config(*out) < 0) {
		qwen_hub_close(*out);
		*out = NULL;
	}
	return *out != NULL ? 0 : -1;
}

int
qwen_hub_open(struct qwen_hub **out, const char *folder, struct qwen_err *err)
{
	if (qwen_hub_open_config(out, folder, err) < 0)
		return -1;
	if (open_weights(*out) < 0 || qwen_hub_check_quantised(*out) < 0) {
		qwen_hub_close(*out);
		*out = NULL;
		return -1;
	}
	return 0;
}

int
qwen_hub_add_weights(struct qwen_hub *h, const char *file)
{
	char *name = (char *)(uintptr_t)file;
	const struct qwen_strings l = { &name, 1, 1 };

	return add_files(h, &l) < 0 ? -1 : index_tensors(h, NULL);
}

void
qwen_hub_close(struct qwen_hub *h)
{
	if (h == NULL)
		return;
	free(h->by_name);
	qwen_st_fini(&h->st);
	yyjson_doc_free(h->config);
	yyjson_doc_free(h->adapter);
	free(h->adapter_path);
	free(h->path);
	free(h);
}
