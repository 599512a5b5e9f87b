/* SPDX-License-Identifier: ISC */
/*
 * qwen.h - libqwen, the public interface.
 *
 * Qwen language models on a CPU: GGUF files, the tokenizer, the forward pass,
 * sampling, and streams and files of tokens, logits and model state.
 *
 * Conventions.  Functions that can fail return 0 (or a count) on success and
 * -1 on failure, and then fill *err, which may be NULL; an out pointer is set
 * to NULL on failure.  X_open pairs with X_close, X_new with X_free; both take
 * NULL.  The library never exits, never writes to stdout or stderr, and never
 * reads the environment.  Objects are not locked: one thread at a time uses
 * one object, but objects that only read (struct qwen_gguf, struct qwen_tok,
 * struct qwen_model) can be shared.
 */
#ifndef QWEN_H
#define QWEN_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define QWEN_VERSION "0.1.0"

/* ---------------------------------------------------------------- errors */

enum {
	QWEN_EIO = 1,		/* the system refused: read, write, open */
	QWEN_EFORMAT,		/* the bytes are not what they should be */
	QWEN_EUNSUP,		/* well formed, but not something we do */
	QWEN_ENOMEM,		/* out of memory */
	QWEN_ERANGE,		/* a value outside its limits */
	QWEN_EMISMATCH,		/* two things that do not belong together */
	QWEN_EPIPE,		/* the reader went away */
	QWEN_ENUMERIC,		/* a number that is not finite */
	QWEN_EFULL,		/* a limit on memory that was asked for */
};

struct qwen_err {
	int	code;		/* one of the above */
	char	msg[240];	/* what and where; no newline, printable */
};

/* Bytes that are not NUL-terminated, borrowed from whoever handed them out. */
struct qwen_str {
	const char	*s;
	size_t		 len;
};

/* 128-bit fingerprints (XXH3-128, canonical byte order). */
struct qwen_fp {
	unsigned char	b[16];
};

/* ------------------------------------------------------------------ GGUF */

/*
 * A GGUF file, versions 2 and 3, or all parts of a split one, mapped
 * read-only.  Everything returned points into the mapping (or the object) and
 * lives until close.  Format: the GGUF specification of the ggml project.
 */
struct qwen_gguf;

enum qwen_gguf_type {
	QWEN_GGUF_UINT8, QWEN_GGUF_INT8, QWEN_GGUF_UINT16, QWEN_GGUF_INT16,
	QWEN_GGUF_UINT32, QWEN_GGUF_INT32, QWEN_GGUF_FLOAT32, QWEN_GGUF_BOOL,
	QWEN_GGUF_STRING, QWEN_GGUF_ARRAY, QWEN_GGUF_UINT64, QWEN_GGUF_INT64,
	QWEN_GGUF_FLOAT64, QWEN_GGUF_N_TYPES
};

/* One metadata record. */
struct qwen_gguf_kv {
	struct qwen_str		 key;
	enum qwen_gguf_type	 type;
	enum qwen_gguf_type	 elem;	/* type of the elements if an ARRAY,
					   else equal to type */
	uint64_t		 n;	/* elements; 1 unless an ARRAY */
	const unsigned char	*data;	/* little-endian, unaligned; a string
					   begins with its u64 length */
	size_t			 bytes;	/* of data */
	uint64_t		 offset;/* of the record in its file */
};

/* One tensor; ne[0] is the contiguous dimension, unused ones are 1. */
struct qwen_gguf_tensor {
	const char	*name;		/* NUL-terminated */
	uint32_t	 type;		/* ggml type, see qwen_quant_name */
	uint32_t	 n_dims;
	uint64_t	 ne[4];
	uint64_t	 offset;	/* of the data in its file, absolute */
	uint64_t	 bytes;
	const void	*data;		/* in the mapping */
	unsigned	 shard;		/* which file, 0 .. n_shards - 1 */
};

/* Name ("UINT32") and bytes (0 for STRING and ARRAY) of a metadata type. */
const char *qwen_gguf_type_name(enum qwen_gguf_type type);
size_t qwen_gguf_type_bytes(enum qwen_gguf_type type);

int qwen_gguf_open(struct qwen_gguf **out, const char *path,
    struct qwen_err *err);
void qwen_gguf_close(struct qwen_gguf *g);

unsigned qwen_gguf_version(const struct qwen_gguf *g);
unsigned qwen_gguf_n_shards(const struct qwen_gguf *g);
const char *qwen_gguf_path(const struct qwen_gguf *g, unsigned shard);
uint64_t qwen_gguf_file_bytes(const struct qwen_gguf *g, unsigned shard);
uint64_t qwen_gguf_data_offset(const struct qwen_gguf *g, unsigned shard);
uint64_t qwen_gguf_alignment(const struct qwen_gguf *g);

/* Metadata of the first shard, in file order. */
size_t qwen_gguf_n_kv(const struct qwen_gguf *g);
const struct qwen_gguf_kv *qwen_gguf_kv(const struct qwen_gguf *g, size_t i);
const struct qwen_gguf_kv *qwen_gguf_find(const struct qwen_gguf *g,
    const char *key);

/*
 * Typed reads.  Return 1 if the key is there and fits, 0 if it is absent (the
 * out value is left alone), -1 with *err if it has another type or range.
 * Integers convert between widths; element i of an array is taken where the
 * record is an array (i = 0 reads a scalar too).
 */
int qwen_gguf_get_u64(const struct qwen_gguf *g, const char *key, size_t i,
    uint64_t *out, struct qwen_err *err);
int qwen_gguf_get_f64(const struct qwen_gguf *g, const char *key, size_t i,
    double *out, struct qwen_err *err);
int qwen_gguf_get_bool(const struct qwen_gguf *g, const char *key, size_t i,
    int *out, struct qwen_err *err);
int qwen_gguf_get_str(const struct qwen_gguf *g, const char *key,
    struct qwen_str *out, struct qwen_err *err);

/*
 * Walk the strings of an ARRAY of STRING (or one STRING): start with *pos = 0;
 * returns 1 and the next string, 0 at the end.  Never fails: open checked it.
 */
int qwen_gguf_next_str(const struct qwen_gguf_kv *kv, size_t *pos,
    struct qwen_str *out);

/* Tensors, in file order, shard after shard. */
size_t qwen_gguf_n_tensors(const struct qwen_gguf *g);
const struct qwen_gguf_tensor *qwen_gguf_tensor(const struct qwen_gguf *g,
    size_t i);
const struct qwen_gguf_tensor *qwen_gguf_find_tensor(
    const struct qwen_gguf *g, const char *name);

/*
 * Look at everything that open does not: BOOL values, the vocabulary, and all
 * scales (in float types, all numbers) for NaN and infinity, which reads the
 * whole file.  problem is told each one (msg as in struct qwen_err); progress,
 * if not NULL, the bytes done since its last call.  Returns the number of
 * problems.  Types the library cannot compute with are passed over.
 */
struct qwen_gguf_checker {
	void	(*problem)(void *arg, const char *msg);
	void	(*progress)(void *arg, uint64_t bytes);
	void	 *arg;
};

uint64_t qwen_gguf_check(const struct qwen_gguf *g,
    const struct qwen_gguf_checker *c);

/*
 * Write a GGUF file, version 3: put keys and tensors in any order, write the
 * head, then the data of all tensors in the order they were put (in pieces of
 * any size; padding is added), then ask write_end whether all is there.  An
 * error of a put function sticks and is reported by write_head.  Numbers are
 * stored little-endian; data must be so already.
 */
struct qwen_gguf_writer;

int qwen_gguf_writer_new(struct qwen_gguf_writer **out, struct qwen_err *err);
void qwen_gguf_writer_free(struct qwen_gguf_writer *w);

void qwen_gguf_put_u32(struct qwen_gguf_writer *w, const char *key,
    uint32_t v);
void qwen_gguf_put_f32(struct qwen_gguf_writer *w, const char *key, float v);
void qwen_gguf_put_bool(struct qwen_gguf_writer *w, const char *key, int v);
void qwen_gguf_put_str(struct qwen_gguf_writer *w, const char *key,
    const char *s);
void qwen_gguf_put_i32s(struct qwen_gguf_writer *w, const char *key,
    const int32_t *v, size_t n);
void qwen_gguf_put_strs(struct qwen_gguf_writer *w, const char *key,
    const struct qwen_str *v, size_t n);
