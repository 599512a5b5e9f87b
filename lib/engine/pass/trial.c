/* SPDX-License-Identifier: ISC */
/* trial.c - would a file open as a model?  All that is wrong with it. */
#include <string.h>

#include "base/err.h"
#include "base/sized.h"
#include "engine/pass/open.h"

enum { TYPES = 64, OTHERS_MAX = 8 };

/* What was found to be wrong: tensors of each type, and what else. */
struct trial {
	const struct qwen_gguf_checker	*c;
	const char			*first[TYPES];
	uint64_t			 n_type[TYPES];
	uint64_t			 n_other;
	int				 n;
};

static void
tell(struct trial *t, const char *msg)
{
	t->c->problem(t->c->arg, msg);
	t->n++;
}

static void
note_type(struct trial *t, const struct qwen_gguf_tensor *x)
{
	if (t->n_type[x->type % TYPES]++ == 0)
		t->first[x->type % TYPES] = x->name;
}

/*
 * Reports a wrong tensor: of those missing or misshapen, only the first ones.
 */
static void
wrong(struct qwen_loader *ld, const struct qwen_gguf_tensor *x)
{
	struct trial *t = ld->arg;

	if (x != NULL)
		note_type(t, x);
	else if (t->n_other++ < OTHERS_MAX)
		tell(t, ld->err->msg);
}

/* Where the architecture is not known, any tensor may be needed. */
static void
note_types(struct trial *t, const struct qwen_gguf *g)
{
	size_t i;

	for (i = 0; i < qwen_gguf_n_tensors(g); i++) {
		if (qwen_quant_find(qwen_gguf_tensor(g, i)->type) == NULL)
			note_type(t, qwen_gguf_tensor(g, i));
	}
}

static void
tell_types(struct trial *t)
{
	struct qwen_err e;
	uint32_t i;

	if (t->n_other > OTHERS_MAX) {
		qwen_fail(&e, QWEN_EFORMAT, "%llu more tensors are wrong",
		    (unsigned long long)(t->n_other - OTHERS_MAX));
		tell(t, e.msg);
	}
	for (i = 0; i < TYPES; i++) {
		if (t->n_type[i] == 0)
			continue;
		if (t->n_type[i] == 1)
			qwen_fail(&e, QWEN_EUNSUP, "%s has %s", t->first[i],
			    qwen_ggml_name(i));
		else
			qwen_fail(&e, QWEN_EUNSUP, "%s and %llu more have %s",
			    t->first[i], (unsigned long long)t->n_type[i] - 1,
			    qwen_ggml_name(i));
		tell(t, e.msg);
	}
}

int
qwen_model_check_sized(size_t size, const struct qwen_gguf *g,
    const struct qwen_gguf_checker *c, struct qwen_err *err)
{
	/* its file is not closed */
	struct qwen_net net = { .gguf = (struct qwen_gguf *)(uintptr_t)g };
	struct trial t = { 0 };
	struct qwen_err e = { 0 };
	struct qwen_loader ld = { .m = &net, .g = g, .err = &e, .wrong = wrong,
	    .arg = &t };
	struct qwen_gguf_checker own;
	int rc;

	if (QWEN_SIZED(c, own, size, err) < 0)
		return -1;
	t.c = c;
	rc = qwen_net_options(&net, NULL, &e);
	if (rc == 0 && ((net.arch = qwen_arch_of(g, &e)) == NULL ||
	    qwen_hparams_read(&net.hp, net.arch, g, 0, &e) < 0)) {
		note_types(&t, g);
		rc = -1;
	} else if (rc == 0)
		rc = qwen_load_weights(&ld);
	qwen_net_fini(&net);
	if (rc < 0 && e.code == QWEN_ENOMEM)
		return qwen_oom(err);
	if (rc < 0)
		tell(&t, e.msg);
	tell_types(&t);
	return t.n;
}
