/* SPDX-License-Identifier: ISC */
/*
 * models.h - models by name: parsing names, and finding their files on this
 * machine.  Uses no network, writes nothing, and does not read the environment.
 *
 * Models are found in the folders of other programs: the caches of
 * huggingface_hub, ModelScope, Ollama, LM Studio and older llama.cpp; see
 * qwen-models(7).
 */
#ifndef QWEN_MODELS_MODELS_H
#define QWEN_MODELS_MODELS_H

#include "qwen/base.h"

/* ------------------------------------------------------------------- names */

/* Kinds of names. */
enum qwen_name_kind {
	QWEN_NAME_STEM,		/* "Qwen3-8B-Q4_K_M": a file in the user's own
				   folder */
	QWEN_NAME_REPO,		/* "ORG/REPO[:QUANT]", from either hub */
	QWEN_NAME_HF,		/* "hf:ORG/REPO[:QUANT | /PATH][@REV]" */
	QWEN_NAME_MS,		/* "ms:...", the same for ModelScope */
	QWEN_NAME_OLLAMA,	/* "ollama:[[HOST/]NAMESPACE/]NAME[:TAG]" */
};

/* The parts of a name; NULL for parts that it does not have. */
struct qwen_name {
	enum qwen_name_kind	 kind;
	char	*text;		/* as given */
	char	*org;		/* owner; Ollama: namespace, "library" by
				   default */
	char	*repo;		/* repository, or file name stem; Ollama:
				   name */
	char	*quant;		/* "Q4_K_M" */
	char	*path;		/* path of a file in the repository */
	char	*rev;		/* branch, tag or commit; Ollama: tag, "latest"
				   by default */
	char	*host;		/* Ollama: "registry.ollama.ai" by default */
};

/*
 * Parses a name.  A URL of huggingface.co, hf.co, modelscope.cn or
 * modelscope.ai, as in a browser, names the repository or file of its page.
 * Returns 0; -1 with *err if text is not a name, then *n is empty.
 * qwen_name_fini() frees the parts.
 */
int qwen_name_parse(struct qwen_name *n, const char *text, struct qwen_err *err);
void qwen_name_fini(struct qwen_name *n);

/* ------------------------------------------------- the files of a repository */

/*
 * Returns 1 if a repository's file is a model: a GGUF file, complete or the
 * first part of a split one; not a projector (mmproj), importance matrix or
 * draft model.
 */
int qwen_repo_is_model(const char *path);

/* Returns 1 if the name ends in ".gguf", in any case. */
int qwen_repo_is_gguf(const char *path);

/* Returns 1 for a projector: the image encoder of a model, an mmproj file. */
int qwen_repo_is_projector(const char *path);

/*
 * Selects the projector of a model among n names of files: writes indices to
 * pick, which has room for n.  Returns their number: 1 if the choice is clear,
 * more if it is ambiguous, 0 if there is no projector.  A projector that the
 * model's name begins with comes first, then one that names no model, then the
 * one with the most in common; of those for the same model, the best format:
 * BF16, F16, F32, Q8_0.
 */
size_t qwen_repo_projector(const char *const *name, size_t n,
    const char *model, size_t *pick);

/*
 * Returns the number of parts of a split file whose first part is path; 1 if it
 * is not split.
 */
unsigned qwen_repo_n_parts(const char *path);

/*
 * Returns the name of part i (from 0) of n, made from that of the first; for
 * free().
 */
char *qwen_repo_part(const char *first, unsigned i, unsigned n);

/*
 * Returns 1 if an untrusted path stays below its folder: it is relative, and no
 * component is empty, "." or "..", or has a control character.
 */
int qwen_repo_path_is_safe(const char *path);

/*
 * Selects the paths that match quant (NULL: every model): writes their indices
 * to pick, which has room for n.  Returns their number: 1 if the choice is
 * clear, more if it is ambiguous, 0 if none matches.  A format matches between
 * separators (".", "-", "_", "/"), ignoring case; if that is ambiguous, it must
 * be where the names of all models begin to differ.
 */
