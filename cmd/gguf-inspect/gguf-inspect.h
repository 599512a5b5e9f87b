/* SPDX-License-Identifier: ISC */
/* gguf-inspect.h - what the parts of gguf-inspect share. */
#ifndef INSPECT_H
#define INSPECT_H

#include "tool/tool.h"

extern int inspect_full;	/* --full: long values whole */

/*
 * Print at most max bytes of a string as qwen_shown_char() has them, and the
 * bytes in also as \" or \xHH.
 */
void inspect_put_text(const char *s, size_t n, size_t max, const char *also);

/* A name or key as one word. */
void inspect_put_word(const char *s, size_t n);
void inspect_put_name(const char *s);

/* A scalar or element i of an array of numbers. */
struct num {
	enum { UNSIGNED, SIGNED, REAL } kind;
	uint64_t	u;
	int64_t		i;
	double		d;
	int		single;		/* d came from 32 bits */
};

struct num inspect_load_num(const struct qwen_gguf_kv *kv, uint64_t i);
void inspect_put_num(const struct num *x);

/* The fewest digits that read back as the same number. */
void inspect_format_real(char *buf, size_t size, double d, int single);

/* " 2x3", at least so wide; "key TYPE COUNT VALUE..." and a line feed. */
void inspect_put_shape(const struct qwen_gguf_tensor *t, int width);
void inspect_put_meta(const struct qwen_gguf_kv *kv);

/* How many numbers it has. */
uint64_t inspect_elements(const struct qwen_gguf_tensor *t);

enum {
	G_EMBEDDING, G_OUTPUT, G_ATTENTION, G_DELTANET, G_ROUTER, G_EXPERTS,
	G_SHARED, G_FFN, G_NORM, G_MTP, G_OTHER, N_GROUPS
};

extern const char *const inspect_group_name[];

/* The first block of the MTP part, or one beyond any; a tensor's group. */
uint64_t inspect_first_mtp(const struct qwen_gguf *g);
int inspect_group(const struct qwen_gguf *g, const char *name, uint64_t mtp);

/* What is in the way of computing with a file, and of chats; zero at first. */
struct usable {
	char	**reason;
	size_t	  n, cap;	/* 0: nothing is */
	char	 *no_chat;	/* or NULL */
};

void inspect_usable(struct usable *u, const struct qwen_gguf *g);
void inspect_usable_fini(struct usable *u);
void inspect_put_usable(const struct usable *u);
/* Members of an object. */
void inspect_json_usable(const struct usable *u);

/* --plan; zeros: the usual. */
struct plan_opts {
	size_t		 context, sequences, batch;
	struct qwen_checkpoints keep;	/* every, where it was given */
	int		 n_threads;
	unsigned	 numerics;
};

void inspect_plan(const char *path, const struct plan_opts *o, int json);

/* --graph; dot: for that tool. */
void inspect_graph(const struct qwen_gguf *g, const char *path, int dot);

/* All of a file, as text or as JSON. */
void inspect_show(const struct qwen_gguf *g);
void inspect_json(const struct qwen_gguf *g);

/*
 * Print the whole value of a key, in one line; the architecture at the beginning of
 * the key may be left out.  "n_vocab" prints the size of the vocabulary.  Dies if
 * there is no such key.
 */
void inspect_get(const struct qwen_gguf *g, const char *path, const char *key);

/* What differs; whether anything does. */
int inspect_diff(const struct qwen_gguf *a, const struct qwen_gguf *b);

/* Begin to show progress by MiB of all tensors' data. */
void inspect_progress(const struct qwen_gguf *g);

static inline double
inspect_mib(uint64_t bytes)
{
	return (double)bytes / (1 << 20);
}

#endif
