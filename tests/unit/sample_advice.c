/* SPDX-License-Identifier: ISC */
/*
 * sample_advice.c - recommended settings of models, and options that replace
 * them.
 */
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gguf/write.h"
#include "qwen.h"
#include "../tap.h"

enum { VOCAB = 248320 };

/* A file of these keys: "key=text", "key#number", of so many tokens. */
static struct qwen_gguf *
model(const char *const *keys, size_t n_vocab)
{
	static const char path[] = "sample_advice.gguf";
	static struct qwen_str tokens[VOCAB];
	int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
	struct qwen_gguf_writer *w;
	struct qwen_gguf *g;
	struct qwen_err err;
	const char *at;
	char key[80];

	if (fd == -1 || qwen_gguf_writer_new(&w, &err) < 0)
		abort();
	for (; *keys != NULL; keys++) {
		at = *keys + strcspn(*keys, "=#");
		snprintf(key, sizeof key, "%.*s", (int)(at - *keys), *keys);
		if (*at == '=')
			qwen_gguf_put_str(w, key, at + 1);
		else
			qwen_gguf_put_f32(w, key, strtof(at + 1, NULL));
	}
	for (size_t i = 0; i < n_vocab; i++)
		tokens[i].s = "";
	qwen_gguf_put_strs(w, "tokenizer.ggml.tokens", tokens, n_vocab);
	if (qwen_gguf_write_head(w, fd, &err) < 0 ||
	    qwen_gguf_open(&g, path, &err) < 0) {
		printf("# %s\n", err.msg);
		abort();
	}
	qwen_gguf_writer_free(w);
	close(fd);
	unlink(path);
	return g;
}

static void
advises(const char *const *keys, size_t n_vocab, int thinking,
    const char *settings, const char *source)
{
	struct qwen_gguf *g = model(keys, n_vocab);
	struct qwen_advice a;
	struct qwen_err err;

	if (!ok(qwen_sampling_advice(g, thinking, &a, &err) == 0 &&
	    strcmp(a.settings, settings) == 0 && strcmp(a.source, source) == 0,
	    "%s%s: %s", keys[1] ? keys[1] : keys[0],
	    thinking ? ", thinking" : "", settings))
		printf("# got %s by %s\n", a.settings, a.source);
	qwen_gguf_close(g);
}
#define FILE_OF(...) (const char *const []){ __VA_ARGS__, NULL }

static void
by_the_file(void)
{
	advises(FILE_OF("general.name=Qwen3-8B", "general.sampling.temp#0.35",
	    "general.sampling.top_k#20", "general.sampling.top_p#0.95"), 3, 1,
	    "temp=0.35 top-k=20 top-p=0.95", "model file");
	advises(FILE_OF("general.name=x", "general.sampling.top_k#-1",
	    "general.sampling.penalty_last_n#-1",
	    "general.sampling.penalty_repeat#1.05"), 3, 0,
	    "top-k=0 penalty-last-n=-1 repeat-penalty=1.05", "model file");
	advises(FILE_OF("general.name=x", "general.sampling.mirostat#2",
	    "general.sampling.mirostat_tau#4"), 3, 0, "mirostat=4",
	    "model file");
	advises(FILE_OF("general.name=x", "general.sampling.mirostat#0",
	    "general.sampling.mirostat_tau#4"), 3, 0, "", "nothing");
}

#define WARM "temp=0.6 top-k=20 top-p=0.95"
#define COOL "temp=0.7 top-k=20 top-p=0.8"
#define ALL " penalty-last-n=-1"

