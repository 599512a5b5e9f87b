/* SPDX-License-Identifier: ISC */
/* template.c - the chat template of --template. */
#include <stdlib.h>
#include <string.h>

#include "tool/tool.h"

struct qwen_template *
tool_template(const char *name)
{
	struct qwen_template *t;
	struct qwen_err err;
	char *source;
	size_t n;
	int rc;

	if (strchr(name, '/') == NULL) {
		if (qwen_template_open(&t, name, &err) < 0)
			cli_die_err("--template", &err);
		return t;
	}
	source = cli_read_file(name, CLI_FILE_MAX, &n);
	rc = qwen_template_open_text(&t, source, n, &err);
	free(source);
	if (rc < 0)
		cli_die_err(name, &err);
	return t;
}
