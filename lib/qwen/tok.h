/* SPDX-License-Identifier: ISC */
/* qwen/tok.h - the tokenizer. */
#ifndef QWEN_QWEN_TOK_H
#define QWEN_QWEN_TOK_H

#include "qwen/gguf.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Byte-level BPE as Qwen files carry it (tokenizer.ggml.model "gpt2"), with
 * the pre-tokenizers qwen2 and qwen35.  Any bytes can be encoded; bytes that
 * are not UTF-8 come back as they were.  Text is normalised only if
 * qwen_tok_set_nfc asks for it.  Encoding adds no token in front or at the end;
 * qwen_tok_begin adds BOS.
 */
struct qwen_tok;

enum { QWEN_TOK_ENCODE = 1, QWEN_TOK_DECODE = 2 };

/*
 * Build what the directions asked for (what, of the above) need.  The file
 * must stay open as long as *out lives.  Some 25 ms for a vocabulary of
 * 248,320 to encode, one or two to decode.
 */
int qwen_tok_open(struct qwen_tok **out, const struct qwen_gguf *g,
    unsigned what, struct qwen_err *err);
void qwen_tok_close(struct qwen_tok *t);

/*
 * 0 if qwen_tok_open would open it, else -1 and what it would say.  The lines
 * of the merges are not read, so it takes a millisecond: one that is damaged
 * is found by opening alone.
 */
int qwen_tok_check(const struct qwen_gguf *g, unsigned what,
    struct qwen_err *err);

/*
 * The pre-tokenizer that text is cut by although the file names none, since those
 * of its architecture have no other: for a note.  NULL: there is nothing to tell.
 */
const char *qwen_tok_guess(const struct qwen_tok *t);

/* Ids go from 0 to this, exclusive; padding counts. */
size_t qwen_tok_n_vocab(const struct qwen_tok *t);

/*
 * The token that texts begin with (BOS): whether it is put in front of a text.
 * A file says so by tokenizer.ggml.add_bos_token, the token is that of
 * tokenizer.ggml.bos_token_id.
 */
enum qwen_bos {
	QWEN_BOS_FILE,		/* as the file says */
	QWEN_BOS_NEVER,
	QWEN_BOS_ALWAYS,
};

/*
 * *id is the id to put in front of a text, or -1 if none is put there; a file
 * without bos_token_id has none.  Returns 0, or -1 if a key is damaged, or for
 * QWEN_BOS_ALWAYS if there is no id.
 */
int qwen_bos_read(int32_t *id, const struct qwen_gguf *g, enum qwen_bos how,
    struct qwen_err *err);

/* The same for a tokenizer: opened as QWEN_BOS_FILE, changed by set_bos. */
int32_t qwen_tok_bos(const struct qwen_tok *t);
int qwen_tok_set_bos(struct qwen_tok *t, const struct qwen_gguf *g,
    enum qwen_bos how, struct qwen_err *err);

/*
 * Puts BOS in front of the ids of a whole text, which are from malloc(),
 * unless they begin with it already or the tokenizer adds none.
 */
int qwen_tok_begin(const struct qwen_tok *t, int32_t **ids, size_t *n,
    struct qwen_err *err);

/*
 * Whether texts are normalised to NFC before they are encoded, as the tokenizers
 * library does for Qwen models; off at first.  Special tokens are found before
 * that.  QWEN_EUNSUP in a build without libunistring.  Encoders that are made
 * later heed it.
 */
int qwen_tok_set_nfc(struct qwen_tok *t, int on, struct qwen_err *err);

/* Encoding: */
enum {
	QWEN_TOK_SPECIAL = 1,	/* control tokens in the text are recognised;
				   never for text that somebody else wrote */
};

/* The ids of a text, allocated: free(*ids).  Not NULL even if *n_ids is 0. */
int qwen_tok_encode(const struct qwen_tok *t, const void *text, size_t n,
    unsigned flags, int32_t **ids, size_t *n_ids, struct qwen_err *err);

/*
 * The first control token whose name is in the text, as bytes that qwen_tok_encode
 * takes for text without QWEN_TOK_SPECIAL; -1 if there is none.
 */
int32_t qwen_tok_named(const struct qwen_tok *t, const void *text, size_t n);

