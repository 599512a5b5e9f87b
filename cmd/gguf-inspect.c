/* SPDX-License-Identifier: ISC */
/* gguf-inspect.c - show, check and compare GGUF files; only ever reads. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "qwen.h"
#include "qwentext.h"

enum { JSON = 1, CHECK = 2, DIFF = 4 };

static struct {
	unsigned	 mode;
	int		 full;
	const char	*tensor, *model;
} opt;

static const struct cli_opt options[] = {
	CLI_GROUP("options:"),
	CLI_OPT_MODEL(&opt.model),
	CLI_FLAG(0, "full", &opt.full, "long strings and arrays whole"),
	CLI_SET(0, "json", &opt.mode, JSON, "print JSON, always whole"),
	CLI_SET(0, "check", &opt.mode, CHECK,
	    "check the file, and say what is wrong with it"),
	CLI_SET(0, "diff", &opt.mode, DIFF,
	    "show in what two files differ"),
	CLI_FILE(0, "values", "tensor", &opt.tensor, "tensors",
	    "print the numbers of a tensor, a row a line"),
	CLI_END,
};

static const struct cli_tool tool = {
	.name = "gguf-inspect", .about = "show, check and compare GGUF files",
	.usage = "[options] [file]\n--values tensor [-m model] [file]\n"
	    "--diff [--full] file1 file2",
	.options = options, .max = 2, .completes = "file gguf",
};

/* What is shown of long values without --full. */
enum { SHORT_ELEMS = 6, SHORT_STRING = 64, SHORT_ELEM_STRING = 24 };

/* ------------------------------------------------------ text of strings */

/* Length of the character at s, of n bytes, and its code; 0: it is none. */
static size_t
character(const char *s, size_t n, uint32_t *c)
{
	int len = qwen_utf8_read((const unsigned char *)s, n, c);

	return len > 0 ? (size_t)len : 0;
}

/* Characters that steer a terminal, or hide or reorder what is next to them. */
static int
steers(uint32_t c)
{
	return c < 0x20 || (c >= 0x7f && c < 0xa0) || c == 0xad ||
	    c == 0x61c || (c >= 0x200b && c <= 0x200f) ||
	    (c >= 0x2028 && c <= 0x202e) || (c >= 0x2060 && c <= 0x206f) ||
	    c == 0xfeff || (c >= 0xe0000 && c <= 0xe0fff);
}

/*
 * Print at most max bytes of a string with whatever does not print, the
 * backslash, and the bytes in also, as \n, \t, \r, \\, \" or \xHH.
 */
static void
put_text(const char *s, size_t n, size_t max, const char *also)
{
	size_t i, len, k;
	uint32_t c;

	for (i = 0; i < n && i < max; i += len) {
		len = character(s + i, n - i, &c);
		if (len == 0 || steers(c) || c == '\\' ||
		    (c < 0x80 && strchr(also, (int)c) != NULL)) {
			len = len == 0 ? 1 : len;
			if (s[i] != '\0' && strchr("\n\t\r\\\"", s[i])) {
				printf("\\%c", s[i] == '\n' ? 'n' :
				    s[i] == '\t' ? 't' :
				    s[i] == '\r' ? 'r' : s[i]);
				continue;
			}
			for (k = 0; k < len; k++)
				printf("\\x%02x", (unsigned char)s[i + k]);
		} else {
			fwrite(s + i, 1, len, stdout);
		}
	}
	if (i < n)
		fputs("...", stdout);
}

/* A name or key as one word. */
static void
put_word(const char *s, size_t n)
{
	put_text(s, n, n, " ");
}

static void
put_name(const char *s)
{
	put_word(s, strlen(s));
}

/* ------------------------------------------------------------- numbers */

/* A scalar or element i of an array of numbers. */
struct num {
	enum { UNSIGNED, SIGNED, REAL } kind;
	uint64_t	u;
	int64_t		i;
	double		d;
	int		single;		/* d came from 32 bits */
};

static uint64_t
load_le(const unsigned char *p, size_t n)
{
	uint64_t v = 0;

	while (n-- > 0)
		v = v << 8 | p[n];
	return v;
}

