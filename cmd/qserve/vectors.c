/* SPDX-License-Identifier: ISC */
/* vectors.c - embedding vectors of texts. */
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/mem.h"
#include "qserve.h"

/* The state of a call: the request and its results. */
struct vectors {
	struct qwen_embeddings_request q;
	const char		*ollama;	/* field with the text in
						   Ollama's APIs, or NULL */
	struct qwen_embedding	 how;
	double			*sum;		/* per text */
	size_t			*n_states;
	float			*vector;
	size_t			 n_embd, n_out;
};

static void
put_body(struct qserve_call *c)
{
	struct vectors *v = c->state;
	const char *model = c->server->with.service.model;

	if (v->ollama != NULL)
		qwen_ollama_embed_body(&v->q, model, v->vector, v->n_out,
		    strcmp(v->ollama, "prompt") == 0, cli_now() - c->since,
		    &c->out);
	else
		qwen_embeddings_body(&v->q, model, v->vector, v->n_out,
		    &c->out);
	qserve_done(c, qwen_refusal_status(&v->q.refusal));
}

static void
fail(struct qserve_call *c, const char *code, const char *message)
{
	struct vectors *v = c->state;

	qwen_refuse(&v->q.refusal, code, NULL, "%s", message);
	put_body(c);
}

static int
make_request(struct qserve_call *c, size_t i, struct qwen_engine_request *o)
{
	struct vectors *v = c->state;

	o->kind = QWEN_ENGINE_HIDDEN;
	o->tokens = v->q.text[i].id;
	o->n = v->q.text[i].n;
	o->from = qwen_embedding_from(&v->how, &o->n);
	return 0;
}

static void
add_state(struct qserve_call *c, size_t i, const struct qwen_event *ev)
{
	struct vectors *v = c->state;
	size_t all;

	if (ev->n_row == 0 || (v->sum != NULL && v->n_embd != ev->n_row)) {
		fail(c, "failed", "the engine's states do not fit");
		return;
	}
	/* the first state tells how many numbers each has */
	if (v->sum == NULL && qwen_mul(v->q.n, ev->n_row, &all) == 0) {
		v->n_embd = ev->n_row;
		v->vector = calloc(all, sizeof *v->vector);
		v->n_states = calloc(v->q.n, sizeof *v->n_states);
		v->sum = v->vector != NULL && v->n_states != NULL ?
		    calloc(all, sizeof *v->sum) : NULL;
	}
	if (v->sum == NULL) {
		fail(c, "out_of_memory", "out of memory");
		return;
	}
	qwen_embedding_add(v->sum + i * v->n_embd, ev->row, v->n_embd);
	v->n_states[i]++;
}

/* Make the vectors, one after the other; they may be shorter than states. */
static void
finish(struct qserve_call *c)
{
	struct vectors *v = c->state;
	size_t i;

	if (v->q.dimensions > v->n_embd) {
		qwen_refuse(&v->q.refusal, "invalid_request", "dimensions",
		    "dimensions: %zu is more than the model's %zu",
		    v->q.dimensions, v->n_embd);
		put_body(c);
		return;
	}
	v->n_out = v->how.dimensions > 0 ? v->how.dimensions : v->n_embd;
	for (i = 0; i < v->q.n; i++)
		qwen_embedding_finish(&v->how, v->sum + i * v->n_embd,
		    v->n_states[i], v->n_embd, v->vector + i * v->n_out,
		    &v->n_out);
	put_body(c);
}

static void
on_event(struct qserve_call *c, size_t i, const struct qwen_event *ev)
{
	struct vectors *v = c->state;

	if (ev->kind == QWEN_EVENT_STARTED)
		c->use.n_prompt += v->q.text[i].n;
	else if (ev->kind == QWEN_EVENT_HIDDEN)
		add_state(c, i, ev);
	else if (ev->kind != QWEN_EVENT_END)
		return;
	else if (strcmp(ev->why, "done") != 0 || v->sum == NULL)
		fail(c, qserve_error_code(ev), qserve_error_message(ev));
	else if (c->n_left == 0)
		finish(c);
}

static const struct qserve_handler handler = { make_request, on_event, fail };

static void
begin(struct qserve_call *c)
{
	static int told;
	struct qserve *s = c->server;
	struct vectors *v = c->state;
	struct qwen_err err;

	s->embedding.n_ctx = (size_t)qserve_n_ctx(s);
	v->ollama = c->route->what == QSERVE_INPUT ? "input" :
	    c->route->what == QSERVE_PROMPT ? "prompt" : NULL;
	if ((v->ollama == NULL ? qwen_embeddings_parse(&v->q, &s->embedding,
	    c->body.s, c->body.n, &err) : qwen_ollama_embed_parse(&v->q,
	    &s->embedding, s->embedding.n_ctx, v->ollama, c->body.s, c->body.n,
	    &err)) < 0) {
		qserve_error(c, 500, "out_of_memory", "out of memory");
		return;
	}
	v->how = s->embedding.how;
	if (v->q.dimensions > 0)
		v->how.dimensions = v->q.dimensions;
	if (v->q.refusal.err.code != 0 || v->q.n == 0) {
		put_body(c);
		return;
	}
	/* embedding models name a pooling */
	if (s->embedding.untrained && !told)
		cli_note("/v1/embeddings: this model was not trained for "
		    "embeddings (its file has no pooling type); its vectors, "
		    "states of the last token, say little");
	told = 1;
	qserve_jobs_new(c, v->q.n, &handler);
}

static void
end(struct qserve_call *c)
{
	struct vectors *v = c->state;

	qwen_embeddings_fini(&v->q);
	free(v->sum);
	free(v->n_states);
	free(v->vector);
}

const struct qserve_kind qserve_vectors = { begin, sizeof(struct vectors),
    end };

/* ---------------------------------------------------------------- the model */

int
qserve_is_named(const struct qserve *s, const char *word)
{
	static const char *const keys[] = { "general.name",
	    "general.basename", "general.finetune" };
	size_t i, k, n = strlen(word);
	struct qwen_str name;

	for (i = 0; i < sizeof keys / sizeof *keys; i++) {
		if (qwen_gguf_get_str(s->gguf, keys[i], &name, NULL) <= 0)
			continue;
		for (k = 0; k + n <= name.len; k++) {
			if (strncasecmp(name.s + k, word, n) == 0)
				return 1;
		}
	}
	return 0;
}

void
qserve_vectors_open(struct qserve *s)
{
	struct qwen_vectors *v = &s->embedding;

	cli_must(s->model_path, qwen_embedding_read(&v->how, s->gguf,
	    &cli_err));
	v->untrained = v->how.pooling == QWEN_POOLING_NONE &&
	    !qserve_is_named(s, "embed");
	v->tok = s->with.service.tok;
	v->n_vocab = s->with.service.n_vocab;
	v->encode = s->with.service.encode;
	v->unknown = &s->unknown;
}
