/* SPDX-License-Identifier: ISC */
/*
 * refusal.h - what all kinds of requests have: token ids, the reason for a
 * refusal, notes on unknown fields.
 */
#ifndef QWEN_TEXT_REQUEST_REFUSAL_H
#define QWEN_TEXT_REQUEST_REFUSAL_H

#include "base/text.h"
#include "qwentext.h"

/* Token ids, owned. */
struct qwen_ids {
	int32_t	*id;
	size_t	 n;
};

/* Why a request was refused, or failed; err.code is 0 if it was not. */
struct qwen_refusal {
	struct qwen_err	 err;
	const char	*code;		/* error code, a word */
	const char	*param;		/* the field that is wrong, or NULL */
};

/*
 * Refuses a request, unless it was refused before: the first reason stays. code
 * and param are borrowed as long as *no lives.  Returns -1.
 */
int qwen_refuse(struct qwen_refusal *refusal, const char *code,
    const char *param, const char *fmt, ...) __attribute__((format(printf, 4,
    5)));

/*
 * Refuses a prompt of n tokens (is_least: of at least n) for a context of n_ctx
 * tokens.  Uses the code and the words that tell clients to shorten the
 * conversation.  Returns -1.
 */
#define QWEN_TOO_LONG "context_length_exceeded"
int qwen_refuse_length(struct qwen_refusal *refusal, const char *param,
    size_t n, int is_least, size_t n_ctx);

/*
 * Returns the HTTP status of a refusal: 200 if there is none; 404 for
 * "item_not_found", 429 for "queue_full", 500 for "failed" and "out_of_memory",
 * 503 for "unavailable", 504 for "deadline"; 400 for all other codes, which are
 * errors of the client.
 */
int qwen_refusal_status(const struct qwen_refusal *refusal);

/* Unknown fields of requests, and notes on requests. */
enum { QWEN_UNKNOWN_MAX = 8, QWEN_NOTES_MAX = 16 };

struct qwen_unknown {
	int		 strict;	/* refuse unknown fields */
	struct {
		char		 name[48];	/* truncated to fit */
		const char	*nearest;	/* a similar known field, or
						   NULL */
	}		 field[QWEN_UNKNOWN_MAX];
	size_t		 n;
	int		 more;		/* there were more unknown fields */
	/* notes on parts of requests that are not followed, each once */
	char		 note[QWEN_NOTES_MAX][240];
	size_t		 n_notes;
	size_t		 n_shown;	/* notes that the caller has shown */
};

/* Adds a note, unless it exists, there are too many, or u is NULL. */
void qwen_unknown_note(struct qwen_unknown *u, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* Notes on input that was damaged but readable. */
const char *qwen_note_arguments(void);
const char *qwen_note_surrogates(void);

/* Appends the unknown fields: "temprature (did you mean temperature?), foo". */
void qwen_unknown_list(const struct qwen_unknown *u, struct qwen_text *t);

#endif
