/* SPDX-License-Identifier: ISC */
/*
 * about.c - answers that describe the model and the server, with the fields of
 * OpenAI, Anthropic, Ollama, llama.cpp and vLLM.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "gguf/recipe.h"
#include "qserve.h"
#include "text/json/json.h"

/* The Ollama version with this API, for programs that request it. */
#define OLLAMA_VERSION "0.12.11"

enum { LISTED_MAX = 64 };	/* longest array that is shown */

/* Add a time as a field after others. */
static void
put_time(struct qwen_text *t, const char *key, time_t at)
{
	struct tm tm;
	char buf[32];

	if (gmtime_r(&at, &tm) != NULL &&
	    strftime(buf, sizeof buf, "%Y-%m-%dT%H:%M:%SZ", &tm) > 0)
		qwen_json_put(t, ",'%s':'%s'", key, buf);
}

/* ------------------------------------------------------------------- names */

/* Return the i-th name of the model; NULL after the last one. */
static const char *
name_of(const struct qserve *s, size_t i)
{
	return i == 0 ? s->with.service.model : i <= s->aliases.n ?
	    s->aliases.v[i - 1] : NULL;
}

/*
 * Return the name of the model that matches, also with Ollama's tag ":latest";
 * NULL if none does.
 */
static const char *
find_name(const struct qserve *s, const char *asked)
{
	const char *name;
	size_t i, n;

	for (i = 0; (name = name_of(s, i)) != NULL; i++) {
		n = strlen(name);
		if (strncmp(asked, name, n) == 0 && (asked[n] == '\0' ||
		    strcmp(asked + n, ":latest") == 0))
			return name;
	}
	return NULL;
}

/* Add an entry with the fields of OpenAI, then those of Anthropic. */
static void
put_model(struct qserve_call *c, const char *name)
{
	const struct qserve *s = c->server;
	unsigned long long n_ctx = qserve_n_ctx(s);

	qwen_json_put(&c->out, ",{'id':'%s','object':'model','created':%llu,"
	    "'owned_by':'qpipe','type':'model','lifecycle':'active',"
	    "'display_name':'%s'", name, cli_llu(s->started), name);
	put_time(&c->out, "created_at", (time_t)s->started);
	if (n_ctx > 0)
		qwen_json_put(&c->out, ",'max_model_len':%llu", n_ctx);
	if (s->with.service.reads_images)
		qwen_json_put(&c->out, ",'architecture':{'input_modalities':["
		    "'text','image'],'output_modalities':['text']},"
		    "'capabilities':{'image_input':{'supported':true}}");
	qwen_text_str(&c->out, "}");
}

void
qserve_models(struct qserve_call *c)
{
	const char *name;
	size_t i;

	qwen_json_put(&c->out, "{'object':'list','data':[");
	for (i = 0; (name = name_of(c->server, i)) != NULL; i++)
		put_model(c, name);
	qwen_json_put(&c->out, "],'has_more':false}");
	qserve_done(c, 200);
}

void
qserve_model(struct qserve_call *c)
{
	const char *asked = c->path + strlen("/v1/models/");
	const char *name = find_name(c->server, asked);

	if (name == NULL) {
		qserve_error(c, 404, "model_not_found", "no model '%.200s' "
		    "here, only '%.200s'; --alias gives it more names",
		    asked, c->server->with.service.model);
		return;
	}
	put_model(c, name);
	qserve_done(c, 200);
}

/* ----------------------------------------------------------- the model file */

static uint64_t
n_parameters(const struct qserve *s)
{
	const struct qwen_gguf_tensor *t;
	uint64_t n = 0;
	size_t i;

	for (i = 0; (t = qwen_gguf_tensor(s->gguf, i)) != NULL; i++)
		n += t->ne[0] * t->ne[1] * t->ne[2] * t->ne[3];
	return n;
}

/* Add a number of parameters, such as "7.6B", "494.03M" or "12K". */
static void
put_parameters(struct qwen_text *t, uint64_t n)
{
	static const struct {
		double		 size;
		const char	*name;
		int		 digits;
	} unit[] = { { 1e9, "B", 1 }, { 1e6, "M", 2 }, { 1e3, "K", 0 },
	    { 1, "", 0 } };
	double x = (double)n;
	size_t i;

	for (i = 0; i < 3 && x < unit[i].size; i++)
		;
	qwen_text_fmt(t, "\"%.*f%s\"", fmod(x, unit[i].size) == 0 ? 0 :
	    unit[i].digits, x / unit[i].size, unit[i].name);
}

/*
 * Return the name of the file's mix of formats, by the number in its metadata.
 */
