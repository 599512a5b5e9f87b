/* SPDX-License-Identifier: ISC */
/*
 * texts.h - tools that read texts or requests, one per line, and write for each
 * a result made of hidden states: qembed and qrerank.
 */
#ifndef TOOL_TEXTS_H
#define TOOL_TEXTS_H

#include "text/request/request.h"
#include "tool/tool.h"

struct tool_texts;

/* An input; tools put it first in a struct of their own. */
struct tool_text {
	struct tool_input	 input;
	struct tool_texts	*texts;
	struct qwen_refusal	*no;
	uint64_t		 line;
};

/* The hidden states of one text of an input: their sum, then a result of it. */
struct tool_text_sum {
	struct tool_text	*item;
	double			*sum;		/* NULL after end() */
	size_t			 n, n_tokens;
	void			*result;	/* owned by the tool */
	double			 score;
};

struct tool_texts {
	/* options */
	const char		*output;	/* NULL: stdout */
	int			 requests, truncate;
	struct qwen_unknown	 unknown;
	/* set by the tool */
	struct tool_work	 work;
	const char		*text;		/* "text": the word for what is
						   read */
	const char		*hint;		/* what to do with input that is
						   no text */
	const char		*note;		/* note on the model, to print
						   with the first text; or
						   NULL */
	/* Makes an item of a line, and adds its jobs. */
	struct tool_text *(*line)(const struct tool_line *line);
	/*
	 * NULL for lines.  Else reads an item from the descriptor of the input;
	 * returns NULL at its end.
	 */
	struct tool_text *(*stream)(void);
	/* All hidden states of a text are in p->sum: compute its result. */
	void			(*end)(struct tool_text_sum *p);
	/* All jobs of the item have ended: adds its result to t, frees it. */
	void			(*put)(struct tool_text *item,
				    struct qwen_text *t);
	/* Adds what is left at the end; or NULL. */
	void			(*finish)(struct qwen_text *t);
	/* results so far: */
	uint64_t		 n_tokens;
	uint64_t		 n_cut;		/* texts that were truncated */
	size_t			 cut;		/* to this many tokens, with
						   truncate; else 0 */
	/* the input and the output */
	struct tool_queue	 queue;
	const char		*file;		/* NULL: stdin */
	struct tool_lines	 lines;
	struct cli_output	*out;
};

/* Checks the options, and takes the argument that names the file, or NULL. */
void tool_texts_check(struct tool_texts *x, const char *file);

/* Opens the model; sets cut. */
void tool_texts_open_model(struct tool_texts *x);

/*
 * Begins an item, of `size' bytes with its refusal no; number is that of its
 * line.
 */
void tool_texts_begin(struct tool_texts *x, struct tool_text *item,
    struct qwen_refusal *no, uint64_t number, size_t size);

/*
 * Adds a job for one text of the item.  The job sums the hidden states of the
 * text that the pooling needs in *p.  Copies the ids.
 */
void tool_text_sum_add_job(struct tool_text_sum *p, struct tool_text *item,
    const struct qwen_embedding *how, const struct qwen_ids *text);

/*
 * Opens input, model (by open_model) and output, processes all texts, and
 * closes the three.  Returns the exit status.
 */
int tool_texts_run(struct tool_texts *x, void (*open_model)(void));

#endif
