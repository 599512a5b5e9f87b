/* SPDX-License-Identifier: ISC */
/*
 * vision_bad.c - mmproj files that cannot be used: one line says what is wrong.
 * fuzz_mmproj has damaged ones.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gguf/gguf.h"
#include "gguf/type.h"
#include "vision/vision.h"
#include "../ref/mmproj.h"
#include "../tap.h"

static const struct mmproj good = { .n_embd = 24, .n_head = 2, .n_ff = 32,
    .n_layer = 2, .side = 3, .n_out = 20, .deep = 2, .type = QT_F16,
    .merge = 2 };

static int
open_file(struct qwen_vision **v, const char *p, size_t n,
    struct qwen_err *err)
{
	struct qwen_vision_opts o = { .n_threads = 1 };
	struct qwen_gguf *g;

	*v = NULL;
	err->msg[0] = '\0';
	return qwen_gguf_open_memory(&g, p, n, err) < 0 ? -1 :
	    qwen_vision_open_gguf(v, g, &o, err);
}

/* Expects this message. */
static void
refuse(const struct mmproj *m, int code, const char *want)
{
	struct qwen_text file = { 0 };
	struct qwen_vision *v;
	struct qwen_err err;

	mmproj_make(&file, m);
	ok(open_file(&v, file.s, file.n, &err) < 0 && err.code == code &&
	    strcmp(err.msg, want) == 0 && v == NULL, "%s", err.msg);
	qwen_vision_close(v);
	qwen_text_fini(&file);
}

static void
check_kinds(void)
{
	struct mmproj m = good;

	m.arch = "qwen3vl";
	refuse(&m, QWEN_EUNSUP, "this is a file of the architecture \"qwen3vl\", "
	    "and no encoder of images: give the mmproj file");
	m = good;
	m.is_false = 1;
	refuse(&m, QWEN_EUNSUP, "clip.has_vision_encoder is not true: not an "
	    "encoder of images");
	m = good;
	m.projector = "qwen2.5vl_merger";
	refuse(&m, QWEN_EUNSUP, "unknown projector_type \"qwen2.5vl_merger\"; "
	    "supported: qwen3vl_merger");
	m = good;
	m.merge = 4;
	refuse(&m, QWEN_EUNSUP, "clip.vision.spatial_merge_size is 4; "
	    "supported: 2");
	m = good;
	m.n_head = 5;
	refuse(&m, QWEN_EUNSUP, "24 numbers in 5 heads: the size of a head "
	    "must be a multiple of 4");
}

static void
check_tensors(void)
{
	static const char *const keys[] = { "clip.vision.image_size",
	    "clip.vision.patch_size", "clip.vision.embedding_length",
	    "clip.vision.block_count", "clip.vision.feed_forward_length",
	    "clip.vision.attention.head_count", "clip.vision.projection_dim" };
	static const char *const tensors[] = { "v.patch_embd.weight",
	    "v.patch_embd.weight.1", "v.patch_embd.bias",
	    "v.position_embd.weight", "v.blk.1.ln1.bias",
	    "v.blk.0.attn_qkv.weight", "v.blk.1.ffn_down.bias",
	    "v.deepstack.1.norm.weight", "v.deepstack.1.fc2.bias",
	    "v.post_ln.weight", "mm.0.weight", "mm.2.bias" };
	struct mmproj m = good;
	char want[160];
	size_t i;

	for (i = 0; i < sizeof keys / sizeof keys[0]; i++) {
		m.without = keys[i];
		snprintf(want, sizeof want, "key %s is missing", keys[i]);
		refuse(&m, QWEN_EFORMAT, want);
	}
	for (i = 0; i < sizeof tensors / sizeof tensors[0]; i++) {
		m.without = tensors[i];
		snprintf(want, sizeof want, "tensor %s is missing",
		    tensors[i]);
		refuse(&m, QWEN_EFORMAT, want);
	}
	m = good;
	m.narrow = "v.blk.1.ffn_up.weight";
	refuse(&m, QWEN_EFORMAT, "tensor v.blk.1.ffn_up.weight is "
	    "24x16, not 24x32");
	m = good;
	m.other = "v.blk.0.ffn_down.weight";
	refuse(&m, QWEN_EUNSUP, "tensor v.blk.0.ffn_down.weight is in Q4_0; "
	    "supported: F32, F16, BF16, Q8_0");
}

static void
check_images(void)
{
	static uint8_t rgb[96 * 64 * 3];
	static const struct qwen_vision_image bad[] = { { rgb, 96, 65 },
	    { rgb, 95, 64 }, { rgb, 32, 64 }, { rgb, 0, 64 },
	    { rgb, 32 * 4096, 32 * 17 } };
	struct qwen_text file = { 0 };
	struct qwen_vision *v;
	struct qwen_span s;
	struct qwen_err err;
	float x;
	size_t i;

	mmproj_make(&file, &good);
	if (open_file(&v, file.s, file.n, &err) < 0)
		abort();
	for (i = 0; i < sizeof bad / sizeof bad[0]; i++)
		ok(qwen_vision_span(v, &bad[i], &s, &err) < 0 &&
		    err.code == QWEN_ERANGE && qwen_vision_encode(v, &bad[i],
		    &x, NULL, NULL, &err) < 0, "%s", err.msg);
	qwen_vision_close(v);
	qwen_text_fini(&file);
}

int
main(void)
{
	check_kinds();
	check_tensors();
	check_images();
	return done_testing();
}
