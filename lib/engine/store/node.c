/* SPDX-License-Identifier: ISC */
/* node.c - what is in a file of the store: a part of a state, qwen-state(5). */
#include <sys/stat.h>


#include "base/err.h"
#include "base/mem.h"
#include "engine/store/store.h"
#include "wire/record.h"

static int
check_info(const struct qwen_state_info *info,
    const struct qwen_store_name *n, const struct qwen_header *model,
    struct qwen_err *err)
{
	if (qwen_header_match(&info->header, model, err) < 0)
		return -1;
	if (!info->part || info->from != n->from || info->n_tokens != n->end ||
	    !qwen_store_same(&info->prefix, &n->parent))
		return qwen_fail(err, QWEN_EMISMATCH,
		    "the file is not what its name says");
	return 0;
}

int
qwen_store_node_open(struct qwen_state_file **out,
    const struct qwen_store_scan *sc, size_t file,
    const struct qwen_header *model, struct qwen_err *err)
{
	char *path = qwen_store_path(sc, file);
	struct stat st;
	int r;

	*out = NULL;
	if (path == NULL)
		return qwen_oom(err);
	/* to open a FIFO would wait for a writer */
	if (lstat(path, &st) == 0 && !S_ISREG(st.st_mode))
		r = qwen_fail(err, QWEN_EFORMAT, "not a regular file");
	else
		r = qwen_state_open(out, path, err);
	free(path);
	if (r < 0 || check_info(qwen_state_info(*out), &sc->file[file].n,
	    model, err) == 0)
		return r;
	qwen_state_close(*out);
	*out = NULL;
	return -1;
}

size_t
qwen_store_node_common(const struct qwen_state_file *f, const int32_t *tokens,
    size_t n)
{
	const struct qwen_state_info *info = qwen_state_info(f);
	size_t i, k = (size_t)(info->n_tokens - info->from);

	if (k > n)
		k = n;
	for (i = 0; i < k && tokens[i] == info->tokens[i]; i++)
		;
	return i;
}

int
qwen_store_node_save(int fd, const struct qwen_session *s,
    const struct qwen_store_name *name, struct qwen_err *err)
{
	struct qwen_state_opts o = { .from = name->from, .to = name->end,
	    .no_checkpoints = 1,
	    .no_recurrent = name->kind == QWEN_STORE_KV };
	struct qwen_writer *w;

	if (qwen_writer_open(&w, fd, NULL, err) < 0)
		return -1;
	if (qwen_state_save(s, NULL, w, &o, NULL, err) < 0) {
		qwen_writer_free(w);
		return -1;
	}
	return qwen_writer_close(w, err);
}
