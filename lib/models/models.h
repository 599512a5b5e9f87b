/* SPDX-License-Identifier: ISC */
/*
 * models.h - models by name: what a name means, and which files on this machine
 * have it.  Nothing here uses a network, writes, or reads the environment.
 *
 * The folders are those of other programs: the caches of huggingface_hub,
 * ModelScope, Ollama, LM Studio and older llama.cpp; qwen-models(7) shows them.
 */
#ifndef QWEN_MODELS_MODELS_H
#define QWEN_MODELS_MODELS_H

#include "qwen/base.h"

/* ------------------------------------------------------------------- names */

/* What a name names. */
enum qwen_name_kind {
	QWEN_NAME_STEM,		/* "Qwen3-8B-Q4_K_M": a file of the own folder */
	QWEN_NAME_REPO,		/* "ORG/REPO[:QUANT]", of a hub that is not said */
	QWEN_NAME_HF,		/* "hf:ORG/REPO[:QUANT | /PATH][@REV]" */
	QWEN_NAME_MS,		/* "ms:...", the same of ModelScope */
	QWEN_NAME_OLLAMA,	/* "ollama:[[HOST/]NAMESPACE/]NAME[:TAG]" */
};

/* The parts of a name; NULL where the name does not say one. */
struct qwen_name {
	enum qwen_name_kind	 kind;
	char	*text;		/* as it was given */
	char	*org;		/* owner; namespace of Ollama, "library" by default */
	char	*repo;		/* repository, or stem; name of Ollama */
	char	*quant;		/* "Q4_K_M" */
	char	*path;		/* of one file in the repository */
	char	*rev;		/* branch, tag or commit; of Ollama the tag,
				   "latest" by default */
	char	*host;		/* of Ollama, "registry.ollama.ai" by default */
};

/*
 * Take a name apart.  An address of huggingface.co, hf.co, modelscope.cn or
 * modelscope.ai, as browsers show it, is the name of what it shows.  -1 and *err
 * if it is no name; then *n is empty.  qwen_name_fini() frees the parts.
 */
int qwen_name_parse(struct qwen_name *n, const char *text, struct qwen_err *err);
void qwen_name_fini(struct qwen_name *n);

/* ------------------------------------------------- the files of a repository */

/*
 * Whether a repository's file is a model that can be asked for: a GGUF file
 * that is whole or the first part of a split one; no projector (mmproj),
 * importance matrix or draft model.
 */
int qwen_repo_is_model(const char *path);

/* Whether it is a projector: the part of a model that looks at images. */
int qwen_repo_is_projector(const char *path);

/* How many parts a split file has, of which path is the first: 1 if not split. */
unsigned qwen_repo_n_parts(const char *path);

/* The name of part i, from 0, of so many, by that of the first; for free(). */
char *qwen_repo_part(const char *first, unsigned i, unsigned n);

/*
 * Whether a path from elsewhere stays in the folder that it is put into: it is
 * relative, and no part of it is empty, "." or "..", or has a control character.
 */
int qwen_repo_path_is_safe(const char *path);

/* Whether a path is below a folder, of which it begins with the path. */
int qwen_repo_is_under(const char *path, const char *folder);

/*
 * Which of n paths are meant by quant (NULL: every model): their indices go to
 * pick, which has room for n.  Returns how many: 1 where the choice is clear, more
 * where it is not, 0 where there is none.  A format counts where it stands
 * between separators (".", "-", "_", "/"), whatever its case; if that is not
 * enough to tell, where the names of all models begin to differ.
 */
size_t qwen_repo_match(const char *const *path, size_t n, const char *quant,
    size_t *pick);

/* --------------------------------------------------------- models on this machine */

enum { QWEN_PLACES_MAX = 4 };

/* Where to look: folders, each NULL if there is none. */
struct qwen_places {
	const char	*own[QWEN_PLACES_MAX];	/* files and folders of models */
	const char	*hf[QWEN_PLACES_MAX];	/* caches of huggingface_hub */
	const char	*ms[QWEN_PLACES_MAX];	/* of ModelScope */
	const char	*ollama[QWEN_PLACES_MAX];
	const char	*lmstudio[QWEN_PLACES_MAX];
	const char	*llama[QWEN_PLACES_MAX];	/* of llama.cpp, older */
};

struct qwen_found {
	char		*path;		/* to open; of a split file the first */
	char		*name;		/* by which this file alone is found */
	const char	*place;		/* "Hugging Face", "Ollama", ... */
	uint64_t	 bytes;		/* of all parts; 0 of a folder */
	int		 folder;	/* of safetensors, not GGUF */
	unsigned	 missing;	/* parts of a split file that are not there */
	uint64_t	 dev, ino;	/* which file it is, whatever its path */
};

struct qwen_founds {
	struct qwen_found	*v;
	size_t			 n, cap;
	/* a folder or file that there is, and that may not be read; or NULL */
	char			*forbidden;
};

/*
 * The files that a name means, from the first place that has any: one where it is
 * clear, more where it is not, none where there is none.  A file that has several
 * paths is one.  Returns -1 and *err for
 * lack of memory, and where what was found is no GGUF file (a model of Ollama
 * that is kept in another format).
 */
int qwen_models_find(struct qwen_founds *out, const struct qwen_places *places,
    const struct qwen_name *name, struct qwen_err *err);

/* All models of all places, in this order, each place by name. */
int qwen_models_all(struct qwen_founds *out, const struct qwen_places *places,
    struct qwen_err *err);

void qwen_founds_fini(struct qwen_founds *f);

/* ------------------------------------------------------------------- aliases */

/* A line "name = model [options]" of the user's file. */
struct qwen_alias {
	char	 *name;
	char	 *model;	/* a path or a name */
	char	**option;	/* words, NULL after the last; or NULL */
	size_t	  n_options;
	unsigned  line;		/* of the file, from 1 */
};

struct qwen_aliases {
	struct qwen_alias	*v;
	size_t			 n, cap;
};

/*
 * Read such a text: "#" at the beginning of a word makes the rest of the line
 * a comment, quotes join words as in the shell.  -1 and *err, which says the line.
 */
int qwen_aliases_parse(struct qwen_aliases *out, const char *text, size_t n,
    struct qwen_err *err);
void qwen_aliases_fini(struct qwen_aliases *a);

/* The alias of that name, or NULL. */
const struct qwen_alias *qwen_aliases_find(const struct qwen_aliases *a,
    const char *name);

#endif