static void
by_the_family(void)
{
	advises(FILE_OF("general.name=Qwen3 8B"), 3, 1, WARM, "card of Qwen3");
	advises(FILE_OF("general.name=Qwen3-4B-Instruct-2507"), 3, 0, COOL,
	    "card of Qwen3");
	advises(FILE_OF("general.name=QWEN3_NEXT_80B"), 3, 1, WARM,
	    "card of Qwen3-Next");
	advises(FILE_OF("general.name=Qwen3 Coder 30B A3B Instruct"), 3, 0,
	    COOL " repeat-penalty=1.05" ALL, "card of Qwen3-Coder");
	advises(FILE_OF("general.name=Qwen3-Coder-Next"), 3, 0,
	    "temp=1 top-k=40 top-p=0.95", "card of Qwen3-Coder-Next");
	advises(FILE_OF("general.name=Qwen3.5-35B-A3B"), 3, 1,
	    "temp=1 top-k=20 top-p=0.95 presence-penalty=1.5" ALL,
	    "card of Qwen3.5");
	advises(FILE_OF("general.name=Qwen3.5 0.8B"), 3, 0,
	    "temp=1 top-k=20 presence-penalty=2" ALL, "card of Qwen3.5-0.8B");
	advises(FILE_OF("general.name=Qwen3.6-27B"), 3, 1,
	    "temp=1 top-k=20 top-p=0.95", "card of Qwen3.6-27B");
	advises(FILE_OF("general.name=Qwen3.6-35B-A3B"), 3, 0,
	    COOL " presence-penalty=1.5" ALL, "card of Qwen3.6");
	advises(FILE_OF("general.name=Mine", "general.basename=Qwen3"), 3, 0,
	    COOL, "card of Qwen3");
	advises(FILE_OF("general.name=Mine",
	    "general.base_model.0.name=Qwen3.6 27B"), 3, 0,
	    COOL " presence-penalty=1.5" ALL, "card of Qwen3.6-27B");
	advises(FILE_OF("general.name=Mine", "general.architecture=qwen3moe"),
	    151936, 1, WARM, "card of Qwen3");
	advises(FILE_OF("general.name=Mine", "general.architecture=qwen35"),
	    248320, 0, COOL " presence-penalty=1.5" ALL, "card of Qwen3.5");
	advises(FILE_OF("general.name=Mine", "general.architecture=qwen3"),
	    32000, 0, "", "nothing");
	advises(FILE_OF("general.name=Qwen3.99-1B"), 3, 0, "", "nothing");
	advises(FILE_OF("general.name=Qwen30"), 3, 0, "", "nothing");
}

/* Options that somebody set, then such settings: what is in force. */
static void
in_force(const char *options, const char *settings, const char *want)
{
	struct qwen_sampler *s, *copy;
	struct qwen_err err;
	char got[256] = "";

	if (qwen_sampler_new(&s, &err) < 0 ||
	    qwen_sampler_read(s, options, &err) < 0 ||
	    qwen_sampler_copy(&copy, s, &err) < 0)
		abort();
	if (ok(qwen_sampler_advise(copy, "top-k=9 min-p=0.5", &err) >= 0 &&
	    qwen_sampler_advise(copy, settings, &err) >= 0 &&
	    qwen_sampler_check(copy, &err) == 0, "%s, and %s", options,
	    settings))
		qwen_sampler_describe(copy, got, sizeof got);
	if (!ok(strcmp(got, want) == 0, "are %s", want))
		printf("# got %s\n", got);
	qwen_sampler_free(copy);
	qwen_sampler_free(s);
}

static void
refused(const char *settings)
{
	struct qwen_sampler *s;
	struct qwen_err err;

	if (qwen_sampler_new(&s, &err) < 0)
		abort();
	ok(qwen_sampler_advise(s, settings, &err) == -1, "%s: %s", settings,
	    err.msg);
	qwen_sampler_free(s);
}

int
main(void)
{
	struct qwen_gguf *g;
	struct qwen_advice a;
	struct qwen_err err;

	by_the_file();
	by_the_family();
	g = model(FILE_OF("general.name=x", "general.sampling.temp=hot"), 3);
	ok(qwen_sampling_advice(g, 0, &a, &err) == -1, "no number: %s",
	    err.msg);
	qwen_gguf_close(g);
	in_force("", COOL, "top-k=20 top-p=0.8 temp=0.7");
	/* who wants the best token gets it, by penalties of their own alone */
	in_force("temp=0", COOL " repeat-penalty=1.05" ALL, "");
	in_force("greedy=1", COOL " repeat-penalty=1.05" ALL, "greedy=1");
	in_force("temp=0", "mirostat=5 xtc-probability=0.5", "");
	in_force("temp=0 repeat-penalty=1.2 top-k=7", COOL,
	    "repeat-penalty=1.2 top-k=7");
	in_force("temp=0.5", COOL, "top-k=20 top-p=0.8 temp=0.5");
	in_force("top-k=0 seed=4", COOL, "seed=4 top-p=0.8 temp=0.7");
	in_force("chain=top-k", COOL, "chain=top-k top-k=20");
	in_force("stop=x", "", "stop=x");
	refused("temp=nan");
	refused("temp=-1");
	refused("temp");
	refused("nothing=1");
	return done_testing();
}
