/* SPDX-License-Identifier: ISC */
/* folder.h - inside: what a Hugging Face folder has. */
#ifndef QWEN_HUB_FOLDER_H
#define QWEN_HUB_FOLDER_H

#include <yyjson.h>

#include "hub/hub.h"
#include "hub/safetensors.h"

struct qwen_hub {
	char			*path;
	yyjson_doc		*config;
	yyjson_val		*text;		/* text_config, or the whole */
	const struct qwen_hub_arch *arch;
	struct qwen_st		 st;
	const struct qwen_st_tensor **by_name;	/* all of them */
	/* of an adapter, from which the weights are; path has its model's */
	char			*adapter_path;
	yyjson_doc		*adapter;	/* adapter_config.json; or NULL */
	int			 adapter_mlx;	/* as MLX writes it, not peft */
	int	(*plan)(struct qwen_hub_gguf *g, struct qwen_err *err);
};

/* qwen_hub_open without weights; and the weights, of one file. */
int qwen_hub_open_config(struct qwen_hub **out, const char *folder,
    struct qwen_err *err);
int qwen_hub_add_weights(struct qwen_hub *h, const char *file,
    struct qwen_err *err);

/*
 * 0; -1 if weights are quantised by a method that is not read: *err names it, as
 * config.json does.
 */
int qwen_hub_check_quantised(const struct qwen_hub *h, struct qwen_err *err);

/*
 * A JSON file of the folder, for yyjson_doc_free(): 1; 0 if it is not there; -1
 * and *err, which names it.
 */
int qwen_hub_json(const struct qwen_hub *h, const char *name, yyjson_doc **out,
    struct qwen_err *err);

/* Whether the folder has a file of this name. */
int qwen_hub_has(const struct qwen_hub *h, const char *name);

/* A text of the folder, likewise; for free(). */
int qwen_hub_text(const struct qwen_hub *h, const char *name, char **out,
    size_t *n, struct qwen_err *err);

/* What the config says: of the text model, else of the whole; NULL if nothing. */
yyjson_val *qwen_hub_get(const struct qwen_hub *h, const char *key);

/* The tensor of this name, or NULL. */
const struct qwen_st_tensor *qwen_hub_find(const struct qwen_hub *h,
    const char *name);

/* 1, 0 if it is not there, -1 and *err if it is no such number. */
int qwen_hub_get_u32(const struct qwen_hub *h, const char *key, uint32_t *out,
    struct qwen_err *err);
int qwen_hub_get_f64(const struct qwen_hub *h, const char *key, double *out,
    struct qwen_err *err);

/* A number that must be there, and not 0. */
int qwen_hub_need_u32(const struct qwen_hub *h, const char *key, uint32_t *out,
    struct qwen_err *err);

#endif
