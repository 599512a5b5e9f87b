/* SPDX-License-Identifier: ISC */
/* folder.h - internal: the contents of a Hugging Face folder. */
#ifndef QWEN_HUB_FOLDER_H
#define QWEN_HUB_FOLDER_H

#include <yyjson.h>

#include "gguf/arch.h"
#include "hub/hub.h"
#include "hub/safetensors.h"

struct qwen_hub {
	char			*path;
	struct qwen_err		*err;	/* of the call in progress */
	yyjson_doc		*config;
	yyjson_val		*text;		/* text_config, or the whole
						   config */
	const struct qwen_arch *arch;
	struct qwen_st		 st;
	const struct qwen_st_tensor **by_name;	/* all tensors, sorted by
						   name */
	/* of an adapter, which has the weights; path is its model's folder */
	char			*adapter_path;
	yyjson_doc		*adapter;	/* adapter_config.json; or NULL */
	int			 adapter_mlx;	/* in MLX format, not peft */
	int	(*plan)(struct qwen_hub_gguf *g);
};

/*
 * Fail with "FOLDER/file: ", or "FOLDER: " if file is NULL, or "tensor NAME: "
 * before the message; qwen_hub_bad is for config.json.  Return -1.  Only the
 * first failure of a call counts: all functions that read the folder fail after
 * it, so that a caller may look at err->code at the end.
 */
int qwen_hub_fail(const struct qwen_hub *h, const char *file, const char *fmt,
    ...) __attribute__((format(printf, 3, 4)));
int qwen_hub_bad_tensor(const struct qwen_hub *h,
    const struct qwen_st_tensor *w, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
#define qwen_hub_bad(h, ...) qwen_hub_fail(h, "config.json", __VA_ARGS__)

/* Returns an empty struct for this folder; NULL without memory. */
struct qwen_hub *qwen_hub_alloc(const char *folder, struct qwen_err *err);

/*
 * qwen_hub_open_config is qwen_hub_open without weights; qwen_hub_add_weights
 * adds the weights of one file.
 */
int qwen_hub_open_config(struct qwen_hub **out, const char *folder,
    struct qwen_err *err);
int qwen_hub_add_weights(struct qwen_hub *h, const char *file);

/*
 * Returns 0; -1 if the weights are quantised by an unsupported method, which
 * *err names as config.json does.
 */
int qwen_hub_check_quantised(const struct qwen_hub *h);

/*
 * Reads a JSON file of the folder, for yyjson_doc_free().  Returns 1; 0 if
 * there is no such file; -1 with *err, which names the file.
 */
int qwen_hub_json(const struct qwen_hub *h, const char *name, yyjson_doc **out);

/* Returns 1 if the folder has a file of this name. */
int qwen_hub_has(const struct qwen_hub *h, const char *name);

/* Reads a text file of the folder, for free(); returns as above. */
int qwen_hub_text(const struct qwen_hub *h, const char *name, char **out);

/*
 * Returns a value of the config: from text_config, else from the top level;
 * NULL if absent.
 */
yyjson_val *qwen_hub_get(const struct qwen_hub *h, const char *key);

/* Returns the tensor of this name, or NULL. */
const struct qwen_st_tensor *qwen_hub_find(const struct qwen_hub *h,
    const char *name);

/*
 * Return 1; 0 if the key is absent; -1 with *err if the value is not such a
 * number.
 */
int qwen_hub_get_u32(const struct qwen_hub *h, const char *key, uint32_t *out);
int qwen_hub_get_f64(const struct qwen_hub *h, const char *key, double *out);

/* The same for a number that must be present and not 0. */
int qwen_hub_need_u32(const struct qwen_hub *h, const char *key, uint32_t *out);

#endif
