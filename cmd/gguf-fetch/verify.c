/* SPDX-License-Identifier: ISC */
/* verify.c - --verify and --offline. */
#include <sys/stat.h>

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gguf-fetch.h"

/* Hash a file: 1 if it is right; 0, with a warning, if not; -1 and cli_err. */
static int
check(const char *path, uint64_t bytes, const char *hash)
{
	char sum[FETCH_HASH];
	struct stat st;
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK), rc = -1;

	if (fd == -1 || fstat(fd, &st) == -1)
		fetch_errno(path);
	else if (bytes != UINT64_MAX && (uint64_t)st.st_size != bytes) {
		warn("%s: wrong size: it has %s, not %s; remove it and fetch "
		    "it again", path, cli_count((uint64_t)st.st_size, "byte"),
		    cli_count(bytes, "byte"));
		rc = 0;
	} else {
		rc = fetch_hash_check(fd, path, (uint64_t)st.st_size, hash,
		    sum);
		if (rc == 0)
			warn("%s: wrong hash: %s instead of %s; remove it and "
			    "fetch it again", path, sum, hash);
	}
	if (fd != -1)
		close(fd);
	return rc;
}

static void
say_good(const char *path)
{
	puts(path);
	if (cli_verbose)
		cli_note("%s: the hash is right", path);
}

/* Verify a model: 1; 0 if it was not fetched; -1 and cli_err. */
static int
check_model(const struct fetch_repo *r, const struct fetch_model *m)
{
	struct fetch_paths p;
	size_t i, n_there = 0;
	int rc = 1, good = 1, there;

	for (i = 0; i < m->n && rc >= 0; i++) {
		fetch_paths(&p, r, &r->v[m->file[i]]);
		there = access(p.path, F_OK) == 0;
		n_there += (size_t)there;
		if (there) {
			rc = check(p.path, r->v[m->file[i]].bytes,
			    r->v[m->file[i]].hash);
			good &= rc != 0;
		}
		fetch_paths_fini(&p);
	}
	if (rc < 0 || n_there == 0)
		return rc < 0 ? -1 : 0;
	if (n_there < m->n)
		warn("%s: only %zu of its %zu parts are there",
		    r->v[m->file[0]].path,
		    n_there, m->n);
	else if (good) {
		fetch_paths(&p, r, &r->v[m->file[0]]);
		say_good(p.path);
		fetch_paths_fini(&p);
	}
	return 1;
}

int
fetch_verify(const struct fetch_repo *r, const struct fetch_models *m)
{
	size_t i;
	int rc, any = 0;

	for (i = 0; i < m->n; i++) {
		if ((rc = check_model(r, &m->v[i])) < 0)
			return -1;
		any |= rc;
	}
	return any ? 0 : fetch_fail("no file of this model is on this machine");
}

/*
 * The hash that a file has for a name, where it is a blob of a cache: "HASH" or
 * "sha256-HASH"; or "".
 */
static void
hash_by_name(char out[FETCH_HASH], const char *path)
{
	char *real = realpath(path, NULL);
	const char *name = real != NULL ? strrchr(real, '/') + 1 : "";

	if (strncmp(name, "sha256-", 7) == 0)
		name += 7;
	out[0] = '\0';
	if (fetch_is_hex(name, 64) || fetch_is_hex(name, 40))
		snprintf(out, FETCH_HASH, "%s", name);
	free(real);
}

/* All parts by their names alone. */
static int
verify_found(const char *path)
{
	unsigned n = qwen_repo_n_parts(path), i;
	char hash[FETCH_HASH], *part;
	int rc = 1, good = 1;

	for (i = 0; i < n && rc >= 0; i++) {
		part = cli_check_alloc(qwen_repo_part(path, i, n));
		hash_by_name(hash, part);
		if (hash[0] != '\0')
			rc = check(part, UINT64_MAX, hash);
		else
			rc = fetch_fail("%s: its right hash is not stored "
			    "here%s", part, fetch_opt.offline ? "; without "
			    "--offline it is looked up" : "");
		good &= rc != 0;
		free(part);
	}
	if (rc >= 0 && good)
		say_good(path);
	return rc < 0 ? -1 : 0;
}

/* Whether all parts are there: 0, or -1 and cli_err. */
static int
is_whole(const struct qwen_found *f)
{
	unsigned n = qwen_repo_n_parts(f->path);

	return f->missing == 0 ? 0 : fetch_fail("only %u of its %u parts are "
	    "there; without --offline the rest is fetched", n - f->missing, n);
}

int
fetch_offline(const struct qwen_name *name, int verify)
{
	struct qwen_founds f;
	size_t i;
	int rc = 0;

	if (qwen_models_find(&f, tool_model_folders(), name, &cli_err) < 0)
		return -1;
	if (f.n == 0 && f.forbidden != NULL)
		rc = fetch_fail("this user may not read %s, where the model "
		    "may be", f.forbidden);
	else if (f.n == 0)
		rc = fetch_fail("this model is not on this machine%s",
		    fetch_opt.offline ? ", and --offline, or HF_HUB_OFFLINE, "
		    "forbids fetching it" : "; give OWNER/REPOSITORY to fetch "
		    "one");
	else if (verify) {
		for (i = 0; i < f.n && rc == 0; i++) {
			rc = is_whole(&f.v[i]);
			if (rc == 0)
				rc = verify_found(f.v[i].path);
		}
	} else if (f.n == 1) {
		if ((rc = is_whole(f.v)) == 0)
			puts(f.v[0].path);
	} else {
		warn("%s: %zu models match; give the full name of one:",
		    name->text, f.n);
		for (i = 0; i < f.n; i++)
			warn("  %s (%s, %s)", f.v[i].name,
			    fetch_size(f.v[i].bytes), f.v[i].place);
		cli_err.code = FETCH_TOLD;
		rc = -1;
	}
	qwen_founds_fini(&f);
	return rc;
}
