/* SPDX-License-Identifier: ISC */
/* mmproj.c - image encoder files: their keys and tensors. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/text.h"
#include "gguf/adapter.h"
#include "gguf/mmproj.h"
#include "gguf/type.h"
#include "gguf/write.h"

/* ---------------------------------------------------------------- tensors */

/* Sizes of tensors, in the encoder's terms. */
enum dim { NONE, EMBD, QKV, FF, JOINED, OUT };

/*
 * A weight and a bias: a matrix of rows of `in' numbers, or without `in' a
 * norm.
 */
struct module {
	const char	*name, *hub;	/* with the number of a layer */
	enum dim	 in, out;
};

static const struct module block[] = {
	{ "v.blk.%u.ln1", "blocks.%u.norm1", NONE, EMBD },
	{ "v.blk.%u.attn_qkv", "blocks.%u.attn.qkv", EMBD, QKV },
	{ "v.blk.%u.attn_out", "blocks.%u.attn.proj", EMBD, EMBD },
	{ "v.blk.%u.ln2", "blocks.%u.norm2", NONE, EMBD },
	{ "v.blk.%u.ffn_up", "blocks.%u.mlp.linear_fc1", EMBD, FF },
	{ "v.blk.%u.ffn_down", "blocks.%u.mlp.linear_fc2", FF, EMBD },
};

/* In GGUF by layer, in folders by place in the list of these layers. */
static const struct module deepstack[] = {
	{ "v.deepstack.%u.norm", "deepstack_merger_list.%u.norm", NONE,
	    JOINED },
	{ "v.deepstack.%u.fc1", "deepstack_merger_list.%u.linear_fc1", JOINED,
	    JOINED },
	{ "v.deepstack.%u.fc2", "deepstack_merger_list.%u.linear_fc2", JOINED,
	    OUT },
};

static const struct module merger[] = {
	{ "v.post_ln", "merger.norm", NONE, EMBD },
	{ "mm.0", "merger.linear_fc1", JOINED, JOINED },
	{ "mm.2", "merger.linear_fc2", JOINED, OUT },
};

#define N_ROWS(table) (2 * sizeof (table) / sizeof (table)[0])
enum {
	N_FIRST = 4,		/* tensors before the layers */
	SIDE_MAX = 1024,	/* learned positions in each direction */
};

static uint64_t
size_of(const struct qwen_mmproj *m, enum dim d)
{
	switch (d) {
	case EMBD: return m->n_embd;
	case QKV: return 3 * (uint64_t)m->n_embd;
	case FF: return m->n_ff;
	case JOINED: return QWEN_MMPROJ_JOINED * (uint64_t)m->n_embd;
	case OUT: return m->n_out;
	default: return 0;
	}
}

static void
set_name(char *to, size_t size, const char *form, uint32_t no,
    const char *ending)
{
	const char *at = strstr(form, "%u");

	if (at == NULL)
		snprintf(to, size, "%s.%s", form, ending);
	else
		snprintf(to, size, "%.*s%u%s.%s", (int)(at - form), form, no,
		    at + 2, ending);
}

/* Sets *out to the weight or the bias of a module: of layer `no' in GGUF. */
static void
of_module(const struct qwen_mmproj *m, const struct module *v, int bias,
    uint32_t no, uint32_t hub_no, struct qwen_mmproj_tensor *out)
{
	const char *ending = bias ? "bias" : "weight";
	int matrix = v->in != NONE && !bias;

	set_name(out->name, sizeof out->name, v->name, no, ending);
	set_name(out->hub, sizeof out->hub, v->hub, hub_no, ending);
	out->kind = matrix ? QWEN_MMPROJ_MATRIX : bias ? QWEN_MMPROJ_BIAS :
	    QWEN_MMPROJ_NORM;
	out->n_dims = matrix ? 2 : 1;
	out->ne[0] = size_of(m, matrix ? v->in : v->out);
	out->ne[1] = matrix ? size_of(m, v->out) : 1;
}

/* Sets *out to one of the tensors before the layers. */
static void
first_tensor(const struct qwen_mmproj *m, size_t i,
    struct qwen_mmproj_tensor *out)
{
	static const char *const name[N_FIRST][2] = {
		{ "v.patch_embd.weight", "patch_embed.proj.weight" },
		{ "v.patch_embd.weight.1", "patch_embed.proj.weight" },
		{ "v.patch_embd.bias", "patch_embed.proj.bias" },
		{ "v.position_embd.weight", "pos_embed.weight" },
	};
	const uint64_t patches[4] = { m->patch, m->patch, 3, m->n_embd };

