/* SPDX-License-Identifier: ISC */
/*
 * batch.c - many jobs at the same time: each gets the tokens that it gets
 * alone, whatever other jobs there are and however little memory; and how jobs
 * end.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/quant/logprob.h"
#include "qwen.h"
#include "qwentext.h"
#include "../ref/tiny.h"
#include "../tap.h"

enum { N_VOCAB = 19, N_CTX = 300, N_JOBS = 48, MOST = 200 };

static const struct tiny_shape hybrid = {
	.arch = "qwen35", .n_layer = 2, .n_embd = 32, .n_vocab = N_VOCAB,
	.n_head = 4, .n_head_kv = 2, .n_embd_head = 32, .n_rot = 8,
	.n_ff = 48, .conv_kernel = 4, .dk = 32, .dv = 32, .n_head_k = 2,
	.n_head_v = 4, .interval = 2,
};

static struct qwen_err err;
static struct qwen_model *model;

/* A job, what it shall give, and what it gave. */
struct wish {
	int32_t	 prompt[MOST];
	size_t	 n_prompt, max;
	char	 options[64];
	int32_t	 want[MOST], got[MOST];
	size_t	 n_want, n_got;
	size_t	 enough;		/* tokens; 0: never */
	double	 logprob;		/* sum of those told */
	enum qwen_job_end why;
	int	 ended;
	struct qwen_err err;
};

static struct wish wish[N_JOBS];

static void
open_model(void)
{
	struct qwen_model_opts opts = { .n_threads = 2 };
	struct tiny *t = tiny_new(&hybrid);
	char path[1024];

	snprintf(path, sizeof path, "%s/batch-%ld.gguf",
	    getenv("TMPDIR") != NULL ? getenv("TMPDIR") : "/tmp",
	    (long)getpid());
	tiny_u32(t, "context_length", N_CTX);
	tiny_write(t, path);
	tiny_free(t);
	if (qwen_model_open(&model, path, &opts, &err) < 0) {
		fprintf(stderr, "%s\n", err.msg);
		exit(1);
	}
	unlink(path);
}

static struct qwen_sampler *
sampler(const char *options)
{
	struct qwen_sampler *s;
	char copy[64], *word, *eq, *save = NULL;

	if (qwen_sampler_new(&s, &err) < 0)
		exit(1);
	snprintf(copy, sizeof copy, "%s", options);
	for (word = strtok_r(copy, " ", &save); word != NULL;
	    word = strtok_r(NULL, " ", &save)) {
		if ((eq = strchr(word, '=')) != NULL)
			*eq++ = '\0';
		if (qwen_sampler_set(s, word, eq, &err) < 0)
			exit(1);
	}
	return s;
}

/* What the job gives alone, by the plainest of means. */
static void
alone(struct wish *w)
{
	struct qwen_sampler *sm = sampler(w->options);
	struct qwen_session *s;
	int32_t id;

	if (qwen_session_new(&s, model, &err) < 0 ||
	    qwen_session_eval(s, w->prompt, w->n_prompt, NULL, &err) < 0 ||
	    qwen_sampler_begin(sm, N_VOCAB, &err) < 0 ||
	    qwen_sampler_accept(sm, w->prompt, w->n_prompt, 0, &err) < 0)
		exit(1);
	for (w->n_want = 0; w->n_want < w->max; ) {
		if (qwen_sampler_sample(sm, qwen_session_logits(s), NULL,
		    N_VOCAB, qwen_session_n_tokens(s), &id, &err) < 0 ||
		    qwen_sampler_accept(sm, &id, 1, 1, &err) < 0)
			exit(1);
		w->want[w->n_want++] = id;
		if (qwen_session_n_tokens(s) + 1 == N_CTX)
			break;
		if (qwen_session_eval(s, &id, 1, NULL, &err) < 0)
			exit(1);
	}
	qwen_session_free(s);
	qwen_sampler_free(sm);
}

/* Numbers that are the same every time. */
static unsigned
draw(unsigned n)
{
	static unsigned x = 12345;

	x = x * 1103515245u + 12345u;
	return (x >> 16) % n;
}

