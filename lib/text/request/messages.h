/* SPDX-License-Identifier: ISC */
/* messages.h - a chat request that is built or edited. */
#ifndef QWEN_TEXT_REQUEST_MESSAGES_H
#define QWEN_TEXT_REQUEST_MESSAGES_H

#include "text/request/images.h"

/* A chat request that is built or edited; see qwen_template_render. */
struct qwen_messages;

/*
 * Create a request without messages; or parse one from a JSON object.  Messages
 * may contain text, and images if images is set; placeholder is that of struct
 * qwen_service, or NULL.
 */
int qwen_messages_new(struct qwen_messages **out, struct qwen_err *err);
int qwen_messages_read_with(struct qwen_messages **out,
    const char *placeholder, int images, const char *json, size_t n,
    struct qwen_err *err);
void qwen_messages_free(struct qwen_messages *m);

/* Returns a note about damage in the JSON that was repaired, or NULL. */
const char *qwen_messages_note(const struct qwen_messages *m);

/*
 * Returns 1 if the request has a list of messages.  The functions below need
 * it.
 */
int qwen_messages_has_list(const struct qwen_messages *m);

/*
 * qwen_messages_add_text appends a message with this text, which must be UTF-8.
 * With join set, if the last message has the same role, the text is added to
 * that message after an empty line. qwen_messages_add appends a message given
 * as JSON. qwen_messages_drop_last removes the last message.
 */
int qwen_messages_add_text(struct qwen_messages *m, const char *role,
    const char *text, size_t n, int join, struct qwen_err *err);
int qwen_messages_add(struct qwen_messages *m, const char *json, size_t n,
    struct qwen_err *err);
void qwen_messages_drop_last(struct qwen_messages *m);

/*
 * Adds an image without a source to the last message, after the text that it
 * has, if that is one of the user; else begins one.  Text that is joined comes
 * after the image.
 */
int qwen_messages_add_image(struct qwen_messages *m, struct qwen_err *err);

/* Appends the sources of all images in the messages, in their order. */
int qwen_messages_images(const struct qwen_messages *m,
    struct qwen_image_sources *out, struct qwen_err *err);

/*
 * Gives the images, in their order, these sources: bytes, which become data:
 * URLs.  all NULL: takes the sources away, as qwen_messages_add_image adds
 * images.  Returns -1 without memory.
 */
int qwen_messages_set_images(struct qwen_messages *m,
    const struct qwen_image_source *all, struct qwen_err *err);

/*
 * Drops the oldest turn (everything before the second user message, except
 * leading system messages).  Returns the number of messages dropped; 0 if there
 * is only one turn.
 */
size_t qwen_messages_drop_turn(struct qwen_messages *m);

/* qwen_messages_last_role returns the role of the last message, or NULL. */
size_t qwen_messages_n(const struct qwen_messages *m);
const char *qwen_messages_last_role(const struct qwen_messages *m);

/*
 * Sets *text to part i of the last message; s is NULL if it is not text.  A
 * content that is a string is one part.  Returns 1, or 0 after the last part.
 */
int qwen_messages_last_part(const struct qwen_messages *m, size_t i,
    struct qwen_str *text);

/*
 * Returns the content of the first message if its role is system and its
 * content a string, else NULL.
 */
const char *qwen_messages_system(const struct qwen_messages *m);

/* Sets a field of the request to a JSON value, replacing an earlier one. */
int qwen_messages_set(struct qwen_messages *m, const char *key,
    const char *json, size_t n, struct qwen_err *err);

/* Writes the request as JSON, for free(); with pretty set, indented. */
int qwen_messages_json(const struct qwen_messages *m, int pretty, char **json,
    size_t *n, struct qwen_err *err);

#endif
