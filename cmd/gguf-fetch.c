/* SPDX-License-Identifier: ISC */
/*
 * gguf-fetch.c - fetch models by name into the caches that other programs use.
 */
#include <sys/stat.h>

#include <stdio.h>
#include <stdlib.h>
#include <strings.h>
#include <unistd.h>

#include "gguf-fetch/gguf-fetch.h"

enum { FETCH = 0, LIST = 1, DRY = 2, VERIFY = 4, LOCAL = 8 };

static struct {
	unsigned	mode;
	int		json;
} opt;

struct fetch_opts fetch_opt = { .context = 4096, .retries = 5, .delay_s = 2,
    .stall_s = 30 };

static const struct cli_opt options[] = {
	CLI_GROUP("options:"),
	CLI_FILE(0, "to", "folder", &fetch_opt.to, "folder",
	    "fetch into this folder instead of the cache that programs share"),
	CLI_FLAG(0, "mmproj", &fetch_opt.mmproj,
	    "also fetch the projector (mmproj), the part that reads images"),
	CLI_SET(0, "list", &opt.mode, LIST,
	    "list a repository's files, and which of them fit the memory"),
	CLI_SET(0, "dry-run", &opt.mode, DRY,
	    "print what would be fetched, from where and to where"),
	CLI_SET(0, "verify", &opt.mode, VERIFY,
	    "verify hashes of local files, and fetch nothing"),
	CLI_SET(0, "local", &opt.mode, LOCAL,
	    "list the models on this machine"),
	CLI_FLAG(0, "json", &opt.json, "print --local as JSON"),
	CLI_FLAG(0, "offline", &fetch_opt.offline,
	    "use no network: only look at what is on this machine"),
	CLI_INT('c', "context", "n", &fetch_opt.context, 1, 1 << 30,
	    "texts of N tokens must fit in memory, too (default 4096)"),
	CLI_FLAG(0, "force", &fetch_opt.force,
	    "fetch the smallest file even if it does not fit"),
	CLI_INT(0, "retries", "n", &fetch_opt.retries, 0, 100,
	    "times to retry after a network failure (default 5)"),
	CLI_INT(0, "retry-delay", "seconds", &fetch_opt.delay_s, 0, 60,
	    "seconds before the first retry; doubles each time (default 2)"),
	CLI_INT(0, "stall", "seconds", &fetch_opt.stall_s, 1, 3600,
	    "seconds without data that count as a failure (default 30)"),
	CLI_END,
};

static const struct cli_tool tool = {
	.name = "gguf-fetch",
	.about = "fetch models by name from Hugging Face, ModelScope, Ollama",
	.usage = "[options] name ...\n"
	    "--list [-c n] name ...\n--local [--json]",
	.options = options, .max = -1,
};

/* Say that the model has a projector, unless it is there. */
static void
note_projector(const struct fetch_repo *r, const struct fetch_file *projector)
{
	struct fetch_paths p;

	fetch_paths(&p, r, projector);
	if (access(p.path, F_OK) != 0)
		cli_note("%s: reads images with %s (%s), which --mmproj "
		    "fetches, too", r->name->text, projector->path,
		    fetch_size(projector->bytes));
	fetch_paths_fini(&p);
}

/* Fetch a model and its projector: 0, or -1 and cli_err. */
static int
fetch(const struct fetch_repo *r, const struct fetch_model *m)
{
	const struct fetch_file *has = fetch_projector(r, m), **v;
	const struct fetch_file *projector = fetch_opt.mmproj ? has : NULL;
	struct fetch_paths p;
	size_t i, n = 0;
	int rc = 0;

	if (fetch_opt.mmproj && has == NULL)
		return fetch_fail("the repository has no projector (mmproj)");
	if (m->bytes == 0)
		return fetch_fail("%.120s is empty, so not a model",
		    r->v[m->file[0]].path);
	v = cli_check_alloc(calloc(m->n + r->n + 1, sizeof *v));
	for (i = 0; i < m->n; i++)
		v[n++] = &r->v[m->file[i]];
	/* Ollama needs all of a model */
	for (i = 0; i < r->n; i++) {
		if (&r->v[i] == projector || (fetch_opt.to == NULL &&
		    r->hub == &fetch_ollama && i != m->file[0]))
			v[n++] = &r->v[i];
	}
	if (opt.mode == DRY) {
		for (i = 0; i < n; i++)
			fetch_dry(r, v[i]);
	} else {
		rc = fetch_get(r, v, n);
		if (rc == 0 && fetch_opt.to == NULL && r->hub->done != NULL)
			rc = r->hub->done(r);
		for (i = 0; i < n && rc == 0; i++) {
			if (i != 0 && v[i] != projector)
				continue;
			fetch_paths(&p, r, v[i]);
			puts(p.path);
			fetch_paths_fini(&p);
		}
		if (rc == 0 && has != NULL && projector == NULL)
			note_projector(r, has);
	}
	free(v);
	return rc;
}

