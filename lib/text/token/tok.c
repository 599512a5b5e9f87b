/* SPDX-License-Identifier: ISC */
/* tok.c - opens the tokenizer of a GGUF file. */
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "gguf/mmproj.h"
#include "text/token/nfc.h"
#include "text/token/tok.h"

/* Gets a required string key. */
static int
get(const struct qwen_gguf *g, const char *key, struct qwen_str *out,
    struct qwen_err *err)
{
	int rc = qwen_gguf_get_str(g, key, out, err);

	if (rc == 0)
		return qwen_fail(err, QWEN_EFORMAT, "the file has no %s", key);
	return rc < 0 ? -1 : 0;
}

static int
find_pre(struct qwen_tok *t, const struct qwen_gguf *g, struct qwen_err *err)
{
	static const char key[] = "tokenizer.ggml.pre";
	struct qwen_str pre, arch;

	if (qwen_gguf_find(g, key) == NULL &&
	    qwen_gguf_get_str(g, "general.architecture", &arch, err) == 1 &&
	    (t->pre = qwen_pre_guess(&arch)) != NULL) {
		t->guessed = 1;
		return 0;
	}
	return get(g, key, &pre, err) < 0 ? -1 :
	    qwen_pre_find(&t->pre, &pre, err);
}

/* Whether to read the merges, too. */
enum how { CHECK, BUILD };

static int
open_encode(struct qwen_tok *t, const struct qwen_gguf *g, enum how how,
    struct qwen_err *err)
{
	if (find_pre(t, g, err) < 0 ||
	    (how == BUILD ? qwen_merges_init(&t->merges, g, &t->v, err) :
	    qwen_merges_check(g, &t->v, err)) < 0 ||
	    qwen_specials_init(&t->special[0], &t->v, 0, err) < 0)
		return -1;
	return qwen_specials_init(&t->special[1], &t->v, 1, err) < 0 ? -1 :
	    qwen_fim_find(t, g, err);
}

static int
make(struct qwen_tok **out, const struct qwen_gguf *g, unsigned what,
    enum how how, struct qwen_err *err)
{
	struct qwen_str model;
	struct qwen_tok *t;

	*out = NULL;
	if (qwen_mmproj_refuse(g, err) < 0 ||
	    get(g, "tokenizer.ggml.model", &model, err) < 0)
		return -1;
	if (model.len != 4 || memcmp(model.s, "gpt2", 4) != 0)
		return qwen_fail(err, QWEN_EUNSUP, "unknown tokenizer '%.*s'; "
		    "only byte-level BPE ('gpt2') is supported",
		    model.len > 60 ? 60 : (int)model.len, model.s);
	t = calloc(1, sizeof *t);
	if (t == NULL)
		return qwen_oom(err);
	t->what = what;
	if (qwen_vocab_init(&t->v, g, err) < 0 ||
	    qwen_bos_read(&t->bos, g, QWEN_BOS_FILE, err) < 0 ||
	    ((what & QWEN_TOK_ENCODE) != 0 &&
	    open_encode(t, g, how, err) < 0)) {
		qwen_tok_close(t);
		return -1;
	}
	*out = t;
	return 0;
}

int
qwen_tok_open(struct qwen_tok **out, const struct qwen_gguf *g, unsigned what,
    struct qwen_err *err)
{
	return make(out, g, what, BUILD, err);
}

int
qwen_tok_check(const struct qwen_gguf *g, unsigned what, struct qwen_err *err)
{
	struct qwen_tok *t;

	if (make(&t, g, what, CHECK, err) < 0)
		return -1;
	qwen_tok_close(t);
	return 0;
}

void
qwen_tok_close(struct qwen_tok *t)
{
	if (t == NULL)
		return;
	qwen_specials_fini(&t->special[0]);
	qwen_specials_fini(&t->special[1]);
	qwen_merges_fini(&t->merges);
	qwen_vocab_fini(&t->v);
	free(t);
}

int
qwen_tok_set_nfc(struct qwen_tok *t, int on, struct qwen_err *err)
{
	struct qwen_nfc *f;

	if (on && qwen_nfc_new(&f, err) < 0)
		return -1;
	if (on)
		qwen_nfc_free(f);
	t->nfc = on;
	return 0;
}

const char *
qwen_tok_guess(const struct qwen_tok *t)
{
	return t->guessed ? t->pre->name : NULL;
}

size_t
qwen_tok_n_vocab(const struct qwen_tok *t)
{
	return t->v.n;
}
