/* SPDX-License-Identifier: ISC */
/* show.c - print the whole file, one line per key and tensor. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gguf-inspect.h"

/* How much of long values is shown without --full. */
enum { SHORT_ELEMS = 6, SHORT_STRING = 64, SHORT_ELEM_STRING = 24 };

static void
put_quoted(const struct qwen_str *s, size_t max)
{
	putchar('"');
	inspect_put_text(s->s, s->len, max, "\"");
	putchar('"');
}

static void
put_array(const struct qwen_gguf_kv *kv)
{
	uint64_t n = inspect_full || kv->n < SHORT_ELEMS ? kv->n : SHORT_ELEMS, i;
	struct qwen_str s;
	size_t pos = 0;

	for (i = 0; i < n; i++) {
		if (i > 0)
			putchar(' ');
		if (kv->elem != QWEN_GGUF_STRING)
			inspect_put_num(kv, i);
		else if (qwen_gguf_next_str(kv, &pos, &s))
			put_quoted(&s, inspect_full ? s.len : SHORT_ELEM_STRING);
	}
	if (n < kv->n)
		fputs(" ...", stdout);
}

static void
put_value(const struct qwen_gguf_kv *kv)
{
	struct qwen_str s;
	size_t pos = 0;

	if (kv->type == QWEN_GGUF_ARRAY)
		put_array(kv);
	else if (qwen_gguf_next_str(kv, &pos, &s))
		inspect_put_text(s.s, s.len, inspect_full ? s.len : SHORT_STRING, "");
	else
		inspect_put_num(kv, 0);
}

void
inspect_put_meta(const struct qwen_gguf_kv *kv)
{
	inspect_put_word(kv->key.s, kv->key.len);
	printf(" %s%s %" PRIu64, kv->type == QWEN_GGUF_ARRAY ? "ARRAY/" : "",
	    qwen_gguf_type_name(kv->elem), kv->n);
	if (kv->type != QWEN_GGUF_ARRAY || kv->n > 0)
		putchar(' ');
	put_value(kv);
	putchar('\n');
}

void
inspect_get(const struct qwen_gguf *g, const char *path, const char *key)
{
	const struct qwen_gguf_kv *kv = qwen_gguf_find(g, key);
	struct qwen_str arch = { "", 0 };
	char *full;
	size_t n;

	if (kv == NULL && strcmp(key, "n_vocab") == 0) {
		cli_must(path, qwen_vocab_size(g, &n, &cli_err));
		printf("%zu\n", n);
		return;
	}
	if (kv == NULL && qwen_gguf_get_str(g, "general.architecture", &arch,
	    NULL) > 0) {
		full = cli_format("%.*s.%s", (int)arch.len, arch.s, key);
		kv = qwen_gguf_find(g, full);
		free(full);
	}
	if (kv == NULL)
		die("%s: there is no key %s", path, key);
	inspect_full = 1;
	put_value(kv);
	putchar('\n');
}

void
inspect_put_shape(const struct qwen_gguf_tensor *t, int width)
{
	char buf[4 * 21 + 1];
	int n = 0;
	unsigned d;

	for (d = 0; d < t->n_dims; d++)
		n += snprintf(buf + n, sizeof buf - (size_t)n,
		    "%s%" PRIu64, d > 0 ? "x" : "", t->ne[d]);
	printf(" %-*s", width, buf);
}

uint64_t
inspect_elements(const struct qwen_gguf_tensor *t)
{
	/* the product does not overflow: checked when the file was opened */
	return t->ne[0] * t->ne[1] * t->ne[2] * t->ne[3];
}

struct sum {
	uint64_t	tensors, bytes, elements;
};

static void
add(struct sum *s, const struct sum *more)
{
	s->tensors += more->tensors;
	s->bytes += more->bytes;
	s->elements += more->elements;
}

static void
put_sum(const char *kind, const char *name, const struct sum *s,
    const char *more)
{
	if (s->tensors == 0)
		return;
	printf("%s %-13s %5" PRIu64 " %14" PRIu64 " %10.2f %14" PRIu64
	    " %8.4f%s\n", kind, name, s->tensors, s->bytes,
	    inspect_mib(s->bytes), s->elements,
	    8.0 * (double)s->bytes / (double)s->elements, more);
}

