/* SPDX-License-Identifier: ISC */
/*
 * texts.h - tools that read texts or requests, one per line, and write for each
 * a result made of hidden states: qembed and qrerank.
 */
#ifndef TOOL_TEXTS_H
#define TOOL_TEXTS_H

#include "text/request/request.h"
#include "tool/tool.h"

struct tool_texts {
	/* options */
	const char		*output;	/* NULL: stdout */
	int			 requests, truncate;
	struct qwen_unknown	 unknown;
	/* set by the tool */
	struct tool_work	 work;
	struct tool_queue	 queue;		/* next, end and put */
	const char		*text;		/* "text": the word for what is
						   read */
	const char		*hint;		/* what to do with input that is
						   no text */
	int			 streams;	/* input is a stream of tokens,
						   so of lines only the
						   descriptor is used */
	const char		*note;		/* note on the model, to print
						   with the first text; or
						   NULL */
	void			(*finish)(void);	/* writes what is left
							   at the end; or
							   NULL */
	uint64_t		 n_cut;		/* texts that were truncated */
	size_t			 cut;		/* to this many tokens, with
						   truncate; else 0 */
	/* the input and the output */
	const char		*file;		/* NULL: stdin */
	struct tool_lines	 lines;
	struct cli_output	*out;
};

/* Checks the options, and takes the argument that names the file, or NULL. */
void tool_texts_check(struct tool_texts *x, const char *file);

/* Opens the model; sets cut. */
void tool_texts_open_model(struct tool_texts *x);

/*
 * Reads the next line.  Returns 1; 0 at the end of the input; -1 for a blank
 * line among requests.
 */
int tool_texts_next(struct tool_texts *x, struct tool_line *line);

/*
 * Begins a text, of `size' bytes with its item in front and its refusal no;
 * number is that of its line.
 */
void tool_texts_begin(struct tool_texts *x, struct tool_input *item,
    struct qwen_refusal *no, uint64_t number, size_t size);

/*
 * Dies if a text was refused without --requests: a missing line would assign
 * later results to the wrong texts.
 */
void tool_texts_check_refusal(const struct tool_texts *x,
    const struct tool_input *item);

/* Writes t to the output and frees it. */
void tool_texts_write(const struct tool_texts *x, struct qwen_text *t);

/*
 * Opens input, model (by open_model) and output, processes all texts, and
 * closes the three.  Returns the exit status.
 */
int tool_texts_run(struct tool_texts *x, void (*open_model)(void));

#endif