static const char *
quantization(const struct qserve *s)
{
	const char *name;
	struct qwen_err err;
	uint64_t type;

	if (qwen_gguf_get_u64(s->gguf, "general.file_type", 0, &type,
	    &err) <= 0 || (name = qwen_recipe_of_file(type)) == NULL)
		return "unknown";
	return name;
}

/* Add a string of the metadata as JSON. */
static void
put_meta(struct qwen_text *t, const struct qserve *s, const char *key)
{
	struct qwen_str v = { "", 0 };
	struct qwen_err err;

	qwen_gguf_get_str(s->gguf, key, &v, &err);
	qwen_text_json(t, v.s, v.len);
}

/* Return the chat template in use, or none. */
static const char *
template_of(const struct qserve *s, const char *none)
{
	const struct qwen_template *t = s->with.service.template;

	return t != NULL ? qwen_template_source(t) : none;
}

/* Add a field with the text of the token whose id a key has, or null. */
static void
put_token(struct qwen_text *t, const char *field, const struct qserve *s,
    const char *key)
{
	struct qwen_str piece = { "", 0 };
	struct qwen_err err;
	uint64_t id;
	int got = qwen_gguf_get_u64(s->gguf, key, 0, &id, &err) > 0 &&
	    id < s->with.service.n_vocab;

	if (got)
		qwen_tok_decoder_put(s->with.service.spell, (int32_t)id,
		    &piece, NULL);
	qwen_json_put(t, ",'%s':%pS", field, got ? &piece : NULL);
}

/* Add a number with the fewest digits that read back as the same number. */
static void
put_real(struct qwen_text *t, double x, int is_float)
{
	char buf[40];
	int n = is_float ? 6 : 15;

	do
		snprintf(buf, sizeof buf, "%.*g", n, x);
	while (n++ < 17 && (is_float ? (double)strtof(buf, NULL) :
	    strtod(buf, NULL)) != x);
	qwen_text_str(t, buf);
}

/* Add element i of a value that is a number or a boolean. */
static void
put_number(struct qwen_text *t, const struct qserve *s,
    const struct qwen_gguf_kv *kv, const char *key, size_t i)
{
	struct qwen_err err;
	uint64_t u = 0;
	double f = 0;
	int b = 0;

	if (kv->elem == QWEN_GGUF_BOOL) {
		qwen_gguf_get_bool(s->gguf, key, i, &b, &err);
		qwen_text_str(t, b ? "true" : "false");
	} else if (kv->elem != QWEN_GGUF_FLOAT32 &&
	    kv->elem != QWEN_GGUF_FLOAT64 &&
	    qwen_gguf_get_u64(s->gguf, key, i, &u, &err) > 0) {
		qwen_text_fmt(t, "%llu", cli_llu(u));
	} else if (qwen_gguf_get_f64(s->gguf, key, i, &f, &err) > 0 &&
	    isfinite(f)) {
		put_real(t, f, kv->elem == QWEN_GGUF_FLOAT32);
	} else
		qwen_text_str(t, "null");
}

/*
 * Add a value; an array of more than LISTED_MAX elements is null unless all is
 * set.
 */
static void
put_value(struct qwen_text *t, const struct qserve *s,
    const struct qwen_gguf_kv *kv, const char *key, int all)
{
	int many = kv->type == QWEN_GGUF_ARRAY;
	struct qwen_str v;
	size_t i, at = 0;

	if (many && kv->n > LISTED_MAX && !all) {
		qwen_text_str(t, "null");
		return;
	}
	qwen_text_str(t, many ? "[" : "");
	for (i = 0; i < kv->n; i++) {
		qwen_json_put(t, many ? "," : "");
		if (kv->elem != QWEN_GGUF_STRING)
			put_number(t, s, kv, key, i);
		else if (qwen_gguf_next_str(kv, &at, &v))
			qwen_text_json(t, v.s, v.len);
		else
			qwen_text_str(t, "null");
	}
	qwen_text_str(t, many ? "]" : "");
}

static void
put_model_info(struct qwen_text *t, const struct qserve *s, int all)
{
	static const char count[] = "general.parameter_count";
	const struct qwen_gguf_kv *kv;
	char *key;
	size_t i;

	qwen_json_put(t, ",'model_info':{'%s':%llu", count,
	    cli_llu(n_parameters(s)));
	for (i = 0; (kv = qwen_gguf_kv(s->gguf, i)) != NULL; i++) {
		if ((key = strndup(kv->key.s, kv->key.len)) == NULL) {
			t->failed = 1;
			return;
		}
		/*
		 * the template has its own field; Ollama shows no arrays of
		 * arrays
		 */
		if (strcmp(key, count) != 0 && kv->elem != QWEN_GGUF_ARRAY &&
		    strcmp(key, "tokenizer.chat_template") != 0) {
			qwen_json_put(t, ",%pS:", &kv->key);
			put_value(t, s, kv, key, all);
		}
		free(key);
	}
	qwen_text_str(t, "}");
}

