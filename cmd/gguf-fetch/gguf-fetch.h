/* SPDX-License-Identifier: ISC */
/* gguf-fetch.h - shared by the files of gguf-fetch. */
#ifndef FETCH_H
#define FETCH_H

#include "base/err.h"
#include "models/models.h"
#include "tool/tool.h"

#if __has_include(<curl/curl.h>) && __has_include(<openssl/evp.h>)
#define FETCH_NETWORK 1
#else
#define FETCH_NETWORK 0
#endif

enum {
	FETCH_BODY_MAX = 64 << 20,	/* bytes of a reply that is not a file */
	FETCH_FILES_MAX = 100000,	/* files of a repository */
	FETCH_HASH = 65,		/* digits of a SHA-256, and a NUL */
	FETCH_TOLD = -1,		/* cli_err.code: the message was printed */
};

/* Set cli_err, and return -1; fetch_errno: for a path, by errno. */
#define fetch_fail(...) qwen_fail(&cli_err, QWEN_EIO, __VA_ARGS__)
#define fetch_errno(path) qwen_fail_errno(&cli_err, "%s", path)

/* The options of the command line. */
struct fetch_opts {
	const char	*to;		/* a folder, or NULL: the caches */
	int		 mmproj, force, offline;
	size_t		 context;
	int		 retries, delay_s, stall_s;
};

extern struct fetch_opts fetch_opt;

/* A file of a repository, as the hub lists it. */
struct fetch_file {
	char		*path;		/* in the repository; safe */
	uint64_t	 bytes;
	/* SHA-256, 64 digits; or, 40 of them, SHA-1 of the file as git has it */
	char		 hash[FETCH_HASH];
};

struct fetch_hub;

/* A repository at a commit, or a manifest of Ollama's. */
struct fetch_repo {
	const struct qwen_name *name;
	const struct fetch_hub *hub;
	char		*endpoint;	/* "https://huggingface.co" */
	char		*token;		/* for the endpoint's host alone; or NULL */
	const char	*root;		/* of the cache */
	const char	*rev;
	char		*commit;
	struct fetch_file *v;
	size_t		 n, cap;
	char		*manifest;	/* of Ollama */
	size_t		 manifest_n;
};

/* The paths of a file, before and after it is complete. */
struct fetch_paths {
	char	*path;		/* by which it is used */
	char	*blob;		/* the file; path is a link to it, or the same */
	char	*link;		/* target of the link; NULL: no link */
	char	*partial;	/* path of the file until it is complete */
	char	*lock;		/* locked meanwhile; NULL: partial itself */
	int	 by_hash;	/* the hash is part of the name of blob */
	int	 moves;		/* another file of this name is an older one */
};

/* The requests to one kind of server, and the layout of its cache. */
struct fetch_hub {
	const char	*rev;		/* if the name has none */
	const char	*(*cache)(void);	/* root of the cache, or NULL */
	/* set endpoint and token; dies if a variable is invalid */
	void	(*init)(struct fetch_repo *r);
	/* all GGUF files: 0, or -1 and cli_err */
	int	(*list)(struct fetch_repo *r);
	/*
	 * the URL of a file, to free(); and its paths, for fetch_paths_fini():
	 * path, and what differs from that of a file without a link
	 */
	char	*(*url)(const struct fetch_repo *r, const struct fetch_file *f);
	void	(*place)(struct fetch_paths *p, const struct fetch_repo *r,
		    const struct fetch_file *f);
	/* record a complete model: 0, or -1 and cli_err; or NULL */
	int	(*done)(const struct fetch_repo *r);
};

extern const struct fetch_hub fetch_hf, fetch_ms, fetch_ollama;

/* Add a file to the listing: 0, or -1 and cli_err if it is not to be trusted. */
int fetch_add(struct fetch_repo *r, const char *path, uint64_t bytes,
    const char *hash);

/* Open a repository by name and list its files: 0, or -1 and cli_err. */
int fetch_open(struct fetch_repo *r, const struct qwen_name *name);
void fetch_close(struct fetch_repo *r);

/* ---------------------------------------------------------------- the choice */

/* A model: one file, or all parts of a split one, in their order. */
struct fetch_model {
	size_t		*file;		/* in the repository's v */
	size_t		 n;
	uint64_t	 bytes;		/* of all */
};

struct fetch_models {
	struct fetch_model *v;
	size_t		 n;
};

/*
 * List the models that the name means, smallest first; a name without format or path
 * means all models of the repository.  0; -1 and cli_err if there is no model, or if
 * the repository lacks a part of one.
 */
