/* SPDX-License-Identifier: ISC */
/* find.c - searches the folders of all programs, in a fixed order. */
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "models/source.h"

/*
 * Searches all folders of each source for a name, until one has it; or lists
 * the models of all, if name is NULL.
 */
static int
search(struct qwen_founds *out, const struct qwen_model_folders *p,
    const struct qwen_name *name, struct qwen_err *err)
{
	const struct {
		const struct qwen_model_source	*source;
		const char *const	*folder;	/* [..._FOLDERS_MAX] */
	} rows[] = {
		{ &qwen_source_own, p->own },
		{ &qwen_source_hf, p->hf },
		{ &qwen_source_ms, p->ms },
		{ &qwen_source_ollama, p->ollama },
		{ &qwen_source_lmstudio, p->lmstudio },
		{ &qwen_source_llama, p->llama },
	}, *r;
	const struct qwen_model_source *s;
	int k, rc = 0;

	for (r = rows; r < rows + sizeof rows / sizeof *rows; r++) {
		s = r->source;
		out->place = s->label;
		for (k = 0; k < QWEN_MODEL_FOLDERS_MAX && rc == 0; k++) {
			if (r->folder[k] == NULL ||
			    (name != NULL && out->n > 0))
				continue;
			if (name != NULL)
				rc = s->find(out, r->folder[k], name, err);
			else if (s->all != NULL)
				rc = s->all(out, r->folder[k], err);
			else
				rc = qwen_founds_each(out, qwen_format("%s%s",
				    r->folder[k], s->below), s->depth,
				    s->folders, s->add, err);
		}
	}
	return rc;
}

/* If several paths lead to the same file (links), keeps only the first. */
static void
drop_same(struct qwen_founds *f)
{
	size_t i, k, n = 0;

	for (i = 0; i < f->n; i++) {
		for (k = 0; k < n && (f->v[k].dev != f->v[i].dev ||
		    f->v[k].ino != f->v[i].ino); k++)
			;
		if (k == n)
			f->v[n++] = f->v[i];
		else {
			free(f->v[i].path);
			free(f->v[i].name);
		}
	}
	f->n = n;
}

int
qwen_models_find(struct qwen_founds *out,
    const struct qwen_model_folders *places,
    const struct qwen_name *name, struct qwen_err *err)
{
	struct qwen_name ollama = { .kind = QWEN_NAME_OLLAMA,
	    .text = name->text, .org = (char []){ "library" },
	    .repo = name->repo, .rev = (char []){ "latest" },
	    .host = (char []){ "registry.ollama.ai" } };
	int rc;

	memset(out, 0, sizeof *out);
	rc = search(out, places, name, err);
	/* for Ollama, "qwen3" is "qwen3:latest" */
	if (rc == 0 && out->n == 0 && name->kind == QWEN_NAME_STEM)
		rc = search(out, places, &ollama, err);
	if (rc < 0)
		qwen_founds_fini(out);
	else
		drop_same(out);
	return rc;
}

/* Replaces a name that an earlier model has, too, by the model's path. */
static int
name_apart(struct qwen_founds *f, struct qwen_err *err)
{
	size_t i, k;
	char *path;

	for (i = 1; i < f->n; i++) {
		for (k = 0; k < i && strcmp(f->v[k].name, f->v[i].name) != 0;
		    k++)
			;
		if (k == i)
			continue;
		if ((path = strdup(f->v[i].path)) == NULL)
			return qwen_oom(err);
		free(f->v[i].name);
		f->v[i].name = path;
	}
	return 0;
}

int
qwen_models_all(struct qwen_founds *out,
    const struct qwen_model_folders *places,
    struct qwen_err *err)
{
	int rc;

	memset(out, 0, sizeof *out);
	rc = search(out, places, NULL, err);
	if (rc == 0)
		rc = name_apart(out, err);
	if (rc < 0)
		qwen_founds_fini(out);
	return rc;
}
