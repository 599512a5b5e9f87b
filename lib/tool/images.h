/* SPDX-License-Identifier: ISC */
/*
 * images.h - images for tools that make prompts: qimage encodes them, in a
 * process of its own.  These tools have no decoders and compute nothing.
 */
#ifndef TOOL_IMAGES_H
#define TOOL_IMAGES_H

#include <sys/types.h>

#include "text/request/images.h"
#include "text/request/refusal.h"
#include "tool/tool.h"

/* The options of a struct tool_qimage; and of tool_image_open. */
#define TOOL_OPT_IMAGE_ENCODER(q) \
	CLI_FILE(0, "mmproj", "file", &(q)->mmproj, "file gguf", \
	    "image encoder (default: the mmproj file beside the model)"), \
	CLI_INT(0, "image-max-tokens", "n", &(q)->max_tokens, 8, 16384, \
	    "shrink larger images to at most N tokens (default 2048)")
#define TOOL_OPT_IMAGE_FOLDER(q) TOOL_OPT_IMAGES(&(q)->folder), \
	TOOL_OPT_IMAGES_MAX(&(q)->folder_max)
#define TOOL_OPT_IMAGE_DIR(p) CLI_FILE(0, "image-dir", "folder", p, "folder", \
	"folder of image files that a request may name")

/* How qimage shall run. */
struct tool_qimage {
	const char	*model;		/* path */
	const char	*mmproj;	/* NULL: the file beside the model */
	unsigned	 max_tokens;	/* 0: qimage's default */
	const char	*folder;	/* of encoded images; NULL: none */
	uint64_t	 folder_max;	/* its limit, as that of a store */
	int		 in_store;	/* the folder is in a prefix store */
	int		 no_rows;	/* only spans */
	int		 apart;		/* in a process group of its own */
	void		(*before)(void *arg);	/* called in the child process,
						   whose stdin is connected,
						   before qimage runs; or
						   NULL */
	void		*arg;
	int		 n_threads;	/* 0: one per processor */
};

/* Numbers of the rows of the image with this hash. */
struct tool_image_rows {
	struct qwen_fp	 hash;
	float		*x;		/* n numbers; owned */
	size_t		 n, cap;
};

/* What qimage wrote: a span for each image, and the rows of each hash. */
struct tool_encoded {
	struct qwen_span *span;
	size_t		 n, cap;
	struct tool_image_rows *rows;
	size_t		 n_rows, cap_rows;
	int		 in_rows;	/* private: the last one may continue */
};

/*
 * Chooses the folder of encoded images after all options were read: without
 * --images the folder `images' of the prefix store, or none.
 */
void tool_image_folder(struct tool_qimage *q, const struct tool_store *at);

/*
 * Returns 1 if the model at this path has an image encoder: mmproj, unless that
 * is NULL, or a file beside the model.  Prints a note if there are several.
 */
int tool_image_encoder(const char *mmproj, const char *model);

/*
 * Returns the token that stands for an image in a prompt, until
 * tool_images_place; -1 if the vocabulary has none.  Dies without memory.
 */
int32_t tool_image_pad(const struct qwen_tok *tok);

/*
 * Puts the ids of the rows of n spans in the places of the token pad, and sets
 * the spans' starts.  Fails with QWEN_EMISMATCH unless there are n places.
 */
int tool_images_place(struct qwen_ids *ids, int32_t pad, struct qwen_span *span,
    size_t n, struct qwen_err *err);

/*
 * Returns a descriptor, close-on-exec, of a file in memory or without a name;
 * tool_image_bytes fills it with n bytes and rewinds it. -1 with *err.
 */
int tool_image_file(struct qwen_err *err);
int tool_image_bytes(const char *s, size_t n, struct qwen_err *err);

/*
 * Opens an image of a request.  The file of a path must be below dir, without
 * symbolic links; dir NULL: paths are refused.  URLs are refused.  Returns a
 * descriptor, close-on-exec, or -1 with the reason.
 */
int tool_image_open(const struct qwen_image_source *src, const char *dir,
    struct qwen_err *err);

/*
 * Starts qimage for n operands, with these descriptors as its stdin, stdout and
 * stderr (-1: ours).  Returns its pid, which the caller waits for; -1 with *err.
 */
pid_t tool_qimage_start(const struct tool_qimage *q, const char *const *operand,
    size_t n, const int fd[3], struct qwen_err *err);

/*
 * Returns 0 if qimage ended well.  Else -1, and *err says why, without the names
 * of qimage and of stdin: QWEN_EFORMAT if an image is to blame, else QWEN_EIO.
 * said is what it printed on stderr, or NULL if the user has seen that.
 */
int tool_qimage_ended(int status, const char *said, struct qwen_err *err);

/*
 * Adds what qimage wrote to fd; self: the header of the model, or NULL for any.
 * The caller calls tool_encoded_fini, also after -1.
 */
int tool_encoded_read(struct tool_encoded *e, int fd,
    const struct qwen_header *self, struct qwen_err *err);
void tool_encoded_fini(struct tool_encoded *e);

/* Returns the rows with this hash, or NULL. */
const struct tool_image_rows *tool_encoded_find(const struct tool_encoded *e,
    const struct qwen_fp *hash);

/*
 * Encodes n images with one run of qimage, and waits for it.  Paths may be any
 * with own set (the user's own words), else those that tool_image_open allows.
 * With quiet set, nothing is printed; else notes and progress of qimage are
 * seen, and its errors, which end this program unless survives is set.  Returns
 * 0; -1: *err names the image, unless qimage has printed the error.
 */
struct tool_image_input {
	const struct qwen_image_source *src;
	size_t		 n;
	int		 own;
	const char	*dir;		/* --image-dir, or NULL */
	int		 quiet;
	int		 survives;
};
int tool_images_encode(const struct tool_qimage *q,
    const struct tool_image_input *in, const struct qwen_header *self,
    struct tool_encoded *out, struct qwen_err *err);

#endif
