/* SPDX-License-Identifier: ISC */
/* qwen/tok.h - the tokenizer. */
#ifndef QWEN_QWEN_TOK_H
#define QWEN_QWEN_TOK_H

#include "qwen/gguf.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * A tokenizer: byte-level BPE as in Qwen files (tokenizer.ggml.model "gpt2"),
 * with the pre-tokenizers qwen2 and qwen35.  It encodes any bytes; bytes that
 * are not UTF-8 decode to themselves.  It normalises text only after
 * qwen_tok_set_nfc.  Encoding adds no BOS and no EOS; qwen_tok_begin adds BOS.
 */
struct qwen_tok;

enum { QWEN_TOK_ENCODE = 1, QWEN_TOK_DECODE = 2 };

/*
 * Builds the tables for encoding, decoding or both (what: bits of the enum
 * above).  The file must stay open as long as *out.  For a vocabulary of
 * 248,320 this takes about 25 ms to encode, 1 to 2 ms to decode.
 */
int qwen_tok_open(struct qwen_tok **out, const struct qwen_gguf *g,
    unsigned what, struct qwen_err *err);
void qwen_tok_close(struct qwen_tok *t);

/*
 * Returns 0 if qwen_tok_open would succeed, else -1 with the same message.
 * Takes about a millisecond, since it does not read the merges: only
 * qwen_tok_open finds a damaged merge.
 */
int qwen_tok_check(const struct qwen_gguf *g, unsigned what,
    struct qwen_err *err);

/*
 * Returns the name of the pre-tokenizer that the library assumed because the
 * file names none and its architecture has only one; NULL if nothing was
 * assumed.  For a note to users.
 */
const char *qwen_tok_guess(const struct qwen_tok *t);

/* Returns the vocabulary size: ids are below it; padding counts. */
size_t qwen_tok_n_vocab(const struct qwen_tok *t);

/*
 * Whether to put the BOS token in front of texts.  A file decides by
 * tokenizer.ggml.add_bos_token; the token is tokenizer.ggml.bos_token_id.
 */
enum qwen_bos {
	QWEN_BOS_FILE,		/* as the file says */
	QWEN_BOS_NEVER,
	QWEN_BOS_ALWAYS,
};

/*
 * Sets *id to the id to put in front of texts, -1 for none; a file without
 * bos_token_id has none.  Returns 0, or -1 if a key is damaged, or if how is
 * QWEN_BOS_ALWAYS and the file has no BOS id.
 */
int qwen_bos_read(int32_t *id, const struct qwen_gguf *g, enum qwen_bos how,
    struct qwen_err *err);

/*
 * The same for a tokenizer: qwen_tok_bos returns the id or -1.  A new tokenizer
 * behaves as QWEN_BOS_FILE; qwen_tok_set_bos changes that.
 */
int32_t qwen_tok_bos(const struct qwen_tok *t);
int qwen_tok_set_bos(struct qwen_tok *t, const struct qwen_gguf *g,
    enum qwen_bos how, struct qwen_err *err);

/*
 * Puts BOS in front of the ids of a whole text, which are from malloc().  Does
 * nothing if they already begin with BOS or the tokenizer adds none.
 */
int qwen_tok_begin(const struct qwen_tok *t, int32_t **ids, size_t *n,
    struct qwen_err *err);

/*
 * Turns normalisation to NFC before encoding on or off (the default), as the
 * Hugging Face tokenizers library does it for Qwen models.  Special tokens are
 * found before normalisation.  Applies to encoders created later.  QWEN_EUNSUP
 * in a build without libunistring.
 */
int qwen_tok_set_nfc(struct qwen_tok *t, int on, struct qwen_err *err);

/* Encoding: */
enum {
	QWEN_TOK_SPECIAL = 1,	/* recognise control tokens in the text; never
				   for untrusted text */
};

/*
 * Encodes a text.  *ids is allocated, to be freed with free(), and not NULL
 * even if *n_ids is 0.
 */
int qwen_tok_encode(const struct qwen_tok *t, const void *text, size_t n,
    unsigned flags, int32_t **ids, size_t *n_ids, struct qwen_err *err);

/*
 * Returns the first control token whose name occurs in the text; without
 * QWEN_TOK_SPECIAL, qwen_tok_encode takes these bytes for text.  -1 if there is
 * none.
 */
int32_t qwen_tok_named(const struct qwen_tok *t, const void *text, size_t n);

/*
 * qwen_tok_encode for a text that is trusted in part: byte i is trusted if
 * trusted[i] is not 0.  A control token is recognised if all of its bytes are
 * trusted.  Otherwise the ids are those of the whole text.
 */
int qwen_tok_encode_trusted(const struct qwen_tok *t, const void *text,
    const unsigned char *trusted, size_t n, int32_t **ids, size_t *n_ids,
    struct qwen_err *err);

