/* SPDX-License-Identifier: ISC */
/* models.c - models by name: this user's folders and aliases. */
#include <sys/stat.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "models/models.h"
#include "tool/tool.h"

enum { ALIASES_MAX = 1 << 20 };

/* ------------------------------------------------------------------ folders */

char *
tool_xdg(const char *name, const char *usual, const char *rest)
{
	const char *base = cli_env(name), *home = cli_env("HOME");

	if (base != NULL && base[0] == '/')
		return cli_format("%s/%s", base, rest);
	return home != NULL ? cli_format("%s/%s/%s", home, usual, rest) : NULL;
}

static char *
under_home(const char *rest)
{
	return cli_env("HOME") != NULL ? cli_format("%s/%s", cli_env("HOME"),
	    rest) : NULL;
}

/* Splits a list like PATH; ignores folders beyond QWEN_MODEL_FOLDERS_MAX. */
static void
split(const char **to, const char *list)
{
	size_t n, i;

	for (i = 0; i < QWEN_MODEL_FOLDERS_MAX && *list != '\0'; list += n) {
		n = strcspn(list, ":");
		if (n > 0)
			to[i++] = cli_format("%.*s", (int)n, list);
		n += list[n] == ':';
	}
}

/*
 * Folders from environment variables come before the programs' default folders.
 */
static void
set_places(struct qwen_model_folders *p)
{
	const char *llama = cli_env("LLAMA_CACHE");
	size_t i = 0;

	if (cli_env("QWEN_MODELS") != NULL)
		split(p->own, cli_env("QWEN_MODELS"));
	else
		p->own[0] = tool_xdg("XDG_DATA_HOME", ".local/share",
		    "qpipe/models");
	if (llama != NULL)
		p->hf[i++] = llama;
	p->hf[i] = tool_hub_cache();
	if ((p->ms[0] = cli_env("MODELSCOPE_CACHE")) == NULL)
		p->ms[0] = under_home(".cache/modelscope");
	if ((p->ollama[0] = cli_env("OLLAMA_MODELS")) == NULL)
		p->ollama[0] = under_home(".ollama/models");
	p->ollama[1] = "/usr/share/ollama/.ollama/models";
	p->lmstudio[0] = under_home(".lmstudio/models");
	p->lmstudio[1] = under_home(".cache/lm-studio/models");
	p->llama[0] = llama != NULL ? llama :
	    tool_xdg("XDG_CACHE_HOME", ".cache", "llama.cpp");
}

const struct qwen_model_folders *
tool_model_folders(void)
{
	static struct qwen_model_folders places;
	static int set;

	if (!set++)
		set_places(&places);
	return &places;
}

const char *
tool_hub_cache(void)
{
	static const char *s;

	if (s != NULL || (s = cli_env("HF_HUB_CACHE")) != NULL ||
	    (s = cli_env("HUGGINGFACE_HUB_CACHE")) != NULL)
		return s;
	if ((s = cli_env("HF_HOME")) != NULL)
		s = cli_format("%s/hub", s);
	else
		s = tool_xdg("XDG_CACHE_HOME", ".cache", "huggingface/hub");
	return s;
}

const char *
tool_modelscope_cache(void)
{
	return tool_model_folders()->ms[0];
}

const char *
tool_ollama_models(void)
{
	return tool_model_folders()->ollama[0];
}

/* ------------------------------------------------------------------ aliases */

const struct qwen_aliases *
tool_aliases(const char **file)
{
	static struct qwen_aliases aliases;
	static char *path;
	static int read_already;
	char *text;
	size_t n;

	if (!read_already++) {
		path = tool_xdg("XDG_CONFIG_HOME", ".config", "qpipe/models");
		text = path != NULL ? cli_try_file(path, ALIASES_MAX, &n) :
		    NULL;
		if (text != NULL)
			cli_must(path, qwen_aliases_parse(&aliases, text, n,
			    &cli_err));
		else if (path != NULL && errno != ENOENT && errno != ENOTDIR)
			die("%s: %s", path, strerror(errno));
		free(text);
	}
	if (file != NULL)
		*file = path;
	return &aliases;
}

