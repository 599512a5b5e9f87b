/* SPDX-License-Identifier: ISC */
/*
 * name.c - file names, and the hashes in them.
 *
 * Runs are HASH-END.PARENT-FROM.kv or HASH-END.PARENT-FROM.SKETCH.kv,
 * checkpoints HASH-END.cp.  To find the longest prefix of a prompt, reading one
 * folder and hashing the prompt once suffices.  The tree is known without
 * opening a file.
 */
#include <sys/types.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <xxhash.h>

#include "base/kv.h"
#include "engine/store/store.h"
#include "wire/record.h"

enum { FP_HEX = 32 };

static const char digits[] = "0123456789abcdef";

void
qwen_store_name_format(const struct qwen_store_name *n,
    char buf[QWEN_STORE_NAME])
{
	char hash[33], parent[33], sketch[QWEN_STORE_SKETCH + 2] = "";
	unsigned i;

	qwen_fp_hex(&n->hash, hash);
	if (n->kind == QWEN_STORE_CHECKPOINT) {
		snprintf(buf, QWEN_STORE_NAME, "%s-%llu.cp", hash,
		    (unsigned long long)n->end);
		return;
	}
	qwen_fp_hex(&n->parent, parent);
	if (n->n_sketch > 0) {
		sketch[0] = '.';
		for (i = 0; i < n->n_sketch; i++)
			sketch[1 + i] = digits[n->sketch[i] & 15];
		sketch[1 + i] = '\0';
	}
	snprintf(buf, QWEN_STORE_NAME, "%s-%llu.%s-%llu%s.kv", hash,
	    (unsigned long long)n->end, parent,
	    (unsigned long long)n->from, sketch);
}

/* Returns the value of a lower-case digit, or -1. */
static int
hex_digit(char c)
{
	const char *p = c != '\0' ? strchr(digits, c) : NULL;

	return p != NULL ? (int)(p - digits) : -1;
}

static int
take_fp(const char **s, struct qwen_fp *out)
{
	int i, hi, lo;

	for (i = 0; i < FP_HEX / 2; i++) {
		if ((hi = hex_digit((*s)[0])) < 0 ||
		    (lo = hex_digit((*s)[1])) < 0)
			return -1;
		out->b[i] = (unsigned char)(hi << 4 | lo);
		*s += 2;
	}
	return 0;
}

/* Reads a number of tokens: no sign, no leading zero, below 2^31. */
static int
take_number(const char **s, uint64_t *out)
{
	const char *p = *s;
	uint64_t v = 0;

	if (*p < '0' || *p > '9' || (*p == '0' && p[1] >= '0' && p[1] <= '9'))
		return -1;
	for (; *p >= '0' && *p <= '9'; p++) {
		v = v * 10 + (uint64_t)(*p - '0');
		if (v > INT32_MAX)
			return -1;
	}
	*s = p;
	*out = v;
	return 0;
}

static int
take_char(const char **s, char c)
{
	if (**s != c)
		return -1;
	++*s;
	return 0;
}

static int
take_sketch(const char **s, struct qwen_store_name *n)
{
	unsigned want = qwen_store_levels(n->end - n->from);
	int v;

	for (n->n_sketch = 0; n->n_sketch < want; n->n_sketch++, ++*s) {
		if ((v = hex_digit(**s)) < 0)
			return -1;
		n->sketch[n->n_sketch] = (unsigned char)v;
	}
	return take_char(s, '.');
}

int
qwen_store_name_parse(struct qwen_store_name *n, const char *s)
{
	memset(n, 0, sizeof *n);
	if (take_fp(&s, &n->hash) < 0 || take_char(&s, '-') < 0 ||
	    take_number(&s, &n->end) < 0 || take_char(&s, '.') < 0 ||
	    n->end == 0)
		return -1;
	if (strcmp(s, "cp") == 0) {
		n->kind = QWEN_STORE_CHECKPOINT;
		n->from = n->end;
		n->parent = n->hash;
		return 0;
	}
	n->kind = QWEN_STORE_KV;
	if (take_fp(&s, &n->parent) < 0 || take_char(&s, '-') < 0 ||
	    take_number(&s, &n->from) < 0 || take_char(&s, '.') < 0 ||
	    n->from >= n->end)
		return -1;
	if (strcmp(s, "kv") != 0 && take_sketch(&s, n) < 0)
		return -1;
	return strcmp(s, "kv") == 0 ? 0 : -1;
}

