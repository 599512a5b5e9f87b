/* SPDX-License-Identifier: ISC */
/* find_model.c - the path of the model that a command uses, and opening it. */
#include <sys/stat.h>

#include <dirent.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#if defined(__APPLE__)
#include <mach-o/dyld.h>
#endif

#include "hub/hub.h"
#include "tool/tool.h"

/* Paths of the demo model; up: levels above the executable's folder. */
static const struct {
	int		 up;
	const char	*name;
} demo_places[] = {
	{ 1, "share/qpipe/demo.gguf" },	/* installed */
	{ 1, "demo/demo.gguf" },	/* bin/ of the build tree */
	{ 3, "demo/demo.gguf" },	/* build/asan/bin/ and the like */
};

/* Writes the path of the running executable to buf; returns 0 if unknown. */
static int
exe_path(char *buf, size_t size)
{
#if defined(__APPLE__)
	uint32_t n = (uint32_t)size;

	return _NSGetExecutablePath(buf, &n) == 0;
#else
	ssize_t n = readlink("/proc/self/exe", buf, size);

	if (n <= 0 || (size_t)n >= size)
		return 0;
	buf[n] = '\0';
	return 1;
#endif
}

/*
 * Returns the path of a file in the folder `up' levels above the executable's,
 * in buf; NULL if unknown.
 */
static const char *
near_exe(char *buf, size_t size, int up, const char *name)
{
	char *slash = exe_path(buf, size) ? strrchr(buf, '/') : NULL;

	for (; slash != NULL && up > 0; up--) {
		*slash = '\0';
		slash = strrchr(buf, '/');
	}
	if (slash == NULL)
		return NULL;
	slash++;
	snprintf(slash, size - (size_t)(slash - buf), "%s", name);
	return buf;
}

const char *
tool_sibling_path(const char *name)
{
	static char buf[PATH_MAX + 64];
	const char *path = near_exe(buf, sizeof buf, 0, name);

	return path != NULL && access(path, X_OK) == 0 ? path : name;
}

static const char *
find_demo(void)
{
	static char buf[PATH_MAX + 64];
	const char *path;
	struct stat st;
	size_t i;

	for (i = 0; i < sizeof demo_places / sizeof demo_places[0]; i++) {
		path = near_exe(buf, sizeof buf, demo_places[i].up,
		    demo_places[i].name);
		if (path != NULL && stat(path, &st) == 0 && S_ISREG(st.st_mode))
			return path;
	}
	return NULL;
}

/* The demo model is used by default, and the note about that is still due. */
static int demo_unasked;

void
tool_demo_note(int said)
{
	if (demo_unasked && !said)
		cli_note("no model named (-m or QWEN_MODEL): using the demo "
		    "model, which was trained on one book, the King James "
		    "Bible");
	demo_unasked = 0;
}

const char *
tool_model_path(const char *opt)
{
	const char *path = tool_model_path_stream(opt);

	if (opt == NULL)
		tool_demo_note(0);
	return path;
}

const char *
tool_model_path_stream(const char *opt)
{
	const char *path;

	if (opt != NULL)
		return tool_model_find(opt);
	if ((path = cli_env("QWEN_MODEL")) != NULL)
		return tool_model_find(path);
	if ((path = find_demo()) != NULL) {
		demo_unasked = 1;
		return path;
	}
	die("no model: give -m FILE or set QWEN_MODEL; the demo model is not "
	    "installed beside this program");
}

static int
is_of_hub(const char *name)
{
	static const char *const ends[] = { ".safetensors", ".json", ".jinja",
	    ".txt" };
	size_t i, n = strlen(name), m;

	for (i = 0; i < sizeof ends / sizeof ends[0]; i++) {
		m = strlen(ends[i]);
		if (n > m && strcmp(name + n - m, ends[i]) == 0)
			return 1;
	}
	return 0;
}

void
tool_protect_folder(const char *folder)
{
	DIR *d = opendir(folder);
	struct dirent *e;
	char *path;

	while (d != NULL && (e = readdir(d)) != NULL) {
		if (!is_of_hub(e->d_name))
			continue;
		path = cli_format("%s/%s", folder, e->d_name);
		cli_protect_input(path, "a file of the model that is in use");
		free(path);
	}
	if (d != NULL)
		closedir(d);
}

/*
 * Is it a Hugging Face folder?  Other folders get their error from
 * qwen_gguf_open.
 */
static int
is_hub(const char *path)
{
	char *config = cli_format("%s/config.json", path);
	int is = access(config, F_OK) == 0;

	free(config);
	return is;
}

/* set by quantize.c, so that tools without --quantize need not link it */
tool_quantize_fn *tool_quantize;

/* Opens a Hugging Face folder and uses its weights as stored. */
static struct qwen_gguf *
open_hub(const char *path, int threads)
{
	struct qwen_gguf *g;
	uint64_t made;

	cli_must(path, qwen_hub_load(&g, path, QWEN_HUB_AUTO, threads,
	    tool_memory_free(), &made, &cli_err));
	if (cli_verbose)
		cli_note("%s: weights are used as stored; %.1f MiB of norms "
		    "and biases are made in memory",
		    path, (double)made / 0x1p20);
	return g;
}

struct qwen_gguf *
tool_gguf_open(const char *path)
{
	return tool_gguf_open_threads(path, 0);
}

struct qwen_gguf *
tool_gguf_open_threads(const char *path, int threads)
{
	struct qwen_gguf *g = NULL;
	unsigned i;

	if (is_hub(path)) {
		if (tool_quantize == NULL)
			g = open_hub(path, threads);
		tool_protect_folder(path);
	} else
		cli_must(path, qwen_gguf_open(&g, path, &cli_err));
	for (i = 0; g != NULL && i < qwen_gguf_n_shards(g); i++)
		cli_protect_input(qwen_gguf_path(g, i),
		    "the model that is in use");
	return tool_quantize != NULL ? tool_quantize(g, path, threads) : g;
}
