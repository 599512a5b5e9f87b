/* SPDX-License-Identifier: ISC */
/* url_body.c - the bodies of requests: random prompts, or lines of a file. */
#include <stdlib.h>
#include <string.h>

#include "synth/synth.h"
#include "text/json/json.h"
#include "url.h"

/* Each word with a blank before it is one token of the Qwen vocabularies. */
static const char *const words[] = {
	"about", "above", "add", "after", "again", "against", "age", "air",
	"also", "always", "and", "any", "appear", "art", "as", "ask", "at",
	"back", "bad", "because", "before", "began", "begin", "behind",
	"believe", "between", "beyond", "bird", "blue", "body", "book", "both",
	"bread", "bring", "build", "but", "buy", "by", "call", "came", "can",
	"car", "child", "city", "come", "company", "consider", "continue",
	"could", "country", "cut", "day", "deep", "did", "die", "do", "done",
	"door", "down", "each", "early", "either", "end", "even", "every",
	"eye", "face", "fall", "family", "father", "few", "find", "fire",
	"first", "fish", "follow", "foot", "for", "found", "friend", "from",
	"gave", "give", "go", "gold", "good", "great", "green", "grow", "hand",
	"head", "hear", "heard", "help", "here", "high", "home", "horse",
	"hour", "house", "how", "if", "in", "into", "iron", "issue", "just",
	"keep", "kept", "kill", "kind", "king", "knew", "know", "land", "last",
	"law", "lead", "leave", "left", "let", "letter", "life", "light",
	"little", "live", "long", "look", "lot", "love", "low", "made", "make",
	"man", "many", "may", "meet", "might", "money", "month", "more",
	"morning", "most", "mother", "mountain", "must", "name", "near", "need",
	"neither", "never", "new", "next", "night", "no", "not", "number", "of",
	"off", "offer", "office", "oil", "old", "on", "only", "open", "or",
	"other", "others", "out", "over", "own", "part", "pay", "people",
	"person", "place", "power", "queen", "reach", "read", "reason", "red",
	"remain", "remember", "right", "river", "room", "run", "salt", "same",
	"saw", "sea", "second", "see", "seem", "send", "serve", "service",
	"set", "shall", "short", "should", "side", "silver", "since", "sit",
	"small", "so", "some", "song", "speak", "stand", "stay", "still",
	"stone", "strong", "such", "table", "take", "tell", "than", "that",
	"then", "there", "these", "thing", "think", "third", "this", "those",
	"though", "thought", "through", "time", "to", "told", "took", "toward",
	"tree", "under", "understand", "until", "up", "upon", "use", "voice",
	"wait", "walk", "want", "war", "watch", "water", "way", "went", "what",
};

enum { N_WORDS = sizeof words / sizeof words[0] };

static const char chat_path[] = "/chat/completions";
static const char completions_path[] = "/completions";

struct line {
	const char	*path;
	struct qwen_text body;
};

struct qbench_bodies {
	const struct qbench_url_opts *opts;
	const char	*model;
	yyjson_doc	*more;		/* fields of --body, or NULL */
	struct line	*line;
	size_t		 n, cap;
};

/* ------------------------------------------------------------------ bodies */

/*
 * Add the fields that every request has, then those of --body, which take
 * precedence.  Write the body to out.
 */
static void
finish(const struct qbench_bodies *b, yyjson_mut_doc *doc, yyjson_mut_val *root,
    struct qwen_text *out)
{
	yyjson_mut_val *usage = cli_check_alloc(yyjson_mut_obj(doc));
	yyjson_val *k, *v;
	size_t i, max, n;
	char *s;

	if (b->model != NULL)
		yyjson_mut_obj_put(root, yyjson_mut_str(doc, "model"),
		    yyjson_mut_str(doc, b->model));
	yyjson_mut_obj_put(root, yyjson_mut_str(doc, "stream"),
	    yyjson_mut_bool(doc, 1));
	yyjson_mut_obj_add_bool(doc, usage, "include_usage", 1);
	yyjson_mut_obj_put(root, yyjson_mut_str(doc, "stream_options"), usage);
	yyjson_obj_foreach(yyjson_doc_get_root(b->more), i, max, k, v)
		yyjson_mut_obj_put(root, yyjson_val_mut_copy(doc, k),
		    yyjson_val_mut_copy(doc, v));
	s = cli_check_alloc(yyjson_mut_write(doc, 0, &n));
	out->n = 0;
	qwen_text_add(out, s, n);
	free(s);
	yyjson_mut_doc_free(doc);
	if (out->failed)
		die("out of memory");
}

/* ------------------------------------------------------- generated requests */

static void
add_words(struct qwen_text *t, size_t n, uint64_t rng)
{
	while (n-- > 0) {
		if (t->n > 0)
			qwen_text_str(t, " ");
		qwen_text_str(t, words[qwen_gguf_random_u64(&rng) % N_WORDS]);
	}
}

static yyjson_mut_val *
messages(yyjson_mut_doc *doc, const struct qwen_text *t)
{
	yyjson_mut_val *list = cli_check_alloc(yyjson_mut_arr(doc));
	yyjson_mut_val *m = cli_check_alloc(yyjson_mut_arr_add_obj(doc, list));

	yyjson_mut_obj_add_str(doc, m, "role", "user");
	yyjson_mut_obj_add_strn(doc, m, "content", t->s, t->n);
	return list;
}