static struct num
load_num(const struct qwen_gguf_kv *kv, uint64_t i)
{
	size_t size = qwen_gguf_type_bytes(kv->elem);
	uint64_t v = load_le(kv->data + i * size, size);
	struct num x = { .kind = UNSIGNED, .u = v };
	uint32_t v32 = (uint32_t)v;
	float f;

	switch (kv->elem) {
	case QWEN_GGUF_INT8:
	case QWEN_GGUF_INT16:
	case QWEN_GGUF_INT32:
	case QWEN_GGUF_INT64:
		x.kind = SIGNED;
		if (size < 8 && v >> (8 * size - 1) != 0)
			v |= UINT64_MAX << (8 * size);
		x.i = (int64_t)v;
		break;
	case QWEN_GGUF_FLOAT32:
		x.kind = REAL;
		x.single = 1;
		memcpy(&f, &v32, sizeof f);
		x.d = (double)f;
		break;
	case QWEN_GGUF_FLOAT64:
		x.kind = REAL;
		memcpy(&x.d, &v, sizeof x.d);
		break;
	default:
		break;
	}
	return x;
}

/* The fewest digits that read back as the same number. */
static void
format_real(char *buf, size_t size, double d, int single)
{
	int digits;

	for (digits = single ? 6 : 15; digits <= 17; digits++) {
		snprintf(buf, size, "%.*g", digits, d);
		if (single ? strtof(buf, NULL) == (float)d :
		    strtod(buf, NULL) == d)
			break;
	}
}

static void
put_num(const struct num *x)
{
	char buf[40];

	if (x->kind == UNSIGNED) {
		printf("%" PRIu64, x->u);
	} else if (x->kind == SIGNED) {
		printf("%" PRId64, x->i);
	} else if (!isfinite(x->d)) {
		fputs(isnan(x->d) ? "nan" : x->d < 0 ? "-inf" : "inf", stdout);
	} else {
		format_real(buf, sizeof buf, x->d, x->single);
		fputs(buf, stdout);
	}
}

/* -------------------------------------------------------- metadata as text */

static void
put_quoted(const struct qwen_str *s, size_t max)
{
	putchar('"');
	put_text(s->s, s->len, max, "\"");
	putchar('"');
}

static void
put_elem(const struct qwen_gguf_kv *kv, uint64_t i)
{
	struct num x = load_num(kv, i);

	if (kv->elem == QWEN_GGUF_BOOL)
		fputs(x.u ? "true" : "false", stdout);
	else
		put_num(&x);
}

static void
put_array(const struct qwen_gguf_kv *kv)
{
	uint64_t n = opt.full || kv->n < SHORT_ELEMS ? kv->n : SHORT_ELEMS, i;
	struct qwen_str s;
	size_t pos = 0;

	for (i = 0; i < n; i++) {
		putchar(' ');
		if (kv->elem != QWEN_GGUF_STRING)
			put_elem(kv, i);
		else if (qwen_gguf_next_str(kv, &pos, &s))
			put_quoted(&s, opt.full ? s.len : SHORT_ELEM_STRING);
	}
	if (n < kv->n)
		fputs(" ...", stdout);
}

/* "key TYPE COUNT VALUE..." */
static void
put_meta(const struct qwen_gguf_kv *kv)
{
	struct qwen_str s;
	size_t pos = 0;

	put_word(kv->key.s, kv->key.len);
	printf(" %s%s %" PRIu64, kv->type == QWEN_GGUF_ARRAY ? "ARRAY/" : "",
	    qwen_gguf_type_name(kv->elem), kv->n);
	if (kv->type == QWEN_GGUF_ARRAY) {
		put_array(kv);
	} else if (qwen_gguf_next_str(kv, &pos, &s)) {
		putchar(' ');
		put_text(s.s, s.len, opt.full ? s.len : SHORT_STRING, "");
	} else {
		putchar(' ');
		put_elem(kv, 0);
	}
	putchar('\n');
}

/* --------------------------------------------------------- tensors as text */