/* Does the path exist, even as a dangling link or an unreadable file? */
static int
is_there(const char *path)
{
	struct stat st;

	return lstat(path, &st) == 0 || (errno != ENOENT && errno != ENOTDIR &&
	    errno != ENAMETOOLONG);
}

/* Returns the alias of a name; NULL if a file of that name exists. */
static const struct qwen_alias *
alias_of(const char *name)
{
	return name != NULL && !is_there(name) ?
	    qwen_aliases_find(tool_aliases(NULL), name) : NULL;
}

const char *
tool_alias(const char *name)
{
	const struct qwen_alias *a = alias_of(name);
	const char *path = NULL;

	if (a == NULL)
		return name;
	if (strncmp(a->model, "~/", 2) == 0)
		path = under_home(a->model + 2);
	return path != NULL ? path : a->model;
}

tool_is_sampling_fn *tool_is_sampling;

/* Options that an alias may have, besides those of sampling. */
static const char *const alias_options[] = { "context", "draft", "effort",
    "kv", "kv-k", "kv-v", "lora", "rope-scaling", "sampling", "template",
    "think", "c" };

/*
 * Returns 1 for an option with an argument, 2 for one without, 0 for neither.
 */
static int
alias_option_kind(const char *name, size_t n)
{
	size_t i;

	for (i = 0; i < sizeof alias_options / sizeof alias_options[0]; i++) {
		if (strncmp(alias_options[i], name, n) == 0 &&
		    alias_options[i][n] == '\0')
			return 1;
	}
	return tool_is_sampling != NULL ? tool_is_sampling(name, n) : 0;
}

/*
 * Sets the option at word *i unless the command line has set it.  Tools that do
 * not sample do not know the sampling options: they skip an unknown option and
 * the next word, unless that begins with "--". *i becomes the index of the
 * option's last word.
 */
static void
set_default(const struct qwen_alias *a, size_t *i, const char *from)
{
	const char *word = a->option[*i], *arg = a->option[*i + 1];
	const char *name = word + (word[0] == '-') +
	    (strncmp(word, "--", 2) == 0);
	size_t n = strcspn(name, "=");
	int known = alias_option_kind(name, n);

	if (name == word || n == 0 || (!known && tool_is_sampling != NULL))
		die("%s: an alias cannot set the option '%s'; see "
		    "qwen-models(7)", from, word);
	if (known == 2 && name[n] == '=')
		die("%s: %.*s takes no argument", from, (int)(name - word + n),
		    word);
	if (name[n] == '=')
		arg = name + n + 1;
	else if (known == 2 || (!known && arg != NULL &&
	    strncmp(arg, "--", 2) == 0))
		arg = NULL;
	else if (arg != NULL)
		++*i;
	if (arg == NULL && known == 1)
		die("%s: %s needs an argument", from, word);
	if (arg != NULL && strncmp(arg, "~/", 2) == 0 &&
	    cli_env("HOME") != NULL)
		arg = under_home(arg + 2);
	if (known)
		cli_default(from, name, n, arg);
}

void
tool_alias_apply(const struct cli_opt *o)
{
	const char *given = *(const char **)o->to, *file;
	const struct qwen_alias *a = alias_of(given != NULL ? given :
	    cli_env("QWEN_MODEL"));
	char *from;
	size_t i;

	if (a == NULL)
		return;
	tool_aliases(&file);
	from = cli_format("%s: line %u", file, a->line);
	for (i = 0; i < a->n_options; i++)
		set_default(a, &i, from);
	/*
	 * an alias's --kv overwrites --kv-k and --kv-v of the user: set them
	 * again
	 */
	cli_set_again("kv");
	free(from);
}

/* -------------------------------------------------------------------- names */

/* Paths and the names they were found by; kept until the process ends. */
struct named {
	char		*path;
	const char	*name;
};

static struct {
	struct named	*v;
	size_t		 n, cap;
} named;

const char *
tool_model_name(const char *path)
{
	const char *slash = strrchr(path, '/');
	size_t i;

	for (i = named.n; i > 0; i--) {
		if (strcmp(named.v[i - 1].path, path) == 0)
			return named.v[i - 1].name;
	}
	return slash != NULL ? slash + 1 : path;
}

/*
 * Is s an absolute path, a "./" path, a folder or a .gguf file, rather than a
 * name?
 */
