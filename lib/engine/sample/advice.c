/* SPDX-License-Identifier: ISC */
/*
 * advice.c - recommended sampling settings of a model: those in its file, or
 * those of the model cards of published families.
 */
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "qwen.h"

/*
 * Sources: the cards at https://huggingface.co/Qwen (Qwen3-8B,
 * Qwen3-Coder-30B-A3B- Instruct, Qwen3-Coder-Next, Qwen3-Next-80B-A3B-Thinking
 * and -Instruct, Qwen3.5-0.8B, -9B and -35B-A3B, Qwen3.6-27B and -35B-A3B;
 * section "Best Practices", general tasks in text), and for Qwen2.5 the
 * generation_config.json of Qwen2.5-7B-Instruct.  Qwen3-2507 has the settings
 * of Qwen3 with or without thinking.  Settings that equal our defaults are left
 * out.  Penalties in the cards look at all generated tokens.
 */
#define ALL " penalty-last-n=-1"
#define WARM "temp=0.6 top-k=20 top-p=0.95"
#define COOL "temp=0.7 top-k=20 top-p=0.8"
#define HOT "temp=1 top-k=20 top-p=0.95"

/* The first match counts.  Names in lower case, with dashes between words. */
static const struct family {
	const char	*name, *source;
	const char	*arch;		/* for files with another name: this
					   architecture */
	uint64_t	 n_vocab;	/* and at least this many tokens */
	const char	*thinking, *plain;
} families[] = {
	{ "qwen3-coder-next", "card of Qwen3-Coder-Next", NULL, 0,
	  "temp=1 top-k=40 top-p=0.95", "temp=1 top-k=40 top-p=0.95" },
	{ "qwen3-coder", "card of Qwen3-Coder", NULL, 0,
	  COOL " repeat-penalty=1.05" ALL, COOL " repeat-penalty=1.05" ALL },
	{ "qwen3-next", "card of Qwen3-Next", "qwen3next", 151000,
	  WARM, COOL },
	{ "qwen3", "card of Qwen3", "qwen3", 151000, WARM, COOL },
	{ "qwen3", "card of Qwen3", "qwen3moe", 151000, WARM, COOL },
	{ "qwen3.6-27b", "card of Qwen3.6-27B", NULL, 0,
	  HOT, COOL " presence-penalty=1.5" ALL },
	{ "qwen3.6", "card of Qwen3.6", NULL, 0,
	  HOT " presence-penalty=1.5" ALL, COOL " presence-penalty=1.5" ALL },
	{ "qwen3.5-0.8b", "card of Qwen3.5-0.8B", NULL, 0,
	  HOT " presence-penalty=1.5" ALL,
	  "temp=1 top-k=20 presence-penalty=2" ALL },
	{ "qwen3.5-2b", "card of Qwen3.5-2B", NULL, 0,
	  HOT " presence-penalty=1.5" ALL,
	  "temp=1 top-k=20 presence-penalty=2" ALL },
	{ "qwen3.5", "card of Qwen3.5", "qwen35", 248000,
	  HOT " presence-penalty=1.5" ALL, COOL " presence-penalty=1.5" ALL },
	{ "qwen3.5", "card of Qwen3.5", "qwen35moe", 248000,
	  HOT " presence-penalty=1.5" ALL, COOL " presence-penalty=1.5" ALL },
	{ "qwen2.5", "configuration of Qwen2.5", "qwen2", 151000,
	  COOL " repeat-penalty=1.05" ALL, COOL " repeat-penalty=1.05" ALL },
};
enum { N_FAMILIES = sizeof families / sizeof *families };

/*
 * Keys of model files and the options that they set.  Where files have a switch
 * and a strength, we have one option.
 */
static const struct {
	const char	*key, *option;
	double		 min;		/* values below this mean "off", as does
					   this value */
} keys[] = {
	{ "general.sampling.temp", "temp", 0 },
	{ "general.sampling.top_k", "top-k", 0 },
	{ "general.sampling.top_p", "top-p", -INFINITY },
	{ "general.sampling.min_p", "min-p", -INFINITY },
	{ "general.sampling.xtc_probability", "xtc-probability", -INFINITY },
	{ "general.sampling.xtc_threshold", "xtc-threshold", -INFINITY },
	{ "general.sampling.penalty_last_n", "penalty-last-n", -INFINITY },
	{ "general.sampling.penalty_repeat", "repeat-penalty", -INFINITY },
	{ "general.sampling.mirostat_eta", "mirostat-eta", -INFINITY },
};
enum { N_KEYS = sizeof keys / sizeof *keys };

