/* SPDX-License-Identifier: ISC */
/* request.c - a chat request out of options, or read and changed by them. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
#include <yyjson.h>

enum { FILE_MAX = 1 << 30 };

struct cli_request {
	yyjson_mut_doc	*doc;
	yyjson_mut_val	*root, *messages;
};

/* What yyjson makes is there, or there was no memory. */
static void *
got(void *p)
{
	if (p == NULL)
		die("out of memory");
	return p;
}

static struct cli_request *
wrap(yyjson_mut_doc *doc)
{
	struct cli_request *q = got(calloc(1, sizeof *q));

	q->doc = got(doc);
	q->root = yyjson_mut_doc_get_root(doc);
	if (q->root == NULL) {
		q->root = got(yyjson_mut_obj(doc));
		yyjson_mut_doc_set_root(doc, q->root);
	}
	return q;
}

struct cli_request *
cli_request_new(void)
{
	return wrap(yyjson_mut_doc_new(NULL));
}

void
cli_request_free(struct cli_request *q)
{
	if (q == NULL)
		return;
	yyjson_mut_doc_free(q->doc);
	free(q);
}

/* ------------------------------------------------------------------- files */

char *
cli_read_fd(int fd, const char *name, size_t *n)
{
	size_t cap = 1 << 16, at = 0;
	char *p = got(malloc(cap + 1));
	ssize_t k;

	for (;;) {
		k = read(fd, p + at, cap - at);
		if (k == -1 && errno == EINTR)
			continue;
		if (k == -1)
			die("%s: %s", name, strerror(errno));
		if (k == 0)
			break;
		at += (size_t)k;
		if (at > FILE_MAX)
			die("%s: over %d bytes", name, FILE_MAX);
		if (at == cap) {
			cap *= 2;
			p = got(realloc(p, cap + 1));
		}
	}
	p[at] = '\0';
	*n = at;
	return p;
}

char *
cli_read_file(const char *path, size_t *n)
{
	char *p;
	int fd;

	if (strcmp(path, "-") == 0) {
		cli_need_stdin();
		return cli_read_fd(STDIN_FILENO, "stdin", n);
	}
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		die("%s: %s", path, strerror(errno));
	p = cli_read_fd(fd, path, n);
	close(fd);
	return p;
}

/* -------------------------------------------------------------------- JSON */

static yyjson_doc *
parse(const char *json, size_t n, const char *what)
{
	yyjson_read_err e;
	yyjson_doc *doc = yyjson_read_opts((char *)(uintptr_t)json, n,
	    YYJSON_READ_NUMBER_AS_RAW, NULL, &e);

	if (doc == NULL && e.code == YYJSON_READ_ERROR_MEMORY_ALLOCATION)
		die("%s: out of memory", what);
	if (doc == NULL)
		die("%s: no JSON at byte %zu: %s", what, e.pos, e.msg);
	return doc;
}

struct cli_request *
cli_request_read(int fd, const char *name)
{
	struct cli_request *q;
	yyjson_doc *doc;
	size_t n;
	char *json = cli_read_fd(fd, name, &n);

	doc = parse(json, n, name);
	if (!yyjson_is_obj(yyjson_doc_get_root(doc)))
		die("%s: the request is no JSON object", name);
	q = wrap(yyjson_doc_mut_copy(doc, NULL));
	yyjson_doc_free(doc);
	free(json);
	return q;
}

void
cli_request_set(struct cli_request *q, const char *key, const char *json,
    size_t n, const char *what)
{
	yyjson_doc *doc = parse(json, n, what);

	yyjson_mut_obj_remove_key(q->root, key);
	if (!yyjson_mut_obj_add(q->root,
	    got(yyjson_mut_strcpy(q->doc, key)),
	    got(yyjson_val_mut_copy(q->doc, yyjson_doc_get_root(doc)))))
		got(NULL);
	yyjson_doc_free(doc);
}

/* The last message's content with text behind it, as one string. */
static void
extend(struct cli_request *q, yyjson_mut_val *message, const char *text,
    size_t n)
{
	yyjson_mut_val *old = yyjson_mut_obj_get(message, "content");
	size_t len = yyjson_mut_get_len(old);
	char *s = got(malloc(len + 2 + n));

	memcpy(s, yyjson_mut_get_str(old), len);
	memcpy(s + len, "\n\n", 2);
	memcpy(s + len + 2, text, n);
	yyjson_mut_obj_put(message, got(yyjson_mut_str(q->doc, "content")),
	    got(yyjson_mut_strncpy(q->doc, s, len + 2 + n)));
	free(s);
}

void
cli_request_add(struct cli_request *q, const char *role, const char *text,
    size_t n, const char *what)
{
	yyjson_mut_val *last, *m;
	size_t bad;

	bad = qwen_utf8_check(text, n);
	if (bad < n)
		die("%s: not UTF-8 at byte %zu", what, bad);
	if (q->messages == NULL) {
		q->messages = got(yyjson_mut_obj_add_arr(q->doc, q->root,
		    "messages"));
	}
	last = yyjson_mut_arr_get_last(q->messages);
	if (last != NULL && yyjson_mut_equals_str(
	    yyjson_mut_obj_get(last, "role"), role)) {
		extend(q, last, text, n);
		return;
	}
	m = got(yyjson_mut_arr_add_obj(q->doc, q->messages));
	if (!yyjson_mut_obj_add_strcpy(q->doc, m, "role", role) ||
	    !yyjson_mut_obj_add_strncpy(q->doc, m, "content", text, n))
		got(NULL);
}

char *
cli_request_json(struct cli_request *q, size_t *n)
{
	return got(yyjson_mut_write(q->doc, 0, n));
}
