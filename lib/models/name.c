/* SPDX-License-Identifier: ISC */
/* name.c - parses names of models. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/err.h"
#include "base/utf8.h"
#include "models/models.h"

enum { TEXT_MAX = 1024 };

static const struct {
	const char	*prefix;
	enum qwen_name_kind kind;
} prefixes[] = {
	{ "hf:", QWEN_NAME_HF }, { "ms:", QWEN_NAME_MS },
	{ "ollama:", QWEN_NAME_OLLAMA },
};

/* Web addresses, without https:// and www. */
static const struct {
	const char	*host;
	enum qwen_name_kind kind;
} sites[] = {
	{ "huggingface.co/", QWEN_NAME_HF }, { "hf.co/", QWEN_NAME_HF },
	{ "modelscope.cn/models/", QWEN_NAME_MS },
	{ "modelscope.ai/models/", QWEN_NAME_MS },
	{ "ollama.com/", QWEN_NAME_OLLAMA },
};

/* Page names between repository and revision in a web address. */
static const char *const pages[] = { "tree/", "blob/", "resolve/",
    "file/view/" };

/*
 * Returns 1 for one part of a name: letters and digits, joined by "." "_" "-".
 */
static int
is_word(const char *s)
{
	const char *p;

	for (p = s; *p != '\0'; p++) {
		if (!isalnum((unsigned char)*p) && strchr("._-", *p) == NULL)
			return 0;
	}
	return isalnum((unsigned char)s[0]) && strstr(s, "..") == NULL;
}

static int
fail_name(struct qwen_err *err, const char *why)
{
	return qwen_fail(err, QWEN_EFORMAT, "not a model name: %s", why);
}

/*
 * Cuts s at the last character c and returns the text after it; NULL if s has
 * no such character.
 */
static char *
cut_last(char *s, int c)
{
	char *at = strrchr(s, c);

	if (at != NULL)
		*at++ = '\0';
	return at;
}

/* Sets *to to a copy of s, unless s is NULL. */
static int
keep(char **to, const char *s, struct qwen_err *err)
{
	if (s != NULL && (*to = strdup(s)) == NULL)
		return qwen_oom(err);
	return 0;
}

/* Parses ORG/REPO[:QUANT | /PATH][@REV]; changes s. */
static int
parse_repo(struct qwen_name *n, char *s, struct qwen_err *err)
{
	char *rev = cut_last(s, '@'), *repo = strchr(s, '/'), *path, *quant;

	if (repo == NULL)
		return fail_name(err, "repositories are OWNER/REPOSITORY");
	*repo++ = '\0';
	if ((path = strchr(repo, '/')) != NULL)
		*path++ = '\0';
	quant = path == NULL ? cut_last(repo, ':') : NULL;
	if (!is_word(s) || !is_word(repo))
		return fail_name(err, "owner and repository may have letters, "
		    "digits, '.', '_' and '-'");
	if (quant != NULL && !is_word(quant))
		return fail_name(err,
		    "a format must follow ':', such as Q4_K_M");
	if (path != NULL && !qwen_repo_path_is_safe(path))
		return fail_name(err, "invalid path in the repository");
	if (rev != NULL && !qwen_repo_path_is_safe(rev))
		return fail_name(err,
		    "a branch, tag or commit must follow '@'");
	return keep(&n->org, s, err) < 0 || keep(&n->repo, repo, err) < 0 ||
	    keep(&n->quant, quant, err) < 0 || keep(&n->path, path, err) < 0 ||
	    keep(&n->rev, rev, err) < 0 ? -1 : 0;
}

/* Parses [[HOST/]NAMESPACE/]NAME[:TAG]; changes s. */
static int
parse_ollama(struct qwen_name *n, char *s, struct qwen_err *err)
{
	char *slash = strrchr(s, '/'), *tag, *repo = s, *org, *host, *p;

	tag = cut_last(slash != NULL ? slash : s, ':');
	if (slash != NULL) {
		*slash = '\0';
		repo = slash + 1;
	}
	org = slash != NULL ? s : NULL;
	host = NULL;
	if (org != NULL && (p = strrchr(org, '/')) != NULL) {
		*p = '\0';
		host = org;
		org = p + 1;
	}
	if (!is_word(repo) || (org != NULL && !is_word(org)) ||
	    (tag != NULL && !is_word(tag)))
		return fail_name(err, "an Ollama name is NAME[:TAG], such as "
		    "qwen3:8b");
	/* "host:port" */
	if (host != NULL) {
		if ((p = strchr(host, ':')) != NULL)
			*p = '\0';
		if (!is_word(host) || (p != NULL && (p[1] == '\0' ||
		    p[1 + strspn(p + 1, "0123456789")] != '\0')))
			return fail_name(err, "invalid host before the name");
		if (p != NULL)
			*p = ':';
	}
	return keep(&n->host, host != NULL ? host : "registry.ollama.ai",
	    err) < 0 || keep(&n->org, org != NULL ? org : "library", err) < 0 ||
	    keep(&n->repo, repo, err) < 0 ||
	    keep(&n->rev, tag != NULL ? tag : "latest", err) < 0 ? -1 : 0;
}

