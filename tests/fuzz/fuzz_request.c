/* SPDX-License-Identifier: ISC */
/*
 * fuzz_request.c - any body posted to a server: it is refused with an error, or
 * answered; the answer's events, divided anywhere, assemble to its body.
 *
 * Input: a byte, then the body, and after a NUL the text of the answers.  The
 * byte is the API, from 0: completions, chat, responses, messages, embeddings,
 * reranking, tokens, infill, Ollama's chat and generate, llama.cpp's
 * completions, Ollama's embeddings and other requests that name a model.  Bit
 * 16: an earlier response can be recalled.  Bit 32: some lines of system
 * messages are skipped.
 */
#include "../unit/sse_util.h"
#include "../unit/tok_util.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { N_VOCAB = 261, TOKENS = 300 };

static struct qwen_service service;
static struct qwen_reranker *reranker;

static void
start(void)
{
	static struct qwen_template *t;
	static struct qwen_grammars grammars;
	static struct vocab v;
	static struct qwen_gguf *g;

	vocab_init(&v, "qwen2");
	vocab_token(&v, "<|im_start|>", QWEN_TOKEN_CONTROL);
	vocab_token(&v, "<|im_end|>", QWEN_TOKEN_CONTROL);
	vocab_token(&v, "<|fim_prefix|>", QWEN_TOKEN_CONTROL);
	vocab_token(&v, "<|fim_suffix|>", QWEN_TOKEN_CONTROL);
	vocab_token(&v, "<|fim_middle|>", QWEN_TOKEN_CONTROL);
	service.tok = vocab_open(&v, &g);
	service.n_vocab = N_VOCAB;
	service.model = "m";
	service.max = TOKENS;
	service.streams = service.echoes = 1;
	if (qwen_template_open(&t, "qwen3", NULL) < 0 ||
	    qwen_reranker_open(&reranker, g, NULL, NULL) < 0 ||
	    qwen_tok_decoder_new(&service.spell, service.tok, QWEN_TOK_BYTES |
	    QWEN_TOK_SHOW_SPECIAL, NULL) < 0)
		abort();
	service.template = t;
	grammars.gguf = g;
	service.grammars = &grammars;
	service.sample_opt = qwen_sample_opt;
}

static int
recall(void *arg, const char *id, struct qwen_text *items,
    struct qwen_err *err)
{
	(void)arg;
	(void)err;
	qwen_text_str(items, "[{\"role\":\"user\",\"content\":\"a\"}]");
	return id[0] != 'x';
}

static int
pass_over(void *arg, const char *line, size_t n)
{
	(void)arg;
	return n > 0 && line[n - 1] == 'a';
}

/* It is JSON. */
static void
check_json(const struct qwen_text *t)
{
	yyjson_doc *d = t->failed || t->n == 0 ? NULL : yyjson_read(t->s, t->n,
	    YYJSON_READ_NUMBER_AS_RAW);

	if (d == NULL)
		abort();
	yyjson_doc_free(d);
}

/* Some tokens of the text, and its end. */
static size_t
answer(struct qwen_answer *a, const int32_t *ids, size_t n, size_t at,
    uint64_t *seed)
{
	struct qwen_likely top[QWEN_LOGPROBS_MAX], c = { 0, -1 };
	size_t k = 1 + rnd(seed) % 7, i;
	int cut = 0;

	for (; k > 0 && at < n && at < TOKENS && !cut; k--) {
		c.id = ids[at++];
		for (i = 0; i < a->request->n_top; i++)
			top[i] = (struct qwen_likely){
			    (int32_t)((at + i) % N_VOCAB), -2 };
		if ((cut = qwen_answer_put(a, &c, top, a->request->n_top,
		    NULL)) < 0)
			abort();
	}
	if ((k > 0 || at >= TOKENS || cut) && qwen_answer_end(a, *seed & 1 ?
	    "stop" : "length", NULL) < 0)
		abort();
	return at;
}

static void
stream(struct qwen_request *q, const int32_t *ids, size_t n, uint64_t *seed,
    struct qwen_text *t)
{
	size_t at[QWEN_CHOICES_MAX] = { 0 }, i, left = q->n_answers;
	struct qwen_likely one = { 0, -1 };
	struct qwen_answer_stream *s;

	if (q->n_answers > QWEN_CHOICES_MAX || qwen_answer_stream_new(&s, q, 1,
	    NULL) < 0)
		abort();
	for (i = 0; i < n && q->echo && i < TOKENS; i++) {
		one.id = ids[i];
		if (qwen_answer_echo(q->answer, &one, NULL, 0, NULL) < 0)
			abort();
	}
	qwen_answer_stream_begin(s, t);
	while (left > 0) {
		i = rnd(seed) % q->n_answers;
		if (q->answer[i].finish != NULL)
			continue;
		at[i] = answer(&q->answer[i], ids, n, at[i], seed);
		left -= q->answer[i].finish != NULL;
		qwen_answer_stream_step(s, &q->answer[i], t);
	}
	qwen_answer_stream_end(s, t);
	qwen_answer_stream_free(s);
}