void qwen_gguf_put_kv(struct qwen_gguf_writer *w,
    const struct qwen_gguf_kv *kv);	/* a record of another file, as it is */
void qwen_gguf_put_tensor(struct qwen_gguf_writer *w, const char *name,
    uint32_t type, unsigned n_dims, const uint64_t *ne);

int qwen_gguf_write_head(struct qwen_gguf_writer *w, int fd,
    struct qwen_err *err);
int qwen_gguf_write_data(struct qwen_gguf_writer *w, int fd, const void *data,
    size_t n, struct qwen_err *err);
int qwen_gguf_write_end(const struct qwen_gguf_writer *w,
    struct qwen_err *err);

/* Bytes of the whole file; known after write_head. */
uint64_t qwen_gguf_writer_bytes(const struct qwen_gguf_writer *w);

/*
 * Random weights for synthetic files: n elements (whole blocks) of mean 0 and
 * standard deviation sd, in F32, F16, BF16, Q8_0, Q4_K, Q5_K or Q6_K.  The
 * same *rng (any number), which moves on, gives the same bytes everywhere.
 */
int qwen_gguf_random(uint32_t type, void *dst, size_t n, double sd,
    uint64_t *rng, struct qwen_err *err);
double qwen_gguf_random_uniform(uint64_t *rng);		/* 0 <= x < 1 */
double qwen_gguf_random_normal(uint64_t *rng);		/* mean 0, sd 1 */

/* ------------------------------------------------------- synthetic models */

/*
 * Models with the names, shapes, number formats and metadata of a published
 * file and random weights, for measuring and testing without it.
 */
struct qwen_synth_info {
	const char	*name;		/* "Qwen3-8B-Q4_K_M" */
	const char	*arch;
	uint32_t	 n_layer, n_mtp;	/* blocks; MTP blocks behind them */
	uint32_t	 n_expert;	/* 0: none */
	uint32_t	 n_vocab;
};

/* Shape 0, 1, ...; NULL behind the last. */
const struct qwen_synth_info *qwen_synth_info(size_t shape);

/* The one whose name begins with this, in any case. */
int qwen_synth_find(size_t *shape, const char *name, struct qwen_err *err);

struct qwen_synth_opts {
	uint64_t	 seed;
	uint32_t	 n_layer, n_expert, n_vocab;	/* 0: as published */
	int		 no_mtp;	/* leave the MTP blocks out */
	int		 sparse;	/* a hole in place of the weights */
	const struct qwen_gguf *vocab;	/* whose tokenizer goes along; NULL:
					   none, which is enough to compute */
};

struct qwen_synth;

int qwen_synth_new(struct qwen_synth **out, size_t shape,
    const struct qwen_synth_opts *opts, struct qwen_err *err);
void qwen_synth_free(struct qwen_synth *p);
size_t qwen_synth_n_tensors(const struct qwen_synth *p);

struct qwen_synth_progress {
	void	(*fn)(void *arg, uint64_t done, uint64_t total);	/* bytes */
	void	 *arg;
};

/* Write it, once; progress may be NULL. */
int qwen_synth_write(struct qwen_synth *p, int fd,
    const struct qwen_synth_progress *progress, struct qwen_err *err);
uint64_t qwen_synth_bytes(const struct qwen_synth *p);	/* after writing */

/* ---------------------------------------------------- tensor number formats */

/* Name ("Q4_K"), elements and bytes of a block; 0 or NULL for unknown types. */
const char *qwen_quant_name(uint32_t type);
size_t qwen_quant_block_len(uint32_t type);
size_t qwen_quant_block_bytes(uint32_t type);

/* 1 if the library can compute with the type (and dequantise it). */
int qwen_quant_supported(uint32_t type);

/*
 * The numbers that n elements (a multiple of the block length) at src stand
 * for.  -1 if the type is not supported.
 */
int qwen_quant_dequantize(uint32_t type, const void *src, float *dst,
    size_t n, struct qwen_err *err);

/*
 * Look for scales that are NaN or infinite (or, in float types, such values)
 * in n elements.  Returns the index of the first block that has one, or -1.
 */
int64_t qwen_quant_find_nonfinite(uint32_t type, const void *src, size_t n);

/* ------------------------------------------------------------- tokenizer */

/*
 * Byte-level BPE as Qwen files carry it (tokenizer.ggml.model "gpt2"), with
 * the pre-tokenizers qwen2 and qwen35.  Any bytes can be encoded; bytes that
 * are not UTF-8 come back as they were.  Text is not normalised.  No token is
 * added in front or at the end.
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

/* Ids go from 0 to this, exclusive; padding counts. */
size_t qwen_tok_n_vocab(const struct qwen_tok *t);

/* The same from the file alone. */
int qwen_tok_vocab_size(const struct qwen_gguf *g, size_t *n,
    struct qwen_err *err);

/*
 * Fingerprint of the vocabulary: pre-tokenizer, tokens, types and merges.
 * Equal fingerprints give equal ids.  Reads the file's metadata, builds
 * nothing.
 */
int qwen_tok_fingerprint(const struct qwen_gguf *g, struct qwen_fp *out,
    struct qwen_err *err);

/*
 * The ids that end a generation: those of the keys eos_token_id and
 * eot_token_id, and of the texts <|im_end|> and <|endoftext|>; ascending, each
 * once.  Up to max go to ids; *n says how many there are.
 */
int qwen_tok_eog(const struct qwen_gguf *g, int32_t *ids, size_t max,
    size_t *n, struct qwen_err *err);

/*
 * The ids that stand for no token (of type UNUSED): their logits are untrained.
 * Ascending; up to max go to ids, *n says how many there are.
 */
int qwen_tok_unused(const struct qwen_gguf *g, int32_t *ids, size_t max,
    size_t *n, struct qwen_err *err);

/* Encoding: */
enum {
	QWEN_TOK_SPECIAL = 1,	/* control tokens in the text are recognised;
				   never for text that somebody else wrote */
};

/* The ids of a text, allocated: free(*ids).  Not NULL even if *n_ids is 0. */
int qwen_tok_encode(const struct qwen_tok *t, const void *text, size_t n,
    unsigned flags, int32_t **ids, size_t *n_ids, struct qwen_err *err);

/*
 * The same for a text of which only some bytes are to be trusted, those where
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
 * The code point that begins at p, where n > 0 bytes are: returns its length, 1
 * to 4, or 0 if p is no UTF-8 (overlong, surrogate, above U+10FFFF, a stray
 * byte), or minus the number of bytes present if they are the beginning of one
 * and n ends it.
 */
int qwen_utf8_read(const unsigned char *p, size_t n, uint32_t *c);

/* Bytes of text before the first that is not UTF-8; n if all is. */
size_t qwen_utf8_check(const char *text, size_t n);

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

/* Pieces: */
/*
 * The bytes that each token stands for (control tokens have none) and those
 * tokens that are known by name, in memory of its own.  Nothing changes it, so
 * threads may share one.
 */
struct qwen_pieces;

int qwen_pieces_open(struct qwen_pieces **out, const struct qwen_gguf *g,
    struct qwen_err *err);
void qwen_pieces_close(struct qwen_pieces *p);

/* ------------------------------------------------------------------ chat */

/*
 * Chat templates: programs in a subset of the template language Jinja, which
 * model files carry, that make a prompt of messages.  One may come from
 * anybody: steps, depth and memory of a run have limits that grow with the
 * request alone.  A template that is open can be used by many threads.
 */
struct qwen_template;

/*
 * A published one by name: qwen3, qwen3.5, qwen3.6, qwen3.6-ud (as in the files
 * of one publisher), qwen3-coder; name i of these, or NULL; that of a model
 * file (tokenizer.chat_template); a text.
 */
int qwen_template_open(struct qwen_template **out, const char *name,
    struct qwen_err *err);
const char *qwen_template_name(size_t i);
int qwen_template_open_gguf(struct qwen_template **out,
    const struct qwen_gguf *g, struct qwen_err *err);
int qwen_template_open_text(struct qwen_template **out, const char *source,
    size_t n, struct qwen_err *err);
void qwen_template_close(struct qwen_template *t);

/* 1 if it has tools called in a way that qwen_reply reads, 0 if not. */
int qwen_template_calls(const struct qwen_template *t);

