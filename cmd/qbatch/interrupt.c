/* SPDX-License-Identifier: ISC */
/* interrupt.c - on Ctrl-C, print the command that resumes the run. */
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "qbatch.h"

static struct qwen_text said;

static void
on_interrupt(int sig)
{
	/* only async-signal-safe calls; if it fails, nothing can be done */
	if (write(STDERR_FILENO, said.s, said.n) == -1)
		said.n = 0;
	signal(sig, SIG_DFL);
	raise(sig);
}

/* Add a word of a command, quoted for the shell. */
static void
add_word(struct qwen_text *t, const char *s)
{
	static const char plain[] = "abcdefghijklmnopqrstuvwxyz"
	    "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./:,=+@%";

	if (s[0] != '\0' && s[strspn(s, plain)] == '\0') {
		qwen_text_str(t, s);
		return;
	}
	qwen_text_str(t, "'");
	for (; *s != '\0'; s++)
		qwen_text_fmt(t, *s == '\'' ? "'\\%c'" : "%c", *s);
	qwen_text_str(t, "'");
}

void
qbatch_command_keep(int argc, char *argv[])
{
	int i;

	for (i = 1; i < argc; i++) {
		qwen_text_str(&said, " ");
		add_word(&said, argv[i]);
	}
}

void
qbatch_interrupt_watch(const char *tool, int resumes, const char *model,
    int has_stdin)
{
	struct sigaction sa = { .sa_handler = on_interrupt }, old;
	struct qwen_text words = said;

	said = (struct qwen_text){ 0 };
	qwen_text_fmt(&said, "\nqbatch: interrupted; this resumes it%s: ",
	    has_stdin ? ", with the same input on stdin" : "");
	if (model != NULL && model[0] != '\0') {
		qwen_text_str(&said, "QWEN_MODEL=");
		add_word(&said, model);
		qwen_text_str(&said, " ");
	}
	add_word(&said, tool);
	qwen_text_str(&said, resumes ? "" : " --resume");
	qwen_text_add(&said, words.s, words.n);
	qwen_text_str(&said, "\n");
	said.failed |= words.failed;
	qwen_text_fini(&words);
	sigemptyset(&sa.sa_mask);
	if (!said.failed && sigaction(SIGINT, NULL, &old) == 0 &&
	    old.sa_handler != SIG_IGN)
		sigaction(SIGINT, &sa, NULL);
}

void
qbatch_command_free(void)
{
	struct sigaction now;

	if (sigaction(SIGINT, NULL, &now) == 0 &&
	    now.sa_handler == on_interrupt)
		signal(SIGINT, SIG_DFL);
	qwen_text_fini(&said);
}