	snprintf(out->name, sizeof out->name, "%s", name[i][0]);
	snprintf(out->hub, sizeof out->hub, "%s", name[i][1]);
	out->ne[0] = m->n_embd;
	out->n_dims = 1;
	out->kind = QWEN_MMPROJ_BIAS;
	if (i < 2) {
		out->kind = QWEN_MMPROJ_PATCHES;
		out->n_dims = 4;
		memcpy(out->ne, patches, sizeof patches);
	} else if (i == 3) {
		out->kind = QWEN_MMPROJ_POSITIONS;
		out->n_dims = 2;
		out->ne[1] = (uint64_t)m->side * m->side;
	}
}

/* Returns the number of the layer that has the deepstack merger k. */
static uint32_t
deep_layer(const struct qwen_mmproj *m, size_t k)
{
	uint32_t n = 0;

	while (n < m->n_layer && (!m->deepstack[n] || k-- > 0))
		n++;
	return n;
}

int
qwen_mmproj_tensor(const struct qwen_mmproj *m, size_t i,
    struct qwen_mmproj_tensor *out)
{
	size_t blocks = m->n_layer * N_ROWS(block), k;
	size_t deep = m->n_deepstack * N_ROWS(deepstack);

	memset(out, 0, sizeof *out);
	out->ne[0] = out->ne[1] = out->ne[2] = out->ne[3] = 1;
	if (i < N_FIRST) {
		first_tensor(m, i, out);
		return 1;
	}
	if ((i -= N_FIRST) < blocks) {
		k = i / N_ROWS(block);
		of_module(m, &block[i % N_ROWS(block) / 2], i % 2,
		    (uint32_t)k, (uint32_t)k, out);
		return 1;
	}
	if ((i -= blocks) < deep) {
		k = i / N_ROWS(deepstack);
		of_module(m, &deepstack[i % N_ROWS(deepstack) / 2], i % 2,
		    deep_layer(m, k), (uint32_t)k, out);
		return 1;
	}
	if ((i -= deep) >= N_ROWS(merger))
		return 0;
	of_module(m, &merger[i / 2], i % 2, 0, 0, out);
	return 1;
}

static int
has_format(uint32_t type, enum qwen_mmproj_kind kind)
{
	return type == QT_F32 || type == QT_F16 || type == QT_BF16 ||
	    (type == QT_Q8_0 && kind == QWEN_MMPROJ_MATRIX);
}

int
qwen_mmproj_check(const struct qwen_mmproj *m, const struct qwen_gguf *g,
    struct qwen_err *err)
{
	const struct qwen_gguf_tensor *t;
	struct qwen_mmproj_tensor want;
	size_t i;

	for (i = 0; qwen_mmproj_tensor(m, i, &want); i++) {
		t = qwen_gguf_find_tensor(g, want.name);
		if (t == NULL)
			return qwen_fail(err, QWEN_EFORMAT, "tensor %s is "
			    "missing", want.name);
		if (memcmp(t->ne, want.ne, sizeof want.ne) != 0)
			return qwen_fail(err, QWEN_EFORMAT, "tensor %s is %s, "
			    "not %s", want.name, qwen_shape_text(t->ne,
			    (int)want.n_dims).s, qwen_shape_text(want.ne,
			    (int)want.n_dims).s);
		if (!has_format(t->type, want.kind))
			return qwen_fail(err, QWEN_EUNSUP, "tensor %s is in "
			    "%s; supported: F32, F16, BF16%s", want.name,
			    qwen_ggml_name(t->type), want.kind ==
			    QWEN_MMPROJ_MATRIX ? ", Q8_0" : "");
	}
	return 0;
}

/* ------------------------------------------------------------------- keys */

#define KEY "clip.vision."

static const struct size_key {
	const char	*key;
	size_t		 at;		/* in struct qwen_mmproj */
	uint32_t	 most;
} sizes[] = {
#define SIZE(key, field, most) { key, offsetof(struct qwen_mmproj, field), most }
	SIZE(KEY "projection_dim", n_out, 1 << 16),
	SIZE(KEY "patch_size", patch, 64),
	SIZE(KEY "embedding_length", n_embd, 1 << 16),
	SIZE(KEY "feed_forward_length", n_ff, 1 << 16),
	SIZE(KEY "block_count", n_layer, QWEN_MMPROJ_LAYERS_MAX),
	SIZE(KEY "attention.head_count", n_head, 1 << 16),
#undef SIZE
};

#define N_SIZES (sizeof sizes / sizeof sizes[0])

int
qwen_mmproj_is(const struct qwen_gguf *g)
{
	struct qwen_str s;

	return (qwen_gguf_get_str(g, "general.architecture", &s, NULL) == 1 &&
	    qwen_str_is(s, QWEN_MMPROJ_ARCH)) ||
	    (qwen_gguf_get_str(g, "general.type", &s, NULL) == 1 &&
	    qwen_str_is(s, "mmproj"));
}