/*
 * What the template makes of a request, n bytes of JSON: an object with a list
 * of messages and, if wanted, tools and other things that the template asks
 * for; add_generation_prompt is true unless given.  null counts as not given;
 * members of chat_template_kwargs are as if they were members of the request.
 * Numbers keep their digits.  A thought may be called reasoning_content,
 * reasoning or thinking.  Where the template has no use for them as they are,
 * arguments that are a JSON string are read, content that is missing is empty,
 * and parts of text are joined by line feeds.  What the template refuses, or
 * cannot take, fails.
 */
struct qwen_prompt;

int qwen_template_render(const struct qwen_template *t, const char *json,
    size_t n, struct qwen_prompt **out, struct qwen_err *err);
void qwen_prompt_free(struct qwen_prompt *p);

/*
 * The text, and for each byte 1 if the template wrote it, 0 if it was in the
 * request, wherever it went in between.
 */
struct qwen_str qwen_prompt_text(const struct qwen_prompt *p);
const unsigned char *qwen_prompt_own(const struct qwen_prompt *p);

/*
 * Where, from byte from on, the next turn begins: the template wrote
 * <|im_start|> there.  The length of the text if none does.
 */
size_t qwen_prompt_turn(const struct qwen_prompt *p, size_t from);

/*
 * The ids of the text from byte from to byte to, free(*ids); control tokens are
 * those that the template wrote.  Parts that are cut where turns begin have the
 * ids that the whole has.
 */
int qwen_prompt_encode(const struct qwen_prompt *p, const struct qwen_tok *tok,
    size_t from, size_t to, int32_t **ids, size_t *n_ids,
    struct qwen_err *err);

/* What a prompt says of thinking, and a reply to it goes on with. */
enum qwen_thinking {
	QWEN_THINKING_NONE,	/* nothing: a reply may begin with <think> */
	QWEN_THINKING_OPEN,	/* a thought has begun */
	QWEN_THINKING_CLOSED,	/* there was an empty one */
};

enum qwen_thinking qwen_prompt_thinking(const struct qwen_prompt *p);

/*
 * A reply, read as it comes: what is thought, what is said, and which tools are
 * called.  The template says how calls are written: as JSON, or with a tag for
 * each parameter, whose values are read by the tool's schema.  What looks like a
 * call and is none, or was cut off, is called unparsed; nothing is lost.  The
 * result does not depend on where the text is cut.
 */
struct qwen_reply;

enum qwen_reply_kind {
	QWEN_REPLY_REASONING, QWEN_REPLY_CONTENT, QWEN_REPLY_CALL,
	QWEN_REPLY_UNPARSED
};

struct qwen_reply_event {
	enum qwen_reply_kind	kind;
	struct qwen_str		text;	/* UTF-8; of a call, its arguments: a
					   JSON object */
	struct qwen_str		name;	/* of a call */
};

struct qwen_reply_opts {
	enum qwen_thinking	 thinking;	/* of the prompt */
	const char		*tools;		/* those of the request, a JSON
						   list; NULL: none, and then
						   calls are text */
	size_t			 n_tools;	/* bytes */
	/*
	 * Called for each piece as soon as it is certain, each unparsed text
	 * and each call when it is whole; may be NULL.  -1 ends with err.
	 */
	int			 (*event)(void *arg,
				     const struct qwen_reply_event *e,
				     struct qwen_err *err);
	void			*arg;
};

int qwen_reply_new(struct qwen_reply **out, const struct qwen_template *t,
    const struct qwen_reply_opts *opts, struct qwen_err *err);
int qwen_reply_feed(struct qwen_reply *r, const void *text, size_t n,
    struct qwen_err *err);
int qwen_reply_finish(struct qwen_reply *r, struct qwen_err *err);
void qwen_reply_free(struct qwen_reply *r);

/*
 * After finish: all of it as a JSON object, free(*json), with role, content, and
 * where there are some reasoning, tool_calls (each with name and arguments) and
 * unparsed (a list of texts).  Pieces of an event's kind add up to its text,
 * which has no white space at its ends.
 */
int qwen_reply_message(const struct qwen_reply *r, char **json, size_t *n,
    struct qwen_err *err);

/* --------------------------------------------------------------- the model */

/*
 * An instruction-set level, "scalar", "avx2", "avxvnni", "avx512" or "amx", or
 * "neon", "dotprod" or "i8mm": 1 if this CPU has it, 0 if not (then the best
 * below it is used), -1 if there is no such level.
 */
int qwen_cpu_check(const char *level);

/*
 * The version of the arithmetic that a model is opened with unless another is
 * asked for.  With equal versions bits are equal.
 */
unsigned qwen_numerics_version(void);

/* What the machine does at best with so many threads, each a second. */
struct qwen_machine {
	int	n_threads;
	size_t	bytes;		/* of the buffer read */
	double	read;		/* bytes loaded from memory */
	double	copy;		/* bytes copied by memcpy, each counted once */
	double	int8;		/* multiply-adds of 8 bits into 32 */
	double	f32;		/* fused multiply-adds in f32 */
	char	variant[16];	/* instruction set, "avx512vnni" */
	char	int8_op[24];	/* its instruction, "VPDPBUSD zmm" */
};

/*
 * Measure it, for so many seconds for each figure (0: a tenth of one), the best
 * round of each.  n_threads 0: one for each processor; cpu as in struct
 * qwen_model_opts.  Uses 256 MiB, or four times the last cache if that is
 * more, for as long as it runs.
 */
int qwen_machine_measure(struct qwen_machine *out, int n_threads,
    const char *cpu, double seconds, struct qwen_err *err);

/* A model ready to compute: the mapped weights, kernels and threads. */
struct qwen_model;

struct qwen_model_opts {
	int		 n_threads;	/* 0: one for each processor */
	const char	*cpu;		/* level not to exceed; NULL: no limit */
	unsigned	 numerics;	/* version, 1 or 2; 0: the usual one */
};

/* opts may be NULL.  Builds no vocabulary; weights stay in the mapping. */
int qwen_model_open(struct qwen_model **out, const char *path,
    const struct qwen_model_opts *opts, struct qwen_err *err);
void qwen_model_close(struct qwen_model *m);

const struct qwen_gguf *qwen_model_gguf(const struct qwen_model *m);
const char *qwen_model_arch(const struct qwen_model *m);
size_t qwen_model_n_vocab(const struct qwen_model *m);
size_t qwen_model_n_layer(const struct qwen_model *m);	/* without MTP */
size_t qwen_model_n_ctx(const struct qwen_model *m);	/* context_length */
int qwen_model_n_threads(const struct qwen_model *m);
unsigned qwen_model_numerics(const struct qwen_model *m);

/*
 * Which kernel variant serves each operation and format, one a line, for -v.
 * Returns the text's length, like snprintf.
 */
size_t qwen_model_describe(const struct qwen_model *m, char *buf, size_t size);

/*
 * Where the time goes.  ms is summed over threads; bytes are those of weights
 * and states, macs multiply-adds.
 */
struct qwen_kernel_stat {
	char		name[24];	/* "gemm.Q4_K", "delta", ... */
	char		variant[16];	/* "avx512vnni" */
	uint64_t	calls;
	double		ms;
	uint64_t	bytes;
	uint64_t	macs;
};

/* Start counting from zero, or stop. */
int qwen_model_profile(struct qwen_model *m, int on, struct qwen_err *err);

/* Fill up to max entries of out; returns how many there are. */
size_t qwen_model_stats(const struct qwen_model *m,
    struct qwen_kernel_stat *out, size_t max);

/*
 * Hash over hyperparameters, tensor directory and the first 64 bytes of each
 * tensor: milliseconds on a 20 GiB file.
 */
int qwen_model_fingerprint(const struct qwen_gguf *g, struct qwen_fp *out,
    struct qwen_err *err);

/*
 * One timeline: the tokens evaluated so far with their KV cache and recurrent
 * state.  The model must outlive it.
 */
struct qwen_session;

int qwen_session_new(struct qwen_session **out, struct qwen_model *m,
    struct qwen_err *err);
void qwen_session_free(struct qwen_session *s);

struct qwen_model *qwen_session_model(const struct qwen_session *s);
size_t qwen_session_n_tokens(const struct qwen_session *s);
const int32_t *qwen_session_tokens(const struct qwen_session *s);

/*
 * The logits that follow the last token, n_vocab of them, or NULL when they
 * were not computed (nothing evaluated, or QWEN_LOGITS_NONE).  Valid until the
 * next call that changes the session.
 */
