/* SPDX-License-Identifier: ISC */
/*
 * fuzz_batch.c - any line of a batch: what is wrong with it is its error, else
 * it has prompts; the answer, of any tokens, is a line that is known again.
 *
 * The input: a byte of flags, then the line.
 */
#include "../unit/tok_util.h"
#include "cli/batch.h"
#include <yyjson.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { N_VOCAB = 263 };

static struct cli_batch batch;
static struct qwen_tok_decoder *spell;

static void
start(void)
{
	static struct qwen_template *t;
	static struct qwen_sampler *s;
	static struct cli_grammars grammars;
	static struct vocab v;
	static struct qwen_gguf *g;

	vocab_init(&v, "qwen2");
	vocab_pair(&v, "t", "h");
	vocab_pair(&v, "th", "e");
	vocab_pair(&v, "\xc4\xa0", "the");
	vocab_pair(&v, "a", "a");
	vocab_pair(&v, "\xc4\xa0", "\xc4\xa0");
	vocab_token(&v, "<|im_start|>", QWEN_TOKEN_CONTROL);
	vocab_token(&v, "<|im_end|>", QWEN_TOKEN_CONTROL);
	batch.tok = vocab_open(&v, &g);
	batch.n_vocab = N_VOCAB;
	batch.model = "m";
	batch.max = 9;
	batch.no_template = "none";
	if (qwen_template_open(&t, "qwen3", NULL) < 0 ||
	    qwen_sampler_new(&s, NULL) < 0 || qwen_tok_decoder_new(&spell,
	    batch.tok, QWEN_TOK_BYTES | QWEN_TOK_SHOW_SPECIAL, NULL) < 0)
		abort();
	batch.template = t;
	batch.sampler = s;
	cli_grammars_open(&grammars, g, NULL, NULL);
	batch.grammars = &grammars;
}

/* Some tokens, and the end. */
static void
answer(struct cli_answer *a, uint64_t *seed)
{
	struct qwen_sample_top top[20];
	struct qwen_choice c = { .logprob = -1, .top = top };
	size_t i, k;
	int cut = 0;

	if (qwen_tok_decoder_new(&a->decoder, batch.tok, 0, NULL) < 0)
		abort();
	c.n_top = a->item->n_top;
	if (c.n_top > 20)
		abort();
	for (i = 0; i < 9 && i < a->item->max && !cut; i++) {
		c.id = (int32_t)(rnd(seed) % N_VOCAB);
		for (k = 0; k < c.n_top; k++)
			top[k] = (struct qwen_sample_top){
			    (int32_t)(rnd(seed) % N_VOCAB), 0, -2 };
		cut = cli_answer_put(a, &c, spell);
	}
	cli_answer_end(a, cut ? "cut" : "length");
	if (a->item->form == CLI_CHAT)
		cli_answer_reply(a, batch.template);
}

static void
check_result(const struct cli_item *item)
{
	struct cli_line line = { item->result.s, item->result.n - 1 };
	uint64_t number;
	int is_error;
	char *id;

	if (memchr(line.s, '\n', item->result.n) != line.s + line.n ||
	    cli_result_parse(&line, &number, &id, &is_error) < 0 ||
	    number != item->line || is_error != (item->err.code != 0) ||
	    cli_id_hash(id) != cli_id_hash(item->id))
		abort();
	free(id);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct cli_line line = { (const char *)data + 1, size - 1 };
	struct cli_item *item;
	uint64_t seed = size;
	size_t i;
	int unique;
	char *id;

	if (size == 0)
		return 0;
	if (batch.tok == NULL)
		start();
	batch.encode = data[0] & 1 ? QWEN_TOK_SPECIAL : 0;
	item = cli_item_parse(&batch, &line, 3);
	id = cli_line_id(&line, &unique);
	/* as --resume knows it */
	if (cli_id_hash(id) != cli_id_hash(item->id) ||
	    unique != (item->form != CLI_PLAIN))
		abort();
	free(id);
	if (item->err.code == 0 && (item->n_answers == 0 ||
	    item->n_answers > CLI_CHOICES_MAX))
		abort();
	for (i = 0; i < item->n_answers && item->err.code == 0; i++) {
		if (item->answer[i].n_prompt == 0)
			abort();
		answer(&item->answer[i], &seed);
	}
	cli_item_result(item, &batch);
	check_result(item);
	cli_item_free(item);
	return 0;
}