/* The same with the percentage of all bytes. */
static void
put_share(const char *kind, const char *name, const struct sum *s,
    const struct sum *all)
{
	char share[32];

	snprintf(share, sizeof share, " %6.2f", 100 * (double)s->bytes /
	    (double)all->bytes);
	put_sum(kind, name, s, share);
}

/* Print the groups, and the sum of those that form the mixture of experts. */
static void
put_groups(const struct sum group[INSPECT_N_GROUPS], const struct sum *all)
{
	struct sum moe = { 0 };
	size_t i;

	for (i = 0; i < INSPECT_N_GROUPS; i++) {
		put_share("group ", inspect_group_name[i], &group[i], all);
		if (i == INSPECT_ROUTER || i == INSPECT_EXPERTS ||
		    i == INSPECT_SHARED)
			add(&moe, &group[i]);
	}
	put_share("moe   ", "all", &moe, all);
}

static void
put_totals(const struct qwen_gguf *g)
{
	struct sum type[64] = { 0 }, group[INSPECT_N_GROUPS] = { 0 },
	    all = { 0 };
	const struct qwen_gguf_tensor *t;
	uint64_t mtp = inspect_first_mtp(g);
	size_t i;

	for (i = 0; (t = qwen_gguf_tensor(g, i)) != NULL; i++) {
		const struct sum one = { 1, t->bytes, inspect_elements(t) };

		if (t->type < 64)	/* always, for types that can be
					   opened */
			add(&type[t->type], &one);
		add(&group[inspect_group(g, t->name, mtp)], &one);
		add(&all, &one);
	}
	for (i = 0; i < 64; i++)
		put_sum("type  ", qwen_ggml_name((uint32_t)i), &type[i],
		    qwen_quant_supported((uint32_t)i) ? " yes" : " no");
	put_groups(group, &all);
	if (all.tensors > 0)
		put_share("total ", "all", &all, &all);
	else
		printf("total  all 0 0 0.00 0 0 0\n");
}

static void
put_files(const struct qwen_gguf *g)
{
	unsigned i;

	for (i = 0; i < qwen_gguf_n_shards(g); i++) {
		printf("file %u GGUFv%u %" PRIu64 " %" PRIu64 " ", i + 1,
		    qwen_gguf_version(g), qwen_gguf_file_bytes(g, i),
		    qwen_gguf_data_offset(g, i));
		inspect_put_name(qwen_gguf_path(g, i));
		putchar('\n');
	}
}

void
inspect_show(const struct qwen_gguf *g)
{
	const struct qwen_gguf_tensor *t;
	const struct qwen_gguf_kv *kv;
	uint64_t mtp = inspect_first_mtp(g);
	struct inspect_usable u = { 0 };
	struct inspect_image im;
	size_t i;
	int w;

	put_files(g);
	for (i = 0; (kv = qwen_gguf_kv(g, i)) != NULL; i++) {
		fputs("meta ", stdout);
		inspect_put_meta(kv);
		cli_check_stdout();
	}
	for (i = 0; (t = qwen_gguf_tensor(g, i)) != NULL; i++) {
		fputs("tensor ", stdout);
		inspect_put_name(t->name);
		w = 34 - (int)strlen(t->name);
		printf("%*s %-7s", w > 0 ? w : 0, "", qwen_ggml_name(t->type));
		inspect_put_shape(t, 14);
		printf(" %11" PRIu64 " %12" PRIu64 " %u %s\n", t->bytes,
		    t->offset, t->shard + 1, inspect_group_name[inspect_group(g, t->name, mtp)]);
		cli_check_stdout();
	}
	put_totals(g);
	inspect_image_open(&im, g);
	inspect_put_image(&im);
	inspect_image_fini(&im);
	inspect_check_usable(&u, g);
	inspect_put_usable(&u);
	inspect_usable_fini(&u);
}