const float *qwen_session_logits(const struct qwen_session *s);

enum qwen_logits { QWEN_LOGITS_LAST, QWEN_LOGITS_ALL, QWEN_LOGITS_NONE };

/*
 * Where checkpoints are kept while tokens are read.  A position is the number
 * of tokens before it.
 */
struct qwen_checkpoints {
	uint64_t	 every;	/* at multiples of this; 0: at none */
	const uint64_t	*at;	/* and at these, ascending; named ones */
	size_t		 n_at;
};

struct qwen_eval {
	enum qwen_logits logits;
	size_t	batch;		/* tokens computed together; 0: a default.
				   Never changes a result. */
	/*
	 * Called in order for each row of logits (position of its token,
	 * n_vocab numbers); non-zero stops the evaluation: qwen_session_eval
	 * fails with *err as the callback left it.  May be NULL.
	 */
	int	(*row)(void *arg, size_t pos, const float *logits,
		    struct qwen_err *err);
	/* Called now and then with the tokens done in this call; may be NULL. */
	void	(*progress)(void *arg, size_t done, size_t total);
	void	*arg;
	/*
	 * Checkpoints to keep on the way, with their logits unless logits is
	 * QWEN_LOGITS_NONE; may be NULL.  Changes no result.
	 */
	const struct qwen_checkpoints *keep;
};

/*
 * Append n tokens to the timeline; how may be NULL (logits of the last one).
 * Ids outside the vocabulary and more tokens than n_ctx fail with QWEN_ERANGE
 * before anything changes.  A hidden state or logit that is not finite fails
 * with QWEN_ENUMERIC and names the layer; after that, or when a callback stops
 * it, the session is of no use.
 */
int qwen_session_eval(struct qwen_session *s, const int32_t *tokens, size_t n,
    const struct qwen_eval *how, struct qwen_err *err);

/*
 * Checkpoints.  A KV cache can be cut at any position, a recurrent state
 * cannot: so the session keeps copies of it (f32, lossless) at some positions,
 * from which a cut replays the tokens between.  Models without recurrent state
 * keep the logits alone.
 */
struct qwen_checkpoint {
	uint64_t	 at;		/* tokens before it */
	int		 named;		/* asked for: never thinned */
	int		 logits;	/* those that follow it are there */
	uint64_t	 bytes;		/* of state and logits */
};

/* Those before the end, ascending. */
size_t qwen_session_n_checkpoints(const struct qwen_session *s);
void qwen_session_checkpoint(const struct qwen_session *s, size_t i,
    struct qwen_checkpoint *out);

/*
 * Keep one at the present end, of which it costs nothing before tokens are
 * appended.  qwen_session_eval does so itself where a session was restored
 * or rewound, since the end of a turn is where the next edit cuts.
 */
int qwen_session_keep(struct qwen_session *s, int named, struct qwen_err *err);

/*
 * Keep none there after all, unless it is named: what follows belongs to what
 * was before, as when a run is gone on with.
 */
void qwen_session_unkeep(struct qwen_session *s);

/*
 * Drop checkpoints as they age.  The last two and the named ones stay; of the
 * others, from the last to the first, each is dropped whose two neighbours are
 * no more than max(every, d / 2) apart, where d is its distance from the end
 * and every that of the last evaluation that had one, or the model's default.
 * So their number grows with the logarithm of the length.  Done whenever a
 * checkpoint is added.
 */
void qwen_session_thin(struct qwen_session *s);

/*
 * The distance at which checkpoints take about as much room as the KV cache
 * between them, a power of two, 1024 at least; 0 if the model has no recurrent
 * state.
 */
uint64_t qwen_model_checkpoint_every(const struct qwen_model *m);

/*
 * Cut the timeline to the last position <= n from which it can go on: the end,
 * a checkpoint or 0, and for models without recurrent state n itself.  *at is
 * that position; what was behind it is gone, and the caller evaluates tokens
 * *at .. n - 1 (of the old timeline or a new one).  want_logits: of n itself
 * logits must be there, else the cut is before it, so that going on gives them.
 * QWEN_EFULL (a block that is shared has to be copied) changes nothing; after
 * another error the session is of no use.
 */
int qwen_session_rewind(struct qwen_session *s, size_t n, int want_logits,
    size_t *at, struct qwen_err *err);

/* ---------------------------------------------------------- many timelines */

/*
 * Memory that timelines share: the KV cache in blocks of 16 positions, the
 * recurrent states, and what a forward pass computes with, so that one pass at
 * a time goes over the sessions of a cache.  A block can belong to several
 * sessions, and is copied when one of them writes to it.  qwen_session_new
 * makes a cache for one session, without a limit.
 */
struct qwen_cache;

struct qwen_cache_usage {
	uint64_t	 limit;		/* of used; 0: none */
	uint64_t	 used;		/* bytes of blocks and states */
	uint64_t	 block_bytes;	/* 16 positions, all layers */
	uint64_t	 state_bytes;	/* recurrent state of one timeline */
	uint64_t	 n_blocks;	/* in use; a shared one counts once */
	uint64_t	 n_states;
};

/*
 * A cache of at most limit bytes (0: no limit), which are taken as they are
 * needed; checkpoints do not count.  The model must outlive it.  It can be
 * freed before its sessions: then it goes with the last of them.
 */
int qwen_cache_new(struct qwen_cache **out, struct qwen_model *m,
    uint64_t limit, struct qwen_err *err);
void qwen_cache_free(struct qwen_cache *c);

void qwen_cache_usage(const struct qwen_cache *c,
    struct qwen_cache_usage *out);

/*
 * For measurements: make n blocks, and hand out what is free in an order that
 * is mixed up, always in the same way.  Blocks of a timeline otherwise mostly
 * follow one another.
 */
int qwen_cache_scatter(struct qwen_cache *c, size_t n, struct qwen_err *err);

/* The least limit with which one timeline of n tokens works. */
uint64_t qwen_cache_need(const struct qwen_model *m, uint64_t n_tokens);

/* An empty timeline; QWEN_EFULL if there is no room for its state. */
int qwen_session_new_in(struct qwen_session **out, struct qwen_cache *c,
    struct qwen_err *err);

/*
 * A second timeline with the same past, in the cache of the first: blocks are
 * shared, recurrent state and logits copied, checkpoints left.  QWEN_EFULL as
 * above.
 */
int qwen_session_fork(struct qwen_session **out, const struct qwen_session *s,
    struct qwen_err *err);

/* The same in another cache of the same model: blocks are copied too. */
int qwen_session_fork_in(struct qwen_session **out, struct qwen_cache *c,
    const struct qwen_session *s, struct qwen_err *err);

/* What one timeline wants of qwen_eval_parts. */
struct qwen_part {
	struct qwen_session	*s;
	const int32_t		*tokens;	/* to append */
	size_t			 n;		/* at least 1 */
	enum qwen_logits	 logits;
	int	(*row)(void *arg, size_t pos, const float *logits,
		    struct qwen_err *err);	/* as in struct qwen_eval */
	void			*arg;
	/* set by the call: not done, err says why; the session is of no use */
	int			 failed;
	struct qwen_err		 err;
};

/*
 * qwen_session_eval for several sessions of one cache, each of them once, in
 * one pass over the weights (or as many as their tokens need).  The results of
 * each are those it has alone, bit for bit.  A number that is not finite, or a
 * row function that stops, fails the part it belongs to and no other.  Returns
 * -1 where nothing has changed: QWEN_EFULL (give up a session, and try again),
 * QWEN_ENOMEM, QWEN_ERANGE, QWEN_EMISMATCH.
 */
int qwen_eval_parts(struct qwen_part *part, size_t n_part,
    struct qwen_err *err);

/* ---------------------------------------------------------------- sampling */

/*
 * Choosing a token from a row of logits.  The sampling methods are collected
 * when the library is built, and each declares its options: a tool takes its
 * option table, its ranges and its help from here.  One sampler is for one
 * thread and one timeline at a time; different ones share nothing.
 */
enum qwen_sample_type {
	QWEN_SAMPLE_FLAG,	/* no value; 0 or 1 */
	QWEN_SAMPLE_INT,	/* 64 bits, signed */
	QWEN_SAMPLE_UINT,	/* 64 bits, unsigned; min and max do not count */
	QWEN_SAMPLE_REAL,	/* a double */
	QWEN_SAMPLE_TEXT,	/* a text */
	QWEN_SAMPLE_LIST,	/* texts: each setting adds one */
};