static const char *
make(const struct qbench_bodies *b, const struct qbench_url_setting *set,
    uint64_t number, struct qwen_text *out)
{
	const struct qbench_url_opts *o = b->opts;
	uint64_t rng = o->seed ^ (number + 1) * 0xd1342543de82ef95u;
	yyjson_mut_doc *doc = cli_check_alloc(yyjson_mut_doc_new(NULL));
	yyjson_mut_val *root = cli_check_alloc(yyjson_mut_obj(doc));
	size_t n = set->prompt, same = o->prefix < n ? o->prefix : n;
	int chat = o->api != QBENCH_COMPLETIONS;
	struct qwen_text t = { 0 };

	add_words(&t, same, o->seed);
	add_words(&t, n - same, rng);
	if (t.failed)
		die("out of memory");
	yyjson_mut_doc_set_root(doc, root);
	if (chat)
		yyjson_mut_obj_add_val(doc, root, "messages",
		    messages(doc, &t));
	else
		yyjson_mut_obj_add_strn(doc, root, "prompt", t.s, t.n);
	yyjson_mut_obj_add_uint(doc, root, "max_tokens", set->count);
	finish(b, doc, root, out);
	qwen_text_fini(&t);
	return chat ? chat_path : completions_path;
}

/* ----------------------------------------------------- requests of a file */

static const char *
ends_with(const char *s, const char *end)
{
	size_t n = s == NULL ? 0 : strlen(s), m = strlen(end);

	return n >= m && strcmp(s + n - m, end) == 0 ? end : NULL;
}

/*
 * Add a request: in an envelope as in batch files, or a bare body, whose id is
 * dropped.
 */
static void
add_line(struct qbench_bodies *b, const struct tool_lines *in, yyjson_val *root)
{
	yyjson_val *body = yyjson_obj_get(root, "body"), *k, *v;
	const char *url = yyjson_get_str(yyjson_obj_get(root, "url"));
	yyjson_mut_doc *doc;
	yyjson_mut_val *to;
	int alone = body == NULL;
	struct line *l;
	size_t i, max;

	if (alone)
		body = root;
	if (!yyjson_is_obj(body) || (yyjson_obj_get(body, "messages") == NULL &&
	    yyjson_obj_get(body, "prompt") == NULL))
		die("%s: line %llu: neither messages nor a prompt", in->name,
		    (unsigned long long)in->line);
	cli_grow(&b->line, &b->cap, b->n + 1, sizeof *b->line);
	l = &b->line[b->n++];
	memset(l, 0, sizeof *l);
	l->path = ends_with(url, chat_path);
	if (l->path == NULL)
		l->path = ends_with(url, completions_path);
	if (l->path == NULL && url != NULL)
		die("%s: line %llu: url: only /v1/chat/completions and "
		    "/v1/completions are supported", in->name,
		    (unsigned long long)in->line);
	if (l->path == NULL)
		l->path = yyjson_obj_get(body, "messages") != NULL ?
		    chat_path : completions_path;
	doc = cli_check_alloc(yyjson_mut_doc_new(NULL));
	to = cli_check_alloc(yyjson_mut_obj(doc));
	yyjson_mut_doc_set_root(doc, to);
	yyjson_obj_foreach(body, i, max, k, v)
		if (!alone || !yyjson_equals_str(k, "id"))
			yyjson_mut_obj_add(to, yyjson_val_mut_copy(doc, k),
			    yyjson_val_mut_copy(doc, v));
	finish(b, doc, to, &l->body);
}

static void
read_lines(struct qbench_bodies *b, const char *path)
{
	struct tool_lines in = { 0 };
	struct tool_line line;
	struct qwen_err err;
	yyjson_doc *doc;

	tool_lines_open(&in, path);
	while (tool_lines_next(&in, &line)) {
		tool_lines_check(&in, &line, "requests");
		if (tool_line_is_blank(&line))
			continue;
		doc = line.s == NULL ? NULL : qwen_json_open(line.s, line.n,
		    &err);
		if (doc == NULL)
			die("%s: line %llu: %s", in.name,
			    (unsigned long long)in.line, line.s == NULL ?
			    "too long" : err.msg);
		add_line(b, &in, yyjson_doc_get_root(doc));
		yyjson_doc_free(doc);
	}
	if (b->n == 0)
		die("%s: the file has no request", in.name);
	tool_lines_fini(&in);
}

/* -------------------------------------------------------------------- both */

struct qbench_bodies *
qbench_bodies_open(const struct qbench_url_opts *o, const char *model)
{
	struct qbench_bodies *b = cli_check_alloc(calloc(1, sizeof *b));
	struct qwen_err err;

	b->opts = o;
	b->model = model;
	if (o->body != NULL) {
		b->more = qwen_json_open(o->body, strlen(o->body), &err);
		if (b->more == NULL)
			cli_usage("--body: %s", err.msg);
		if (!yyjson_is_obj(yyjson_doc_get_root(b->more)))
			cli_usage("--body: not a JSON object, as in "
			    "'{\"temperature\":0}'");
	}
	if (o->input != NULL)
		read_lines(b, o->input);
	return b;
}

uint64_t
qbench_bodies_count(const struct qbench_bodies *b)
{
	return b->n;
}

const char *
qbench_bodies_get(const struct qbench_bodies *b,
    const struct qbench_url_setting *set, uint64_t number,
    struct qwen_text *out)
{
	const struct line *l;

	if (b->n == 0)
		return make(b, set, number, out);
	l = &b->line[number % b->n];
	out->n = 0;
	qwen_text_add(out, l->body.s, l->body.n);
	if (out->failed)
		die("out of memory");
	return l->path;
}

void
qbench_bodies_close(struct qbench_bodies *b)
{
	size_t i;

	for (i = 0; i < b->n; i++)
		qwen_text_fini(&b->line[i].body);
	free(b->line);
	yyjson_doc_free(b->more);
	free(b);
}
