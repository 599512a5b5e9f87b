/* SPDX-License-Identifier: ISC */
/* images.h - the images of requests: encoded by qimage, one at a time. */
#ifndef QSERVE_IMAGES_H
#define QSERVE_IMAGES_H

#include "tool/images.h"

struct qserve;
struct qserve_call;
struct qwen_request;
struct qserve_handler;
struct qserve_image;

/* What a call needs of images, while it waits and afterwards. */
struct qserve_needs {
	struct qwen_request	*q;		/* which has them; or NULL */
	struct qserve_image	**image;	/* [n] of them */
	size_t			 n;
	size_t			 from;		/* it needs the rows of images
						   from this one on; n: none */
	void			(*then)(struct qserve_call *c);	/* NULL: the
						   call does not wait */
	struct qwen_span_rows	*span;		/* [n] of the prompt, once they
						   are known; rows have */
	size_t			 n_rows;	/* these many numbers in all */
	size_t			 n_bytes;	/* of its files, which count as
						   bytes of its body */
	/* the jobs to make when the rows are there */
	size_t			 n_jobs;
	const struct qserve_handler *handler;
};

/* How --image-url lets requests name URLs. */
enum qserve_urls { QSERVE_URLS_NONE, QSERVE_URLS_PUBLIC, QSERVE_URLS_ANY };

/* A URL to fetch. */
struct qserve_url {
	const char	*url;
	int		 any;		/* private addresses too */
	uint64_t	 max;		/* bytes */
};

/*
 * Writes the contents of a URL (struct qserve_url) to stdin, and rewinds it.  In
 * a child process: exits after printing an error.
 */
void qserve_fetch(void *url);

/* The images of a server. */
struct qserve_images {
	/* options */
	struct tool_qimage	 how;
	const char		*dir;		/* --image-dir, or NULL */
	int			 urls;		/* enum qserve_urls */
	/* internal */
	char			*temporary;	/* folder to remove at exit, or
						   NULL */
	int32_t			 pad;
	struct qwen_header	 self;		/* of the model */
	struct qserve_image	*oldest, *youngest;
	size_t			 n, n_bytes;	/* of all rows */
	uint64_t		 n_runs;	/* of qimage, for rows */
	unsigned char		 seed[8];	/* of the hashes */
	/* the image that qimage encodes; pid 0: none */
	pid_t			 pid;
	int			 out, said;	/* its output and errors */
	struct qwen_text	 text;		/* its errors so far */
	struct qserve_image	*image;
	int			 rows;		/* it writes rows too */
	double			 kill_at;
	int			 killed;	/* for the time limit */
	int			 unwanted;	/* qimage was ended since no
						   call waited for its image */
};

/*
 * Find out whether the model reads images, and set that in the service; dies on
 * wrong options. qserve_images_close ends qimage.
 */
void qserve_images_open(struct qserve *s);
void qserve_images_close(struct qserve *s);

/*
 * Get the images of a parsed request, then continue the call: with the ids of
 * their rows in the prompt, or with a refusal in the request.  Without images,
 * continues at once. qserve_images_drop() frees all that the call has of them.
 */
void qserve_images_get(struct qserve_call *c, struct qwen_request *q,
    void (*then)(struct qserve_call *c));

/*
 * Get the rows of the images that are not within the first n_cached tokens of
 * the prompt, then make the call's jobs.  Without images, makes them at once.
 */
void qserve_images_jobs(struct qserve_call *c, size_t n_cached, size_t n_jobs,
    const struct qserve_handler *handler);
void qserve_images_drop(struct qserve_call *c);

/* Start and end qimage, and continue calls that have waited for it. */
void qserve_images_run(struct qserve *s, double now);

#endif
