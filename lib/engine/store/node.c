/* SPDX-License-Identifier: ISC */
/* node.c - what is in a file of the store: a part of a state, qwen-state(5). */
#include <sys/stat.h>

#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "engine/store/store.h"
#include "wire/record.h"

struct qwen_store_node {
	struct qwen_state_file *f;
};

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
qwen_store_node_open(struct qwen_store_node **out, const char *path,
    const struct qwen_store_name *name, const struct qwen_header *model,
    struct qwen_err *err)
{
	struct qwen_store_node *nd;
	struct stat st;

	*out = NULL;
	/* to open a FIFO would wait for a writer */
	if (lstat(path, &st) == 0 && !S_ISREG(st.st_mode))
		return qwen_fail(err, QWEN_EFORMAT, "not a regular file");
	if ((nd = qwen_alloc(1, sizeof *nd)) == NULL)
		return qwen_oom(err);
	if (qwen_state_open(&nd->f, path, err) < 0 ||
	    check_info(qwen_state_info(nd->f), name, model, err) < 0) {
		qwen_store_node_close(nd);
		return -1;
	}
	*out = nd;
	return 0;
}

void
qwen_store_node_close(struct qwen_store_node *nd)
{
	if (nd == NULL)
		return;
	qwen_state_close(nd->f);
	free(nd);
}

size_t
qwen_store_node_common(const struct qwen_store_node *nd,
    const int32_t *tokens, size_t n)
{
	const struct qwen_state_info *info = qwen_state_info(nd->f);
	size_t i, k = (size_t)(info->n_tokens - info->from);

	if (k > n)
		k = n;
	for (i = 0; i < k && tokens[i] == info->tokens[i]; i++)
		;
	return i;
}

const int32_t *
qwen_store_node_tokens(const struct qwen_store_node *nd)
{
	return qwen_state_info(nd->f)->tokens;
}

int
qwen_store_node_logits(const struct qwen_store_node *nd)
{
	return qwen_state_info(nd->f)->logits;
}

int
qwen_store_node_restore(struct qwen_session **out, struct qwen_model *m,
    struct qwen_store_node *const *chain, size_t n_chain, size_t n_max,
    int want_logits, struct qwen_err *err)
{
	struct qwen_state_file **f = qwen_alloc(n_chain, sizeof(*f));
	size_t i;
	int r;

	*out = NULL;
	if (f == NULL)
		return qwen_oom(err);
	for (i = 0; i < n_chain; i++)
		f[i] = chain[i]->f;
	r = qwen_state_restore(out, NULL, m, f, n_chain, n_max, want_logits,
	    err);
	free(f);
	return r;
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
