/* SPDX-License-Identifier: ISC */
/*
 * service.h - what tools that answer requests do alike: template, stop texts and
 * sampling of those that do not say, and the sampler of one that does.
 */
#ifndef TOOL_SERVICE_H
#define TOOL_SERVICE_H

#include "text/request/request.h"
#include "tool/tool.h"

struct tool_service {
	/* set by the caller */
	const char		*template;	/* --template; NULL: the model's */
	struct qwen_sampler	*sampler;	/* of the options */
	struct tool_grammar	 grammar;	/* open, if there is one */
	int			 mask_unused;
	int			 draws_seeds;	/* for requests without one */
	int			 ignore_eos;
	enum qwen_systems	 systems;	/* --system-messages */
	/* opened */
	struct qwen_service	 service;	/* but for tok, spell, encode,
						   max, streams, unknown,
						   placeholder */
	struct qwen_grammars	 grammars;
	struct qwen_sampler	*base;		/* what requests begin with */
	const struct qwen_gguf	*gguf;
	struct qwen_template	*chat;
	struct qwen_pieces	*pieces;
	struct qwen_str		*stop;
	const struct qwen_header *header;	/* has the endings; borrowed */
	int			 told_names;	/* that a prompt has some */
};

/* h has the endings.  Dies. */
void tool_service_open(struct tool_service *t, const struct qwen_gguf *g,
    const struct qwen_header *h);

/* The sampler of the options is freed as well. */
void tool_service_close(struct tool_service *t);

/*
 * Creates the sampler of a request: its settings on top of the common ones.
 * Returns 0, or -1 with the request's refusal.  Draws a seed if the request has
 * none and needs one, and sets the ids that end its answers.  Dies without
 * memory.
 */
int tool_service_sampler(struct tool_service *t, struct qwen_request *q,
    struct qwen_sampler **out);

/* That of its i-th answer to a prompt, or NULL where none is needed.  Dies. */
struct qwen_sampler *tool_service_nth(const struct qwen_sampler *s, size_t i);

#endif