static void
make_wishes(void)
{
	int32_t head[3][40];
	size_t i, k, n;

	for (i = 0; i < 3; i++) {
		for (k = 0; k < 40; k++)
			head[i][k] = (int32_t)draw(N_VOCAB);
	}
	for (i = 0; i < N_JOBS; i++) {
		struct wish *w = &wish[i];

		if ((n = draw(4)) < 3) {
			memcpy(w->prompt, head[n], sizeof head[n]);
			w->n_prompt = 40;
		}
		for (k = 1 + draw(30); k > 0; k--)
			w->prompt[w->n_prompt++] = (int32_t)draw(N_VOCAB);
		w->max = 1 + draw(40);
		if (i % 2 == 0)
			snprintf(w->options, sizeof w->options,
			    "temp=1.5 seed=%u", draw(100));
		if (i % 5 == 0)
			snprintf(w->options, sizeof w->options,
			    "temp=1 repeat-penalty=1.3 seed=%u", draw(100));
		alone(w);
	}
}

static int
on_token(void *arg, const struct qwen_choice *c)
{
	struct wish *w = arg;

	if (w->n_got < MOST)
		w->got[w->n_got] = c->id;
	w->n_got++;
	w->logprob += c->logprob;
	return w->n_got == w->enough;
}

static void
on_end(void *arg, enum qwen_job_end why, const struct qwen_err *e)
{
	struct wish *w = arg;

	w->why = why;
	w->ended++;
	if (e != NULL)
		w->err = *e;
}

static struct qwen_job
job_of(struct wish *w)
{
	w->n_got = 0;
	w->ended = 0;
	w->logprob = 0;
	w->err.code = 0;
	return (struct qwen_job){
		.tokens = w->prompt, .n = w->n_prompt, .max = w->max,
		.token = on_token, .end = on_end, .arg = w,
	};
}

static struct qwen_cache *cache;

static struct qwen_work *
open_work(uint64_t limit, size_t n_sequences, size_t n_pass)
{
	struct qwen_work_opts o = {
		.model = model, .n_sequences = n_sequences, .n_pass = n_pass,
	};
	struct qwen_work *w;

	if (qwen_cache_new(&cache, model, limit, &err) < 0)
		exit(1);
	o.cache = cache;
	if (qwen_work_new(&w, &o, &err) < 0)
		exit(1);
	return w;
}

static int
add(struct qwen_work *w, struct wish *x)
{
	struct qwen_job j = job_of(x);

	j.sampler = sampler(x->options);
	if (qwen_work_add(w, &j, &err) == 0)
		return 0;
	qwen_sampler_free(j.sampler);
	return -1;
}

/* To the end; counts steps, so that a hang is a failure. */
static int
finish(struct qwen_work *w)
{
	int r, steps = 0;

	while ((r = qwen_work_step(w, &err)) > 0 && steps < 100000)
		steps++;
	return r == 0 && qwen_work_n_jobs(w) == 0;
}

static void
close_work(struct qwen_work *w)
{
	qwen_work_free(w);
	qwen_cache_free(cache);
}

static int
is_right(const struct wish *w)
{
	return w->ended == 1 && w->why == QWEN_JOB_LENGTH &&
	    w->n_got == w->n_want &&
	    memcmp(w->got, w->want, w->n_want * sizeof *w->want) == 0;
}

/* All wishes, in some order: how many went wrong; and what it took. */
static int
run_all(uint64_t limit, size_t n_sequences, size_t n_pass, size_t step,
    struct qwen_work_stats *st)
{
	struct qwen_work *w = open_work(limit, n_sequences, n_pass);
	struct qwen_cache_usage u;
	size_t i;
	int bad = 0;

	for (i = 0; i < N_JOBS; i++) {
		if (add(w, &wish[i * step % N_JOBS]) < 0)
			bad++;
		/* some come when others are on their way */
		if (i % 7 == 6 && qwen_work_step(w, &err) < 0)
			bad++;
	}
	bad += !finish(w);
	for (i = 0; i < N_JOBS; i++)
		bad += !is_right(&wish[i]);
	qwen_work_stats(w, st);
	qwen_cache_usage(cache, &u);
	bad += limit != 0 && st->max_bytes > limit;
	close_work(w);
	return bad;
}

