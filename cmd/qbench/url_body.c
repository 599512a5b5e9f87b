/* SPDX-License-Identifier: ISC */
/* url_body.c - the bodies of requests: random prompts, or lines of a file. */
#include <stdlib.h>
#include <string.h>

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

/* A request of the file. */
struct line {
	const char	*path;
	yyjson_mut_doc	*doc;		/* its body */
	int		 is_complete;	/* with the fields of add_fields() */
};

static struct line *lines;
static size_t n_lines, cap_lines;
static yyjson_doc *more;	/* fields of --body, or NULL */

/* ------------------------------------------------------------------ bodies */

/* Set the fields that every request has, then those of --body. */
static void
add_fields(yyjson_mut_doc *doc, const char *model)
{
	yyjson_mut_val *root = yyjson_mut_doc_get_root(doc);
	yyjson_mut_val *usage = cli_check_alloc(yyjson_mut_obj(doc));
	yyjson_val *k, *v;
	size_t i, max;

	if (model != NULL)
		yyjson_mut_obj_put(root, yyjson_mut_str(doc, "model"),
		    yyjson_mut_str(doc, model));
	yyjson_mut_obj_put(root, yyjson_mut_str(doc, "stream"),
	    yyjson_mut_bool(doc, 1));
	yyjson_mut_obj_add_bool(doc, usage, "include_usage", 1);
	yyjson_mut_obj_put(root, yyjson_mut_str(doc, "stream_options"), usage);
	yyjson_obj_foreach(yyjson_doc_get_root(more), i, max, k, v)
		yyjson_mut_obj_put(root, yyjson_val_mut_copy(doc, k),
		    yyjson_val_mut_copy(doc, v));
}

static yyjson_mut_doc *
new_body(void)
{
	yyjson_mut_doc *doc = cli_check_alloc(yyjson_mut_doc_new(NULL));

	yyjson_mut_doc_set_root(doc, cli_check_alloc(yyjson_mut_obj(doc)));
	return doc;
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

static yyjson_mut_doc *
generate(const struct qbench_url_setting *set, uint64_t number)
{
	const struct qbench_url_opts *o = &qbench_url;
	uint64_t rng = o->seed ^ (number + 1) * 0xd1342543de82ef95u;
	size_t same = o->prefix < set->prompt ? o->prefix : set->prompt;
	yyjson_mut_doc *doc = new_body();
	yyjson_mut_val *root = yyjson_mut_doc_get_root(doc), *m;
	struct qwen_text t = { 0 };

	add_words(&t, same, o->seed);
	add_words(&t, set->prompt - same, rng);
	if (t.failed)
		die("out of memory");
	if (o->api == QBENCH_CHAT) {
		m = yyjson_mut_arr_add_obj(doc, yyjson_mut_obj_add_arr(doc,
		    root, "messages"));
		yyjson_mut_obj_add_str(doc, cli_check_alloc(m), "role",
		    "user");
		yyjson_mut_obj_add_strncpy(doc, m, "content", t.s, t.n);
	} else
		yyjson_mut_obj_add_strncpy(doc, root, "prompt", t.s, t.n);
	yyjson_mut_obj_add_uint(doc, root, "max_tokens", set->count);
	qwen_text_fini(&t);
	return doc;
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
add_line(const struct tool_lines *in, yyjson_val *root)
{
	yyjson_val *body = yyjson_obj_get(root, "body"), *k, *v;
	const char *url = yyjson_get_str(yyjson_obj_get(root, "url"));
	int alone = body == NULL;
	struct line l = { 0 };
	size_t i, max;

	if (alone)
		body = root;
	if (!yyjson_is_obj(body) || (yyjson_obj_get(body, "messages") == NULL &&
	    yyjson_obj_get(body, "prompt") == NULL))
		die("%s: line %llu: neither messages nor a prompt", in->name,
		    (unsigned long long)in->line);
	l.path = ends_with(url, chat_path);
	if (l.path == NULL)
		l.path = ends_with(url, completions_path);
	if (l.path == NULL && url != NULL)
		die("%s: line %llu: url: only /v1/chat/completions and "
		    "/v1/completions are supported", in->name,
		    (unsigned long long)in->line);
	if (l.path == NULL)
		l.path = yyjson_obj_get(body, "messages") != NULL ?
		    chat_path : completions_path;
	l.doc = new_body();
	yyjson_obj_foreach(body, i, max, k, v)
		if (!alone || !yyjson_equals_str(k, "id"))
			yyjson_mut_obj_add(yyjson_mut_doc_get_root(l.doc),
			    yyjson_val_mut_copy(l.doc, k),
			    yyjson_val_mut_copy(l.doc, v));
	cli_grow(&lines, &cap_lines, n_lines + 1, sizeof *lines);
	lines[n_lines++] = l;
}

static void
read_lines(const char *path)
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
		add_line(&in, yyjson_doc_get_root(doc));
		yyjson_doc_free(doc);
	}
	if (n_lines == 0)
		die("%s: the file has no request", in.name);
	tool_lines_fini(&in);
}

/* -------------------------------------------------------------------- both */

size_t
qbench_bodies_open(void)
{
	const char *json = qbench_url.body;
	struct qwen_err err;

	if (json != NULL) {
		more = qwen_json_open(json, strlen(json), &err);
		if (more == NULL)
			cli_usage("--body: %s", err.msg);
		if (!yyjson_is_obj(yyjson_doc_get_root(more)))
			cli_usage("--body: not a JSON object, as in "
			    "'{\"temperature\":0}'");
	}
	if (qbench_url.input != NULL)
		read_lines(qbench_url.input);
	return n_lines;
}

const char *
qbench_body(const struct qbench_url_setting *set, const char *model,
    uint64_t number, struct qwen_text *out)
{
	struct line *l = n_lines > 0 ? &lines[number % n_lines] : NULL;
	yyjson_mut_doc *doc = l != NULL ? l->doc : generate(set, number);
	size_t n;
	char *s;

	if (l == NULL || !l->is_complete)
		add_fields(doc, model);
	s = cli_check_alloc(yyjson_mut_write(doc, 0, &n));
	qwen_text_add(out, s, n);
	free(s);
	if (out->failed)
		die("out of memory");
	if (l != NULL) {
		l->is_complete = 1;
		return l->path;
	}
	yyjson_mut_doc_free(doc);
	return qbench_url.api == QBENCH_CHAT ? chat_path : completions_path;
}

void
qbench_bodies_close(void)
{
	while (n_lines > 0)
		yyjson_mut_doc_free(lines[--n_lines].doc);
	free(lines);
	yyjson_doc_free(more);
}