static int
is_path(const char *s)
{
	size_t n = strlen(s);

	return s[0] == '/' || s[0] == '.' || s[0] == '\0' || s[n - 1] == '/' ||
	    (n > 5 && strcmp(s + n - 5, ".gguf") == 0);
}

static void __attribute__((noreturn))
ambiguous(const char *given, const struct qwen_founds *f)
{
	const struct qwen_found *v;

	cli_message(1, "%s: %zu models match; give the full name of one:",
	    given, f->n);
	for (v = f->v; v < f->v + f->n; v++) {
		if (v->folder)
			cli_message(1, "  %s (a folder, %s)", v->name,
			    v->place);
		else
			cli_message(1, "  %s (%.2f GiB, %s)", v->name,
			    (double)v->bytes / 0x1p30, v->place);
	}
	exit(1);
}

static void __attribute__((noreturn))
fail_not_found(const char *given, const struct qwen_name *name,
    const struct qwen_founds *f)
{
	struct qwen_name any = *name;
	struct qwen_founds others;
	struct qwen_text t = { 0 };
	size_t i;

	if (f->forbidden != NULL)
		die("%s: not found; this user may not read %s, where the model "
		    "may be", given, f->forbidden);
	any.quant = any.path = any.rev = NULL;
	if (name->kind < QWEN_NAME_OLLAMA && name->kind != QWEN_NAME_STEM &&
	    qwen_models_find(&others, tool_model_folders(), &any, NULL) == 0) {
		for (i = 0; i < others.n && i < 8; i++)
			qwen_text_fmt(&t, "%s%s", i > 0 ? ", " : "; there is ",
			    others.v[i].name);
	}
	if (name->kind == QWEN_NAME_STEM)
		die("%s: no such file, and no model of this name on this "
		    "machine; \"gguf-fetch --local\" lists the models", given);
	die("%s: no such file, and no model of this name on this machine%s; "
	    "\"gguf-fetch %s\" gets it", given, t.s != NULL ? t.s : "", given);
}

/* Notes that the name asks for a format, but the model found has another. */
static void
tell_format(const char *given, const struct qwen_name *name,
    const struct qwen_found *f)
{
	const char *colon = strrchr(f->name, ':');

	if (name->quant != NULL && colon != NULL && !f->folder &&
	    strchr(colon, '/') == NULL &&
	    strcasecmp(colon + 1, name->quant) != 0)
		cli_note("%s: this machine has only %s, which is used", given,
		    f->name);
}

/* Returns a copy of the path, whose name the tools show instead of the file's. */
static const char *
add_named(const char *path, const char *name)
{
	struct named *p;

	cli_grow(&named.v, &named.cap, named.n + 1, sizeof *named.v);
	p = &named.v[named.n++];
	*p = (struct named){ cli_format("%s", path), name };
	return p->path;
}

const char *
tool_model_find(const char *given)
{
	const char *asked = given, *path;
	struct qwen_founds f;
	struct qwen_name name;
	unsigned n_parts;

	if (is_there(given))
		return given;
	given = tool_alias(given);
	if (is_there(given))
		return add_named(given, asked);
	if (qwen_name_parse(&name, given, &cli_err) < 0) {
		if (is_path(given))
			return given;
		die("%s: no such file, and %s", given, cli_err.msg);
	}
	cli_must(given, qwen_models_find(&f, tool_model_folders(), &name,
	    &cli_err));
	if (f.n == 0 && is_path(given) && name.kind <= QWEN_NAME_REPO) {
		qwen_founds_fini(&f);
		qwen_name_fini(&name);
		return given;
	}
	if (f.n == 0)
		fail_not_found(given, &name, &f);
	if (f.n > 1)
		ambiguous(given, &f);
	n_parts = qwen_repo_n_parts(f.v[0].path);
	if (f.v[0].missing > 0)
		die("%s: only %u of %u parts are on this machine; \"gguf-fetch "
		    "%s\" fetches the rest", given, n_parts - f.v[0].missing,
		    n_parts, given);
	if (cli_verbose)
		cli_note("%s: %s (%s)", given, f.v[0].path, f.v[0].place);
	tell_format(given, &name, &f.v[0]);
	path = add_named(f.v[0].path, asked);
	qwen_founds_fini(&f);
	qwen_name_fini(&name);
	return path;
}