/* Fetch, list or verify a model of a hub: 0, or -1 and cli_err. */
static int
from_hub(const struct qwen_name *name)
{
	const struct fetch_model *m;
	struct fetch_models models = { 0 };
	struct fetch_repo r;
	int rc = -1;

	if (fetch_open(&r, name) == 0 && fetch_match(&models, &r) == 0) {
		if (opt.mode == LIST) {
			fetch_list(&r, &models);
			rc = 0;
		} else if (opt.mode == VERIFY)
			rc = fetch_verify(&r, &models);
		else if ((m = fetch_choose(&r, &models)) != NULL)
			rc = fetch(&r, m);
	}
	fetch_models_fini(&models);
	fetch_close(&r);
	return rc;
}

/*
 * Fetch, list or verify what one operand names; print a warning if that fails.
 */
static void
fetch_operand(const char *text)
{
	const char *given = tool_alias(text);
	struct qwen_name name;
	struct stat st;
	int rc;

	/* an operand that is a file needs no fetching */
	if (opt.mode == FETCH && stat(given, &st) == 0 &&
	    S_ISREG(st.st_mode)) {
		puts(given);
		return;
	}
	if ((rc = qwen_name_parse(&name, given, &cli_err)) == 0) {
		rc = fetch_opt.offline || name.kind == QWEN_NAME_STEM ?
		    fetch_offline(&name, opt.mode == VERIFY) : from_hub(&name);
		qwen_name_fini(&name);
	}
	if (rc < 0 && cli_err.code != FETCH_TOLD)
		warn("%s: %s", text, cli_err.msg);
	fflush(stdout);
}

static void
check_options(int n)
{
	static const char *const yes[] = { "1", "on", "yes", "true" };
	const char *hub_offline = fetch_env("HF_HUB_OFFLINE");
	size_t i;

	if ((opt.mode & (opt.mode - 1)) != 0)
		cli_usage("--list, --dry-run, --verify and --local exclude each "
		    "other");
	if (opt.mode == LOCAL && n > 0)
		cli_usage("--local takes no names");
	if (opt.mode != LOCAL && n == 0)
		cli_usage("no name given; use OWNER/REPOSITORY, as in "
		    "Qwen/Qwen3-8B-GGUF:Q4_K_M");
	if (opt.json && opt.mode != LOCAL)
		cli_usage("--json needs --local");
	if (fetch_opt.to != NULL && fetch_opt.to[0] == '\0')
		cli_usage("--to needs a folder");
	/* the values that huggingface_hub takes as true */
	for (i = 0; hub_offline != NULL && i < sizeof yes / sizeof yes[0]; i++)
		fetch_opt.offline |= strcasecmp(hub_offline, yes[i]) == 0;
	if (fetch_opt.offline && (opt.mode == LIST || opt.mode == DRY))
		cli_usage("--list and --dry-run need the network, which "
		    "--offline or HF_HUB_OFFLINE forbids");
}

int
main(int argc, char *argv[])
{
	int n = cli_begin(&tool, argc, argv), i;

	check_options(n);
	if (opt.mode == LOCAL)
		fetch_local(opt.json);
	for (i = 1; i <= n; i++)
		fetch_operand(argv[i]);
	return cli_finish();
}