static void
put_shape(const struct qwen_gguf_tensor *t, int width)
{
	char buf[4 * 21 + 1];
	int n = 0;
	unsigned d;

	for (d = 0; d < t->n_dims; d++)
		n += snprintf(buf + n, sizeof buf - (size_t)n,
		    "%s%" PRIu64, d > 0 ? "x" : "", t->ne[d]);
	printf(" %-*s", width, buf);
}

static uint64_t
elements(const struct qwen_gguf_tensor *t)
{
	return t->ne[0] * t->ne[1] * t->ne[2] * t->ne[3];	/* open checked */
}

static double
mib(uint64_t bytes)
{
	return (double)bytes / (1 << 20);
}

static const char *const groups[] = {
	"embedding", "output", "attention", "deltanet", "router", "experts",
	"shared-expert", "ffn", "norm", "mtp", "other",
};
enum {
	G_EMBEDDING, G_OUTPUT, G_ATTENTION, G_DELTANET, G_ROUTER, G_EXPERTS,
	G_SHARED, G_FFN, G_NORM, G_MTP, G_OTHER, N_GROUPS
};

/* The first block of the MTP part, or one beyond any. */
static uint64_t
first_mtp(const struct qwen_gguf *g)
{
	uint64_t blocks = 0, nextn = 0;
	struct qwen_str arch;
	char key[128];

	if (qwen_gguf_get_str(g, "general.architecture", &arch, NULL) != 1 ||
	    arch.len > 64)
		return UINT64_MAX;
	snprintf(key, sizeof key, "%.*s.block_count", (int)arch.len, arch.s);
	if (qwen_gguf_get_u64(g, key, 0, &blocks, NULL) != 1)
		return UINT64_MAX;
	snprintf(key, sizeof key, "%.*s.nextn_predict_layers", (int)arch.len,
	    arch.s);
	if (qwen_gguf_get_u64(g, key, 0, &nextn, NULL) != 1 || nextn == 0 ||
	    nextn > blocks)
		return UINT64_MAX;
	return blocks - nextn;
}

static int
starts(const char *s, const char *with)
{
	return strncmp(s, with, strlen(with)) == 0;
}

/* attn_qkv is DeltaNet's, unless the block has no recurrence. */
static int
recurrent(const struct qwen_gguf *g, uint64_t block)
{
	char name[64];

	snprintf(name, sizeof name, "blk.%" PRIu64 ".ssm_a", block);
	return qwen_gguf_find_tensor(g, name) != NULL;
}

static int
group_in_block(const struct qwen_gguf *g, uint64_t block, const char *part)
{
	static const struct { const char *start; int group; } by[] = {
		{ "ssm_", G_DELTANET }, { "attn_norm", G_NORM },
		{ "attn_q_norm", G_NORM }, { "attn_k_norm", G_NORM },
		{ "post_attention_norm", G_NORM }, { "ffn_norm", G_NORM },
		{ "attn_", G_ATTENTION }, { "nextn.", G_MTP },
		{ "ffn_gate_inp_shexp", G_SHARED },
		{ "ffn_gate_inp", G_ROUTER },
	};
	size_t i;

	if (starts(part, "attn_qkv") || starts(part, "attn_gate"))
		return recurrent(g, block) ? G_DELTANET : G_ATTENTION;
	for (i = 0; i < sizeof by / sizeof by[0]; i++) {
		if (starts(part, by[i].start))
			return by[i].group;
	}
	if (!starts(part, "ffn_"))
		return G_OTHER;
	return strstr(part, "_shexp") != NULL ? G_SHARED :
	    strstr(part, "_exps") != NULL ? G_EXPERTS : G_FFN;
}

static int
group_of(const struct qwen_gguf *g, const char *name, uint64_t mtp)
{
	unsigned long long block;
	char *end;

	if (starts(name, "token_embd"))
		return starts(name, "token_embd_norm") ? G_NORM : G_EMBEDDING;
	if (starts(name, "output_norm"))
		return G_NORM;
	if (starts(name, "output"))
		return G_OUTPUT;
	if (!starts(name, "blk.") || name[4] < '0' || name[4] > '9')
		return G_OTHER;
	block = strtoull(name + 4, &end, 10);
	if (*end != '.')
		return G_OTHER;
	return block >= mtp ? G_MTP : group_in_block(g, block, end + 1);
}

