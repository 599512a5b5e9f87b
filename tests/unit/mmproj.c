/* SPDX-License-Identifier: ISC */
/* mmproj.c - files of image encoders: valid ones, and those that are refused. */
#include <stdlib.h>
#include <string.h>

#include "../tap.h"
#include "base/cursor.h"
#include "base/half.h"
#include "base/text.h"
#include "gguf/gguf.h"
#include "gguf/mmproj.h"
#include "gguf/type.h"
#include "gguf/write.h"

static struct qwen_err err;

static const struct qwen_mmproj small = {
	.n_layer = 3, .n_embd = 8, .n_ff = 12, .n_head = 2, .patch = 2,
	.side = 3, .n_out = 16, .eps = 1e-6f, .mean = { 0.5f, 0.25f, 0.125f },
	.std = { 0.5f, 1, 2 }, .n_deepstack = 2, .deepstack = { 1, 0, 1 },
};

/* Makes a file of m in memory, all of its numbers 0. */
static void
make(struct qwen_text *out, const struct qwen_mmproj *m)
{
	struct qwen_gguf_writer *w;
	struct qwen_mmproj_tensor t;
	static const char zero[4096];
	uint64_t n;
	size_t i;

	memset(out, 0, sizeof *out);
	qwen_gguf_writer_new(&w, &err);
	qwen_gguf_put_str(w, "general.architecture", QWEN_MMPROJ_ARCH);
	qwen_gguf_put_str(w, "general.type", "mmproj");
	qwen_mmproj_put_keys(w, m);
	for (i = 0; qwen_mmproj_tensor(m, i, &t); i++)
		qwen_gguf_put_tensor(w, t.name, QT_F32, t.n_dims, t.ne);
	if (qwen_gguf_make_head(w, out, &err) < 0)
		printf("Bail out! %s\n", err.msg);
	for (n = qwen_gguf_writer_bytes(w) - out->n; n > 0; n -= i) {
		i = n < sizeof zero ? (size_t)n : sizeof zero;
		qwen_text_add(out, zero, i);
	}
	qwen_gguf_writer_free(w);
}

/* Returns where the text is in the file. */
static unsigned char *
at(struct qwen_text *file, const char *text)
{
	size_t n = strlen(text), i;

	for (i = 0; i + n < file->n; i++) {
		if (memcmp(file->s + i, text, n) == 0 &&
		    qwen_le64((unsigned char *)file->s + i - 8) == n)
			return (unsigned char *)file->s + i;
	}
	printf("Bail out! no %s\n", text);
	exit(1);
}

/* Sets a key of 32 bits; an element of an array of one byte each. */
static void
set(struct qwen_text *file, const char *key, uint32_t v)
{
	qwen_put_le32(at(file, key) + strlen(key) + 4, v);
}

static void
set_element(struct qwen_text *file, const char *key, size_t i, uint32_t bits)
{
	qwen_put_le32(at(file, key) + strlen(key) + 16 + 4 * i, bits);
}

/* Takes a key or tensor away by another name. */
static void
lose(struct qwen_text *file, const char *name)
{
	*at(file, name) = 'X';
}

/* Sets the number format of a tensor of n_dims dimensions. */
static void
set_type(struct qwen_text *file, const char *name, unsigned n_dims,
    uint32_t type)
{
	qwen_put_le32(at(file, name) + strlen(name) + 4 + 8 * n_dims, type);
}

/* Reads and checks the file, which ends with it: 0, or the code of the error. */
static int
check(struct qwen_text *file, struct qwen_mmproj *m)
{
	struct qwen_gguf *g;
	int rc;

	err.code = 0;
	if (qwen_gguf_open_memory(&g, file->s, file->n, &err) < 0) {
		printf("Bail out! %s\n", err.msg);
		exit(1);
	}
	rc = qwen_mmproj_read(m, g, &err) < 0 ||
	    qwen_mmproj_check(m, g, &err) < 0 ? err.code : 0;
	qwen_gguf_close(g);
	qwen_text_fini(file);
	return rc;
}

static void
refused(struct qwen_text *file, int code, const char *words)
{
	struct qwen_mmproj m;
	int rc = check(file, &m);

	ok(rc == code && strstr(err.msg, words) != NULL, "%s (%d: %s)", words,
	    rc, err.msg);
}

static void
test_good(void)
{
	struct qwen_mmproj_tensor t;
	struct qwen_text file;
	struct qwen_mmproj m;
	size_t n;

	make(&file, &small);
	ok(check(&file, &m) == 0 && memcmp(&m, &small, sizeof m) == 0,
	    "what was written is read");
	for (n = 0; qwen_mmproj_tensor(&small, n, &t); n++)
		;
	ok(n == 4 + 3 * 12 + 2 * 6 + 6, "%zu tensors", n);
	qwen_mmproj_tensor(&small, 4 + 36 + 6 + 2, &t);
	ok(strcmp(t.name, "v.deepstack.2.fc1.weight") == 0 && strcmp(t.hub,
	    "deepstack_merger_list.1.linear_fc1.weight") == 0 &&
	    t.ne[0] == 32 && t.ne[1] == 32, "deepstack mergers by layer, %s",
	    t.name);
	make(&file, &small);
	lose(&file, "clip.vision.is_deepstack_layers");
	ok(check(&file, &m) == 0 && m.n_deepstack == 0, "none without the key");
	make(&file, &small);
	lose(&file, "clip.vision.spatial_merge_size");
	ok(check(&file, &m) == 0, "merging by 2 x 2 without the key");
	make(&file, &small);
	set_type(&file, "v.blk.1.ffn_up.weight", 2, QT_BF16);
	set_type(&file, "v.patch_embd.weight.1", 4, QT_F16);
	set_type(&file, "v.blk.2.ln1.bias", 1, QT_F16);
	ok(check(&file, &m) == 0, "mixed formats");
}

