/* SPDX-License-Identifier: ISC */
/* gguf-inspect.h - shared by the files of gguf-inspect. */
#ifndef INSPECT_H
#define INSPECT_H

#include "gguf/mmproj.h"
#include "tool/tool.h"

extern int inspect_full;	/* --full: do not shorten values */

/*
 * Print at most max bytes of a string in the form of qwen_shown_char(), and the
 * bytes in also as \" or \xHH.
 */
void inspect_put_text(const char *s, size_t n, size_t max, const char *also);

/* Print a name or key as one word, without blanks. */
void inspect_put_word(const char *s, size_t n);
void inspect_put_name(const char *s);

/*
 * Print a scalar, or element i of an array of numbers. inspect_put_real prints a
 * real number, which was an f32 if single.
 */
void inspect_put_num(const struct qwen_gguf_kv *kv, uint64_t i);
void inspect_put_real(double d, int single);

/*
 * Returns 1 and the value if the elements are reals, else 0. *single is 1 if
 * the value is an f32.
 */
int inspect_real(const struct qwen_gguf_kv *kv, uint64_t i, double *d,
    int *single);

/*
 * Write the fewest digits that read back as the same number (an f32 if single).
 */
void inspect_format_real(char *buf, size_t size, double d, int single);

/*
 * Print a tensor's shape, " 2x3", at least width wide; or a line "key TYPE
 * COUNT VALUE...".
 */
void inspect_put_shape(const struct qwen_gguf_tensor *t, int width);
void inspect_put_meta(const struct qwen_gguf_kv *kv);

/* Return how many numbers the tensor has. */
uint64_t inspect_elements(const struct qwen_gguf_tensor *t);

enum {
	INSPECT_EMBEDDING, INSPECT_OUTPUT, INSPECT_ATTENTION, INSPECT_DELTANET,
	INSPECT_ROUTER, INSPECT_EXPERTS, INSPECT_SHARED, INSPECT_FFN,
	INSPECT_NORM, INSPECT_MTP, INSPECT_MERGER, INSPECT_OTHER, INSPECT_N_GROUPS
};

extern const char *const inspect_group_name[];

/*
 * inspect_first_mtp returns the number of the first block of the MTP part,
 * UINT64_MAX without an MTP part.  inspect_group returns the group
 * (INSPECT_EMBEDDING and so on) of a tensor; mtp is that number.
 */
uint64_t inspect_first_mtp(const struct qwen_gguf *g);
int inspect_group(const struct qwen_gguf *g, const char *name, uint64_t mtp);

/* Why the tools cannot compute with a file, or not chat; zero it first. */
struct inspect_usable {
	struct qwen_strings reason;	/* none: the file is usable */
	char	*no_chat;	/* why a chat is impossible, or NULL */
};

void inspect_check_usable(struct inspect_usable *u, const struct qwen_gguf *g);
void inspect_usable_fini(struct inspect_usable *u);
void inspect_put_usable(const struct inspect_usable *u);
/* Print the same as fields of a JSON object, without its braces. */
void inspect_json_usable(const struct inspect_usable *u);

/* What a file is to images; zero for one that is no image encoder. */
struct inspect_image {
	int	 is;		/* an image encoder, of any kind */
	int	 sizes;		/* m is known */
	struct qwen_mmproj m;
	char	*why;		/* why it is not usable, or NULL */
	int	 code;		/* of that error */
};

void inspect_image_open(struct inspect_image *im, const struct qwen_gguf *g);
void inspect_image_fini(struct inspect_image *im);
/* Print its lines, or its field of a JSON object after a comma; else nothing. */
void inspect_put_image(const struct inspect_image *im);
void inspect_json_image(const struct inspect_image *im);

/* One line of a table of results; its unit decides the decimals. */
struct inspect_figure {
	const char	*kind, *name;
	double		 value;
	const char	*unit;
};

/*
 * Print n figures as text, or the rest of a JSON object that was begun: those of
 * one kind are an object.
 */
void inspect_put_figures(const struct inspect_figure *f, size_t n, int json);

/* Prints the plan and returns 1 if the file is an image encoder; else 0. */
int inspect_plan_image(const char *path, int n_threads, int json);

/* Options of --plan; zeros mean the defaults. */
enum { INSPECT_RANKS_MAX = 32 };	/* of a plan */

struct inspect_plan_opts {
	size_t		 context, sequences, batch;
	size_t		 ranks;		/* of MPI; 0: none */
	struct qwen_checkpoints keep;	/* .every only if given */
	int		 n_threads;
	unsigned	 numerics;
};

void inspect_plan(const char *path, const struct inspect_plan_opts *o,
    int json);

/* Print the stages of the forward pass; with dot, a graph for dot(1). */
void inspect_graph(const struct qwen_gguf *g, const char *path, int dot);

/* Print all metadata and tensors, as text or as JSON. */
void inspect_show(const struct qwen_gguf *g);
void inspect_json(const struct qwen_gguf *g);

/*
 * Print the whole value of a key in one line.  The architecture at the start of
 * the key may be left out; "n_vocab" means the size of the vocabulary.  Dies if
 * there is no such key.
 */
void inspect_get(const struct qwen_gguf *g, const char *path, const char *key);

/* Print the differences; return 1 if there are any, else 0. */
int inspect_diff(const struct qwen_gguf *a, const struct qwen_gguf *b);

/* Start the progress line, in MiB of the data of all tensors. */
void inspect_progress(const struct qwen_gguf *g);

static inline double
inspect_mib(uint64_t bytes)
{
	return (double)bytes / (1 << 20);
}

#endif
