/* SPDX-License-Identifier: ISC */
/* node.c - the contents of a store file: a part of a state, qwen-state(5). */
#include <sys/stat.h>

#include <fcntl.h>
#include <unistd.h>

#include "base/err.h"
#include "base/mem.h"
#include "engine/state/read.h"
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
		    "the file does not match its name");
	return 0;
}

/*
 * Opens the name relative to the open folder, without following links or
 * waiting for a FIFO, since another account may write to the folder.
 */
int
qwen_store_node_fd(const struct qwen_store_scan *sc, size_t file,
    struct qwen_err *err)
{
	char name[QWEN_STORE_NAME];
	struct stat st;
	int fd;

	qwen_store_name_format(&sc->file[file].n, name);
	fd = openat(sc->fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW |
	    O_NONBLOCK);
	if (fd == -1)
		return qwen_store_stat(sc, file, &st) == 0 &&
		    !S_ISREG(st.st_mode) ? qwen_fail(err, QWEN_EFORMAT,
		    "not a regular file") : qwen_fail_errno(err,
		    "cannot open it");
	if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode))
		return fd;
	close(fd);
	return qwen_fail(err, QWEN_EFORMAT, "not a regular file");
}

int
qwen_store_node_open(struct qwen_state_file **out,
    const struct qwen_store_scan *sc, size_t file,
    const struct qwen_header *model, struct qwen_err *err)
{
	int fd = qwen_store_node_fd(sc, file, err), r;

	*out = NULL;
	if (fd == -1)
		return -1;
	r = qwen_state_open_fd(out, fd, err);
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

	return qwen_ids_common(info->tokens, (size_t)(info->n_tokens -
	    info->from), tokens, n);
}

int
qwen_store_node_verify(const struct qwen_store_scan *sc, size_t file,
    int n_threads, struct qwen_err *err)
{
	int fd = qwen_store_node_fd(sc, file, err), r;

	if (fd == -1)
		return -1;
	r = qwen_state_verify_fd(fd, n_threads, err);
	close(fd);
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