void
qwen_store_dir_format(const struct qwen_header *h,
    char buf[QWEN_STORE_DIR_NAME])
{
	int f16 = h->k == QWEN_KV_F16 && h->v == QWEN_KV_F16;
	char model[33], vocab[33], kv[32] = "", rope[QWEN_ROPE_TEXT];

	if (!f16)
		snprintf(kv, sizeof kv, "-%s-%s", qwen_kv_name(h->k),
		    qwen_kv_name(h->v));
	qwen_rope_text(&h->rope, rope);
	snprintf(buf, QWEN_STORE_DIR_NAME, "%s-%s-%lu%s%s%s",
	    qwen_fp_hex(&h->model, model), qwen_fp_hex(&h->vocab, vocab),
	    (unsigned long)h->numerics, kv, *rope != '\0' ? "-" : "", rope);
}

/* Reads a KV type: "-q8_0". */
static int
take_kv(const char **s, enum qwen_kv *out)
{
	size_t n;

	if (take_char(s, '-') < 0)
		return -1;
	n = strcspn(*s, "-");
	if (qwen_kv_parse(out, *s, n) < 0)
		return -1;
	*s += n;
	return 0;
}

int
qwen_store_dir_parse(struct qwen_header *h, const char *s)
{
	const char *name = s, *kv;
	char same[QWEN_STORE_DIR_NAME];
	uint64_t numerics;

	memset(h, 0, sizeof *h);
	h->kind = QWEN_STREAM_STATE;
	if (take_fp(&s, &h->model) < 0 || take_char(&s, '-') < 0 ||
	    take_fp(&s, &h->vocab) < 0 || take_char(&s, '-') < 0 ||
	    take_number(&s, &numerics) < 0)
		return -1;
	kv = s;
	if (take_kv(&kv, &h->k) == 0 && take_kv(&kv, &h->v) == 0)
		s = kv;
	if (*s == '-' && qwen_rope_parse(&h->rope, s + 1) < 0)
		return -1;
	h->numerics = (uint32_t)numerics;
	qwen_store_dir_format(h, same);
	return strcmp(same, name) == 0 ? 0 : -1;
}

/*
 * Hashes everything that distinguishes processes, since processes on many
 * machines may share a folder.
 */
void
qwen_store_unique(char buf[QWEN_STORE_UNIQUE])
{
	static unsigned count;
	struct {
		char		 host[64];
		struct timespec	 now;
		long		 pid;
		unsigned	 count;
		const void	*stack;
	} id;

	memset(&id, 0, sizeof id);
	gethostname(id.host, sizeof id.host - 1);
	clock_gettime(CLOCK_REALTIME, &id.now);
	id.pid = (long)getpid();
	id.count = __atomic_add_fetch(&count, 1, __ATOMIC_RELAXED);
	id.stack = &id;
	snprintf(buf, QWEN_STORE_UNIQUE, "%016llx",
	    (unsigned long long)XXH3_64bits(&id, sizeof id));
}

int
qwen_store_hash(const int32_t *tokens, const uint64_t *at, size_t n,
    struct qwen_fp *out)
{
	XXH3_state_t *x = qwen_fp_start();
	uint64_t done = 0;
	size_t i;

	if (x == NULL)
		return -1;
	for (i = 0; i < n; done = at[i++]) {
		XXH3_128bits_update(x, tokens + done,
		    (size_t)(at[i] - done) * sizeof *tokens);
		qwen_fp_get(x, &out[i]);
	}
	XXH3_freeState(x);
	return 0;
}

unsigned char
qwen_store_sketch(const struct qwen_fp *hash)
{
	return hash->b[15] & 15;
}

unsigned
qwen_store_levels(uint64_t n)
{
	unsigned k;

	for (k = 0; k < QWEN_STORE_SKETCH && (uint64_t)1 << k <= n; k++)
		;
	return k;
}

int
qwen_store_by_position(const void *a, const void *b)
{
	uint64_t p = *(const uint64_t *)a, q = *(const uint64_t *)b;

	return (p > q) - (p < q);
}

size_t
qwen_store_positions(uint64_t *at, size_t n)
{
	size_t i, out = 0;

	if (n > 0)
		qsort(at, n, sizeof *at, qwen_store_by_position);
	for (i = 0; i < n; i++) {
		if (i == 0 || at[i] != at[i - 1])
			at[out++] = at[i];
	}
	return out;
}
