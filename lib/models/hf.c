/* SPDX-License-Identifier: ISC */
/*
 * hf.c - the cache of huggingface_hub, which transformers, llama.cpp, vLLM and
 * MLX use, too: models--ORG--REPO/{refs/REV, snapshots/COMMIT/PATH}.
 */
#include <sys/stat.h>

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "models/source.h"

/* Reads the commit of a branch or tag; "" if unknown. */
static void
read_ref(char commit[64], const char *repo, const char *rev)
{
	char *path = qwen_format("%s/refs/%s", repo, rev);
	int fd = path != NULL ? open(path, O_RDONLY | O_CLOEXEC |
	    O_NONBLOCK) : -1;
	ssize_t n = fd >= 0 ? read(fd, commit, 63) : 0;

	if (fd >= 0)
		close(fd);
	free(path);
	commit[n > 0 ? n : 0] = '\0';
	commit[strspn(commit, "0123456789abcdef")] = '\0';
}

struct snapshot {
	const char	*commit;
	time_t		 made;
	int		 current;	/* refs/main names it */
};

static int
newest_first(const void *a, const void *b)
{
	const struct snapshot *x = a, *y = b;

	if (x->current != y->current)
		return y->current - x->current;
	return (y->made > x->made) - (y->made < x->made);
}

/*
 * Lists the snapshots of a repository: that of main first, then newest first.
 */
static int
list_snapshots(struct snapshot **out, const struct qwen_strings *l,
    const char *folder,
    const char *current, struct qwen_err *err)
{
	struct snapshot *s = calloc(l->n + 1, sizeof *s);
	struct stat st;
	char *path;
	size_t i;

	*out = s;
	for (i = 0; s != NULL && i < l->n; i++) {
		path = qwen_format("%s/%s", folder, l->v[i]);
		s[i].commit = l->v[i];
		if (path != NULL && stat(path, &st) == 0)
			s[i].made = st.st_mtime;
		s[i].current = strcmp(l->v[i], current) == 0;
		free(path);
	}
	if (s == NULL)
		return qwen_oom(err);
	qsort(s, l->n, sizeof *s, newest_first);
	return 0;
}

/* Returns 1 if the models with index >= from have all their parts. */
static int
all_whole(const struct qwen_founds *f, size_t from)
{
	for (; from < f->n; from++) {
		if (f->v[from].missing > 0)
			return 0;
	}
	return 1;
}

/*
 * Searches the newest snapshot that has the model with all parts; if there is
 * none, the newest that has some of its parts.  Takes ownership of repo and
 * prefix.
 */
static int
find_in(struct qwen_founds *out, char *repo, char *prefix,
    const struct qwen_name *name, struct qwen_err *err)
{
	const char *rev = name != NULL ? name->rev : NULL, *at;
	char *folder = repo != NULL && prefix != NULL ?
	    qwen_format("%s/snapshots", repo) : NULL;
	struct qwen_strings l = { 0 };
	struct snapshot *s = NULL;
	char commit[64];
	size_t i, before = out->n;
	int rc = -1;

	if (folder == NULL)
		qwen_oom(err);
	else {
		read_ref(commit, repo, rev != NULL ? rev : "main");
		if (qwen_names_read(&l, out, folder, 1, 1, err) == 0)
			rc = list_snapshots(&s, &l, folder, commit, err);
	}
	for (i = 0; rc == 0 && i < 2 * l.n && out->n == before; i++) {
		at = s[i % l.n].commit;
		if (rev != NULL && strcmp(at, commit) != 0 &&
		    strcmp(at, rev) != 0)
			continue;
		rc = qwen_founds_add_repo(out, qwen_format("%s/%s", folder,
		    at), strdup(prefix), name, err);
		if (i < l.n && !all_whole(out, before))
			qwen_founds_cut(out, before);
	}
	free(s);
	free(folder);
	free(repo);
	free(prefix);
	qwen_strings_fini(&l);
	return rc;
}

static int
find_in_hf(struct qwen_founds *out, const char *folder,
    const struct qwen_name *name, struct qwen_err *err)
{
	char *entry, *repo = NULL;
	int rc;

	if (name->kind != QWEN_NAME_HF && name->kind != QWEN_NAME_REPO)
		return 0;
	entry = qwen_format("models--%s--%s", name->org, name->repo);
	rc = entry == NULL ? qwen_oom(err) :
	    qwen_models_entry(&repo, folder, entry, err);
	free(entry);
	return repo == NULL ? rc : find_in(out, repo,
	    qwen_format("%s/%s", name->org, name->repo), name, err);
}

/* Adds the models of a folder models--ORG--REPO. */
static int
add_entry(struct qwen_founds *out, const char *folder, char *entry,
    struct qwen_err *err)
{
	const char *org = entry + strlen("models--"), *repo;

	if (strncmp(entry, "models--", 8) != 0 ||
	    (repo = strstr(org, "--")) == NULL)
		return 0;
	return find_in(out, qwen_format("%s/%s", folder, entry),
	    qwen_format("%.*s/%s", (int)(repo - org), org, repo + 2), NULL,
	    err);
}

const struct qwen_model_source qwen_source_hf = { .label = "Hugging Face",
    .find = find_in_hf, .add = add_entry, .below = "", .depth = 1,
    .folders = 1 };