struct sum {
	uint64_t	tensors, bytes, elements;
};

static void
add(struct sum *s, const struct qwen_gguf_tensor *t)
{
	s->tensors++;
	s->bytes += t->bytes;
	s->elements += elements(t);
}

static void
put_sum(const char *kind, const char *name, const struct sum *s)
{
	if (s->tensors == 0)
		return;
	printf("%s %-13s %5" PRIu64 " %14" PRIu64 " %10.2f %14" PRIu64
	    " %8.4f\n", kind, name, s->tensors, s->bytes, mib(s->bytes),
	    s->elements, 8.0 * (double)s->bytes / (double)s->elements);
}

static void
put_totals(const struct qwen_gguf *g)
{
	struct sum type[64] = { 0 }, group[N_GROUPS] = { 0 }, all = { 0 };
	const struct qwen_gguf_tensor *t;
	uint64_t mtp = first_mtp(g);
	size_t i;

	for (i = 0; (t = qwen_gguf_tensor(g, i)) != NULL; i++) {
		if (t->type < 64)	/* all that open knows are */
			add(&type[t->type], t);
		add(&group[group_of(g, t->name, mtp)], t);
		add(&all, t);
	}
	for (i = 0; i < 64; i++)
		put_sum("type  ", qwen_ggml_name((uint32_t)i), &type[i]);
	for (i = 0; i < N_GROUPS; i++)
		put_sum("group ", groups[i], &group[i]);
	if (all.tensors > 0)
		put_sum("total ", "all", &all);
	else
		printf("total  all 0 0 0.00 0 0\n");
}

static void
put_files(const struct qwen_gguf *g)
{
	unsigned i;

	for (i = 0; i < qwen_gguf_n_shards(g); i++) {
		printf("file %u GGUFv%u %" PRIu64 " %" PRIu64 " ", i + 1,
		    qwen_gguf_version(g), qwen_gguf_file_bytes(g, i),
		    qwen_gguf_data_offset(g, i));
		put_name(qwen_gguf_path(g, i));
		putchar('\n');
	}
}

static void
show_text(const struct qwen_gguf *g)
{
	const struct qwen_gguf_tensor *t;
	const struct qwen_gguf_kv *kv;
	uint64_t mtp = first_mtp(g);
	size_t i;
	int w;

	put_files(g);
	for (i = 0; (kv = qwen_gguf_kv(g, i)) != NULL; i++) {
		fputs("meta ", stdout);
		put_meta(kv);
	}
	for (i = 0; (t = qwen_gguf_tensor(g, i)) != NULL; i++) {
		fputs("tensor ", stdout);
		put_name(t->name);
		w = 34 - (int)strlen(t->name);
		printf("%*s %-7s", w > 0 ? w : 0, "", qwen_ggml_name(t->type));
		put_shape(t, 14);
		printf(" %11" PRIu64 " %12" PRIu64 " %u %s\n", t->bytes,
		    t->offset, t->shard + 1, groups[group_of(g, t->name, mtp)]);
	}
	put_totals(g);
}

/* -------------------------------------------------------------------- JSON */

/* Bytes that are no UTF-8 become U+FFFD: JSON has no other way to say them. */
static void
json_str(const char *s, size_t n)
{
	size_t i, len;
	uint32_t c;

	putchar('"');
	for (i = 0; i < n; i += len) {
		len = character(s + i, n - i, &c);
		if (len == 0) {
			fputs("\\ufffd", stdout);
			len = 1;
		} else if (c == '"' || c == '\\') {
			printf("\\%c", (int)c);
		} else if (c == '\n') {
			fputs("\\n", stdout);
		} else if (steers(c) && c > 0xffff) {
			printf("\\u%04x\\u%04x",
			    (unsigned)(0xd7c0 + (c >> 10)),
			    (unsigned)(0xdc00 + (c & 0x3ff)));
		} else if (steers(c)) {
			printf("\\u%04x", (unsigned)c);
		} else {
			fwrite(s + i, 1, len, stdout);
		}
	}
	putchar('"');
}