/* ------------------------------------------------------------------- Ollama */

static void
put_details(struct qwen_text *t, const struct qserve *s)
{
	qwen_json_put(t, ",'details':{'parent_model':'','format':'gguf',"
	    "'family':");
	put_meta(t, s, "general.architecture");
	qwen_json_put(t, ",'families':[");
	put_meta(t, s, "general.architecture");
	qwen_json_put(t, "],'parameter_size':");
	put_parameters(t, n_parameters(s));
	qwen_json_put(t, ",'quantization_level':'%s'}", quantization(s));
}

/* Add an entry of a list, {"name": ..., with a tag after the name. */
static void
put_listed(struct qwen_text *t, const struct qserve *s, const char *name)
{
	const char *tag = strchr(name, ':') != NULL ? "" : ":latest";
	struct qwen_text full = { 0 };
	uint64_t bytes = 0;
	char hex[33];
	unsigned i;

	for (i = 0; i < qwen_gguf_n_shards(s->gguf); i++)
		bytes += qwen_gguf_file_bytes(s->gguf, i);
	qwen_text_fmt(&full, "%s%s", name, tag);
	qwen_json_put(t, ",{'name':%pT,'model':%pT,'size':%llu,'digest':'%s'",
	    &full, &full, cli_llu(bytes), qwen_fp_hex(
	    &s->header.model, hex));
	qwen_text_fini(&full);
	put_details(t, s);
}

void
qserve_ollama_version(struct qserve_call *c)
{
	qwen_text_str(&c->out, "{\"version\":\"" OLLAMA_VERSION "\"}");
	qserve_done(c, 200);
}

void
qserve_ollama_tags(struct qserve_call *c)
{
	struct qwen_text *t = &c->out;
	const char *name;
	size_t i;

	qwen_json_put(t, "{'models':[");
	for (i = 0; (name = name_of(c->server, i)) != NULL; i++) {
		put_listed(t, c->server, name);
		put_time(t, "modified_at", c->server->modified);
		qwen_text_str(t, "}");
	}
	qwen_text_str(t, "]}");
	qserve_done(c, 200);
}

/* Answer with the model that is running: ours always is. */
void
qserve_ollama_ps(struct qserve_call *c)
{
	const struct qserve *s = c->server;
	struct qwen_text *t = &c->out;

	qwen_json_put(t, "{'models':[");
	if (qserve_n_ctx(s) > 0) {
		put_listed(t, s, name_of(s, 0));
		qwen_json_put(t, ",'expires_at':'2318-01-01T00:00:00Z',"
		    "'size_vram':0,'context_length':%llu}",
		    cli_llu(qserve_n_ctx(s)));
	}
	qwen_text_str(t, "]}");
	qserve_done(c, 200);
}

static void
put_capabilities(struct qwen_text *t, const struct qserve *s)
{
	const struct qwen_template *chat = s->with.service.template;

	qwen_json_put(t, ",'capabilities':['completion'");
	if (chat != NULL && qwen_template_calls(chat) != 0)
		qwen_json_put(t, ",'tools'");
	if (chat != NULL && qwen_request_can_think(chat))
		qwen_json_put(t, ",'thinking'");
	if (s->with.service.reads_images)
		qwen_json_put(t, ",'vision'");
	if (qwen_tok_fim(s->with.service.tok, QWEN_FIM_PREFIX) >= 0)
		qwen_json_put(t, ",'insert'");
	if (s->embedding.how.pooling != QWEN_POOLING_NONE &&
	    s->embedding.how.pooling != QWEN_POOLING_RANK)
		qwen_json_put(t, ",'embedding'");
	qwen_text_str(t, "]");
}

/*
 * Read a request with the name of a model.  Return -1 after answering one that
 * is refused.
 */
static int
read_name(struct qserve_call *c, char **name, int *all)
{
	struct qwen_refusal refusal = { .code = NULL };
	int rc = qwen_ollama_name(&refusal, c->body.s, c->body.n, name, all);

	if (rc < 0)
		qserve_error(c, qwen_refusal_status(&refusal), refusal.code,
		    "%s", refusal.err.msg);
	return rc;
}

