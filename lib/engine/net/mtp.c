/* SPDX-License-Identifier: ISC */
/*
 * mtp.c - the weights of the MTP block, from the model's file or from a draft file.
 */
#include "base/err.h"
#include "gguf/gguf.h"
#include "engine/net/net.h"

unsigned
qwen_mtp_parts(const struct qwen_gguf *g, size_t block)
{
	const struct qwen_loader ld = { .g = g, .layer = (long)block };
	unsigned parts = QWEN_MTP_BLOCK;

	if (!qwen_has_tensor(&ld, "nextn.eh_proj.weight"))
		return 0;
	if (qwen_has_tensor(&ld, "ffn_down.weight") ||
	    qwen_has_tensor(&ld, "ffn_gate_inp.weight"))
		parts |= QWEN_MTP_FFN;
	if (qwen_has_tensor(&ld, "nextn.embed_tokens.weight"))
		parts |= QWEN_MTP_EMBD;
	return parts;
}

/*
 * Finds a part of the block's end: the block's own tensor `name', else `end' of
 * its file (NULL: none), for which it sets ld->layer.  Returns the name of the
 * tensor; NULL if the block takes the model's.
 */
static const char *
find_end(struct qwen_loader *ld, const char *name, const char *end)
{
	if (qwen_has_tensor(ld, name))
		return name;
	ld->layer = -1;
	return end != NULL && qwen_has_tensor(ld, end) ? end : NULL;
}

/* Loads a matrix of the end, else keeps the model's. */
static void
load_end(struct qwen_loader *ld, struct qwen_weight *w, const char *name,
    const char *end)
{
	const struct qwen_hparams *h = &ld->m->hp;
	long layer = ld->layer;

	if ((name = find_end(ld, name, end)) != NULL)
		qwen_load_weight(ld, w, name, h->n_embd, h->n_vocab, 0);
	ld->layer = layer;
}

static void
load_norm(struct qwen_loader *ld, const float **v)
{
	long layer = ld->layer;
	const char *name = find_end(ld, "nextn.shared_head_norm.weight",
	    "output_norm.weight");

	*v = ld->m->output_norm;
	if (name != NULL)
		qwen_load_vector(ld, v, name, ld->m->hp.n_embd);
	ld->layer = layer;
}

/* Loads the MTP block with this number from the loader's file. */
static int
load(struct qwen_loader *ld, size_t block)
{
	struct qwen_net *m = ld->m;
	struct qwen_mtp *p = &m->mtp;
	size_t n = m->hp.n_embd;

	ld->layer = (long)block;
	p->parts = qwen_mtp_parts(ld->g, block);
	p->embd = m->token_embd;
	p->head = m->output;
	ld->purpose = QWEN_FOR_EMBEDDING;
	load_end(ld, &p->embd, "nextn.embed_tokens.weight", NULL);
	ld->purpose = QWEN_FOR_HEAD;
	load_end(ld, &p->head, "nextn.shared_head_head.weight",
	    "output.weight");
	ld->purpose = QWEN_FOR_MTP_PROJECTION;
	qwen_load_weight(ld, &p->proj, "nextn.eh_proj.weight", 2 * n, n, 0);
	qwen_load_vector(ld, &p->embd_norm, "nextn.enorm.weight", n);
	qwen_load_vector(ld, &p->hidden_norm, "nextn.hnorm.weight", n);
	load_norm(ld, &p->norm);
	qwen_load_vector(ld, &p->layer.mixer_norm, "attn_norm.weight", n);
	qwen_attention_load(ld, &p->layer);
	if (p->parts & QWEN_MTP_FFN)
		qwen_ffn_load(ld, &p->layer);
	p->layer.index = m->hp.n_layer;
	return ld->rc;
}

/* -------------------------------------------------------------- a side file */

/* Checks that the draft file fits the model. */
static int
compare(const struct qwen_hparams *a, const struct qwen_hparams *b,
    struct qwen_err *err)
{
	const struct { const char *name; size_t a, b; } pair[] = {
		{ "embedding_length", a->n_embd, b->n_embd },
		{ "rows of token_embd", a->n_vocab, b->n_vocab },
		{ "attention.head_count", a->n_head, b->n_head },
		{ "attention.head_count_kv", a->n_head_kv, b->n_head_kv },
		{ "attention.key_length", a->n_embd_head, b->n_embd_head },
		{ "rope.dimension_count", a->n_rot, b->n_rot },
		{ "feed_forward_length", a->n_ff, b->n_ff },
		{ "expert_count", a->n_expert, b->n_expert },
		{ "expert_used_count", a->n_expert_used, b->n_expert_used },
		{ "expert_feed_forward_length", a->n_ff_exp, b->n_ff_exp },
		{ "expert_shared_feed_forward_length", a->n_ff_shexp,
		  b->n_ff_shexp },
	};
	size_t i;

	for (i = 0; i < sizeof pair / sizeof pair[0]; i++) {
		if (pair[i].a != pair[i].b)
			return qwen_fail(err, QWEN_EMISMATCH, "for another "
			    "model: %s is %zu, not %zu", pair[i].name,
			    pair[i].b, pair[i].a);
	}
	return 0;
}

static int
check_arch(const struct qwen_net *m, const struct qwen_gguf *g,
    struct qwen_err *err)
{
	struct qwen_str name = { "", 0 };

	if (qwen_gguf_get_str(g, "general.architecture", &name, err) < 0)
		return -1;
	if (qwen_arch_find(name) == m->arch)
		return 0;
	return qwen_fail(err, QWEN_EMISMATCH, "for another model: architecture "
	    "is \"%.*s\", not \"%s\"",
	    name.len > 40 ? 40 : (int)name.len, name.s, m->arch->name);
}

static int
load_side(struct qwen_net *m, const struct qwen_gguf *g,
    struct qwen_err *err)
{
	struct qwen_loader ld = { .m = m, .g = g, .err = err };
	struct qwen_hparams h = { 0 };
	int rc;

	if (check_arch(m, g, err) < 0)
		return -1;
	rc = qwen_hparams_read(&h, m->arch, g, 1, err);
	if (rc == 0)
		rc = compare(&m->hp, &h, err);
	if (rc == 0 && qwen_mtp_parts(g, h.n_block - 1) == 0)
		rc = qwen_fail(err, QWEN_EFORMAT, "the file has no MTP block "
		    "(blk.%zu.nextn)", h.n_block - 1);
	if (rc == 0)
		rc = load(&ld, h.n_block - 1);
	qwen_hparams_free(&h);
	return rc;
}

int
qwen_mtp_load(struct qwen_net *m, const struct qwen_model_opts *opts,
    struct qwen_err *err)
{
	struct qwen_loader ld = { .m = m, .g = m->gguf, .err = err };
	const char *path = opts != NULL ? opts->draft_file : NULL;

	if (opts == NULL || (!opts->draft && path == NULL))
		return 0;
	if (path != NULL) {
		if (qwen_gguf_open(&m->mtp.side, path, err) < 0 ||
		    load_side(m, m->mtp.side, err) < 0)
			return qwen_fail_in(err, "draft %s", path);
		qwen_gguf_want_huge(m->mtp.side);
	} else {
		if (m->hp.n_block == m->hp.n_layer ||
		    qwen_mtp_parts(m->gguf, m->hp.n_layer) == 0)
			return 0;
		if (load(&ld, m->hp.n_layer) < 0)
			return -1;
	}
	m->mtp.on = 1;
	return 0;
}
