/* SPDX-License-Identifier: ISC */
/* model_out.h - model files that tools write. */
#ifndef TOOL_MODEL_OUT_H
#define TOOL_MODEL_OUT_H

#include "gguf/write.h"
#include "quantize/quantize.h"
#include "tool/tool.h"

struct tool_model_out {
	struct qwen_gguf_writer *w;
	struct cli_output	*file;
	const char		*name;	/* of the file, for messages */
	double			 start;
	int			 started;
};

/* Dies if the model would go to a terminal.  path: of the file, or NULL. */
void tool_model_out_check(const char *path);

/* Prints the writer's notes after "from: ". */
void tool_model_out_notes(const struct qwen_gguf_writer *w, const char *from);

/*
 * Opens the file (NULL: stdout).  Returns its descriptor, for the writer, which
 * shows its progress.
 */
int tool_model_out_open(struct tool_model_out *o, const char *path,
    struct qwen_gguf_writer *w);

/*
 * Ends the progress and completes the file; with -v says how large it is, after
 * "title: " if title is not NULL.
 */
void tool_model_out_end(struct tool_model_out *o, const char *title);

/*
 * Writes g, the file `in', quantised as q says, to a file (NULL: stdout).
 * Reads the importance matrix q->imatrix_name, unless that is NULL.
 */
void tool_model_out_quantize(const struct qwen_gguf *g, const char *in,
    const char *path, struct qwen_quantize_opts *q);

#endif