void
qserve_ollama_show(struct qserve_call *c)
{
	const struct qserve *s = c->server;
	struct qwen_text *t = &c->out;
	int all;

	if (read_name(c, NULL, &all) < 0)
		return;
	qwen_json_put(t, "{'modelfile':'','parameters':'','license':");
	put_meta(t, s, "general.license");
	qwen_json_put(t, ",'template':'%s'", template_of(s, ""));
	put_details(t, s);
	put_model_info(t, s, all);
	put_capabilities(t, s);
	put_time(t, "modified_at", s->modified);
	qwen_text_str(t, "}");
	qserve_done(c, 200);
}

/* Report at once that the model is pulled. */
void
qserve_ollama_pull(struct qserve_call *c)
{
	char *name = NULL;

	if (read_name(c, &name, NULL) < 0)
		return;
	if (find_name(c->server, name) == NULL)
		qserve_error(c, 404, "model_not_found", "this server cannot "
		    "pull models: it serves only '%.200s', under any name",
		    c->server->with.service.model);
	else {
		qwen_json_put(&c->out, "{'status':'success'}\n");
		qserve_done(c, 200);
	}
	free(name);
}

void
qserve_ollama_not_here(struct qserve_call *c)
{
	qserve_error(c, 501, "not_supported", "%.100s is not supported: this "
	    "server has only the model that it was started with", c->path);
}

/* ---------------------------------------------------------------- llama.cpp */

void
qserve_props(struct qserve_call *c)
{
	const struct qserve *s = c->server;
	struct qwen_text *t = &c->out;
	const char *slash;

	/* only the name of the file: clients need not know its folder */
	slash = strrchr(s->model_path, '/');
	qwen_json_put(t, "{'default_generation_settings':{'n_ctx':%llu,"
	    "'params':{'n_predict':%lld}},'total_slots':%zu,'model_alias':"
	    "'%s','model_path':'%s','modalities':{'vision':%s,'audio':"
	    "false},'chat_template':'%s'", cli_llu(qserve_n_ctx(s)),
	    s->with.service.max < INT64_MAX ?
	    (long long)s->with.service.max : -1, qserve_n_sequences(s),
	    name_of(s, 0),
	    slash != NULL ? slash + 1 : s->model_path,
	    s->with.service.reads_images ? "true" : "false",
	    template_of(s, ""));
	put_token(t, "bos_token", s, "tokenizer.ggml.bos_token_id");
	put_token(t, "eos_token", s, "tokenizer.ggml.eos_token_id");
	qwen_json_put(t, ",'build_info':'qpipe %s','is_sleeping':false}",
	    QWEN_VERSION);
	qserve_done(c, 200);
}

/* Show the sequences of engines as slots, without their texts. */
void
qserve_slots(struct qserve_call *c)
{
	const struct qserve_engine *e;
	size_t i, n = 0;

	qwen_text_str(&c->out, "[");
	for (e = c->server->engines; e != NULL; e = e->next) {
		for (i = 0; e->ready && i < e->hello.n_sequences; i++, n++)
			qwen_json_put(&c->out, ",{'id':%zu,'n_ctx':%llu,"
			    "'speculative':false,'is_processing':%s}", n,
			    cli_llu(e->hello.n_ctx),
			    i < e->n_jobs ? "true" : "false");
	}
	qwen_text_str(&c->out, "]");
	qserve_done(c, 200);
}

/* --------------------------------------------------------------------- vLLM */

/* Describe the tokenizer, for lm-eval and others that have none. */
void
qserve_tokenizer_info(struct qserve_call *c)
{
	const struct qserve *s = c->server;
	struct qwen_text *t = &c->out;
	unsigned long long n_ctx = qserve_n_ctx(s);
	struct qwen_err err;
	int bos = 0;

	qwen_gguf_get_bool(s->gguf, "tokenizer.ggml.add_bos_token", 0, &bos,
	    &err);
	qwen_json_put(t, "{'tokenizer_class':'Qwen2Tokenizer'");
	/*
	 * clients put this token in front of texts, so name it only if the
	 * model wants BOS there
	 */
	if (bos)
		put_token(t, "bos_token", s, "tokenizer.ggml.bos_token_id");
	else
		qwen_json_put(t, ",'bos_token':null");
	qwen_json_put(t, ",'add_bos_token':%s", bos ? "true" : "false");
	put_token(t, "eos_token", s, "tokenizer.ggml.eos_token_id");
	put_token(t, "pad_token", s, "tokenizer.ggml.padding_token_id");
	if (n_ctx > 0)
		qwen_json_put(t, ",'model_max_length':%llu", n_ctx);
	qwen_json_put(t, ",'chat_template':'%s'}", template_of(s, NULL));
	qserve_done(c, 200);
}
