/* SPDX-License-Identifier: ISC */
/* interrupt.c - on Ctrl-C, print the command that resumes the run. */
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "qbatch.h"

static struct qwen_text resume_command;

static void
on_interrupt(int sig)
{
	/* only async-signal-safe calls; if it fails, nothing can be done */
	if (write(STDERR_FILENO, resume_command.s, resume_command.n) == -1)
		resume_command.n = 0;
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
		qwen_text_str(&resume_command, " ");
		add_word(&resume_command, argv[i]);
	}
}

void
qbatch_interrupt_watch(const char *tool, int resumes, const char *model,
    int has_stdin)
{
	struct sigaction sa = { .sa_handler = on_interrupt }, old;
	struct qwen_text words = resume_command;

	resume_command = (struct qwen_text){ 0 };
	qwen_text_fmt(&resume_command, "\nqbatch: interrupted; this resumes "
	    "it%s: ", has_stdin ? ", with the same input on stdin" : "");
	if (model != NULL && model[0] != '\0') {
		qwen_text_str(&resume_command, "QWEN_MODEL=");
		add_word(&resume_command, model);
		qwen_text_str(&resume_command, " ");
	}
	add_word(&resume_command, tool);
	qwen_text_str(&resume_command, resumes ? "" : " --resume");
	qwen_text_add(&resume_command, words.s, words.n);
	qwen_text_str(&resume_command, "\n");
	resume_command.failed |= words.failed;
	qwen_text_fini(&words);
	sigemptyset(&sa.sa_mask);
	if (!resume_command.failed && sigaction(SIGINT, NULL, &old) == 0 &&
	    old.sa_handler != SIG_IGN)
		sigaction(SIGINT, &sa, NULL);
}
