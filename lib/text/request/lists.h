/* SPDX-License-Identifier: ISC */
/* lists.h - requests for scores, vectors and ranking. */
#ifndef QWEN_TEXT_REQUEST_LISTS_H
#define QWEN_TEXT_REQUEST_LISTS_H

#include "text/request/refusal.h"

enum { QWEN_DOCUMENTS_MAX = 4096 };	/* in a list to rank */

/* ------------------------------------------------------------------ scoring */

/* Settings for all texts whose tokens are scored; borrowed. */
struct qwen_scoring {
	const struct qwen_tok	*tok;
	size_t			 n_vocab;
	unsigned		 encode;	/* QWEN_TOK_SPECIAL or 0 */
	int32_t			 bos_id;	/* token put in front of texts;
						   -1: none */
	int			 bos;	/* put it in front of every text that
					   does not begin with it */
	struct qwen_unknown	*unknown;	/* unknown fields, or NULL */
};

/* Tokens to score: of a continuation after its context, or of a whole text. */
struct qwen_score_request {
	struct qwen_refusal	 refusal;
	char			*id;	/* JSON, or NULL */
	struct qwen_ids		 text;
	size_t			 from;	/* index of the first token to score */
	size_t			 n_front;	/* number of tokens put in
						   front, 0 or 1 */
};

/* Parses a line, like qwen_request_parse_line; q must be zero. */
int qwen_score_request_parse(struct qwen_score_request *q,
    const struct qwen_scoring *s, const char *json, size_t n,
    struct qwen_err *err);

/*
 * Takes a text as tokens: scores all of it, except the first token if none was
 * put in front. q owns the tokens.
 */
int qwen_score_request_text(struct qwen_score_request *q,
    const struct qwen_scoring *s, struct qwen_ids *tokens,
    struct qwen_err *err);
void qwen_score_request_fini(struct qwen_score_request *q);

/* ------------------------------------------------------ vectors and ranking */

/* Settings for all texts that are embedded; borrowed. */
struct qwen_vectors {
	const struct qwen_tok	*tok;
	struct qwen_embedding	 how;
	const char		*instruct;	/* default instruction, or
						   NULL */
	unsigned		 encode;	/* QWEN_TOK_SPECIAL or 0 */
	size_t			 n_vocab;
	size_t			 cut;	/* truncate texts to this many tokens;
					   0: never */
	size_t			 n_ctx;	/* context length in tokens; 0:
					   unknown */
	int			 untrained;	/* the model was not trained for
						   embeddings */
	struct qwen_unknown	*unknown;	/* unknown fields, or NULL */
};

/* A text to embed. */
struct qwen_vector_request {
	struct qwen_refusal	 refusal;
	char			*id;	/* JSON, or NULL */
	struct qwen_ids		 text;	/* at least one token */
	int			 is_cut;	/* the text was truncated */
};

/*
 * Take a text to embed; q must be zero. qwen_vector_request_parse parses a line
 * like qwen_request_parse_line: {"text": ...} or {"tokens": [...]}, optionally
 * with "instruct" and "id". qwen_vector_request_text takes a plain text (NULL:
 * a line of more than n bytes). qwen_vector_request_ids takes tokens, which q
 * then owns.
 */
int qwen_vector_request_parse(struct qwen_vector_request *q,
    const struct qwen_vectors *s, const char *json, size_t n,
    struct qwen_err *err);
int qwen_vector_request_text(struct qwen_vector_request *q,
    const struct qwen_vectors *s, const char *text, size_t n,
    struct qwen_err *err);
int qwen_vector_request_ids(struct qwen_vector_request *q,
    const struct qwen_vectors *s, struct qwen_ids *ids, struct qwen_err *err);
void qwen_vector_request_fini(struct qwen_vector_request *q);

/* The same for documents to rank. */
struct qwen_ranking {
	const struct qwen_tok	*tok;
	const struct qwen_reranker *how;
	struct qwen_str		 query;	/* for documents given as plain texts */
	unsigned		 encode;
	size_t			 cut;	/* truncate prompts to this many tokens;
					   0: never */
	size_t			 n_ctx;	/* context length in tokens; 0:
					   unknown */
	struct qwen_unknown	*unknown;	/* unknown fields, or NULL */
};