int
qwen_mmproj_refuse(const struct qwen_gguf *g, struct qwen_err *err)
{
	return !qwen_mmproj_is(g) ? 0 : qwen_fail(err, QWEN_EUNSUP, "an image "
	    "encoder (mmproj), not a model: give the model's file here, and "
	    "this one with --mmproj");
}

int
qwen_mmproj_check_sizes(const struct qwen_mmproj *m, struct qwen_err *err)
{
	const struct size_key *s;
	uint32_t v;

	for (s = sizes; s < sizes + N_SIZES; s++) {
		memcpy(&v, (const char *)m + s->at, sizeof v);
		if (v == 0 || v > s->most)
			return qwen_fail(err, QWEN_EUNSUP, "%s is %u; "
			    "supported: 1 to %u", s->key, v, s->most);
	}
	if (m->side == 0 || m->side > SIDE_MAX)
		return qwen_fail(err, QWEN_EUNSUP, KEY "image_size is not 1 "
		    "to %d patches", SIDE_MAX);
	/* a head's numbers turn in pairs, half by row and half by column */
	if (m->n_embd % m->n_head != 0 || m->n_embd / m->n_head % 4 != 0)
		return qwen_fail(err, QWEN_EUNSUP, "%u numbers in %u heads: "
		    "the size of a head must be a multiple of 4", m->n_embd,
		    m->n_head);
	return 0;
}

/* Checks the kind of the encoder. */
static int
read_kind(const struct qwen_gguf *g, struct qwen_err *err)
{
	struct qwen_str s = { "", 0 };
	uint64_t merge = QWEN_MMPROJ_MERGE;
	int images = 0, gelu = 1, rc;

	if (qwen_gguf_get_bool(g, "clip.has_vision_encoder", 0, &images,
	    err) < 0 || qwen_gguf_get_bool(g, "clip.use_gelu", 0, &gelu,
	    err) < 0)
		return -1;
	if (!images)
		return qwen_fail(err, QWEN_EUNSUP, "clip.has_vision_encoder is "
		    "not true: not an encoder of images");
	/* in files that have two encoders, each has a key of its own */
	rc = qwen_gguf_get_str(g, KEY "projector_type", &s, err);
	if (rc == 0)
		rc = qwen_gguf_get_str(g, "clip.projector_type", &s, err);
	if (rc < 0)
		return -1;
	if (!qwen_str_is(s, QWEN_MMPROJ_PROJECTOR))
		return qwen_fail(err, QWEN_EUNSUP, "unknown projector_type "
		    "\"%.*s\"; supported: " QWEN_MMPROJ_PROJECTOR, s.len > 40 ?
		    40 : (int)s.len, s.s);
	if (!gelu)
		return qwen_fail(err, QWEN_EUNSUP, "clip.use_gelu is not true");
	if (qwen_gguf_get_u64(g, KEY "spatial_merge_size", 0, &merge, err) < 0)
		return -1;
	return merge == QWEN_MMPROJ_MERGE ? 0 : qwen_fail(err, QWEN_EUNSUP,
	    KEY "spatial_merge_size is %" PRIu64 "; supported: %d", merge,
	    QWEN_MMPROJ_MERGE);
}

static int
missing(const char *key, struct qwen_err *err)
{
	return qwen_fail(err, QWEN_EFORMAT, "key %s is missing", key);
}

static int
read_sizes(struct qwen_mmproj *m, const struct qwen_gguf *g,
    struct qwen_err *err)
{
	const struct size_key *s;
	uint64_t v, image;
	uint32_t size;
	int rc;

	for (s = sizes; s < sizes + N_SIZES; s++) {
		if ((rc = qwen_gguf_get_u64(g, s->key, 0, &v, err)) <= 0)
			return rc < 0 ? -1 : missing(s->key, err);
		size = v > UINT32_MAX ? UINT32_MAX : (uint32_t)v;
		memcpy((char *)m + s->at, &size, sizeof size);
	}
	rc = qwen_gguf_get_u64(g, KEY "image_size", 0, &image, err);
	if (rc <= 0)
		return rc < 0 ? -1 : missing(KEY "image_size", err);
	/* 0, which is refused, for what is not a number of patches */
	m->side = m->patch == 0 || image % m->patch != 0 ||
	    image / m->patch > SIDE_MAX ? 0 : (uint32_t)(image / m->patch);
	return qwen_mmproj_check_sizes(m, err);
}