static void
add_setting(struct qwen_advice *a, const char *option, double value)
{
	size_t n = strlen(a->settings);

	/* print the file's float as its decimal */
	snprintf(a->settings + n, sizeof a->settings - n, "%s%s=%.7g",
	    n > 0 ? " " : "", option, value);
}

/* Reads the Mirostat settings: version 2 turns it on; 5 is the usual target. */
static int
read_mirostat(const struct qwen_gguf *g, struct qwen_advice *a,
    struct qwen_err *err)
{
	double version = 0, tau = 5;

	if (qwen_gguf_get_f64(g, "general.sampling.mirostat", 0, &version,
	    err) < 0 || qwen_gguf_get_f64(g, "general.sampling.mirostat_tau",
	    0, &tau, err) < 0)
		return -1;
	if (version == 2)
		add_setting(a, "mirostat", tau);
	return 0;
}

static int
read_file(const struct qwen_gguf *g, struct qwen_advice *a,
    struct qwen_err *err)
{
	size_t i;
	double d;
	int there;

	for (i = 0; i < N_KEYS; i++) {
		there = qwen_gguf_get_f64(g, keys[i].key, 0, &d, err);
		if (there < 0)
			return -1;
		if (there > 0)
			add_setting(a, keys[i].option,
			    d < keys[i].min ? keys[i].min : d);
	}
	return read_mirostat(g, a, err);
}

/*
 * Returns 1 if s begins with name as whole words: "Qwen3.6 35B_A3B" begins with
 * "qwen3.6".
 */
static int
begins(struct qwen_str s, const char *name)
{
	size_t i;
	char c;

	for (i = 0; i < s.len && name[i] != '\0'; i++) {
		c = (char)tolower((unsigned char)s.s[i]);
		if ((c == ' ' || c == '_' ? '-' : c) != name[i])
			return 0;
	}
	return name[i] == '\0' && (i == s.len || strchr(" -_", s.s[i]) != NULL);
}

static const struct family *
by_name(const struct qwen_gguf *g)
{
	static const char *const names[] = { "general.name",
	    "general.basename", "general.base_model.0.name" };
	struct qwen_str s;
	size_t i, k;

	for (k = 0; k < sizeof names / sizeof *names; k++) {
		if (qwen_gguf_get_str(g, names[k], &s, NULL) <= 0)
			continue;
		for (i = 0; i < N_FAMILIES; i++) {
			if (begins(s, families[i].name))
				return &families[i];
		}
	}
	return NULL;
}

/*
 * Finds the family by architecture and vocabulary, for models derived from it.
 */
static const struct family *
by_shape(const struct qwen_gguf *g)
{
	const struct qwen_gguf_kv *kv =
	    qwen_gguf_find(g, "tokenizer.ggml.tokens");
	struct qwen_str s;
	size_t i;

	if (kv == NULL ||
	    qwen_gguf_get_str(g, "general.architecture", &s, NULL) <= 0)
		return NULL;
	for (i = 0; i < N_FAMILIES; i++) {
		if (families[i].arch != NULL && kv->n >= families[i].n_vocab &&
		    qwen_str_is(s, families[i].arch))
			return &families[i];
	}
	return NULL;
}

int
qwen_sampling_advice(const struct qwen_gguf *g, int thinking,
    struct qwen_advice *out, struct qwen_err *err)
{
	const struct family *f;

	*out = (struct qwen_advice){ .source = "model file" };
	if (read_file(g, out, err) < 0)
		return -1;
	if (out->settings[0] != '\0')
		return 0;
	f = by_name(g);
	if (f == NULL)
		f = by_shape(g);
	out->source = f != NULL ? f->source : "nothing";
	if (f != NULL)
		snprintf(out->settings, sizeof out->settings, "%s",
		    thinking ? f->thinking : f->plain);
	return 0;
}