static void
check_request(enum qwen_form form, const char *json, size_t n,
    const char *text, size_t n_text)
{
	struct qwen_text body = { 0 }, events = { 0 }, items = { 0 };
	uint64_t seed = n + n_text;
	struct qwen_request *q;
	struct sse_body b;
	int32_t *ids;
	size_t n_ids;

	if (qwen_request_parse(&q, &service, form, json, n, NULL) < 0 ||
	    qwen_tok_encode(service.tok, text, n_text, 0, &ids, &n_ids,
	    NULL) < 0)
		abort();
	q->number = 3;
	if (q->refusal.err.code == 0) {
		q->include_usage = 1;
		stream(q, ids, n_ids, &seed, &events);
	}
	qwen_request_body(q, 1, &body);
	check_json(&body);
	/* the events of /infill are not put together */
	if (q->refusal.err.code == 0 && form != QWEN_FORM_INFILL) {
		sse_body_init(&b);
		sse_feed(&b, q->form, events.s, events.n);
		if (!sse_is(&b, q->form, body.s, body.n))
			abort();
		sse_body_fini(&b);
		if (q->n_answers > 0) {
			qwen_response_items(q, &items);
			check_json(&items);
		}
	}
	free(ids);
	qwen_text_fini(&body);
	qwen_text_fini(&events);
	qwen_text_fini(&items);
	qwen_request_free(q);
}

static void
check_lists(int ranks, const char *json, size_t n)
{
	struct qwen_ranking rank = { .tok = service.tok, .how = reranker };
	struct qwen_vectors how = { .tok = service.tok, .n_vocab = N_VOCAB,
	    .how = { .first = -1, .last = 257 } };
	static const double scores[QWEN_DOCUMENTS_MAX];
	static const float v[3 * QWEN_INPUTS_MAX];
	struct qwen_embeddings_request e = { .n = 0 };
	struct qwen_rerank_request r = { .n_top = 0 };
	struct qwen_text t = { 0 };

	if (ranks) {
		if (qwen_rerank_parse(&r, &rank, json, n, NULL) < 0 ||
		    qwen_rerank_body(&r, 1, "m", scores, &t, NULL) < 0)
			abort();
		qwen_rerank_fini(&r);
	} else {
		if (qwen_embeddings_parse(&e, &how, json, n, NULL) < 0)
			abort();
		qwen_embeddings_body(&e, "m", v, 3, &t);
		qwen_embeddings_fini(&e);
	}
	check_json(&t);
	qwen_text_fini(&t);
}

static void
check_ollama(const char *json, size_t n)
{
	struct qwen_vectors how = { .tok = service.tok, .n_vocab = N_VOCAB,
	    .how = { .first = -1, .last = 257 } };
	static const float v[3 * QWEN_INPUTS_MAX];
	struct qwen_refusal no = { .code = NULL };
	struct qwen_text t = { 0 };
	char *name = NULL;
	int old, all;

	for (old = 0; old < 2; old++) {
		struct qwen_embeddings_request e = { .n = 0 };

		t.n = 0;
		if (qwen_ollama_embed_parse(&e, &how, 9, old ? "prompt" :
		    "input", json, n, NULL) < 0)
			abort();
		qwen_ollama_embed_body(&e, "m", v, 3, old, 0.5, &t);
		qwen_embeddings_fini(&e);
		check_json(&t);
	}
	if ((qwen_ollama_name(&no, json, n, &name, &all) == 0) ==
	    (name == NULL))
		abort();
	free(name);
	qwen_text_fini(&t);
}

static void
check_tokens(const char *json, size_t n)
{
	struct qwen_text t = { 0 };
	int status;

	if (qwen_tokens_tokenize(&service, 0, json, n, &status, &t, NULL) < 0)
		abort();
	check_json(&t);
	t.n = 0;
	if (qwen_tokens_detokenize(&service, json, n, &status, &t, NULL) < 0)
		abort();
	check_json(&t);
	t.n = 0;
	if (qwen_tokens_prompt(&service, json, n, &status, &t, NULL) < 0)
		abort();
	check_json(&t);
	qwen_text_fini(&t);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const enum qwen_form forms[] = { QWEN_FORM_COMPLETION,
	    QWEN_FORM_CHAT, QWEN_FORM_RESPONSES, QWEN_FORM_MESSAGES,
	    [8] = QWEN_FORM_OLLAMA_CHAT, QWEN_FORM_OLLAMA_GENERATE,
	    QWEN_FORM_LLAMA };
	const char *json = (const char *)data + 1, *text;
	size_t n;
	int api;

	if (size == 0)
		return 0;
	if (service.tok == NULL)
		start();
	service.recall = data[0] & 16 ? recall : NULL;
	service.pass_over = data[0] & 32 ? pass_over : NULL;
	service.placeholder = data[0] & 64 ? "" : NULL;
	service.reads_images = data[0] >> 7;
	api = (data[0] & 15) % 12;
	text = memchr(json, '\0', size - 1);
	n = text != NULL ? (size_t)(text - json) : size - 1;
	text = text != NULL ? text + 1 : json + n;
	if (api < 4 || (api > 7 && api < 11))
		check_request(forms[api], json, n, text,
		    (size_t)((const char *)data + size - text));
	else if (api < 6)
		check_lists(api == 5, json, n);
	else if (api == 7)
		check_request(QWEN_FORM_INFILL, json, n, text,
		    (size_t)((const char *)data + size - text));
	else if (api == 6)
		check_tokens(json, n);
	else
		check_ollama(json, n);
	return 0;
}