/* Reads three numbers of a key; `above': they must be above 0. */
static int
read_colours(const struct qwen_gguf *g, const char *key, int above,
    float x[3], struct qwen_err *err)
{
	const struct qwen_gguf_kv *kv = qwen_gguf_find(g, key);
	double v;
	size_t i;

	if (kv == NULL)
		return missing(key, err);
	if (kv->n != 3)
		return qwen_fail(err, QWEN_EFORMAT, "%s has %" PRIu64 " "
		    "numbers, not 3", key, kv->n);
	for (i = 0; i < 3; i++) {
		if (qwen_gguf_get_f64(g, key, i, &v, err) < 0)
			return -1;
		x[i] = (float)v;
		if (!isfinite(x[i]) || (above && x[i] <= 0))
			return qwen_fail(err, QWEN_EFORMAT, "%s has a number "
			    "that is not finite%s", key, above ?
			    " and above 0" : "");
	}
	return 0;
}

static int
read_deepstack(struct qwen_mmproj *m, const struct qwen_gguf *g,
    struct qwen_err *err)
{
	static const char key[] = KEY "is_deepstack_layers";
	const struct qwen_gguf_kv *kv = qwen_gguf_find(g, key);
	size_t i;
	int yes;

	if (kv == NULL)
		return 0;
	if (kv->type != QWEN_GGUF_ARRAY || kv->n != m->n_layer)
		return qwen_fail(err, QWEN_EFORMAT, "%s has %" PRIu64 " "
		    "values for %u layers", key, kv->n, m->n_layer);
	for (i = 0; i < m->n_layer; i++) {
		if (qwen_gguf_get_bool(g, key, i, &yes, err) < 0)
			return -1;
		m->deepstack[i] = yes != 0;
		m->n_deepstack += yes != 0;
	}
	return 0;
}

int
qwen_mmproj_read(struct qwen_mmproj *m, const struct qwen_gguf *g,
    struct qwen_err *err)
{
	static const char eps_key[] = KEY "attention.layer_norm_epsilon";
	double eps = 0;
	int rc;

	memset(m, 0, sizeof *m);
	if (read_kind(g, err) < 0 || read_sizes(m, g, err) < 0 ||
	    read_colours(g, KEY "image_mean", 0, m->mean, err) < 0 ||
	    read_colours(g, KEY "image_std", 1, m->std, err) < 0)
		return -1;
	if ((rc = qwen_gguf_get_f64(g, eps_key, 0, &eps, err)) <= 0)
		return rc < 0 ? -1 : missing(eps_key, err);
	m->eps = (float)eps;
	if (!(m->eps > 0 && m->eps < 1))
		return qwen_fail(err, QWEN_EFORMAT, "%s is not between 0 and "
		    "1", eps_key);
	return read_deepstack(m, g, err);
}

void
qwen_mmproj_put_keys(struct qwen_gguf_writer *w, const struct qwen_mmproj *m)
{
	qwen_gguf_put_bool(w, "clip.has_vision_encoder", 1);
	qwen_gguf_put_u32(w, KEY "projection_dim", m->n_out);
	qwen_gguf_put_u32(w, KEY "image_size", m->side * m->patch);
	qwen_gguf_put_u32(w, KEY "patch_size", m->patch);
	qwen_gguf_put_u32(w, KEY "embedding_length", m->n_embd);
	qwen_gguf_put_u32(w, KEY "feed_forward_length", m->n_ff);
	qwen_gguf_put_u32(w, KEY "block_count", m->n_layer);
	qwen_gguf_put_u32(w, KEY "attention.head_count", m->n_head);
	qwen_gguf_put_f32s(w, KEY "image_mean", m->mean, 3);
	qwen_gguf_put_f32s(w, KEY "image_std", m->std, 3);
	qwen_gguf_put_str(w, "clip.projector_type", QWEN_MMPROJ_PROJECTOR);
	qwen_gguf_put_bool(w, "clip.use_gelu", 1);
	qwen_gguf_put_u32(w, KEY "spatial_merge_size", QWEN_MMPROJ_MERGE);
	qwen_gguf_put_f32(w, KEY "attention.layer_norm_epsilon", m->eps);
	qwen_gguf_put_bools(w, KEY "is_deepstack_layers", m->deepstack,
	    m->n_layer);
}

/* ------------------------------------------------------------------- work */

/* Returns the multiply-adds of some modules for one row of each matrix. */
static double
macs_of(const struct qwen_mmproj *m, const struct module *v, size_t n_rows)
{
	double macs = 0;
	size_t i;

	for (i = 0; i < n_rows / 2; i++)
		macs += (double)size_of(m, v[i].in) *
		    (double)size_of(m, v[i].out);
	return macs;
}

double
qwen_mmproj_macs(const struct qwen_mmproj *m, double n)
{
	double patch = 3.0 * m->patch * m->patch * m->n_embd;
	double layer = macs_of(m, block, N_ROWS(block)) +
	    2 * n * m->n_embd;		/* attention to n patches */
	double token = macs_of(m, merger, N_ROWS(merger)) +
	    m->n_deepstack * macs_of(m, deepstack, N_ROWS(deepstack));

	return n * (patch + m->n_layer * layer + token / QWEN_MMPROJ_JOINED);
}
