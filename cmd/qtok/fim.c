/* SPDX-License-Identifier: ISC */
/* fim.c - make a prompt to fill in the middle between two texts. */
#include <stdlib.h>
#include <string.h>

#include "qtok.h"

static struct qwen_str
read_file(const char *path)
{
	struct qwen_str s;
	char *text = cli_read_file(path, CLI_FILE_MAX, &s.len);

	s.s = text;
	return s;
}

void
qtok_fim(const struct qtok_opts *o, char *paths[])
{
	double begin = cli_now();
	struct qtok_encoding c = { .o = o };
	struct qwen_gguf *g = tool_gguf_open(tool_model_path(o->model));
	struct qwen_tok *t = tool_tok_open(g, QWEN_TOK_ENCODE);
	struct qwen_fim_text x = { .prefix = read_file(paths[0]),
	    .suffix = read_file(paths[1]) };
	struct qwen_fim_file *file;
	size_t i, n, n_bytes = x.prefix.len + x.suffix.len;
	int32_t *ids;

	for (n = 0; paths[2 + n] != NULL; n++)
		;
	x.file = file = cli_check_alloc(calloc(n + 1, sizeof *file));
	x.n_files = n;
	for (i = 0; i < n; i++) {
		file[i].name = (struct qwen_str){ paths[2 + i],
		    strlen(paths[2 + i]) };
		file[i].text = read_file(paths[2 + i]);
		n_bytes += file[i].text.len;
	}
	cli_must(qwen_gguf_path(g, 0), qwen_tok_encode_fim(t, &x, &ids, &n,
	    &cli_err));
	if (o->count)
		qtok_put_count(n, NULL);
	else {
		c.w = qtok_stream(o, g);
		qtok_put_ids(&c, ids, n);
		if (o->mark != NULL)
			qtok_put_mark(&c);
		cli_must("stdout", qwen_writer_close(c.w, &cli_err));
	}
	qtok_report(n_bytes, n, begin);
	free(ids);
	for (i = 0; i < x.n_files; i++)
		free((char *)(uintptr_t)file[i].text.s);
	free(file);
	free((char *)(uintptr_t)x.prefix.s);
	free((char *)(uintptr_t)x.suffix.s);
	qwen_tok_close(t);
	qwen_gguf_close(g);
}
