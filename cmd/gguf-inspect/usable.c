/* SPDX-License-Identifier: ISC */
/* usable.c - find all reasons why the other tools cannot use a file. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "gguf-inspect.h"

static void
add_reason(void *arg, const char *msg)
{
	struct inspect_usable *u = arg;

	if (qwen_strings_add(&u->reason, strdup(msg)) < 0)
		cli_must(NULL, qwen_oom(&cli_err));
}

/*
 * Check with the functions that the tools use to open a file, so that the
 * results agree.
 */
void
inspect_check_usable(struct inspect_usable *u, const struct qwen_gguf *g)
{
	const struct qwen_gguf_checker c = { .problem = add_reason, .arg = u };
	struct qwen_template *template;
	struct qwen_tok *tok;

	cli_must(NULL, qwen_model_check(g, &c, &cli_err));
	cli_err.code = 0;
	/* one reason is enough for a file without a vocabulary */
	if (qwen_mmproj_is(g))
		;
	else if (qwen_tok_open(&tok, g, QWEN_TOK_ENCODE | QWEN_TOK_DECODE,
	    &cli_err) == 0)
		qwen_tok_close(tok);
	else if (cli_err.code != QWEN_ENOMEM)
		add_reason(u, cli_err.msg);
	if (cli_err.code == QWEN_ENOMEM)
		cli_die_err(NULL, &cli_err);
	if (qwen_template_open_gguf(&template, g, &cli_err) < 0)
		u->no_chat = cli_check_alloc(strdup(cli_err.msg));
	else
		qwen_template_close(template);
	if (cli_err.code == QWEN_ENOMEM)
		cli_die_err(NULL, &cli_err);
}

void
inspect_usable_fini(struct inspect_usable *u)
{
	qwen_strings_fini(&u->reason);
	free(u->no_chat);
}

static void
put_line(const char *what, const char *why)
{
	printf("%s", what);
	inspect_put_text(why, strlen(why), SIZE_MAX, "");
	putchar('\n');
}

void
inspect_put_usable(const struct inspect_usable *u)
{
	size_t i;

	if (u->no_chat != NULL)
		put_line("chat no: ", u->no_chat);
	else
		puts("chat yes");
	for (i = 0; i < u->reason.n; i++)
		put_line("usable no: ", u->reason.v[i]);
	if (u->reason.n == 0)
		puts("usable yes");
}

void
inspect_json_usable(const struct inspect_usable *u)
{
	size_t i;

	printf("\"usable\": %s, \"reasons\": [", u->reason.n == 0 ? "true" : "false");
	for (i = 0; i < u->reason.n; i++) {
		printf("%s", i > 0 ? ", " : "");
		cli_json_string(u->reason.v[i]);
	}
	printf("], \"chat\": %s, \"chat_reason\": ",
	    u->no_chat == NULL ? "true" : "false");
	if (u->no_chat != NULL)
		cli_json_string(u->no_chat);
	else
		printf("null");
}