int fetch_match(struct fetch_models *m, const struct fetch_repo *r);
void fetch_models_fini(struct fetch_models *m);

/*
 * Returns the model to fetch: the one that the name means, or if it means all, the
 * largest that fits, with a note.  Returns NULL and cli_err on errors; if a format
 * fits several models, it lists them on stderr.
 */
const struct fetch_model *fetch_choose(const struct fetch_repo *r,
    const struct fetch_models *m);

/* The projector that belongs to a model, or NULL. */
const struct fetch_file *fetch_projector(const struct fetch_repo *r,
    const struct fetch_model *m);

/* The memory that a model needs in addition to its weights. */
struct fetch_fit {
	uint64_t	 own;		/* bytes; 0 if unknown */
	uint64_t	 room;		/* limit of own and weights together */
	char		*why;		/* why own is not known, or NULL */
};

/*
 * By the head of the smallest model, which is fetched: the plans of the others
 * differ in their weights.  0, or -1 and cli_err if it cannot be fetched.
 */
int fetch_fit(struct fetch_fit *f, const struct fetch_repo *r,
    const struct fetch_models *m);
int fetch_fits(const struct fetch_fit *f, const struct fetch_model *m);

/* ------------------------------------------------------------------- commands */

/* Bytes as people write them, "4.68 GiB"; until the fourth call after this. */
const char *fetch_size(uint64_t bytes);

/* --list, --dry-run: on stdout. */
void fetch_list(const struct fetch_repo *r, const struct fetch_models *m);
void fetch_dry(const struct fetch_repo *r, const struct fetch_file *f);

/* --local; json: as JSON. */
void fetch_local(int json);

/* Print the path of a model on this machine: 0, or -1 and cli_err. */
int fetch_offline(const struct qwen_name *name, int verify);

/* --verify: hash the models that were fetched: 0, or -1 and cli_err. */
int fetch_verify(const struct fetch_repo *r, const struct fetch_models *m);

/* ---------------------------------------------------------------- the transfer */

/* Set the paths of a file by --to and its hub; free by fetch_paths_fini(). */
void fetch_paths(struct fetch_paths *p, const struct fetch_repo *r,
    const struct fetch_file *f);
void fetch_paths_fini(struct fetch_paths *p);

/*
 * Returns 1 if the complete file is there, 0 if not, -1 and cli_err if another file
 * has its path.  A file without its hash in its name is read and hashed.
 */
int fetch_there(const struct fetch_paths *p, const struct fetch_file *f);

/* Fetch those of n files that are missing: 0, or -1 and cli_err. */
int fetch_get(const struct fetch_repo *r, const struct fetch_file *const *v,
    size_t n);

/* Make the folders above a path: 0, or -1 and cli_err. */
int fetch_make_folders(const char *path);

/*
 * Write a small file, complete or not at all, and the folders above it, unless it
 * has this text already: 0, or -1 and cli_err.
 */
int fetch_write(const char *path, char *text, size_t n);

/* --------------------------------------------------------------------- hashes */

struct fetch_hash;

/*
 * Hash an open file of this size: 1 if it has this hash; 0 if not, with its own
 * in sum; -1 and cli_err.
 */
int fetch_hash_check(int fd, const char *path, uint64_t bytes,
    const char *hash, char sum[FETCH_HASH]);

/* Begin to hash a file of this size; the length of hash says SHA-256 or git SHA-1. */
struct fetch_hash *fetch_hash_new(const char *hash, uint64_t bytes);
void fetch_hash_add(struct fetch_hash *h, const void *p, size_t n);
/* Whether it is this one; its digits go to out.  Frees h, as free does. */
int fetch_hash_is(struct fetch_hash *h, const char *hash, char out[FETCH_HASH]);
void fetch_hash_free(struct fetch_hash *h);

/* Add the first n bytes of a file, with progress: 0, or -1 and cli_err. */
int fetch_hash_file(struct fetch_hash *h, int fd, const char *path, uint64_t n);

/* Whether s is n hexadecimal digits, in lower case, and nothing else. */
int fetch_is_hex(const char *s, size_t n);

/* The SHA-256 of n bytes. */
void fetch_sha256(const void *p, size_t n, char out[FETCH_HASH]);

/* -------------------------------------------------------------- the environment */

/* A variable that is set and not empty, or NULL. */
const char *fetch_env(const char *name);

/* The endpoint of that variable, or the usual one, without a slash at the end. */
char *fetch_endpoint(const char *variable, const char *usual);

/* Returns the token without surrounding blanks, or NULL; dies if it is invalid. */
char *fetch_token(const char *text, const char *what);

#endif