size_t qwen_repo_match(const char *const *path, size_t n, const char *quant,
    size_t *pick);

/*
 * The same for a name, or NULL: if it has a path, selects this file, or the
 * files in the folder of this path that match.
 */
size_t qwen_repo_pick(const char *const *path, size_t n,
    const struct qwen_name *name, size_t *pick);

/*
 * Returns a repository's name as older ModelScope clients write it, with "___"
 * for each ".", for free(); NULL without memory.  The name is not empty.
 */
char *qwen_ms_escape(const char *s);

/* --------------------------------------------------------- models on this machine */

enum { QWEN_MODEL_FOLDERS_MAX = 4 };

/* Folders to search; unused entries are NULL. */
struct qwen_model_folders {
	const char	*own[QWEN_MODEL_FOLDERS_MAX];	/* the user's files and folders
						   of models */
	const char	*hf[QWEN_MODEL_FOLDERS_MAX];	/* huggingface_hub caches */
	const char	*ms[QWEN_MODEL_FOLDERS_MAX];	/* ModelScope caches */
	const char	*ollama[QWEN_MODEL_FOLDERS_MAX];
	const char	*lmstudio[QWEN_MODEL_FOLDERS_MAX];
	const char	*llama[QWEN_MODEL_FOLDERS_MAX];	/* caches of older
							   llama.cpp */
};

/* A model found on this machine. */
struct qwen_found {
	char		*path;		/* to open; the first part of a split
					   file */
	char		*name;		/* unique name of this file */
	const char	*place;		/* "Hugging Face", "Ollama", ... */
	uint64_t	 bytes;		/* of all parts; 0 of a folder */
	int		 folder;	/* of safetensors, not GGUF */
	unsigned	 missing;	/* missing parts of a split file */
	uint64_t	 dev, ino;	/* identify the file, whatever its
					   path */
};

struct qwen_founds {
	struct qwen_found	*v;
	size_t			 n, cap;
	/* a folder or file without read permission; or NULL */
	char			*forbidden;
	const char		*place;		/* of the models added next */
};

/*
 * Finds the files that a name means, in the first folder that has any: out->n
 * is 1 if the name is clear, more if it is ambiguous, 0 if nothing was found.
 * A file with several paths counts once.  Returns -1 with *err if memory is
 * short, or if the model is not a GGUF file (Ollama may store safetensors).
 */
int qwen_models_find(struct qwen_founds *out,
    const struct qwen_model_folders *places,
    const struct qwen_name *name, struct qwen_err *err);

/*
 * Finds the projector beside a model: in the folder of the file `model', or in
 * the folder `model'; else above it, if the file's folder has the name of a
 * format.  Returns 0, and *out for free(), or NULL if there is none; -1 with
 * *err, QWEN_ERANGE and their names if several fit equally.
 */
int qwen_models_projector(char **out, const char *model, struct qwen_err *err);

/* Lists all models, place by place in this order, sorted by name in each. */
int qwen_models_all(struct qwen_founds *out,
    const struct qwen_model_folders *places,
    struct qwen_err *err);

void qwen_founds_fini(struct qwen_founds *f);

/* ------------------------------------------------------------------- aliases */

/* A line "name = model [options]" of the user's aliases file. */
struct qwen_alias {
	char	 *name;
	char	 *model;	/* a path or a name */
	char	**option;	/* words, NULL-terminated; or NULL */
	size_t	  n_options;
	unsigned  line;		/* in the file, from 1 */
};

struct qwen_aliases {
	struct qwen_alias	*v;
	size_t			 n, cap;
};

/*
 * Parses an aliases file: "#" at the beginning of a word starts a comment,
 * quotes join words as in the shell.  Returns -1 with *err, which names the
 * line.
 */
int qwen_aliases_parse(struct qwen_aliases *out, const char *text, size_t n,
    struct qwen_err *err);
void qwen_aliases_fini(struct qwen_aliases *a);

/* Returns the alias of that name, or NULL. */
const struct qwen_alias *qwen_aliases_find(const struct qwen_aliases *a,
    const char *name);

#endif
