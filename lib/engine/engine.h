/* SPDX-License-Identifier: ISC */
/* engine.h - what computes, apart from any model: threads and processors. */
#ifndef QWEN_ENGINE_H
#define QWEN_ENGINE_H

#include <stddef.h>

#include "base/pool.h"

/* Models share it; the last one frees it. */
struct qwen_engine {
	struct qwen_pool	*pool;
	unsigned		 features;	/* QWEN_CPU_ bits that may be used */
	char			*tuning;	/* file of measurements (cpu/tune.h);
						   NULL: do not measure */
	size_t			 refs;
};

#endif