static void
test_company(void)
{
	static const struct {
		size_t n_sequences, n_pass, step;
	} runs[] = {
		{ 1, 0, 1 }, { 2, 1, 5 }, { 3, 7, 7 }, { 16, 64, 11 },
		{ 64, 0, 1 }, { 64, 0, 13 },
	};
	struct qwen_work_stats st;
	size_t i, prompts = 0, chosen = 0;
	int bad;

	for (i = 0; i < N_JOBS; i++) {
		prompts += wish[i].n_prompt;
		chosen += wish[i].n_want;
	}
	for (i = 0; i < sizeof runs / sizeof runs[0]; i++) {
		bad = run_all(0, runs[i].n_sequences, runs[i].n_pass,
		    runs[i].step, &st);
		ok(bad == 0, "%zu at a time, %zu tokens a pass, every %zu-th: "
		    "%d went wrong", runs[i].n_sequences, runs[i].n_pass,
		    runs[i].step, bad);
		ok(st.read + st.shared == prompts && st.chosen == chosen &&
		    st.preempted == 0 && st.again == 0,
		    "every token of a prompt was read or shared: %llu + %llu "
		    "of %zu", (unsigned long long)st.read,
		    (unsigned long long)st.shared, prompts);
	}
	ok(st.shared * 3 > prompts, "and many were shared");
}

static void
test_memory(void)
{
	struct qwen_cache_usage u;
	struct qwen_work_stats st;
	struct qwen_work *w = open_work(0, 0, 0);
	uint64_t limit, made = 0;
	int bad, k;

	qwen_cache_usage(cache, &u);
	close_work(w);
	/* with k of them, the longest (111 tokens) has just room */
	for (k = 1; k <= 8; k++) {
		limit = qwen_cache_need(model, 128) + (uint64_t)(k - 1) *
		    (u.state_bytes + 3 * u.block_bytes);
		bad = run_all(limit, 64, 0, 5, &st);
		ok(bad == 0, "%llu bytes: %d went wrong; %llu made room, %llu "
		    "tokens read again", (unsigned long long)limit, bad,
		    (unsigned long long)st.preempted,
		    (unsigned long long)st.again);
		made += st.preempted;
	}
	ok(made >= 8, "%llu times one had to make room",
	    (unsigned long long)made);
}

/* ------------------------------------------------------------ how jobs end */

static void
test_ends(void)
{
	struct qwen_work *w = open_work(0, 4, 0);
	struct wish a = wish[3], b = wish[3], c = wish[3], d = wish[3];
	struct qwen_job j;
	int32_t ending;

	a.max = b.max = d.max = 30;
	alone(&a);
	b.enough = 4;
	j = job_of(&a);
	j.sampler = sampler(a.options);
	ending = a.want[2];
	j.ending = &ending;
	j.n_ending = 1;
	qwen_work_add(w, &j, &err);
	add(w, &b);
	c.max = 1;
	add(w, &c);
	d.max = SIZE_MAX;
	d.n_prompt = N_CTX - 3 < MOST ? N_CTX - 3 : d.n_prompt;
	add(w, &d);
	ok(finish(w), "four jobs");
	ok(a.why == QWEN_JOB_ENDING && a.n_got <= 3 &&
	    a.got[a.n_got - 1] == ending, "one ends with a token that ends");
	ok(b.why == QWEN_JOB_ENOUGH && b.n_got == 4, "one is told to");
	ok(c.why == QWEN_JOB_LENGTH && c.n_got == 1, "one had a single token");
	ok(d.why == QWEN_JOB_LENGTH && d.n_prompt + d.n_got == N_CTX,
	    "one fills the context");
	ok(qwen_work_step(w, &err) == 0, "and then there is nothing to do");
	close_work(w);
}

static void
test_refused(void)
{
	struct qwen_work *w = open_work(qwen_cache_need(model, 64), 4, 0);
	struct wish a = wish[1];

	a.prompt[5] = N_VOCAB;
	a.n_prompt = 10;
	ok(add(w, &a) < 0 && err.code == QWEN_ERANGE, "%s", err.msg);
	a.prompt[5] = -1;
	ok(add(w, &a) < 0 && err.code == QWEN_ERANGE, "%s", err.msg);
	a.n_prompt = 0;
	ok(add(w, &a) < 0 && err.code == QWEN_ERANGE, "%s", err.msg);
	a = wish[1];
	memset(a.prompt, 0, sizeof a.prompt);
	a.n_prompt = 65;
	ok(add(w, &a) < 0 && err.code == QWEN_EFULL, "%s", err.msg);
	/* it finds out on its way; the others are none the worse */
	a.n_prompt = 60;
	a.max = 100;
	wish[2].options[0] = '\0';
	wish[2].n_prompt = 20;
	wish[2].max = 30;
	alone(&wish[2]);
	ok(add(w, &a) == 0 && add(w, &wish[2]) == 0 && finish(w),
	    "one that will need more than there is, and another");
	ok(a.why == QWEN_JOB_FAILED && a.err.code == QWEN_EFULL, "%s",
	    a.err.msg);
	ok(a.n_got == 5, "it got as far as it could: %zu tokens", a.n_got);
	ok(is_right(&wish[2]), "the other one is right");
	close_work(w);
}

