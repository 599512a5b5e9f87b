/* SPDX-License-Identifier: ISC */
/* image.c - the image encoders that belong to shapes of models. */
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "gguf/mmproj.h"
#include "synth/shape.h"

#define SIZES(layers, embd, ff) .n_layer = layers, .n_embd = embd, \
	.n_ff = ff, .n_head = 16, .patch = 16, .side = 48, .eps = 1e-6f, \
	.mean = { 0.5f, 0.5f, 0.5f }, .std = { 0.5f, 0.5f, 0.5f }

static const struct qwen_mmproj encoders[] = {
	[LARGE_ENCODER] = { SIZES(27, 1152, 4304) },
	[SMALL_ENCODER] = { SIZES(24, 1024, 4096) },
};

int
qwen_synth_choose_encoder(struct qwen_mmproj *m,
    const struct qwen_synth_shape *s, uint32_t n_layer, struct qwen_err *err)
{
	uint32_t k, of, at;

	if (s->encoder == NO_ENCODER)
		return qwen_fail(err, QWEN_ERANGE, "%s reads no images",
		    s->info.name);
	if (n_layer > QWEN_MMPROJ_LAYERS_MAX)
		return qwen_fail(err, QWEN_ERANGE, "an image encoder has at "
		    "most %d layers", QWEN_MMPROJ_LAYERS_MAX);
	*m = encoders[s->encoder];
	m->n_out = s->embd;
	of = m->n_layer;
	if (n_layer > 0)
		m->n_layer = n_layer;
	/* with other numbers of layers, at the same share of the depth */
	for (k = 0; k < s->n_deepstack; k++) {
		at = s->deepstack[k] * m->n_layer / of;
		m->n_deepstack += !m->deepstack[at];
		m->deepstack[at] = 1;
	}
	return 0;
}

int
qwen_synth_encoder_recipe(size_t recipe, struct qwen_err *err)
{
	switch (qwen_recipe_rest(recipe)) {
	case QT_F32:
	case QT_F16:
	case QT_BF16:
		return 0;
	case QT_Q8_0:
		if (strcmp(qwen_recipe_name(recipe), "Q8_0") == 0)
			return 0;
	}
	return qwen_fail(err, QWEN_ERANGE, "an image encoder can be F32, F16, "
	    "BF16 or Q8_0");
}

/* Sets the number format and the distribution of the numbers. */
static void
fill(struct qwen_synth_tensor *t, const struct qwen_mmproj_tensor *of,
    uint32_t type)
{
	t->content = of->kind == QWEN_MMPROJ_NORM ? NORM : WEIGHT;
	t->inputs = (double)of->ne[0];
	t->type = QT_F32;
	if (of->kind == QWEN_MMPROJ_MATRIX)
		t->type = of->ne[0] % qwen_ggml_block_len(type) == 0 ? type :
		    QT_F16;
	if (of->kind == QWEN_MMPROJ_PATCHES) {
		/* an image gives the same numbers to both of the tensors */
		t->inputs = 2.0 * (double)(of->ne[0] * of->ne[1] * of->ne[2]);
		if (type == QT_F16)
			t->type = type;
	}
}

void
qwen_synth_plan_encoder(struct qwen_synth *p)
{
	struct qwen_mmproj_tensor t;
	struct qwen_synth_tensor *to;
	size_t i;

	for (i = 0; qwen_mmproj_tensor(&p->encoder, i, &t); i++) {
		if ((to = qwen_synth_new_tensor(p)) == NULL)
			return;
		snprintf(to->name, sizeof to->name, "%s", t.name);
		to->n_dims = t.n_dims;
		memcpy(to->ne, t.ne, sizeof to->ne);
		fill(to, &t, qwen_recipe_rest(p->s.recipe));
	}
}

void
qwen_synth_put_encoder_keys(struct qwen_gguf_writer *w,
    const struct qwen_synth *p)
{
	char name[128];

	snprintf(name, sizeof name, "image encoder of %s, random weights",
	    p->s.title);
	qwen_gguf_put_str(w, "general.architecture", QWEN_MMPROJ_ARCH);
	qwen_gguf_put_str(w, "general.type", "mmproj");
	qwen_gguf_put_str(w, "general.name", name);
	qwen_gguf_put_str(w, "general.quantized_by", "gguf-synth");
	qwen_gguf_put_u32(w, "general.file_type",
	    qwen_recipe_file_type(p->s.recipe));
	qwen_mmproj_put_keys(w, &p->encoder);
	qwen_gguf_put_u32(w, "general.quantization_version", 2);
}