static void
test_keys(void)
{
	static const char *const needed[] = { "projection_dim", "image_size",
	    "patch_size", "embedding_length", "feed_forward_length",
	    "block_count", "attention.head_count", "image_mean", "image_std",
	    "attention.layer_norm_epsilon" };
	struct qwen_text file;
	char key[64];
	size_t i;

	for (i = 0; i < sizeof needed / sizeof needed[0]; i++) {
		snprintf(key, sizeof key, "clip.vision.%s", needed[i]);
		make(&file, &small);
		lose(&file, key);
		refused(&file, QWEN_EFORMAT, "is missing");
		if (i > 6)
			continue;
		make(&file, &small);
		set(&file, key, 0);
		refused(&file, QWEN_EUNSUP, i == 1 ? "is not 1 to 1024 patches" : key);
		make(&file, &small);
		set(&file, key, UINT32_MAX);
		refused(&file, QWEN_EUNSUP, i == 1 ? "is not 1 to 1024 patches" : key);
	}
	make(&file, &small);
	lose(&file, "clip.has_vision_encoder");
	refused(&file, QWEN_EUNSUP, "not an encoder of images");
	make(&file, &small);
	at(&file, "qwen3vl_merger")[0] = 'Q';
	refused(&file, QWEN_EUNSUP, "unknown projector_type \"Qwen3vl_merger\"");
	make(&file, &small);
	set(&file, "clip.vision.spatial_merge_size", 4);
	refused(&file, QWEN_EUNSUP, "spatial_merge_size is 4; supported: 2");
	make(&file, &small);
	set(&file, "clip.vision.attention.head_count", 4);
	refused(&file, QWEN_EUNSUP, "8 numbers in 4 heads");
	make(&file, &small);
	set(&file, "clip.vision.image_size", 7);
	refused(&file, QWEN_EUNSUP, "image_size is not 1 to 1024 patches");
	make(&file, &small);
	*(at(&file, "clip.use_gelu") + strlen("clip.use_gelu") + 4) = 0;
	refused(&file, QWEN_EUNSUP, "clip.use_gelu is not true");
	make(&file, &small);
	set_element(&file, "clip.vision.image_std", 1, 0);
	refused(&file, QWEN_EFORMAT, "image_std has a number that is not "
	    "finite and above 0");
	make(&file, &small);
	set_element(&file, "clip.vision.image_mean", 2, 0x7f800000);
	refused(&file, QWEN_EFORMAT, "image_mean has a number that is not fin");
	make(&file, &small);
	set(&file, "clip.vision.attention.layer_norm_epsilon",
	    qwen_f32_bits(-1));
	refused(&file, QWEN_EFORMAT, "layer_norm_epsilon");
	make(&file, &small);
	set(&file, "clip.vision.block_count", 2);
	refused(&file, QWEN_EFORMAT, "has 3 values for 2 layers");
}

static void
test_tensors(void)
{
	struct qwen_mmproj_tensor t;
	struct qwen_text file;
	size_t i;

	for (i = 0; qwen_mmproj_tensor(&small, i, &t); i += 5) {
		make(&file, &small);
		lose(&file, t.name);
		refused(&file, QWEN_EFORMAT, "is missing");
	}
	make(&file, &small);
	set(&file, "clip.vision.feed_forward_length", 16);
	refused(&file, QWEN_EFORMAT, "tensor v.blk.0.ffn_up.weight is 8x12, not "
	    "8x16");
	make(&file, &small);
	set(&file, "clip.vision.projection_dim", 32);
	refused(&file, QWEN_EFORMAT, "v.deepstack.0.fc2.weight is 32x16, not "
	    "32x32");
	make(&file, &small);
	set_type(&file, "mm.0.weight", 2, QT_Q4_0);
	refused(&file, QWEN_EUNSUP, "mm.0.weight is in Q4_0");
}

/* The figures of the published encoders' description. */
static void
test_work(void)
{
	const struct qwen_mmproj large = { .n_layer = 27, .n_embd = 1152,
	    .n_ff = 4304, .n_head = 16, .patch = 16, .side = 48,
	    .n_out = 5120 };
	double macs = qwen_mmproj_macs(&large, 4096);

	ok(macs > 2.7e12 && macs < 2.9e12, "an image of 1024 x 1024: %.3g",
	    macs);
	macs = qwen_mmproj_macs(&large, 8160) / macs;
	ok(macs > 2.4 && macs < 2.8, "and %.3g times as much for 1920 x 1080",
	    macs);
}

int
main(void)
{
	test_good();
	test_keys();
	test_tensors();
	test_work();
	return done_testing();
}
