/* SPDX-License-Identifier: ISC */
/* model.h - an open model: what its file is, and the devices it is on. */
#ifndef QWEN_MODEL_H
#define QWEN_MODEL_H

#include "engine/device.h"
#include "engine/engine.h"

struct qwen_model {
	struct qwen_net			 net;
	struct qwen_engine		*engine;
	struct qwen_placement		 place;
	struct qwen_cache		*caches;	/* all that are open */
	/* what qwen_recover() does, for timeline/, which is below it */
	void	(*recover)(struct qwen_model *m);
	void	(*note)(void *arg, const char *text);	/* or NULL */
	void				*note_arg;
	struct qwen_input_sums		*inputs;	/* watch/inputs.h; NULL:
							   inputs are not
							   measured */
};

#endif
