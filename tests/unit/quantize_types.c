/* SPDX-License-Identifier: ISC */
/*
 * quantize_types.c - the format of each tensor by recipe: llama.cpp's choice,
 * for models of all architectures.
 *
 * quantize_types -d FOLDER writes the models, with holes in place of weights,
 * and an importance matrix without values; -l FILE RECIPE [IMATRIX] prints the
 * formats.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gguf/write.h"
#include "quantize/plan.h"
#include "synth/synth.h"
#include "../tap.h"

static const struct model {
	const char	*name, *shape;
	uint32_t	 layers, experts;
} models[] = {
	{ "qwen3", "Qwen3-0.6B", 20, 0 },
	{ "qwen3-grouped", "Qwen3-8B", 20, 0 },
	{ "qwen2", "Qwen2.5", 17, 0 },
	{ "qwen3moe", "Qwen3-30B", 18, 16 },
	{ "qwen3moe-8", "Qwen3-30B", 18, 8 },
	{ "qwen35moe", "Qwen3.6", 16, 16 },
	{ "qwen35", "Qwen3.8", 16, 0 },
	{ "qwen3next", "Qwen3-Coder", 12, 32 },
};

enum { N_MODELS = sizeof models / sizeof models[0] };

static int
write_model(const struct model *m, const char *path, struct qwen_err *err)
{
	const struct qwen_synth_opts o = { .recipe = "BF16",
	    .n_layer = m->layers, .n_expert = m->experts, .sparse = 1 };
	struct qwen_synth *s;
	size_t shape;
	int fd, rc;

	if (qwen_synth_find(&shape, m->shape, err) < 0 ||
	    qwen_synth_new(&s, shape, &o, err) < 0)
		return -1;
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
	rc = fd < 0 ? -1 : qwen_synth_write(s, fd, err);
	qwen_synth_free(s);
	return rc < 0 || close(fd) != 0 ? -1 : 0;
}

static int
write_imatrix(const char *path, struct qwen_err *err)
{
	const uint64_t ne[2] = { 1, 1 };
	const unsigned char zero[4] = { 0 };
	struct qwen_gguf_writer *w;
	int fd, rc;

	if (qwen_gguf_writer_new(&w, err) < 0)
		return -1;
	qwen_gguf_put_str(w, "general.type", "imatrix");
	qwen_gguf_put_u32(w, "imatrix.chunk_count", 1);
	qwen_gguf_put_u32(w, "imatrix.chunk_size", 512);
	qwen_gguf_put_strs(w, "imatrix.datasets", &(struct qwen_str){ "none", 4 },
	    1);
	qwen_gguf_put_tensor(w, "none.weight.in_sum2", 0, 2, ne);
	qwen_gguf_put_tensor(w, "none.weight.counts", 0, 2, ne);
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
	rc = fd < 0 || qwen_gguf_write_head(w, fd, err) < 0 ||
	    qwen_gguf_write_data(w, fd, zero, 4, err) < 0 ||
	    qwen_gguf_write_data(w, fd, zero, 4, err) < 0 ||
	    qwen_gguf_write_end(w, err) < 0 || close(fd) != 0;
	qwen_gguf_writer_free(w);
	return rc ? -1 : 0;
}

static struct qwen_quantize *
plan(const struct qwen_gguf *g, const char *recipe,
    const struct qwen_imatrix *m, struct qwen_err *err)
{
	const struct qwen_quantize_opts o = { .recipe = recipe, .imatrix = m,
	    .threads = 1 };
	struct qwen_quantize *p;

	return qwen_quantize_new(&p, g, &o, err) < 0 ? NULL : p;
}

static uint64_t
fnv(uint64_t h, const char *s)
{
	for (; *s != '\0'; s++)
		h = (h ^ (unsigned char)*s) * 0x100000001b3u;
	return h;
}

/* Of lines of name and format, in the order of the file. */
static uint64_t
sum_of(const struct qwen_quantize *p)
{
	uint64_t h = 0xcbf29ce484222325u;
	char line[128];
	size_t i;

	for (i = 0; i < p->n; i++) {
		snprintf(line, sizeof line, "%s %s\n", p->item[i].t->name,
		    qwen_ggml_name(p->item[i].type));
		h = fnv(h, line);
	}
	return h;
}