static void
test_logprobs(void)
{
	struct qwen_work *w = open_work(0, 4, 0);
	struct wish a = wish[1], b = wish[1];
	struct qwen_session *s;
	struct qwen_job j;
	const float *row;
	double want = 0, sum, top;
	size_t i, k;

	a.max = 6;
	a.options[0] = '\0';
	alone(&a);
	j = job_of(&a);
	j.logprobs = 1;
	j.n_top = 3;
	qwen_work_add(w, &j, &err);
	b.max = 6;
	j = job_of(&b);
	qwen_work_add(w, &j, &err);
	ok(finish(w) && is_right(&a), "without a sampler, the best token");
	if (qwen_session_new(&s, model, &err) < 0 ||
	    qwen_session_eval(s, a.prompt, a.n_prompt, NULL, &err) < 0)
		exit(1);
	for (i = 0; i < 6; i++) {
		row = qwen_session_logits(s);
		for (sum = 0, top = row[0], k = 0; k < N_VOCAB; k++)
			top = row[k] > top ? row[k] : top;
		for (k = 0; k < N_VOCAB; k++)
			sum += exp(row[k] - top);
		want += row[a.want[i]] - top - log(sum);
		if (qwen_session_eval(s, &a.want[i], 1, NULL, &err) < 0)
			exit(1);
	}
	ok(fabs(want - a.logprob) < 1e-5, "logprobs add up to %g, want %g",
	    a.logprob, want);
	ok(b.logprob == 0, "none where none are wanted");
	qwen_session_free(s);
	close_work(w);
}

/* Answers to one prompt, and to one that goes on from it. */
static void
test_same_prompt(void)
{
	static struct wish w[6];
	struct qwen_work *work = open_work(0, 0, 0);
	struct qwen_work_stats st;
	size_t i;
	int bad = 0;

	for (i = 0; i < 6; i++) {
		w[i] = wish[7];
		w[i].n_prompt = i < 4 ? 50 : 50 + i;
		snprintf(w[i].options, sizeof w[i].options,
		    "temp=1.2 seed=%zu", i);
		w[i].max = 9;
		alone(&w[i]);
		add(work, &w[i]);
	}
	bad += !finish(work);
	for (i = 0; i < 6; i++)
		bad += !is_right(&w[i]);
	qwen_work_stats(work, &st);
	ok(bad == 0 && st.read < 50 + 20 && st.shared >= 5 * 50,
	    "a prompt six times is read once: %llu tokens read, %llu shared",
	    (unsigned long long)st.read, (unsigned long long)st.shared);
	close_work(work);
}

/* ------------------------------------------------------------------ scores */

enum { N_TOP = 3 };

/* Texts of which tokens are scored; most begin alike. */
struct paper {
	int32_t	 text[MOST];
	size_t	 n, from;
	double	 want[MOST], got[MOST];
	size_t	 want_rank[MOST], got_rank[MOST];
	size_t	 next;			/* the score that comes next */
	int	 ended, disorder, bad_top;
	enum qwen_job_end why;
};

static struct paper paper[N_JOBS];

static void
on_score(void *arg, const struct qwen_score *s)
{
	struct paper *p = arg;

	p->disorder += s->at != p->next++;
	p->bad_top += s->n_top != N_TOP || s->top[0].logprob < s->logprob ||
	    (s->rank < N_TOP && (s->top[s->rank].id != p->text[s->at] ||
	    s->top[s->rank].logprob != s->logprob)) ||
	    s->logits[s->top[1].id] != s->top[1].logit;
	if (s->at < MOST) {
		p->got[s->at] = s->logprob;
		p->got_rank[s->at] = s->rank;
	}
}

static void
on_paper_end(void *arg, enum qwen_job_end why, const struct qwen_err *e)
{
	struct paper *p = arg;

	(void)e;
	p->why = why;
	p->ended++;
}

/* Token by token, by the plainest of means. */
static void
score_alone(struct paper *p)
{
	struct qwen_session *s;
	const float *logits;
	size_t i;

	if (qwen_session_new(&s, model, &err) < 0)
		exit(1);
	for (i = 1; i < p->n; i++) {
		if (qwen_session_eval(s, &p->text[i - 1], 1, NULL, &err) < 0)
			exit(1);
		logits = qwen_session_logits(s);
		p->want[i] = (double)logits[p->text[i]] - qwen_logprob_sum(
		    logits, N_VOCAB, p->text[i], &p->want_rank[i]);
	}
	qwen_session_free(s);
}