/*
 * As qwen_tok_encode, for a text of which only some bytes are to be trusted, those where
 * trusted (n bytes) is not 0: a control token is recognised if all of its text
 * is.  Everything else is as for the whole text.
 */
int qwen_tok_encode_trusted(const struct qwen_tok *t, const void *text,
    const unsigned char *trusted, size_t n, int32_t **ids, size_t *n_ids,
    struct qwen_err *err);

/*
 * The same for text that comes in parts of any size: the ids do not depend on
 * where it is cut.  Each call gives the ids that have become certain, in
 * memory of the encoder that lives until the next call on it.  What is not
 * certain yet (a word that may go on) is kept; finish ends the text and leaves
 * the encoder ready for another.  After an error the encoder starts afresh.
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
 * Fill in the middle: the tokens for it, by the keys of the file or by name; -1 if
 * there is no such one, or the tokenizer was not opened to encode.
 */
enum qwen_fim {
	QWEN_FIM_PREFIX,	/* <|fim_prefix|>; without these three there */
	QWEN_FIM_SUFFIX,	/* are no prompts of this kind */
	QWEN_FIM_MIDDLE,
	QWEN_FIM_PAD,
	QWEN_FIM_REPO,		/* <|repo_name|> */
	QWEN_FIM_FILE,		/* <|file_sep|> */
	QWEN_FIM_N
};

int32_t qwen_tok_fim(const struct qwen_tok *t, enum qwen_fim which);

/* Another file of the repository, and its name. */
struct qwen_fim_file {
	struct qwen_str	name, text;
};

/* What is around a gap; parts that are zero are empty. */
struct qwen_fim_text {
	struct qwen_str	 prefix;	/* before the gap, */
	struct qwen_str	 line;		/* after that, encoded by itself, */
	const int32_t	*ids;		/* and these n_ids tokens */
	size_t		 n_ids;
	struct qwen_str	 suffix;	/* after the gap */
	const struct qwen_fim_file *file;
	size_t		 n_files;
	struct qwen_str	 name;		/* of the file with the gap; only told
					   if there are others */
};

/*
 * The ids of a prompt after which the model writes what is in the gap: other files,
 * prefix, suffix, middle.  Names of control tokens in the texts are text.
 * Allocated: free(*ids).  QWEN_EUNSUP if the vocabulary has no tokens for that.
 */
int qwen_tok_encode_fim_sized(size_t size, const struct qwen_tok *t,
    const struct qwen_fim_text *x, int32_t **ids, size_t *n_ids,
    struct qwen_err *err);
#define qwen_tok_encode_fim(...) \
	qwen_tok_encode_fim_sized(sizeof(struct qwen_fim_text), __VA_ARGS__)

/* Decoding: */
enum {
	QWEN_TOK_SHOW_SPECIAL = 1,	/* control tokens as their text, else
					   as nothing */
	QWEN_TOK_BYTES = 2,		/* the bytes as they are, at once */
};

/*
 * Text of ids, one after another.  Without QWEN_TOK_BYTES only whole UTF-8
 * characters leave the decoder: an incomplete one waits for the next ids, and
 * what cannot become one is replaced by U+FFFD.  *out lives until the next
 * call.  finish gives what is left and starts afresh.
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
 * The bytes that wait, at most QWEN_TOK_PENDING_MAX: get returns how many.  set
 * puts them (back) in an empty decoder; -1 if they are not the beginning of a
 * character.
 */
enum { QWEN_TOK_PENDING_MAX = 3 };

size_t qwen_tok_decoder_pending(const struct qwen_tok_decoder *d,
    unsigned char bytes[QWEN_TOK_PENDING_MAX]);
int qwen_tok_decoder_set_pending(struct qwen_tok_decoder *d,
    const unsigned char *bytes, size_t n);

/*
 * The bytes that each token stands for (control tokens have none) and those
 * tokens that are known by name, in memory of its own.  Nothing changes it, so
 * threads may share one.
 */
struct qwen_pieces;

int qwen_pieces_open(struct qwen_pieces **out, const struct qwen_gguf *g,
    struct qwen_err *err);
void qwen_pieces_close(struct qwen_pieces *p);

#ifdef __cplusplus
}
#endif

#endif