/* Exact: integers with all digits, f32 as the double that it is. */
static void
json_num(const struct qwen_gguf_kv *kv, uint64_t i)
{
	struct num x = load_num(kv, i);
	char buf[40];

	if (kv->elem == QWEN_GGUF_BOOL) {
		fputs(x.u ? "true" : "false", stdout);
	} else if (x.kind == REAL && !isfinite(x.d)) {
		fputs("null", stdout);
	} else if (x.kind == REAL) {
		format_real(buf, sizeof buf, x.d, 0);
		fputs(buf, stdout);
		if (strpbrk(buf, ".e") == NULL)
			fputs(".0", stdout);	/* stays a float */
	} else {
		put_num(&x);
	}
}

static void
json_value(const struct qwen_gguf_kv *kv)
{
	struct qwen_str s;
	size_t pos = 0;
	uint64_t i;

	if (kv->type == QWEN_GGUF_ARRAY)
		putchar('[');
	for (i = 0; i < kv->n; i++) {
		if (i > 0)
			fputs(", ", stdout);
		if (qwen_gguf_next_str(kv, &pos, &s))
			json_str(s.s, s.len);
		else
			json_num(kv, i);
	}
	if (kv->type == QWEN_GGUF_ARRAY)
		putchar(']');
}

static void
json_tensor(const struct qwen_gguf_tensor *t)
{
	unsigned d;

	fputs("{\"name\": ", stdout);
	json_str(t->name, strlen(t->name));
	printf(", \"type\": \"%s\", \"shape\": [", qwen_ggml_name(t->type));
	for (d = 0; d < t->n_dims; d++)
		printf("%s%" PRIu64, d > 0 ? ", " : "", t->ne[d]);
	printf("], \"bytes\": %" PRIu64 ", \"offset\": %" PRIu64 "}",
	    t->bytes, t->offset);
}

static void
show_json(const struct qwen_gguf *g)
{
	const struct qwen_gguf_tensor *t;
	const struct qwen_gguf_kv *kv;
	size_t i;

	fputs("{\"metadata\": {", stdout);
	for (i = 0; (kv = qwen_gguf_kv(g, i)) != NULL; i++) {
		fputs(i > 0 ? ",\n  " : "\n  ", stdout);
		json_str(kv->key.s, kv->key.len);
		fputs(": ", stdout);
		json_value(kv);
	}
	fputs("\n},\n\"tensors\": [", stdout);
	for (i = 0; (t = qwen_gguf_tensor(g, i)) != NULL; i++) {
		fputs(i > 0 ? ",\n  " : "\n  ", stdout);
		json_tensor(t);
	}
	fputs("\n]}\n", stdout);
}

/* ------------------------------------------------------------------ values */

static void
put_row(const float *v, size_t n)
{
	struct num x = { .kind = REAL, .single = 1 };
	size_t i;

	for (i = 0; i < n; i++) {
		x.d = (double)v[i];
		if (i > 0)
			putchar(' ');
		put_num(&x);
	}
	putchar('\n');
}

static void
show_values(const struct qwen_gguf *g, const char *path, const char *name)
{
	const struct qwen_gguf_tensor *t = qwen_gguf_find_tensor(g, name);
	const unsigned char *p;
	struct qwen_err err;
	uint64_t rows, i;
	size_t n, stride;
	float *row;

	if (t == NULL)
		die("%s: no tensor %s", path, name);
	n = (size_t)t->ne[0];
	rows = elements(t) / n;
	stride = (size_t)(t->bytes / rows);
	if (n > SIZE_MAX / sizeof *row || (row = malloc(n * sizeof *row)) == NULL)
		die("%s: out of memory for a row of %s", path, name);
	for (i = 0, p = t->data; i < rows; i++, p += stride) {
		if (qwen_quant_dequantize(t->type, p, row, n, &err) < 0) {
			free(row);
			die("%s: tensor %s: %s", path, name, err.msg);
		}
		put_row(row, n);
		if (ferror(stdout))
			break;
	}
	free(row);
}

/* ------------------------------------------------------------------- check */

struct checking {
	const char	*path;
	uint64_t	 done;
};

static void
problem(void *arg, const char *msg)
{
	const struct checking *c = arg;

	warn("%s: %s", c->path, msg);
}