struct qwen_sample_opt {
	const char	*name;	/* long option without dashes, "top-k" */
	enum qwen_sample_type type;
	const char	*arg;	/* what usage calls the value, NULL for a flag */
	double		 min, max;	/* inclusive */
	double		 def;	/* default */
	const char	*help;	/* one line, no full stop */
};

/* All options: seed and chain first, then by the usual order of the methods. */
size_t qwen_sample_n_opts(void);
const struct qwen_sample_opt *qwen_sample_opt(size_t i);

struct qwen_sampler;

/* A sampler with all options at their defaults, which choose the best token. */
int qwen_sampler_new(struct qwen_sampler **out, struct qwen_err *err);
void qwen_sampler_free(struct qwen_sampler *s);

/*
 * Set an option from text, before begin; NULL sets a flag.  QWEN_EUNSUP if no
 * method has it, QWEN_ERANGE for a bad value.
 */
int qwen_sampler_set(struct qwen_sampler *s, const char *name,
    const char *text, struct qwen_err *err);

/*
 * What differs from the defaults, "temp=0.7 top-k=40"; length as snprintf.  In
 * texts, white space, what is not ASCII and % are written as % and two
 * hexadecimal digits.
 */
size_t qwen_sampler_describe(const struct qwen_sampler *s, char *buf,
    size_t size);

/* The i-th text that an option was given, or NULL. */
const char *qwen_sampler_text(const struct qwen_sampler *s, const char *name,
    size_t i);

/* Set what qwen_sampler_describe wrote. */
int qwen_sampler_read(struct qwen_sampler *s, const char *text,
    struct qwen_err *err);

/*
 * Whether the options fit together: QWEN_ERANGE if one is set whose method the
 * chain leaves out.
 */
int qwen_sampler_check(const struct qwen_sampler *s, struct qwen_err *err);

/*
 * Use no instruction set beyond a level, as in struct qwen_model_opts; the
 * tokens are the same.
 */
int qwen_sampler_cpu(struct qwen_sampler *s, const char *level,
    struct qwen_err *err);

/* Whether the options work on the texts of tokens: qwen_sampler_pieces. */
int qwen_sampler_needs_pieces(const struct qwen_sampler *s);

/* The texts of the vocabulary, which must live as long as s; before begin. */
void qwen_sampler_pieces(struct qwen_sampler *s, const struct qwen_pieces *p);

/* The tokens that end a generation, for min-tokens (a copy is kept). */
int qwen_sampler_eog(struct qwen_sampler *s, const int32_t *ids, size_t n,
    struct qwen_err *err);

/*
 * Grammars: rules in GBNF, as qsample(1) has it, of which root is what a
 * reply must be.  Both are for any number of samplers and threads at once.
 */
struct qwen_grammar;
struct qwen_trie;	/* the tokens of a vocabulary, by their texts */

int qwen_grammar_open(struct qwen_grammar **out, const char *text, size_t n,
    struct qwen_err *err);
void qwen_grammar_close(struct qwen_grammar *g);

/*
 * The grammar of a JSON Schema, or its text in GBNF (for free()): what it takes
 * is valid by the schema and has no white space; qsample(1) says what else.  A
 * keyword that it would not do justice to is an error that names it.
 */
int qwen_grammar_open_schema(struct qwen_grammar **out, const char *text,
    size_t n, struct qwen_err *err);
int qwen_schema_grammar(char **out, size_t *n_out, const char *text, size_t n,
    struct qwen_err *err);

int qwen_trie_new(struct qwen_trie **out, const struct qwen_pieces *p,
    struct qwen_err *err);
void qwen_trie_free(struct qwen_trie *t);

/*
 * Choose such tokens only that the reply, what is generated behind the last
 * token of the prompt, goes on by the grammar, and ends where that does.  A
 * thinking block comes before it, if there is one.  Needs qwen_sampler_pieces
 * and the trie of these; all must live as long as s.  Before begin.
 */
void qwen_sampler_grammar(struct qwen_sampler *s, const struct qwen_grammar *g,
    const struct qwen_trie *t);

/* Never choose these tokens (a copy is kept; n 0 allows all again). */
int qwen_sampler_mask(struct qwen_sampler *s, const int32_t *ids, size_t n,
    struct qwen_err *err);

/*
 * Begin a timeline over n_vocab tokens: forget what was accepted.  Afterwards
 * the options are fixed.
 */
int qwen_sampler_begin(struct qwen_sampler *s, size_t n_vocab,
    struct qwen_err *err);

/* Tokens of the timeline, in order: from the prompt or generated. */
int qwen_sampler_accept(struct qwen_sampler *s, const int32_t *tokens,
    size_t n, int generated, struct qwen_err *err);

/*
 * Whether the last token accepted was generated and completes a text at which
 * to stop.
 */
int qwen_sampler_stopped(const struct qwen_sampler *s);

/*
 * What the tokens alone do not tell of the timeline, as text of less than
 * QWEN_SAMPLER_MEMORY bytes (mostly none), and it again, after the tokens were
 * accepted: "" begins anew.
 */
enum { QWEN_SAMPLER_MEMORY = 64 };

void qwen_sampler_save(const struct qwen_sampler *s,
    char buf[QWEN_SAMPLER_MEMORY]);
int qwen_sampler_restore(struct qwen_sampler *s, const char *text,
    struct qwen_err *err);

/*
 * Choose the token at absolute position pos (that of the row's own token plus
 * one) from n logits of the tokens ids[i], or of 0 .. n - 1 if ids is NULL.
 * The same options, accepted tokens, logits and position give the same token
 * on every machine.  Does not accept it.  QWEN_ENUMERIC if a logit is not
 * finite.
 */
int qwen_sampler_sample(struct qwen_sampler *s, const float *logits,
    const int32_t *ids, size_t n, uint64_t pos, int32_t *out,
    struct qwen_err *err);

struct qwen_sample_top {
	int32_t	id;
	float	logit;
	double	logprob;	/* natural logarithm, over the whole row */
};

/*
 * The n_out best tokens of a row by falling logit, for people to see.  Returns
 * how many there are, at most n.
 */
int qwen_sample_top(const float *logits, const int32_t *ids, size_t n,
    size_t n_vocab, struct qwen_sample_top *out, size_t n_out,
    struct qwen_err *err);

/* ---------------------------------------------------------------- scores */

/*
 * How likely the token id is by a row of n finite logits: the natural logarithm
 * of its softmax, in double, the same bits on every machine.  *rank (may be
 * NULL) is how many tokens are better, equals with a lower id among them: 0
 * for the one that greedy choosing takes.
 */
double qwen_logprob(const float *logits, size_t n, int32_t id, size_t *rank);

/* e^nats, likewise the same on every machine; infinity above 700. */
double qwen_perplexity(double nats);

/* --------------------------------------------------------------- streams */

/*
 * What flows between the tools: a CBOR sequence (RFC 8742) of records, typed
 * arrays as in RFC 8746.  The format is in qwen-stream(5).  A stream begins
 * with a header, which says what the records after it are and whose; headers
 * may recur, so streams can be concatenated.
 */

#define QWEN_STREAM_VERSION 1

enum {
	QWEN_EOG_MAX = 16,		/* end-of-generation ids in a header */
	QWEN_VOCAB_MAX = 1 << 22,	/* ids, and so numbers in a row */
	QWEN_STATE_MAX = 1 << 20,	/* bytes of one record of state, in all */
	QWEN_MARK_MAX = 255,		/* bytes of the name of a mark */
};

/* Kinds of streams; bits, so that a reader can name those it takes. */
enum qwen_stream_kind {
	QWEN_STREAM_TOKENS = 1,
	QWEN_STREAM_LOGITS = 2,
	QWEN_STREAM_STATE = 4,
};

struct qwen_header {
	enum qwen_stream_kind kind;
	uint32_t	 n_vocab;	/* ids are below it */
	struct qwen_fp	 vocab;		/* vocabulary */
	struct qwen_fp	 model;		/* LOGITS and STATE only, */
	uint32_t	 numerics;	/* likewise */
	size_t		 n_eog;		/* LOGITS: end-of-generation ids */
	int32_t		 eog[QWEN_EOG_MAX];
};