/*
 * The same for text in chunks of any size; the ids do not depend on the chunks.
 * Each call returns the ids that have become certain, in memory of the encoder
 * that lives until the next call.  The encoder keeps text that is not certain
 * yet, such as an incomplete word. finish ends the text and makes the encoder
 * ready for another one; so does an error.
 */
struct qwen_tok_encoder;

int qwen_tok_encoder_new(struct qwen_tok_encoder **out,
    const struct qwen_tok *t, unsigned flags, struct qwen_err *err);
int qwen_tok_encoder_feed(struct qwen_tok_encoder *e, const void *text,
    size_t n, const int32_t **ids, size_t *n_ids, struct qwen_err *err);
int qwen_tok_encoder_finish(struct qwen_tok_encoder *e, const int32_t **ids,
    size_t *n_ids, struct qwen_err *err);
void qwen_tok_encoder_free(struct qwen_tok_encoder *e);

/*
 * Fill in the middle: returns the id of one of its tokens, by the keys of the
 * file or by name; -1 if the vocabulary has no such token or the tokenizer was
 * not opened to encode.
 */
enum qwen_fim {
	QWEN_FIM_PREFIX,	/* <|fim_prefix|>; FIM needs the first three of
				   this list */
	QWEN_FIM_SUFFIX,	/* <|fim_suffix|> */
	QWEN_FIM_MIDDLE,
	QWEN_FIM_PAD,
	QWEN_FIM_REPO,		/* <|repo_name|> */
	QWEN_FIM_FILE,		/* <|file_sep|> */
	QWEN_FIM_N
};

int32_t qwen_tok_fim(const struct qwen_tok *t, enum qwen_fim which);

/* Another file of the repository. */
struct qwen_fim_file {
	struct qwen_str	name, text;
};

/* The text around the gap to fill; members that are zero are empty. */
struct qwen_fim_text {
	struct qwen_str	 prefix;	/* text before the gap */
	struct qwen_str	 line;		/* more text before the gap, encoded
					   separately */
	const int32_t	*ids;		/* n_ids tokens after line */
	size_t		 n_ids;
	struct qwen_str	 suffix;	/* text after the gap */
	const struct qwen_fim_file *file;
	size_t		 n_files;
	struct qwen_str	 name;		/* of the file with the gap; used only
					   if n_files is not 0 */
};

/*
 * Encodes a prompt that asks the model to fill the gap: other files, prefix,
 * suffix, middle.  Names of control tokens in the texts are plain text.  The
 * caller frees *ids.  QWEN_EUNSUP if the vocabulary has no FIM tokens.
 */
int qwen_tok_encode_fim_sized(size_t size, const struct qwen_tok *t,
    const struct qwen_fim_text *x, int32_t **ids, size_t *n_ids,
    struct qwen_err *err);
#define qwen_tok_encode_fim(...) \
	qwen_tok_encode_fim_sized(sizeof(struct qwen_fim_text), __VA_ARGS__)

/* Decoding: */
enum {
	QWEN_TOK_SHOW_SPECIAL = 1,	/* show control tokens as their text; by
					   default they are left out */
	QWEN_TOK_BYTES = 2,		/* return bytes at once, not only
					   complete characters */
};

/*
 * A decoder turns ids into text, one at a time.  Without QWEN_TOK_BYTES it
 * returns only complete UTF-8 characters: an incomplete one waits for the next
 * ids, and invalid bytes become U+FFFD.  *out lives until the next call. finish
 * returns the rest and makes the decoder ready for another text.
 */
struct qwen_tok_decoder;

int qwen_tok_decoder_new(struct qwen_tok_decoder **out,
    const struct qwen_tok *t, unsigned flags, struct qwen_err *err);
int qwen_tok_decoder_put(struct qwen_tok_decoder *d, int32_t id,
    struct qwen_str *out, struct qwen_err *err);
void qwen_tok_decoder_finish(struct qwen_tok_decoder *d,
    struct qwen_str *out);
void qwen_tok_decoder_free(struct qwen_tok_decoder *d);

/*
 * Copies the bytes of an incomplete character, and returns their number, at
 * most QWEN_TOK_PENDING_MAX.
 */
enum { QWEN_TOK_PENDING_MAX = 3 };

size_t qwen_tok_decoder_pending(const struct qwen_tok_decoder *d,
    unsigned char bytes[QWEN_TOK_PENDING_MAX]);

/*
 * The bytes of each token (control tokens have none) and the tokens known by
 * name, in separate memory that does not need the file.  Read-only, so threads
 * may share it.
 */
struct qwen_pieces;

int qwen_pieces_open(struct qwen_pieces **out, const struct qwen_gguf *g,
    struct qwen_err *err);
void qwen_pieces_close(struct qwen_pieces *p);

#ifdef __cplusplus
}
#endif

#endif