struct qwen_rank_request {
	struct qwen_refusal	 refusal;
	char			*id;	/* JSON, or NULL */
	struct qwen_ids		*prompt;	/* one per document */
	size_t			 n;
	size_t			 n_tokens;	/* of all prompts */
	size_t			 n_cut;		/* truncated prompts */
	int			 is_list;	/* the request has documents,
						   not document */
};

/*
 * Parse a line, {"query": ..., "document": ...} or "documents": [...]; or take
 * a plain text as the document.
 */
int qwen_rank_request_parse(struct qwen_rank_request *q,
    const struct qwen_ranking *s, const char *json, size_t n,
    struct qwen_err *err);
int qwen_rank_request_text(struct qwen_rank_request *q,
    const struct qwen_ranking *s, const char *text, size_t n,
    struct qwen_err *err);
/* Frees the prompts, which are no longer needed. */
void qwen_rank_request_free_prompts(struct qwen_rank_request *q);
void qwen_rank_request_fini(struct qwen_rank_request *q);

/* ---------------------------------- posted requests for vectors and ranking */

enum { QWEN_INPUTS_MAX = 2048 };	/* texts in a request for embeddings */

/* A request to /v1/embeddings. */
struct qwen_embeddings_request {
	struct qwen_refusal	 refusal;
	char			*model;	/* JSON of the model asked for, or
					   NULL */
	struct qwen_ids		*text;
	size_t			 n;
	size_t			 n_tokens;	/* of all texts */
	size_t			 dimensions;	/* length of a vector; 0: the
						   model's */
	int			 base64;
	int			 untrained;	/* the body warns of that */
};

/*
 * Parses a posted body; q must be zero.  Refuses an empty list and an empty
 * text, as OpenAI does; truncates texts if the request wants that.
 */
int qwen_embeddings_parse(struct qwen_embeddings_request *q,
    const struct qwen_vectors *s, const char *json, size_t n,
    struct qwen_err *err);

/*
 * Appends the body, of q->n vectors of n_embd numbers each; or of the refusal.
 */
void qwen_embeddings_body(const struct qwen_embeddings_request *q,
    const char *model, const float *vectors, size_t n_embd,
    struct qwen_text *t);
void qwen_embeddings_fini(struct qwen_embeddings_request *q);

/* A request to /v1/rerank: a query, and a list of documents. */
struct qwen_rerank_request {
	struct qwen_rank_request rank;	/* the prompts, and the refusal */
	char			*model;	/* JSON, or NULL */
	size_t			 n_top;	/* number of best documents to return */
	char			**document;	/* JSON of the texts; NULL: the
						   client does not want them
						   back */
};

int qwen_rerank_parse(struct qwen_rerank_request *q,
    const struct qwen_ranking *s, const char *json, size_t n,
    struct qwen_err *err);

/*
 * Appends the body: the best document first, by its score; equal scores in the
 * order of the request. -1: out of memory.
 */
int qwen_rerank_body(const struct qwen_rerank_request *q, uint64_t number,
    const char *model, const double *scores, struct qwen_text *t,
    struct qwen_err *err);
void qwen_rerank_fini(struct qwen_rerank_request *q);

/* ---------------------------------------------------- other Ollama requests */

/* Returns 1 if replies by this template can begin with a thought. */
int qwen_request_can_think(const struct qwen_template *t);

/*
 * Reads the model name (for free()) and the field "verbose" of a body; name and
 * verbose may be NULL. -1: refused.
 */
int qwen_ollama_name(struct qwen_refusal *refusal, const char *json, size_t n,
    char **name, int *verbose);

/*
 * Parses a body like qwen_embeddings_parse: key is "input" for /api/embed,
 * "prompt" for /api/embeddings.  Truncates texts to n_ctx tokens (0: never),
 * unless the request says otherwise.  There may be no text; then the body has
 * no vectors. old: write the body of /api/embeddings.
 */
int qwen_ollama_embed_parse(struct qwen_embeddings_request *q,
    const struct qwen_vectors *s, size_t n_ctx, const char *key,
    const char *json, size_t n, struct qwen_err *err);
void qwen_ollama_embed_body(const struct qwen_embeddings_request *q,
    const char *model, const float *vectors, size_t n_embd, int old,
    double seconds, struct qwen_text *t);

#endif
