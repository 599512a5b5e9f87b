/* SPDX-License-Identifier: ISC */
/*
 * service.h - what tools that answer requests share: the chat template, the
 * default stop strings and sampling, and the sampler of a request.
 */
#ifndef TOOL_SERVICE_H
#define TOOL_SERVICE_H

#include "text/request/request.h"
#include "tool/tool.h"

/* The options of a struct tool_service. */
#define TOOL_OPT_SERVICE(w) \
	CLI_INT('n', "count", "count", &(w)->service.max, 1, INT64_MAX, \
	    "at most COUNT tokens per answer, unless a request has its own " \
	    "limit"), \
	CLI_OPT_TEMPLATE(&(w)->template), TOOL_OPT_EFFORT, \
	TOOL_OPT_STRICT_CALLS(&(w)->service.strict_calls), \
	TOOL_OPT_SYSTEMS(&(w)->systems), \
	TOOL_OPT_PLACEHOLDER(&(w)->service.placeholder), \
	CLI_OPT_SPECIAL(&(w)->service.encode), TOOL_OPT_BOS, TOOL_OPT_NFC

struct tool_service {
	/* set by the caller */
	const char		*template;	/* --template; NULL: model's */
	struct qwen_sampler	*sampler;	/* has the sampling options */
	struct tool_grammar	 grammar;	/* opened by the caller; may be
						   empty */
	int			 mask_unused;
	int			 draws_seeds;	/* draw a seed for requests
						   without one */
	int			 ignore_eos;
	enum qwen_systems	 systems;	/* --system-messages */
	/* set by tool_service_open: */
	struct qwen_service	 service;	/* except tok, spell, encode,
						   max, streams, unknown,
						   placeholder */
	struct qwen_grammars	 grammars;
	struct qwen_sampler	*base;		/* copied for each request */
	const struct qwen_gguf	*gguf;
	struct qwen_template	*chat;
	struct qwen_pieces	*pieces;
	struct qwen_str		*stop;
	const struct qwen_header *header;	/* has the end-of-generation
						   ids; borrowed */
	int			 told_names;	/* printed the note about names
						   of control tokens */
};

/* Opens template and sampler; h has the end-of-generation ids.  Dies. */
void tool_service_open(struct tool_service *t, const struct qwen_gguf *g,
    const struct qwen_header *h);

/*
 * Creates the sampler of a request: its settings on top of the common ones.
 * Returns 0, or -1 with the request's refusal.  Draws a seed if the request has
 * none and needs one, and sets the ids that end its answers.  Dies without
 * memory.
 */
int tool_service_sampler(struct tool_service *t, struct qwen_request *q,
    struct qwen_sampler **out);

/* Returns the sampler of the i-th answer to a prompt; NULL if greedy.  Dies. */
struct qwen_sampler *tool_service_nth(const struct qwen_sampler *s, size_t i);

#endif