static void
progress(void *arg, uint64_t bytes)
{
	struct checking *c = arg;

	c->done += bytes;
	cli_progress(c->done >> 20);
}

static void
check(const struct qwen_gguf *g, const char *path)
{
	struct checking c = { path, 0 };
	const struct qwen_gguf_checker checker = { problem, progress, &c };
	const struct qwen_gguf_tensor *t;
	uint64_t bytes = 0;
	size_t i;

	for (i = 0; (t = qwen_gguf_tensor(g, i)) != NULL; i++)
		bytes += t->bytes;
	cli_progress_start("MiB", bytes >> 20);
	if (qwen_gguf_check(g, &checker) == 0 && cli_verbose)
		cli_note("%s: good: %zu keys, %zu tensors, %.2f MiB", path,
		    qwen_gguf_n_kv(g), i, mib(bytes));
	cli_progress_end();
}

/* -------------------------------------------------------------------- diff */

static int
same_kv(const struct qwen_gguf_kv *a, const struct qwen_gguf_kv *b)
{
	return a->type == b->type && a->elem == b->elem && a->n == b->n &&
	    a->bytes == b->bytes && memcmp(a->data, b->data, a->bytes) == 0;
}

/* Key lookup by a name that is not terminated. */
static const struct qwen_gguf_kv *
find_kv(const struct qwen_gguf *g, const struct qwen_str *key)
{
	const struct qwen_gguf_kv *kv = NULL;
	char *s;

	if (memchr(key->s, '\0', key->len) != NULL)
		return NULL;
	if ((s = malloc(key->len + 1)) == NULL)
		die("out of memory");
	memcpy(s, key->s, key->len);
	s[key->len] = '\0';
	kv = qwen_gguf_find(g, s);
	free(s);
	return kv;
}

/* Where two arrays of one type part, since what is shown may look alike. */
static void
put_first_change(const struct qwen_gguf_kv *a, const struct qwen_gguf_kv *b)
{
	size_t size = qwen_gguf_type_bytes(a->elem), pa = 0, pb = 0;
	struct qwen_str x, y;
	uint64_t i, n = a->n < b->n ? a->n : b->n;

	if (a->type != QWEN_GGUF_ARRAY || a->type != b->type ||
	    a->elem != b->elem)
		return;
	for (i = 0; i < n; i++) {
		if (size != 0) {
			if (memcmp(a->data + i * size, b->data + i * size,
			    size) != 0)
				break;
		} else if (!qwen_gguf_next_str(a, &pa, &x) ||
		    !qwen_gguf_next_str(b, &pb, &y) || x.len != y.len ||
		    memcmp(x.s, y.s, x.len) != 0) {
			break;
		}
	}
	fputs("! meta ", stdout);
	put_word(a->key.s, a->key.len);
	printf(" first differs at element %" PRIu64 "\n", i);
}

static int
diff_meta(const struct qwen_gguf *a, const struct qwen_gguf *b)
{
	const struct qwen_gguf_kv *x, *y;
	int differ = 0;
	size_t i;

	for (i = 0; (x = qwen_gguf_kv(a, i)) != NULL; i++) {
		y = find_kv(b, &x->key);
		if (y != NULL && same_kv(x, y))
			continue;
		differ = 1;
		fputs("- meta ", stdout);
		put_meta(x);
		if (y != NULL) {
			fputs("+ meta ", stdout);
			put_meta(y);
			put_first_change(x, y);
		}
	}
	for (i = 0; (y = qwen_gguf_kv(b, i)) != NULL; i++) {
		if (find_kv(a, &y->key) == NULL) {
			differ = 1;
			fputs("+ meta ", stdout);
			put_meta(y);
		}
	}
	return differ;
}

static void
put_tensor(const char *mark, const struct qwen_gguf_tensor *t)
{
	printf("%s tensor ", mark);
	put_name(t->name);
	printf(" %s", qwen_ggml_name(t->type));
	put_shape(t, 0);
	printf(" %" PRIu64 "\n", t->bytes);
}