static void
make_papers(void)
{
	size_t i, k, same;

	for (i = 0; i < N_JOBS; i++) {
		struct paper *p = &paper[i];

		same = i > 0 ? draw(80) : 0;
		p->n = same + 2 + draw(60);
		for (k = 0; k < p->n; k++)
			p->text[k] = k < same && k < paper[i / 2].n ?
			    paper[i / 2].text[k] : (int32_t)draw(N_VOCAB);
		/* several with the same context, also with one token left */
		p->from = i % 3 == 0 || same == 0 ? 1 + draw((unsigned)p->n -
		    1) : same < p->n ? same : p->n - 1;
		score_alone(p);
	}
}

static int
add_paper(struct qwen_work *w, struct paper *p)
{
	struct qwen_job j = {
		.tokens = p->text, .n = p->n, .from = p->from,
		.n_top = N_TOP, .score = on_score, .end = on_paper_end,
		.arg = p,
	};

	p->next = p->from;
	p->ended = p->disorder = p->bad_top = 0;
	return qwen_work_add(w, &j, &err);
}

static int
is_wrong(const struct paper *p)
{
	size_t i;

	if (p->ended != 1 || p->why != QWEN_JOB_LENGTH || p->disorder ||
	    p->bad_top ||
	    p->next != p->n)
		return 1;
	for (i = p->from; i < p->n; i++) {
		if (p->got[i] != p->want[i] || p->got_rank[i] !=
		    p->want_rank[i])
			return 1;
	}
	return 0;
}

/* All papers, and every third wish between them. */
static int
score_all(uint64_t limit, size_t n_sequences, size_t n_pass,
    struct qwen_work_stats *st)
{
	struct qwen_work *w = open_work(limit, n_sequences, n_pass);
	size_t i;
	int bad = 0;

	for (i = 0; i < N_JOBS; i++) {
		bad += add_paper(w, &paper[i]) < 0;
		if (i % 3 == 0)
			bad += add(w, &wish[i]) < 0;
		if (i % 7 == 6 && qwen_work_step(w, &err) < 0)
			bad++;
	}
	bad += !finish(w);
	for (i = 0; i < N_JOBS; i++) {
		bad += is_wrong(&paper[i]);
		bad += i % 3 == 0 && !is_right(&wish[i]);
	}
	qwen_work_stats(w, st);
	close_work(w);
	return bad;
}

static void
test_scores(void)
{
	uint64_t most = qwen_cache_need(model, N_CTX);
	struct qwen_work_stats st;

	make_papers();
	ok(score_all(0, 1, 0, &st) == 0, "scores, one text after another");
	ok(score_all(0, 0, 0, &st) == 0 && st.shared > 0,
	    "all at once, %llu tokens shared: the same bits",
	    (unsigned long long)st.shared);
	ok(score_all(0, 5, 3, &st) == 0, "3 tokens a pass: the same bits");
	ok(score_all(2 * most, 0, 40, &st) == 0 && st.preempted > 0,
	    "%llu times one made room: the same bits",
	    (unsigned long long)st.preempted);
}

static void
test_no_scores(void)
{
	struct qwen_work *w = open_work(0, 0, 0);
	struct paper p = paper[0];
	int32_t more[N_CTX + 2] = { 0 };
	struct qwen_job j = {
		.tokens = more, .n = N_CTX, .from = 1, .score = on_score,
		.end = on_paper_end, .arg = &p,
	};

	p.from = 0;
	ok(add_paper(w, &p) < 0, "the first token has no score: %s", err.msg);
	p.from = p.n;
	ok(add_paper(w, &p) < 0, "nor has one after the end: %s", err.msg);
	ok(qwen_work_add(w, &j, &err) == 0, "a text as long as the context");
	j.n++;
	ok(qwen_work_add(w, &j, &err) < 0, "but not longer: %s", err.msg);
	close_work(w);
}

int
main(void)
{
	open_model();
	make_wishes();
	test_company();
	test_memory();
	test_ends();
	test_refused();
	test_logprobs();
	test_same_prompt();
	test_scores();
	test_no_scores();
	qwen_model_close(model);
	return done_testing();
}