/*
 * The header of a stream of this kind from or for the model or vocabulary; with
 * numerics as qwen_numerics_version() says.
 */
int qwen_header_init(struct qwen_header *h, enum qwen_stream_kind kind,
    const struct qwen_gguf *g, struct qwen_err *err);

/* The 32 hexadecimal digits of a fingerprint, into out; returns out. */
char *qwen_fp_hex(const struct qwen_fp *fp, char out[33]);

/* ------------------------------------------------------- reading streams */

enum qwen_record_kind {
	QWEN_REC_HEADER = 1,
	QWEN_REC_TOKENS,	/* ids, n */
	QWEN_REC_END,		/* end of a document */
	QWEN_REC_LOGITS,	/* pos, logits, n; of the n best only: ids too */
	QWEN_REC_READY,		/* path, n_tokens, fp; among tokens or logits */
	QWEN_REC_STATE,		/* raw, n_raw; see lib/state */
	QWEN_REC_MARK,		/* path: its name; among tokens, a place to
				   go back to */
};

/*
 * One record.  What it points to lives until the next call on the reader.
 */
struct qwen_record {
	enum qwen_record_kind kind;
	const struct qwen_header *header;	/* the one in force; NULL: the
						   stream is plain decimal ids */
	size_t		 n;
	const int32_t	*ids;		/* each in [0, n_vocab) */
	const float	*logits;	/* finite; best first if ids */
	uint64_t	 pos;		/* of the last token that this row has
					   seen; it predicts that at pos + 1 */
	float		 logsumexp;	/* over the whole row if it was cut
					   (ids != NULL): p = exp(l - this) */
	const char	*path;		/* of the file that is ready; or the
					   name of a mark, never empty */
	uint64_t	 n_tokens;	/* in it */
	struct qwen_fp	 fp;		/* and its fingerprint */
	const unsigned char *raw;	/* the record as it came, framing */
	size_t		 n_raw;		/* included; of text, NULL */
};

struct qwen_reader_opts {
	/*
	 * Which kinds of streams are welcome, 0 for any.  Another one is an
	 * error before any of its records is seen.
	 */
	unsigned	 kinds;
	/*
	 * What headers must agree with, or NULL: streams of tokens by the
	 * vocabulary; of logits and state by the model and numerics too.
	 */
	const struct qwen_header *self;
	/* Plain ids: a newline ends a document (otherwise it is just space). */
	int		 lines;
};

struct qwen_reader;

/* opts may be NULL; it is copied.  fd stays the caller's. */
int qwen_reader_open(struct qwen_reader **out, int fd,
    const struct qwen_reader_opts *opts, struct qwen_err *err);
void qwen_reader_close(struct qwen_reader *r);

/*
 * The next record: 1, or 0 at the end of the stream, or -1.  Waits no longer
 * than until one record is complete.  Plain ids come as QWEN_REC_TOKENS, with
 * no header before them.  Memory is used for bytes that came, never for
 * bytes that were announced; a record beyond the limits of its kind fails.
 */
int qwen_reader_next(struct qwen_reader *r, struct qwen_record *rec,
    struct qwen_err *err);

/* ------------------------------------------------------- writing streams */

enum qwen_format {
	QWEN_FORMAT_CBOR,
	QWEN_FORMAT_TEXT,	/* tokens: one id a line; logits: a row a line */
	QWEN_FORMAT_JSON,	/* one object a record, one line each */
	QWEN_FORMAT_RAW,	/* logits only: little-endian f32, no framing */
};

/* "cbor", "text", "json", "raw": 0 and *out, or -1. */
int qwen_format_parse(const char *name, enum qwen_format *out);

struct qwen_writer_opts {
	enum qwen_format format;
	/* TEXT: one document a line, ended by qwen_write_end. */
	int		 lines;
	/*
	 * Do not flush at record ends: the caller calls qwen_writer_flush
	 * before it waits for anything.  For many small records at speed.
	 */
	int		 buffered;
};

struct qwen_writer;

/* opts may be NULL.  fd stays the caller's. */
int qwen_writer_open(struct qwen_writer **out, int fd,
    const struct qwen_writer_opts *opts, struct qwen_err *err);

/* Free without flushing, for the way out after an error. */
void qwen_writer_free(struct qwen_writer *w);

/* Flush, free; -1 if the flush failed (freed all the same). */
int qwen_writer_close(struct qwen_writer *w, struct qwen_err *err);
int qwen_writer_flush(struct qwen_writer *w, struct qwen_err *err);

/*
 * Each writes one record (long runs of tokens: several) and flushes it.  In
 * formats that have no place for a record (a header in TEXT, say) it
 * writes nothing and succeeds.  A reader that went away is QWEN_EPIPE.
 */
int qwen_write_header(struct qwen_writer *w, const struct qwen_header *h,
    struct qwen_err *err);
int qwen_write_tokens(struct qwen_writer *w, const int32_t *ids, size_t n,
    struct qwen_err *err);
int qwen_write_end(struct qwen_writer *w, struct qwen_err *err);

int qwen_write_mark(struct qwen_writer *w, const char *name,
    struct qwen_err *err);

/*
 * Whether the n bytes can be the name of a mark: 1 to QWEN_MARK_MAX bytes of
 * UTF-8 without NUL.  -1 and QWEN_ERANGE if not.
 */
int qwen_mark_check(const char *name, size_t n, struct qwen_err *err);
int qwen_write_logits(struct qwen_writer *w, uint64_t pos, const float *logits,
    size_t n, struct qwen_err *err);

/*
 * The k best of the row of n logits (best first, equal ones by id), and the
 * logarithm of the sum of exp over all n, so that probabilities stay right.
 */
int qwen_write_top(struct qwen_writer *w, uint64_t pos, const float *logits,
    size_t n, size_t k, struct qwen_err *err);
int qwen_write_ready(struct qwen_writer *w, const char *path,
    uint64_t n_tokens, const struct qwen_fp *fp, struct qwen_err *err);

/*
 * One complete CBOR item as it is, of at most QWEN_STATE_MAX bytes: a record of
 * a stream of state.  It must not be a map that begins with the key "qwen",
 * which is what a header is.  CBOR only.
 */
int qwen_write_state(struct qwen_writer *w, const void *item, size_t n,
    struct qwen_err *err);

/* ------------------------------------------------------------------- state */

/*
 * A session in a stream or a file: one format for both, qwen-state(5).  Every
 * byte is under a checksum; what is read is accepted whole or not at all.
 */

/* Tokens pos .. pos + n - 1 were generated; all others are from prompts. */
struct qwen_generated {
	uint64_t	 pos, n;
};

/*
 * A run: tokens that one command generates, however often it is interrupted.
 * A state that ends with its tokens can tell of it, so that it can be gone
 * on with; tokens behind it end that, and the run is forgotten when saved.
 */
struct qwen_run {
	char		*options;	/* all that decides about its tokens and
					   their number, "n=100 temp=0.7"; NULL:
					   there is no run; owned */
	uint64_t	 from;		/* position of its first token */
	uint64_t	 count;		/* so many so far: from + count is the
					   end of the state */
	uint64_t	 input;		/* the last tokens before it that came
					   with the command, not with a state */
	int		 finished;	/* there will be no more */
	int		 again;		/* asked for as a new one, though one
					   like it may have been there */
	int		 has_base;	/* fingerprint of the state that it and */
	struct qwen_fp	 base;		/* its input were appended to */
};

/* What a state holds beside the session: how its text was made. */
struct qwen_state_extra {
	char		*sampler;	/* options as qwen_sampler_describe
					   writes them, or NULL; owned */
	struct qwen_generated *generated;	/* ascending, apart; owned */
	size_t		 n_generated;
	char		 memory[QWEN_SAMPLER_MEMORY];	/* of the sampler, as
					   qwen_sampler_save writes it */
	unsigned char	 pending[4];	/* the last token's bytes of a UTF-8
					   character that is not complete */
	size_t		 n_pending;
	struct qwen_run	 run;
};

/* Free what x owns and make it empty; an empty one is all zero. */
void qwen_state_extra_fini(struct qwen_state_extra *x);

/* Note the options of the sampler, but not its memory. */
int qwen_state_extra_sampler(struct qwen_state_extra *x,
    const struct qwen_sampler *s, struct qwen_err *err);

