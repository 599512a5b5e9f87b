/* SPDX-License-Identifier: ISC */
/* source.h - internal: the model folders of other programs. */
#ifndef QWEN_MODELS_SOURCE_H
#define QWEN_MODELS_SOURCE_H

#include "base/text.h"
#include "models/models.h"

/*
 * Adds the models of one entry of a folder, whose name it may change; 0 or -1.
 */
typedef int qwen_founds_fn(struct qwen_founds *out, const char *folder,
    char *entry, struct qwen_err *err);

/* One program's model folders. */
struct qwen_model_source {
	const char	*label;
	/* Adds the files under folder that match the name to out; 0 or -1. */
	int		(*find)(struct qwen_founds *out, const char *folder,
			    const struct qwen_name *name, struct qwen_err *err);
	/*
	 * Adds all models under folder; 0 or -1.  NULL: add() does, for each
	 * entry that qwen_founds_each() finds in FOLDER`below'.
	 */
	int		(*all)(struct qwen_founds *out, const char *folder,
			    struct qwen_err *err);
	qwen_founds_fn	*add;
	const char	*below;
	int		 depth, folders;
};

extern const struct qwen_model_source qwen_source_own, qwen_source_hf,
    qwen_source_ms, qwen_source_ollama, qwen_source_lmstudio, qwen_source_llama;

/* ------------------------------------------------------------ results */

/*
 * Lists the regular files under a folder, or if folders is set its subfolders:
 * relative paths, sorted, at most `depth' levels deep (1: in the folder
 * itself).  Skips names that begin with ".".  A missing folder is empty; one
 * without read permission goes to out->forbidden.
 */
int qwen_names_read(struct qwen_strings *l, struct qwen_founds *out,
    const char *folder, int depth, int folders, struct qwen_err *err);

/* Returns 1 if the path is an existing folder. */
int qwen_models_is_folder(const char *path);

/*
 * Finds an entry of folder by name; ignores case if no entry matches exactly.
 * *out is for free(), or NULL; *err is set without memory.
 */
int qwen_models_entry(char **out, const char *folder, const char *name,
    struct qwen_err *err);

/*
 * Calls fn for each entry that qwen_names_read() lists, until it returns -1.
 * Takes ownership of folder, which may be NULL after a failed allocation.
 */
int qwen_founds_each(struct qwen_founds *out, char *folder, int depth,
    int folders, qwen_founds_fn *fn, struct qwen_err *err);

/*
 * Adds a model: a file with all its parts, or a safetensors folder.  Takes
 * ownership of path and name (which may be NULL after failed allocations), even
 * on failure.  A missing file is not added: returns 0.
 */
int qwen_founds_add(struct qwen_founds *out, char *path, char *name,
    struct qwen_err *err);

/* The same for a file of a folder, named by its path. */
int qwen_founds_add_file(struct qwen_founds *out, const char *folder,
    const char *file, struct qwen_err *err);

/* Drops all except the first n. */
void qwen_founds_cut(struct qwen_founds *f, size_t n);

/*
 * Adds the files of a repository's folder that match a name: its path or its
 * format; without both, all models, and the folder itself if it has config.json
 * and safetensors. prefix is the repository's name, such as "hf:ORG/REPO", from
 * which each file gets its own name.  Takes ownership of folder and prefix,
 * like qwen_founds_add().
 */
int qwen_founds_add_repo(struct qwen_founds *out, char *folder, char *prefix,
    const struct qwen_name *name, struct qwen_err *err);

#endif
