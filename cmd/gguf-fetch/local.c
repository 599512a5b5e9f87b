/* SPDX-License-Identifier: ISC */
/* local.c - the models on this machine. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gguf-fetch.h"
#include "text/json/json.h"

/* A row of the table; unknown texts are "". */
struct model_row {
	const struct qwen_found *found;
	char	*arch;		/* or NULL */
	const char *format;
	int	 template;
	char	*wrong;		/* error of opening the file, or NULL */
};

/* The format that most bytes of the tensors have. */
static const char *
format_of(const struct qwen_gguf *g)
{
	enum { TYPES = 256 };
	uint64_t bytes[TYPES] = { 0 };
	const struct qwen_gguf_tensor *t;
	uint32_t best = 0;
	const char *name;
	size_t i;

	for (i = 0; i < qwen_gguf_n_tensors(g); i++) {
		t = qwen_gguf_tensor(g, i);
		if (t->type >= TYPES)
			continue;
		bytes[t->type] += t->bytes;
		if (bytes[t->type] > bytes[best])
			best = t->type;
	}
	name = bytes[best] > 0 ? qwen_ggml_name(best) : NULL;
	return name != NULL ? name : "";
}

static void
look(struct model_row *row)
{
	struct qwen_str arch = { "", 0 };
	struct qwen_gguf *g;

	row->format = row->found->folder ? "safetensors" : "";
	if (row->found->folder)
		return;
	if (qwen_gguf_open(&g, row->found->path, &cli_err) < 0) {
		if (cli_err.code == QWEN_ENOMEM)
			cli_die_err(NULL, &cli_err);
		row->wrong = cli_check_alloc(strdup(cli_err.msg));
		return;
	}
	if (qwen_gguf_get_str(g, "general.architecture", &arch, &cli_err) < 0)
		arch.len = 0;
	row->arch = cli_check_alloc(strndup(arch.s, arch.len));
	row->format = format_of(g);
	row->template = qwen_gguf_find(g, "tokenizer.chat_template") != NULL;
	qwen_gguf_close(g);
}

/* Returns s, or NULL if it is empty. */
static const char *
some(const char *s)
{
	return s != NULL && *s != '\0' ? s : NULL;
}

static void
put_cell(const char *s, size_t width)
{
	size_t n;

	s = some(s) != NULL ? s : "-";
	n = strlen(s);
	cli_show(s, n);
	printf("%*s", (int)(width > n ? width - n : 0) + 2, "");
}

static void
put_table(const struct model_row *v, size_t n)
{
	size_t name = strlen("name"), arch = strlen("architecture"), i, len;

	for (i = 0; i < n; i++) {
		len = strlen(v[i].found->name);
		name = len > name ? len : name;
		len = v[i].arch != NULL ? strlen(v[i].arch) : 0;
		arch = len > arch ? len : arch;
	}
	put_cell("name", name);
	put_cell("architecture", arch);
	printf("%11s  %-11s  %-8s  %s\n", "size", "format", "template", "where");
	for (i = 0; i < n; i++) {
		put_cell(v[i].found->name, name);
		put_cell(v[i].arch, arch);
		printf("%11s  %-11s  %-8s  ", v[i].found->folder ? "-" :
		    fetch_size(v[i].found->bytes), v[i].format[0] != '\0' ?
		    v[i].format : "-", v[i].wrong != NULL ||
		    v[i].found->folder ? "-" : v[i].template ? "yes" : "no");
		cli_show(v[i].found->path, strlen(v[i].found->path));
		if (v[i].wrong != NULL) {
			printf(" (");
			cli_show(v[i].wrong, strlen(v[i].wrong));
			putchar(')');
		}
		putchar('\n');
	}
}

/* Print the table of aliases; after: an empty line first. */
static void
put_aliases(const struct qwen_aliases *a, int after)
{
	size_t width = strlen("alias"), i, k, len;

	for (i = 0; i < a->n; i++) {
		len = strlen(a->v[i].name);
		width = len > width ? len : width;
	}
	if (a->n > 0 && after)
		putchar('\n');
	if (a->n > 0) {
		put_cell("alias", width);
		puts("model and options");
	}
	for (i = 0; i < a->n; i++) {
		put_cell(a->v[i].name, width);
		cli_show(a->v[i].model, strlen(a->v[i].model));
		for (k = 0; k < a->v[i].n_options; k++) {
			putchar(' ');
			cli_show(a->v[i].option[k], strlen(a->v[i].option[k]));
		}
		putchar('\n');
	}
}

/* Adds models and then aliases as the objects of one list. */
static void
put_json(const struct model_row *v, size_t n, const struct qwen_aliases *a)
{
	struct qwen_text t = { 0 };
	const struct qwen_found *f;
	size_t i, k;

	qwen_text_str(&t, "[");
	for (i = 0; i < n; i++) {
		f = v[i].found;
		qwen_json_put(&t, "%s{'name': '%s', 'architecture': '%s', "
		    "'bytes': ", i > 0 ? ",\n " : "", f->name, some(v[i].arch));
		if (f->folder)
			qwen_text_str(&t, "null");
		else
			qwen_text_fmt(&t, "%" PRIu64, f->bytes);
		qwen_json_put(&t, ", 'format': '%s', 'template': %s, "
		    "'place': '%s', 'path': '%s', 'error': '%s'}",
		    some(v[i].format), v[i].wrong != NULL || f->folder ?
		    "null" : v[i].template ? "true" : "false", f->place,
		    f->path, v[i].wrong);
	}
	for (i = 0; i < a->n; i++) {
		qwen_json_put(&t, "%s{'name': '%s', 'alias_of': '%s', "
		    "'options': [", n + i > 0 ? ",\n " : "", a->v[i].name,
		    some(a->v[i].model));
		for (k = 0; k < a->v[i].n_options; k++)
			qwen_json_put(&t, "%s'%s'", k > 0 ? ", " : "",
			    a->v[i].option[k]);
		qwen_text_str(&t, "]}");
	}
	qwen_text_str(&t, "]");
	if (t.failed)
		cli_must(NULL, qwen_oom(&cli_err));
	puts(t.s);
	qwen_text_fini(&t);
}

void
fetch_local(int json)
{
	const struct qwen_aliases *aliases = tool_aliases(NULL);
	struct qwen_founds all;
	struct model_row *v;
	size_t i;

	cli_must(NULL, qwen_models_all(&all, tool_model_folders(), &cli_err));
	v = cli_check_alloc(calloc(all.n + 1, sizeof *v));
	for (i = 0; i < all.n; i++) {
		v[i].found = &all.v[i];
		look(&v[i]);
	}
	if (json)
		put_json(v, all.n, aliases);
	else if (all.n > 0)
		put_table(v, all.n);
	else
		cli_note("no models in the known folders; qwen-models(7) lists "
		    "these folders");
	if (!json)
		put_aliases(aliases, all.n > 0);
	if (all.forbidden != NULL)
		cli_note("%s: this user may not read it, so models there are "
		    "not listed", all.forbidden);
	for (i = 0; i < all.n; i++) {
		free(v[i].arch);
		free(v[i].wrong);
	}
	free(v);
	qwen_founds_fini(&all);
}