/* Note that the n tokens from pos on, behind all noted so far, are generated. */
int qwen_state_extra_generated(struct qwen_state_extra *x, uint64_t pos,
    uint64_t n, struct qwen_err *err);

/* Note a copy of the run, or with NULL that there is none. */
int qwen_state_extra_run(struct qwen_state_extra *x,
    const struct qwen_run *run, struct qwen_err *err);

/*
 * qwen_sampler_accept of the n tokens of a session, each as a token from the
 * prompt or a generated one, and qwen_sampler_restore of the memory.
 */
int qwen_state_extra_replay(const struct qwen_state_extra *x,
    struct qwen_sampler *s, const int32_t *tokens, size_t n,
    struct qwen_err *err);

/*
 * A part holds what a chain of states needs from one position to another; see
 * qwen_state_restore.  One is written where from or no_recurrent is set.
 */
struct qwen_state_opts {
	int		no_compress;	/* the form whose data is aligned */
	/* Tokens and KV cache, and checkpoints, from this position on. */
	uint64_t	from;
	/*
	 * As the session was at this checkpoint (without recurrent state: at
	 * any position); 0: at its end.
	 */
	uint64_t	to;
	int		no_checkpoints;	/* only the end */
	int		no_recurrent;	/* no recurrent state and no logits at
					   the end: tokens and KV alone */
};

/*
 * Write header and records of the session's state.  x and opts may be NULL.  *fp
 * (which may be NULL) becomes its fingerprint, as in the end record: another
 * state has another one.  Encodes on the model's threads.  Checkpoints that
 * were left in a file of state are copied from there.
 */
int qwen_state_save(const struct qwen_session *s,
    const struct qwen_state_extra *x, struct qwen_writer *w,
    const struct qwen_state_opts *opts, struct qwen_fp *fp,
    struct qwen_err *err);

/*
 * A new session, and *x and *fp (each may be NULL), from a stream of state of
 * which the header was just read.  Reads to the end record, not beyond; the
 * caller goes on with qwen_reader_next.  QWEN_EMISMATCH, with both sides named,
 * if the state is of another model, vocabulary or numerics version.
 */
int qwen_state_load(struct qwen_session **out, struct qwen_state_extra *x,
    struct qwen_model *m, struct qwen_reader *r,
    const struct qwen_record *header, struct qwen_fp *fp,
    struct qwen_err *err);

/*
 * The same from a file, which must hold nothing else.  want (may be NULL) is
 * the fingerprint that it must have.  Messages do not name the file.
 */
int qwen_state_load_file(struct qwen_session **out, struct qwen_state_extra *x,
    struct qwen_model *m, const char *path, const struct qwen_fp *want,
    struct qwen_err *err);

/*
 * The tokens of a state in a file, without a model; what is not needed for them
 * is not read.  *tokens is malloc'd; x and fp may be NULL.
 */
int qwen_state_load_tokens(int32_t **tokens, size_t *n,
    struct qwen_state_extra *x, struct qwen_header *header, const char *path,
    struct qwen_fp *fp, struct qwen_err *err);

/* Fingerprint of the n first tokens of a timeline, which parts are bound to. */
void qwen_state_prefix(const int32_t *tokens, size_t n, struct qwen_fp *out);

/* ------------------------------------------------------ files of state */

/*
 * A state, or a part of one, in a seekable file, opened by its index: tokens,
 * extras and the list of blocks are read and checked; the data of blocks only
 * when they are used, each with its own check.  The descriptor is held, so a
 * file that is renamed over it changes nothing.
 */
struct qwen_state_file;

int qwen_state_open(struct qwen_state_file **out, const char *path,
    struct qwen_err *err);

/* Sessions that need it go on holding it. */
void qwen_state_close(struct qwen_state_file *f);

/* Shape of a layer, as the file says. */
struct qwen_state_layer {
	int		 kv;	/* attention; else DeltaNet */
	uint64_t	 n[5];	/* n_head_kv, n_embd_head;
				   or n_head_v, dk, dv, rows, channels */
};

struct qwen_state_info {
	struct qwen_header header;
	struct qwen_fp	 fp;		/* of the state */
	int		 part;
	uint64_t	 from;		/* where the part begins, or 0 */
	struct qwen_fp	 prefix;	/* of a part: qwen_state_prefix of the
					   tokens before it */
	uint64_t	 n_tokens;	/* the end, as absolute position */
	const int32_t	*tokens;	/* n_tokens - from of them */
	const struct qwen_checkpoint *checkpoints;	/* ascending, */
	size_t		 n_checkpoints;			/* before the end */
	int		 recurrent;	/* it can be gone on from at the end */
	int		 named;		/* the end is named */
	int		 logits;	/* those at the end are there */
	int		 mapped;	/* without compression, aligned */
	uint64_t	 stored, raw;	/* bytes */
	size_t		 n_blocks;
	const struct qwen_state_layer *layers;
	size_t		 n_layers;
	const struct qwen_state_extra *extra;
};

/* All pointers live as long as f. */
const struct qwen_state_info *qwen_state_info(const struct qwen_state_file *f);

struct qwen_state_block {
	const char	*kind;		/* "kv", "delta", ... */
	int64_t		 layer, at;	/* -1: none */
	uint64_t	 off, len;	/* bytes of its object */
	uint64_t	 offset, bytes;	/* in the file, framing included */
	const char	*codec;		/* "" : no data */
};

void qwen_state_block(const struct qwen_state_file *f, size_t i,
    struct qwen_state_block *out);

/*
 * The n = len bytes that block i stands for, checked and decoded; valid until
 * the next call.
 */
int qwen_state_block_read(struct qwen_state_file *f, size_t i,
    const unsigned char **raw, size_t *n, struct qwen_err *err);

/*
 * Read, check and decode every block of the file (a part is welcome), without a
 * model, on so many threads (0: one for each processor).  Messages name the
 * first bad block.
 */
int qwen_state_verify(const char *path, int n_threads, struct qwen_err *err);

/*
 * Write the state in a file again, without the model: cut to its first opts->to
 * tokens, which must be a checkpoint or (0) its end, with or without
 * checkpoints and compression, as opts (which may be NULL) says; the rest of
 * opts is not looked at.  What need not change is copied as it is stored.
 * Bytes of an incomplete character at a checkpoint are not known.  *fp may be
 * NULL.  QWEN_EUNSUP if the file holds a part.
 */
int qwen_state_copy(struct qwen_state_file *f, struct qwen_writer *w,
    const struct qwen_state_opts *opts, struct qwen_fp *fp,
    struct qwen_err *err);

/*
 * A session of the longest state with at most n_max tokens (SIZE_MAX: all) that
 * a chain of files holds: one state, or parts in order, the first from 0, each
 * from where the one before ends and with its tokens for prefix.  It ends at
 * the end of a file or at a checkpoint (without recurrent state: anywhere);
 * there may be none, then at 0.  Blocks that are not needed are not read.
 * want_logits as in qwen_session_rewind.  Checkpoints before the end are left
 * in the files until they are needed.  The KV cache of the mapped form is used
 * in place, by a private mapping.  *x (may be NULL) is of the file in which it
 * ends; cut with the rest where it ends before that file does.  QWEN_EMISMATCH
 * as in qwen_state_load.
 */
int qwen_state_restore(struct qwen_session **out, struct qwen_state_extra *x,
    struct qwen_model *m, struct qwen_state_file *const *chain, size_t n_chain,
    size_t n_max, int want_logits, struct qwen_err *err);

/* ------------------------------------------------------------ prefix store */

/*
 * A folder of states by the tokens that led to them, qwen-store(5): any number
 * of processes find the longest prefix of a prompt in it and add their own.
 * Damage, races, a full disk or a folder that cannot be read or written never
 * fail: they mean a shorter prefix, or none, and one warning.
 */
struct qwen_store;

struct qwen_store_opts {
	const char	*dir;
	uint64_t	 max;	/* bytes of all files, 0: no limit */
	/* At most once; msg does not name the folder.  May be NULL. */
	void		(*warn)(void *arg, const char *msg);
	void		*arg;
};

/* Makes the folder if it is not there; its parent must be. */
int qwen_store_open(struct qwen_store **out, const struct qwen_store_opts *o,
    struct qwen_err *err);
void qwen_store_close(struct qwen_store *st);

/*
 * A session of the longest prefix of the n tokens that is stored, with its
 * logits if it is all n; *out is NULL if there is none.  -1 only for want of
 * memory and the like.
 */