/* The first of n bytes that differs; n if none does. */
static uint64_t
first_change(const unsigned char *p, const unsigned char *q, uint64_t n)
{
	uint64_t i = 0, step = 1 << 16;

	while (n - i > step && memcmp(p + i, q + i, step) == 0)
		i += step;
	while (i < n && p[i] == q[i])
		i++;
	return i;
}

/* "! data NAME FIRST COUNT": the first byte that differs, and how many do. */
static int
diff_data(const struct qwen_gguf_tensor *x, const struct qwen_gguf_tensor *y)
{
	const unsigned char *p = x->data, *q = y->data;
	uint64_t first = first_change(p, q, x->bytes), count = 0, i;

	if (first == x->bytes)
		return 0;
	for (i = first; i < x->bytes; i++)
		count += p[i] != q[i];
	fputs("! data ", stdout);
	put_name(x->name);
	printf(" %" PRIu64 " %" PRIu64 "\n", first, count);
	return 1;
}

static int
diff_tensor(const struct qwen_gguf_tensor *x, const struct qwen_gguf_tensor *y)
{
	if (y != NULL && x->type == y->type && x->n_dims == y->n_dims &&
	    memcmp(x->ne, y->ne, sizeof x->ne) == 0)
		return diff_data(x, y);
	put_tensor("-", x);
	if (y != NULL)
		put_tensor("+", y);
	return 1;
}

static int
diff_tensors(const struct qwen_gguf *a, const struct qwen_gguf *b)
{
	const struct qwen_gguf_tensor *x, *y;
	uint64_t bytes = 0;
	int differ = 0;
	size_t i;

	for (i = 0; (x = qwen_gguf_tensor(a, i)) != NULL; i++)
		bytes += x->bytes;
	cli_progress_start("MiB", bytes >> 20);
	for (bytes = i = 0; (x = qwen_gguf_tensor(a, i)) != NULL; i++) {
		y = qwen_gguf_find_tensor(b, x->name);
		differ |= diff_tensor(x, y);
		bytes += x->bytes;
		cli_progress(bytes >> 20);
	}
	for (i = 0; (y = qwen_gguf_tensor(b, i)) != NULL; i++) {
		if (qwen_gguf_find_tensor(a, y->name) == NULL) {
			differ = 1;
			put_tensor("+", y);
		}
	}
	cli_progress_end();
	return differ;
}

/* -------------------------------------------------------------------- main */

static struct qwen_gguf *
open_gguf(const char *path)
{
	struct qwen_gguf *g;
	struct qwen_err err;

	if (qwen_gguf_open(&g, path, &err) < 0)
		cli_die_err(path, &err);
	return g;
}

static int
diff(const char *path_a, const char *path_b)
{
	struct qwen_gguf *a = open_gguf(path_a), *b = open_gguf(path_b);
	int differ = diff_meta(a, b) | diff_tensors(a, b);
	int status;

	qwen_gguf_close(a);
	qwen_gguf_close(b);
	status = cli_finish();
	return differ ? 1 : status;
}

static void
check_options(void)
{
	if ((opt.mode & (opt.mode - 1)) != 0 ||
	    (opt.mode != 0 && opt.tensor != NULL))
		cli_usage("--json, --check, --diff and --values exclude each "
		    "other");
	if (opt.full && (opt.mode == CHECK || opt.tensor != NULL))
		cli_usage("--full says nothing with --check and --values");
}

int
main(int argc, char *argv[])
{
	int n = cli_begin(&tool, argc, argv);
	struct qwen_gguf *g;
	const char *path;

	check_options();
	if (opt.mode == DIFF) {
		if (n != 2 || opt.model != NULL)
			cli_usage("--diff takes two files");
		return diff(argv[1], argv[2]);
	}
	if (n > 0 && opt.model != NULL)
		cli_usage("-m and a file exclude each other");
	if (n > 1)
		cli_usage("unexpected argument: %s", argv[2]);
	path = n > 0 ? argv[1] : cli_model_path(opt.model);
	g = open_gguf(path);
	if (opt.mode == JSON)
		show_json(g);
	else if (opt.mode == CHECK)
		check(g, path);
	else if (opt.tensor != NULL)
		show_values(g, path, opt.tensor);
	else
		show_text(g);
	qwen_gguf_close(g);
	return cli_finish();
}