static int
show(const char *path, const char *recipe, const char *matrix)
{
	struct qwen_imatrix *m = NULL;
	struct qwen_quantize *p;
	struct qwen_gguf *g;
	struct qwen_err err;
	size_t i;

	if (qwen_gguf_open(&g, path, &err) < 0 || (matrix != NULL &&
	    qwen_imatrix_open(&m, matrix, &err) < 0) ||
	    (p = plan(g, recipe, m, &err)) == NULL) {
		fprintf(stderr, "%s\n", err.msg);
		return 1;
	}
	for (i = 0; i < p->n; i++)
		printf("%s %s\n", p->item[i].t->name,
		    qwen_ggml_name(p->item[i].type));
	qwen_quantize_free(p);
	qwen_imatrix_close(m);
	qwen_gguf_close(g);
	return 0;
}

static int
write_all(const char *folder)
{
	struct qwen_err err = { 0 };
	char path[4096];
	size_t i;

	for (i = 0; i < N_MODELS; i++) {
		snprintf(path, sizeof path, "%s/%s.gguf", folder,
		    models[i].name);
		if (write_model(&models[i], path, &err) < 0)
			return fprintf(stderr, "%s\n", err.msg), 1;
	}
	snprintf(path, sizeof path, "%s/imatrix.gguf", folder);
	return write_imatrix(path, &err) < 0;
}

/* Lines of quantize_types.tsv for a model: recipe, with a matrix or not, sum. */
static void
check(const struct model *model, const struct qwen_gguf *g,
    const struct qwen_imatrix *m)
{
	FILE *f = fopen("tests/unit/quantize_types.tsv", "r");
	char line[256], name[32], recipe[16];
	struct qwen_quantize *p;
	struct qwen_err err;
	int weighted, n = 0;
	uint64_t sum;

	while (f != NULL && fgets(line, sizeof line, f) != NULL) {
		if (sscanf(line, "%31s %15s %d %" SCNx64, name, recipe,
		    &weighted, &sum) != 4 || strcmp(name, model->name) != 0)
			continue;
		n++;
		p = plan(g, recipe, weighted ? m : NULL, &err);
		if (!ok(p != NULL && sum_of(p) == sum, "%s: %s%s", name, recipe,
		    weighted ? " with an importance matrix" : ""))
			printf("# %s\n", p == NULL ? err.msg : "other formats");
		qwen_quantize_free(p);
	}
	ok(n > 30, "%s: %d lines", model->name, n);
	if (f != NULL)
		fclose(f);
}

int
main(int argc, char *argv[])
{
	char folder[] = "/tmp/quantize-types.XXXXXX", path[64];
	struct qwen_imatrix *m = NULL;
	struct qwen_err err = { 0 };
	struct qwen_gguf *g;
	size_t i;

	if (argc == 3 && strcmp(argv[1], "-d") == 0)
		return write_all(argv[2]);
	if (argc >= 4 && strcmp(argv[1], "-l") == 0)
		return show(argv[2], argv[3], argc > 4 ? argv[4] : NULL);
	if (mkdtemp(folder) == NULL || write_all(folder) != 0)
		return 1;
	snprintf(path, sizeof path, "%s/imatrix.gguf", folder);
	ok(qwen_imatrix_open(&m, path, &err) == 0, "a matrix of nothing");
	unlink(path);
	for (i = 0; i < N_MODELS; i++) {
		snprintf(path, sizeof path, "%s/%s.gguf", folder,
		    models[i].name);
		if (ok(qwen_gguf_open(&g, path, &err) == 0, "%s",
		    models[i].name)) {
			check(&models[i], g, m);
			qwen_gguf_close(g);
		}
		unlink(path);
	}
	qwen_imatrix_close(m);
	rmdir(folder);
	return done_testing();
}
