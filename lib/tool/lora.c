/* SPDX-License-Identifier: ISC */
/* lora.c - --lora: the adapters of the model and their scales. */
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "tool/tool.h"

struct tool_lora tool_lora;

void
tool_lora_parse(const struct cli_opt *o, const char *arg)
{
	struct tool_lora *l = o->to;
	struct qwen_adapter a = { .path = arg, .scale = 1 };
	const char *eq = strrchr(arg, '=');

	if (eq != NULL && access(arg, F_OK) == -1) {
		a.scale = cli_double("--lora", eq + 1, -1e6, 1e6);
		a.path = cli_format("%.*s", (int)(eq - arg), arg);
	}
	if (a.path[0] == '\0')
		cli_usage("--lora: no file in '%s'", arg);
	cli_protect_input(a.path, "an adapter that is in use");
	if (qwen_grow(&l->v, &l->cap, l->n + 1, sizeof *l->v) < 0)
		die("out of memory");
	l->v[l->n++] = a;
}