int qwen_store_restore(struct qwen_store *st, struct qwen_session **out,
    struct qwen_model *m, const int32_t *tokens, size_t n,
    struct qwen_err *err);

/* How long it would be, for the model of this header of a state. */
int qwen_store_find(struct qwen_store *st, const struct qwen_header *model,
    const int32_t *tokens, size_t n, size_t *len, struct qwen_err *err);

/*
 * Store the session at its end and its checkpoints, as far as that is not done
 * yet, and remove what has not been used for the longest time until the
 * limit is kept.
 */
int qwen_store_insert(struct qwen_store *st, const struct qwen_session *s,
    struct qwen_err *err);

/*
 * All files.  A run of tokens is followed by the checkpoint at its end, then
 * by the runs that go on from there; models ascend by fingerprint.
 */
enum qwen_store_kind {
	QWEN_STORE_KV,		/* the KV cache of a run of tokens */
	QWEN_STORE_CHECKPOINT,	/* recurrent state and logits at its end */
};

struct qwen_store_entry {
	enum qwen_store_kind kind;
	struct qwen_fp	 model, vocab;
	uint32_t	 numerics;
	struct qwen_fp	 prefix;	/* hash of the first end tokens */
	uint64_t	 from, end;	/* the run; checkpoint: from = end */
	size_t		 depth;		/* runs before it */
	int		 orphan;	/* what it goes on from is not there */
	uint64_t	 bytes;
	int64_t		 used;		/* last, seconds since 1970 */
	const char	*path;		/* of the file, below dir */
};

struct qwen_store_list;

int qwen_store_list(struct qwen_store_list **out, struct qwen_store *st,
    struct qwen_err *err);
size_t qwen_store_list_n(const struct qwen_store_list *l);
const struct qwen_store_entry *qwen_store_list_at(
    const struct qwen_store_list *l, size_t i);
void qwen_store_list_free(struct qwen_store_list *l);

struct qwen_store_gc_result {
	uint64_t	 files, bytes;			/* that were removed */
	uint64_t	 left_files, left_bytes;	/* that are still there */
};

/*
 * Remove orphans and temporaries older than an hour, and what has not been
 * used for the longest time until all files take at most max bytes (0: no
 * limit).  out may be NULL.
 */
int qwen_store_gc(struct qwen_store *st, uint64_t max,
    struct qwen_store_gc_result *out, struct qwen_err *err);

/*
 * Read all files and compare them with their checks and names.  bad is told
 * the path (below dir) and the matter of each that is not as it should be; it
 * is removed if remove is set.  *files, and *n_bad of them.
 */
struct qwen_store_verifier {
	void	(*bad)(void *arg, const char *path, const char *msg);
	void	(*progress)(void *arg, uint64_t bytes);	/* may be NULL */
	void	*arg;
	int	 remove;
	int	 n_threads;	/* as in qwen_state_verify */
};

int qwen_store_verify(struct qwen_store *st,
    const struct qwen_store_verifier *v, uint64_t *files, uint64_t *n_bad,
    struct qwen_err *err);

/*
 * Remove the runs and checkpoints of which the prefix, or the model, begins
 * with these hexadecimal digits, and all that goes on from them; NULL: all
 * there is.  QWEN_ERANGE if nothing does, or if the digits fit several prefixes
 * or models.  Of *out, only what was removed is filled in.
 */
int qwen_store_remove(struct qwen_store *st, const char *digits,
    struct qwen_store_gc_result *out, struct qwen_err *err);

/* -------------------------------------------------------- batches of work */

/*
 * Many texts to be gone on with, on one model.  As many of them as there is
 * room for are under way at the same time, in common passes over the weights:
 * one that is finished leaves, and the next one enters at once; parts of new
 * prompts go along with the tokens that the others generate.  What several
 * prompts begin with is read once.  The tokens of a job are those it gets
 * alone, whatever else there is, and however little memory.
 */
struct qwen_work;

struct qwen_work_opts {
	struct qwen_model *model;
	struct qwen_cache *cache;	/* of this model */
	size_t		 n_sequences;	/* at the same time; 0: a default */
	size_t		 n_pass;	/* tokens in a pass, about; 0: likewise.
					   Never changes a result */
	struct qwen_store *store;	/* where beginnings may be, and go; or
					   NULL */
};

/* A token that was chosen. */
struct qwen_choice {
	int32_t		 id;
	size_t		 n;		/* how many there are now */
	/* if asked for, of the row before penalties and temperature: */
	double		 logprob;	/* natural logarithm */
	const struct qwen_sample_top *top;
	size_t		 n_top;
};

enum qwen_job_end {
	QWEN_JOB_ENDING,	/* the last token is one that ends texts */
	QWEN_JOB_ENOUGH,	/* the callback said so */
	QWEN_JOB_LENGTH,	/* there are max, or the context is full; or all
				   scores were told */
	QWEN_JOB_FAILED,
};

enum { QWEN_JOB_TOP_MAX = 64 };

/* How likely a given token was after those before it. */
struct qwen_score {
	size_t		 at;		/* its place in the job's tokens */
	double		 logprob;	/* as of qwen_logprob */
	size_t		 rank;		/* likewise */
	/* until the callback returns: */
	const float	*logits;	/* the row */
	const struct qwen_sample_top *top;	/* the best of it, if asked for */
	size_t		 n_top;
};

struct qwen_job {
	const int32_t	*tokens;	/* the prompt, at least one; copied */
	size_t		 n;
	size_t		 max;		/* tokens to generate, at least 1 */
	/*
	 * How they are chosen: not begun yet; the job's from now on, if it is
	 * accepted.  NULL: always the best one.
	 */
	struct qwen_sampler *sampler;
	const int32_t	*ending;	/* tokens that end the text; borrowed */
	size_t		 n_ending;
	int		 logprobs;	/* wanted, and so many of the best */
	size_t		 n_top;		/* too */
	/*
	 * Called for each token, in order; 1: no more of them.  c lives
	 * until it returns.
	 */
	int	(*token)(void *arg, const struct qwen_choice *c);
	/*
	 * If not NULL nothing is generated: it is called for each of the tokens
	 * from .. n - 1, in order, from being at least 1 and below n, with
	 * n_top of the best; of max, sampler, ending, logprobs and token no use
	 * is made.
	 */
	void	(*score)(void *arg, const struct qwen_score *s);
	size_t		 from;
	/* Called once; err (else NULL) tells why it failed. */
	void	(*end)(void *arg, enum qwen_job_end why,
		    const struct qwen_err *err);
	void	*arg;
};

int qwen_work_new(struct qwen_work **out, const struct qwen_work_opts *o,
    struct qwen_err *err);
void qwen_work_free(struct qwen_work *w);

/*
 * Add a job to the queue.  -1 if it cannot be done: QWEN_ERANGE for a token
 * outside the vocabulary or a prompt that fills the context, QWEN_EFULL for
 * one that the cache has not room for even alone.
 */
int qwen_work_add(struct qwen_work *w, const struct qwen_job *job,
    struct qwen_err *err);

/* Jobs that have not ended; of these, those not under way. */
size_t qwen_work_n_jobs(const struct qwen_work *w);
size_t qwen_work_n_waiting(const struct qwen_work *w);

/*
 * Go on by one pass.  1, or 0 if there is nothing to do.  What goes wrong with
 * a job ends that job; -1 is for what ends the work.
 */
int qwen_work_step(struct qwen_work *w, struct qwen_err *err);

struct qwen_work_stats {
	uint64_t	 n_passes;
	uint64_t	 read;		/* tokens of prompts that were read */
	uint64_t	 shared;	/* that others had read */
	uint64_t	 stored;	/* that were in the store */
	uint64_t	 chosen;	/* tokens generated */
	uint64_t	 scored;	/* tokens of which scores were told */
	uint64_t	 preempted;	/* jobs that had to make room, */
	uint64_t	 again;		/* and tokens read again for them */
	uint64_t	 max_sequences;	/* under way at the same time */
	uint64_t	 max_bytes;	/* of the cache in use */
	double		 wasted;	/* share of the KV blocks' positions
					   that hold nothing, mean of passes */
	double		 pass_s;	/* seconds in passes alone */
};

void qwen_work_stats(const struct qwen_work *w, struct qwen_work_stats *out);

#ifdef __cplusplus
}
#endif

#endif
