/* SPDX-License-Identifier: ISC */
/* found.c - lists files, and selects models among them. */
#include <sys/stat.h>

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/err.h"
#include "base/mem.h"
#include "models/source.h"

int
qwen_models_is_folder(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

/* ------------------------------------------------------------------- folders */

struct walk {
	struct qwen_strings	*list;
	struct qwen_founds	*out;
	const char		*folder;
	int			 folders;
	struct qwen_err		*err;
};

/* Returns 1 if the entry is a folder, or a link to one. */
static int
is_folder(const struct walk *w, const char *at, const struct dirent *e)
{
	char *path;
	int is;

	if (e->d_type != DT_LNK && e->d_type != DT_UNKNOWN)
		return e->d_type == DT_DIR;
	path = qwen_format("%s/%s%s", w->folder, at, e->d_name);
	is = path != NULL && qwen_models_is_folder(path);
	free(path);
	return is;
}

/*
 * Lists the files, or folders, below w->folder/at; `at' is "" or ends with a
 * slash.
 */
static int
walk(const struct walk *w, const char *at, int depth)
{
	char *path = qwen_format("%s/%s", w->folder, at), *s;
	DIR *d = path != NULL ? opendir(path) : NULL;
	struct dirent *e;
	int rc = 0, deep;

	if (path == NULL)
		return qwen_oom(w->err);
	if (d == NULL && errno == EACCES && w->out->forbidden == NULL) {
		w->out->forbidden = path;
		return 0;
	}
	free(path);
	while (d != NULL && rc == 0 && (e = readdir(d)) != NULL) {
		if (e->d_name[0] == '.')
			continue;
		deep = is_folder(w, at, e);
		if (!deep == !w->folders)
			rc = qwen_strings_add(w->list, qwen_format("%s%s", at,
			    e->d_name)) < 0 ? qwen_oom(w->err) : 0;
		if (!deep || depth <= 1 || rc < 0)
			continue;
		if ((s = qwen_format("%s%s/", at, e->d_name)) == NULL)
			rc = qwen_oom(w->err);
		else
			rc = walk(w, s, depth - 1);
		free(s);
	}
	if (d != NULL)
		closedir(d);
	return rc;
}

int
qwen_names_read(struct qwen_strings *l, struct qwen_founds *out,
    const char *folder, int depth, int folders, struct qwen_err *err)
{
	const struct walk w = { l, out, folder, folders, err };

	memset(l, 0, sizeof *l);
	if (walk(&w, "", depth) < 0) {
		qwen_strings_fini(l);
		return -1;
	}
	qwen_strings_sort(l);
	return 0;
}

int
qwen_founds_each(struct qwen_founds *out, char *folder, int depth, int folders,
    qwen_founds_fn *fn, struct qwen_err *err)
{
	struct qwen_strings l = { 0 };
	size_t i;
	int rc = folder == NULL ? qwen_oom(err) :
	    qwen_names_read(&l, out, folder, depth, folders, err);

	for (i = 0; rc == 0 && i < l.n; i++)
		rc = fn(out, folder, l.v[i], err);
	qwen_strings_fini(&l);
	free(folder);
	return rc;
}

int
qwen_models_entry(char **out, const char *folder, const char *name,
    struct qwen_err *err)
{
	char *path = qwen_format("%s/%s", folder, name);
	struct dirent *e;
	DIR *d;

	*out = path;
	if (path == NULL)
		return qwen_oom(err);
	if (access(path, F_OK) == 0)
		return 0;
	free(path);
	*out = NULL;
	if ((d = opendir(folder)) == NULL)
		return 0;
	while ((e = readdir(d)) != NULL) {
		if (strcasecmp(e->d_name, name) != 0)
			continue;
		if ((*out = qwen_format("%s/%s", folder, e->d_name)) ==
		    NULL) {
			closedir(d);
			return qwen_oom(err);
		}
		break;
	}
	closedir(d);
	return 0;
}

/* -------------------------------------------------------------------- models */

void
qwen_founds_cut(struct qwen_founds *f, size_t n)
{
	while (f->n > n) {
		free(f->v[--f->n].path);
		free(f->v[f->n].name);
	}
}

void
qwen_founds_fini(struct qwen_founds *f)
{
	qwen_founds_cut(f, 0);
	free(f->v);
	free(f->forbidden);
	memset(f, 0, sizeof *f);
}

/*
 * Adds up the bytes of all existing parts; f->bytes stays 0 if the first part
 * is not a file.
 */
static int
measure(struct qwen_found *f, struct qwen_err *err)
{
	unsigned i, n = qwen_repo_n_parts(f->path);
	struct stat st;
	char *part;

	for (i = 0; i < n; i++) {
		if ((part = qwen_repo_part(f->path, i, n)) == NULL)
			return qwen_oom(err);
		if (stat(part, &st) < 0 || !S_ISREG(st.st_mode))
			st.st_size = 0;
		free(part);
		if (i == 0 && st.st_size == 0)
			return 0;
		f->missing += st.st_size == 0;
		f->bytes += (uint64_t)st.st_size;
	}
	return 0;
}

int
qwen_founds_add(struct qwen_founds *out, char *path, char *name,
    struct qwen_err *err)
{
	struct qwen_found f = { .path = path, .name = name,
	    .place = out->place };
	struct stat st = { 0 };

	if (path == NULL || name == NULL) {
		qwen_oom(err);
		goto fail;
	}
	if (stat(path, &st) == 0)
		f.folder = S_ISDIR(st.st_mode);
	f.dev = (uint64_t)st.st_dev;
	f.ino = (uint64_t)st.st_ino;
	if (!f.folder && measure(&f, err) < 0)
		goto fail;
	if (!f.folder && f.bytes == 0) {
		free(path);
		free(name);
		return 0;
	}
	if (qwen_grow(&out->v, &out->cap, out->n + 1, sizeof *out->v) < 0) {
		qwen_oom(err);
		goto fail;
	}
	out->v[out->n++] = f;
	return 0;
fail:
	free(path);
	free(name);
	return -1;
}

int
qwen_founds_add_file(struct qwen_founds *out, const char *folder,
    const char *file, struct qwen_err *err)
{
	return qwen_founds_add(out, qwen_format("%s/%s", folder, file),
	    qwen_format("%s/%s", folder, file), err);
}

/* Returns 1 if the list has config.json and a safetensors file. */
static int
has_safetensors(const struct qwen_strings *l)
{
	int config = 0, weights = 0;
	size_t i;

	for (i = 0; i < l->n; i++) {
		config |= strcmp(l->v[i], "config.json") == 0;
		weights |= qwen_ends(l->v[i], ".safetensors");
	}
	return config && weights;
}

/*
 * Returns the shortest name of file i: "prefix:FORMAT" with the format at the
 * end of its file name, if this matches no other file; else its path.
 */
static char *
name_of(const struct qwen_strings *l, size_t i, const char *prefix, size_t *room)
{
	const char *path = l->v[i], *name = qwen_base_name(path), *end, *s;
	char quant[64];

	end = name + strlen(name) - strlen(".gguf");
	if (qwen_repo_n_parts(path) > 1)
		end -= strlen("-00001-of-00002");
	for (s = end; s > name && strchr("-.", s[-1]) == NULL; s--)
		;
	/* another mix than the one without */
	if (s - name > 3 && strncasecmp(s - 4, "-UD-", 4) == 0)
		s -= 3;
	if (s > name && s < end && (size_t)(end - s) < sizeof quant) {
		memcpy(quant, s, (size_t)(end - s));
		quant[end - s] = '\0';
		if (qwen_repo_match((const char *const *)l->v, l->n, quant,
		    room) == 1 && room[0] == i)
			return qwen_format("%s:%s", prefix, quant);
	}
	return qwen_format("%s/%s", prefix, path);
}

int
qwen_founds_add_repo(struct qwen_founds *out, char *folder, char *prefix,
    const struct qwen_name *name, struct qwen_err *err)
{
	struct qwen_strings l = { 0 };
	size_t *pick = NULL, n = 0, i;
	int rc = -1;

	if (folder == NULL || prefix == NULL)
		qwen_oom(err);
	else
		rc = qwen_names_read(&l, out, folder, 4, 0, err);
	if (l.n > 0 && (pick = calloc(2 * l.n, sizeof *pick)) == NULL)
		rc = qwen_oom(err);
	else if (l.n > 0)
		n = qwen_repo_pick((const char *const *)l.v, l.n, name, pick);
	for (i = 0; i < n && rc == 0; i++)
		rc = qwen_founds_add(out,
		    qwen_format("%s/%s", folder, l.v[pick[i]]),
		    name_of(&l, pick[i], prefix, pick + l.n), err);
	if (rc == 0 && (name == NULL || (name->quant == NULL &&
	    name->path == NULL)) && has_safetensors(&l))
		rc = qwen_founds_add(out, strdup(folder), strdup(prefix), err);
	free(pick);
	qwen_strings_fini(&l);
	free(folder);
	free(prefix);
	return rc;
}
