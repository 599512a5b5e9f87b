/* SPDX-License-Identifier: ISC */
/* place.h - inside: a program's folder of models, and what is read of it. */
#ifndef QWEN_MODELS_PLACE_H
#define QWEN_MODELS_PLACE_H

#include "models/models.h"

/* Where one program keeps its models. */
struct qwen_place {
	const char	*label;
	/* The files under folder that the name means, added to out: 0 or -1. */
	int		(*find)(struct qwen_founds *out, const char *folder,
			    const struct qwen_name *name, struct qwen_err *err);
	/* All models under folder, likewise. */
	int		(*all)(struct qwen_founds *out, const char *folder,
			    struct qwen_err *err);
};

extern const struct qwen_place qwen_place_own, qwen_place_hf, qwen_place_ms,
    qwen_place_ollama, qwen_place_lmstudio, qwen_place_llama;

/* ------------------------------------------------------------ what it found */

/* Texts; v and each of them are owned. */
struct qwen_names {
	char	**v;
	size_t	  n, cap;
};

void qwen_names_fini(struct qwen_names *l);

/*
 * The regular files under a folder, or with folders set its folders, by path from
 * there, sorted, at most so many folders deep; 1: in the folder itself.  Names that
 * begin with "." are passed over.  A folder that is not there has none, one that
 * may not be read goes to out->forbidden.
 */
int qwen_names_read(struct qwen_names *l, struct qwen_founds *out,
    const char *folder, int depth, int folders, struct qwen_err *err);

/* A text by a format, for free(); NULL where there is no memory. */
char *qwen_models_text(const char *fmt, ...)
    __attribute__((format(printf, 1, 2)));

/* Whether the path is there, and a folder. */
int qwen_models_is_folder(const char *path);

/*
 * What is called name under folder/, whatever its case where no other is exactly
 * so; for free(), or NULL: *err is set where there is no memory.
 */
int qwen_models_entry(char **out, const char *folder, const char *name,
    struct qwen_err *err);

/*
 * Add a model: a file with all of its parts, or a folder of safetensors.  It takes
 * path and name, which may be NULL for lack of memory, and frees them if it fails.
 * A file that is not there is not added: 0.
 */
int qwen_founds_add(struct qwen_founds *out, const char *place, char *path,
    char *name, struct qwen_err *err);

/* Drop all but the first n. */
void qwen_founds_cut(struct qwen_founds *f, size_t n);

/*
 * Add those files of a folder, a repository's, that a name means: by its path, or
 * its format; where it says neither, all, and the folder itself if it has config
 * and safetensors.  prefix is the name of the repository, as in "hf:ORG/REPO",
 * under which each file gets a name of its own.
 */
int qwen_founds_add_repo(struct qwen_founds *out, const char *place,
    const char *folder, const char *prefix, const struct qwen_name *name,
    struct qwen_err *err);

#endif