/*
 * Parses a web address: ignores its query, reads REPO/blob/REV/PATH as
 * REPO/PATH@REV.
 */
static int
parse_page(struct qwen_name *n, char *s, struct qwen_err *err)
{
	char *rest, *rev = NULL, *path = NULL;
	size_t i;

	s[strcspn(s, "?#")] = '\0';
	(void)qwen_percent_decode(s);
	if (n->kind == QWEN_NAME_OLLAMA)
		return parse_ollama(n, s, err);
	rest = strchr(s, '/');
	rest = rest != NULL ? strchr(rest + 1, '/') : NULL;
	if (rest != NULL)
		*rest++ = '\0';
	for (i = 0; rest != NULL && i < sizeof pages / sizeof pages[0]; i++) {
		if (strncmp(rest, pages[i], strlen(pages[i])) != 0)
			continue;
		rev = rest + strlen(pages[i]);
		if ((path = strchr(rev, '/')) != NULL)
			*path++ = '\0';
		break;
	}
	if (parse_repo(n, s, err) < 0)
		return -1;
	if ((rev != NULL && !qwen_repo_path_is_safe(rev)) || (path != NULL &&
	    path[0] != '\0' && !qwen_repo_path_is_safe(path)))
		return fail_name(err, "invalid path in the URL");
	if (path != NULL && !qwen_repo_is_model(path))
		path = NULL;		/* a folder, or a page about the
					   model */
	return keep(&n->path, path, err) < 0 ||
	    (n->rev == NULL && keep(&n->rev, rev, err) < 0) ? -1 : 0;
}

static int
parse_name(struct qwen_name *n, char *s, struct qwen_err *err)
{
	size_t i, len;
	char *at = s;

	for (i = 0; i < sizeof prefixes / sizeof prefixes[0]; i++) {
		len = strlen(prefixes[i].prefix);
		if (strncasecmp(s, prefixes[i].prefix, len) != 0)
			continue;
		n->kind = prefixes[i].kind;
		return n->kind == QWEN_NAME_OLLAMA ?
		    parse_ollama(n, s + len, err) : parse_repo(n, s + len, err);
	}
	if (strncasecmp(at, "https://", 8) == 0)
		at += 8;
	if (strncasecmp(at, "www.", 4) == 0)
		at += 4;
	for (i = 0; i < sizeof sites / sizeof sites[0]; i++) {
		len = strlen(sites[i].host);
		if (strncasecmp(at, sites[i].host, len) == 0) {
			n->kind = sites[i].kind;
			return parse_page(n, at + len, err);
		}
	}
	if (strchr(s, '/') != NULL) {
		n->kind = QWEN_NAME_REPO;
		return parse_repo(n, s, err);
	}
	if (strchr(s, ':') != NULL) {
		n->kind = QWEN_NAME_OLLAMA;
		return parse_ollama(n, s, err);
	}
	n->kind = QWEN_NAME_STEM;
	if (!qwen_repo_path_is_safe(s))
		return fail_name(err, "not a valid file name either");
	return keep(&n->repo, s, err);
}

int
qwen_name_parse(struct qwen_name *n, const char *text, struct qwen_err *err)
{
	char *copy;
	int rc;

	memset(n, 0, sizeof *n);
	if (text[0] == '\0' || strlen(text) > TEXT_MAX)
		return fail_name(err, text[0] == '\0' ? "it is empty" :
		    "it is too long");
	if (keep(&n->text, text, err) < 0)
		return -1;
	if ((copy = strdup(text)) == NULL)
		rc = qwen_oom(err);
	else
		rc = parse_name(n, copy, err);
	free(copy);
	if (rc < 0)
		qwen_name_fini(n);
	return rc;
}

void
qwen_name_fini(struct qwen_name *n)
{
	free(n->text);
	free(n->org);
	free(n->repo);
	free(n->quant);
	free(n->path);
	free(n->rev);
	free(n->host);
	memset(n, 0, sizeof *n);
}
