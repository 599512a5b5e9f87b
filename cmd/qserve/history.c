/* SPDX-License-Identifier: ISC */
/*
 * history.c - remember the token ids of generated texts.
 *
 * An entry has a hash of the prompt's ids, a hash of the generated text, and
 * its ids.  In a new prompt, generated text is looked up in each turn, as far
 * from its start as earlier prompts ended.  Ids that the tokenizer gives too
 * are not kept.
 */
#include <sys/stat.h>

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

#include "base/cursor.h"
#include "base/err.h"
#include "base/mem.h"
#include "qserve.h"

enum {
	BUCKETS = 4096,		/* a power of two */
	TURN_LENGTHS = 8,	/* lengths of last turns to look for */
	IDS_MAX = 8 << 20,	/* ids of all entries; the oldest are dropped */
	HEAD = 64,		/* bytes of a file entry before its ids */
	FILE_MAX = 64 << 20,	/* bytes; a larger file is rewritten */
	DAMAGES_MAX = 100,	/* damaged places after which reading stops */
};

#define MAGIC "qserveid"

struct entry {
	struct entry	*next;		/* in the bucket */
	struct entry	*younger;
	unsigned char	 key[16], text[16];
	uint64_t	 n_bytes, turn_bytes;
	size_t		 n;
	int32_t		 ids[];
};

struct qserve_history {
	const struct qwen_tok	*tok;
	struct qwen_tok_decoder	*spell;
	struct qwen_tok_decoder	*plain;		/* hides control tokens */
	struct qwen_fp		 vocab;
	struct entry		*bucket[BUCKETS];
	struct entry		*oldest, *youngest;
	size_t			 n_ids;		/* in all entries */
	uint64_t		 turn_bytes[TURN_LENGTHS]; /* of last turns */
	int			 fd;
	char			*path;
};

/* ------------------------------------------------------------------- hashes */

/* A running hash of ids. */
struct hashing {
	XXH3_state_t	*s, *copy;
	size_t		 n;
};

static void
hash_fini(struct hashing *x)
{
	XXH3_freeState(x->s);
	XXH3_freeState(x->copy);
}

static int
hash_init(struct hashing *x, const struct qwen_fp *vocab)
{
	*x = (struct hashing){ XXH3_createState(), XXH3_createState(), 0 };
	if (x->s == NULL || x->copy == NULL) {
		hash_fini(x);
		return -1;
	}
	XXH3_128bits_reset(x->s);
	XXH3_128bits_update(x->s, vocab, sizeof *vocab);
	return 0;
}

static void
put_hash(unsigned char out[16], XXH128_hash_t h)
{
	XXH128_canonicalFromHash((XXH128_canonical_t *)out, h);
}

static void
hash_ids(XXH3_state_t *s, const int32_t *ids, size_t n)
{
	unsigned char b[4];
	size_t i;

	for (i = 0; i < n; i++) {
		qwen_put_le32(b, (uint32_t)ids[i]);
		XXH3_128bits_update(s, b, sizeof b);
	}
}

/* Hash all ids, of which x already contains the first ones, and n more. */
static void
hash(struct hashing *x, const struct qwen_ids *all, const int32_t *more,
    size_t n, unsigned char key[16])
{
	hash_ids(x->s, all->id + x->n, all->n - x->n);
	x->n = all->n;
	XXH3_copyState(x->copy, x->s);
	hash_ids(x->copy, more, n);
	put_hash(key, XXH3_128bits_digest(x->copy));
}

static struct entry **
bucket(struct qserve_history *h, const unsigned char key[16])
{
	return &h->bucket[qwen_le32(key) % BUCKETS];
}

/* ------------------------------------------------------------------ entries */

/*
 * Return 1 if all ids are in the vocabulary and are text.  A generated control
 * token comes back as text, since in prompts only the template writes them.
 */
static int
are_text(struct qserve_history *h, const int32_t *ids, size_t n)
{
	int32_t n_vocab = (int32_t)qwen_tok_n_vocab(h->tok);
	struct qwen_str piece;
	size_t i;

	for (i = 0; i < n; i++) {
		if (ids[i] < 0 || ids[i] >= n_vocab ||
		    qwen_tok_decoder_put(h->plain, ids[i], &piece, NULL) < 0 ||
		    piece.len == 0)
			return 0;
	}
	return 1;
}

static void
drop_oldest(struct qserve_history *h)
{
	struct entry *e = h->oldest, **at = bucket(h, e->key);

	while (*at != e)
		at = &(*at)->next;
	*at = e->next;
	h->oldest = e->younger;
	if (h->oldest == NULL)
		h->youngest = NULL;
	h->n_ids -= e->n;
	free(e);
}

/* Insert an entry, which h owns from now on. */
static void
insert(struct qserve_history *h, struct entry *e)
{
	struct entry **at = bucket(h, e->key);
	uint64_t *turn = h->turn_bytes;
	size_t i;

	e->next = *at;
	*at = e;
	e->younger = NULL;
	*(h->youngest != NULL ? &h->youngest->younger : &h->oldest) = e;
	h->youngest = e;
	h->n_ids += e->n;
	for (i = 0; i < TURN_LENGTHS - 1 && turn[i] != e->turn_bytes; i++)
		;
	memmove(turn + 1, turn, i * sizeof *turn);
	turn[0] = e->turn_bytes;
	while (h->n_ids > IDS_MAX)
		drop_oldest(h);
}

static int
begins(struct qwen_str s, size_t at, const char *with)
{
	size_t n = strlen(with);

	return s.len - at >= n && memcmp(s.s + at, with, n) == 0;
}

/*
 * Return 1 if the template ends the turn here, perhaps after the end tag of a
 * call: after the only allowed call, generation stops before that tag.
 */
static int
is_end(const struct qwen_prompt *p, size_t at)
{
	static const char *const ends[] = { "<|im_end|>",
	    "\n</tool_call><|im_end|>", "</tool_call><|im_end|>" };
	size_t i;

	for (i = 0; i < sizeof ends / sizeof ends[0]; i++) {
		if (begins(qwen_prompt_text(p), at, ends[i]))
			return memchr(qwen_prompt_own(p) + at, 0,
			    strlen(ends[i])) == NULL;
	}
	return 0;
}

/* Return an entry of this prompt whose text is at from and ends its turn. */
static const struct entry *
find_text(struct qserve_history *h, const unsigned char key[16],
    const struct qwen_prompt *p, size_t from)
{
	struct qwen_str s = qwen_prompt_text(p);
	const struct entry *e;
	unsigned char text[16];
	size_t to;

	for (e = *bucket(h, key); e != NULL; e = e->next) {
		if (memcmp(e->key, key, 16) != 0 || e->n_bytes > s.len - from)
			continue;
		to = from + (size_t)e->n_bytes;
		if (!is_end(p, to))
			continue;
		put_hash(text, XXH3_128bits(s.s + from, to - from));
		if (memcmp(e->text, text, 16) == 0)
			return e;
	}
	return NULL;
}

/* --------------------------------------------------------------------- file */

static void
encode_entry(const struct entry *e, struct qwen_text *t)
{
	unsigned char head[HEAD] = MAGIC, b[8];
	size_t i, from = t->n;

	qwen_put_le64(head + 8, e->n);
	qwen_put_le64(head + 16, e->n_bytes);
	qwen_put_le64(head + 24, e->turn_bytes);
	memcpy(head + 32, e->key, 16);
	memcpy(head + 48, e->text, 16);
	qwen_text_add(t, head, sizeof head);
	for (i = 0; i < e->n; i++) {
		qwen_put_le32(b, (uint32_t)e->ids[i]);
		qwen_text_add(t, b, 4);
	}
	if (t->failed)
		return;
	qwen_put_le64(b, XXH3_64bits(t->s + from, t->n - from));
	qwen_text_add(t, b, 8);
}

/* Read an entry: its bytes; 0 if it is damaged or not an entry. */
static size_t
decode_entry(struct qserve_history *h, const unsigned char *p, size_t left)
{
	struct entry *e;
	uint64_t n;
	size_t i, size;

	if (left < HEAD + 8 || memcmp(p, MAGIC, 8) != 0)
		return 0;
	n = qwen_le64(p + 8);
	if (n > IDS_MAX || n > (left - HEAD - 8) / 4)
		return 0;
	size = HEAD + 4 * (size_t)n;
	if (qwen_le64(p + size) != XXH3_64bits(p, size))
		return 0;
	e = cli_check_alloc(malloc(sizeof *e + (size_t)n * sizeof *e->ids));
	e->n = (size_t)n;
	e->n_bytes = qwen_le64(p + 16);
	e->turn_bytes = qwen_le64(p + 24);
	memcpy(e->key, p + 32, 16);
	memcpy(e->text, p + 48, 16);
	for (i = 0; i < e->n; i++)
		e->ids[i] = (int32_t)qwen_le32(p + HEAD + 4 * i);
	/* entries of another vocabulary never match: their keys differ */
	if (are_text(h, e->ids, e->n))
		insert(h, e);
	else
		free(e);
	return size + 8;
}

static void
give_up(struct qserve_history *h, const char *why)
{
	cli_note("%s: %s; generated tokens are not kept there", h->path, why);
	if (h->fd != -1)
		close(h->fd);
	h->fd = -1;
}

/*
 * Read all entries, up to *end; return how many places before it are damaged.
 */
static int
read_entries(struct qserve_history *h, const char *s, size_t n, size_t *end)
{
	int damages = 0, between = 0;
	size_t at = 0, got;

	*end = 0;
	while (at < n && damages < DAMAGES_MAX) {
		got = decode_entry(h, (const unsigned char *)s + at, n - at);
		if (got > 0) {
			*end = at += got;
			between = damages;
			continue;
		}
		/* go to the magic of the next entry */
		for (at++; at < n && (n - at < 8 || memcmp(s + at, MAGIC, 8) !=
		    0); at++)
			;
		damages++;
	}
	return between;
}

/* Read the file; remove an incomplete end and damaged places. */
static void
read_file(struct qserve_history *h)
{
	struct qwen_text t = { 0 };
	const struct entry *e;
	size_t n, end;
	int damaged;
	char *s = cli_read_fd(h->fd, h->path, CLI_FILE_MAX, &n);

	if (n > 0 && memcmp(s, MAGIC, n < 8 ? n : 8) != 0) {
		give_up(h, "another kind of file, left unchanged");
		free(s);
		return;
	}
	damaged = read_entries(h, s, n, &end);
	free(s);
	if (damaged > 0)
		cli_note("%s: damaged entries were dropped; the others are "
		    "kept", h->path);
	else if (end < n && ftruncate(h->fd, (off_t)end) == -1)
		give_up(h, strerror(errno));
	if ((n < FILE_MAX && damaged == 0) || h->fd == -1)
		return;
	for (e = h->oldest; e != NULL; e = e->younger)
		encode_entry(e, &t);
	close(h->fd);
	if (cli_replace_file(h->path, &t, &cli_err) < 0)
		cli_note("%s: %s", h->path, cli_err.msg);
	qwen_text_fini(&t);
	h->fd = open(h->path, O_RDWR | O_APPEND | O_NOFOLLOW | O_CLOEXEC);
}

/*
 * Return why the file is not safe (another user may have put it there) or NULL.
 */
static const char *
is_not_ours(int fd)
{
	struct stat st;

	if (fd == -1)
		return errno == ELOOP ? "a symbolic link" : strerror(errno);
	if (fstat(fd, &st) == -1)
		return strerror(errno);
	return !S_ISREG(st.st_mode) || st.st_size > CLI_FILE_MAX ?
	    "not a regular file, or too large" : st.st_uid != geteuid() ?
	    "owned by another user" : st.st_nlink != 1 ?
	    "has more than one name (hard link)" : NULL;
}

void
qserve_history_open(struct qserve_history **out, const char *store,
    const struct qwen_tok *tok, struct qwen_tok_decoder *spell,
    const struct qwen_fp *vocab)
{
	struct qserve_history *h = *out = cli_check_alloc(calloc(1, sizeof *h));
	const char *wrong;

	h->tok = tok;
	h->spell = spell;
	h->vocab = *vocab;
	h->fd = -1;
	cli_must(NULL, qwen_tok_decoder_new(&h->plain, tok, QWEN_TOK_BYTES,
	    &cli_err));
	if (store == NULL)
		return;
	h->path = cli_format("%s/qserve.ids", store);
	/* the engine may create it later */
	mkdir(store, 0777);
	h->fd = open(h->path, O_RDWR | O_APPEND | O_CREAT | O_NOFOLLOW |
	    O_NONBLOCK | O_CLOEXEC, 0600);
	if ((wrong = is_not_ours(h->fd)) != NULL)
		give_up(h, wrong);
	else
		read_file(h);
}

/* ----------------------------------------------------------------- encoding */

/* A prompt being encoded. */
struct encoding {
	const struct qwen_tok	*tok;
	const struct qwen_prompt *p;
	struct qserve_prompt	*about;
	size_t			 keep_at[QSERVE_KEEP_MAX];	/* in bytes */
	size_t			 n_keep;
	struct qwen_ids		*out;
	size_t			 cap;
	size_t			 at;	/* byte up to which out has ids */
	struct qwen_err		*err;
};

static int
push(struct encoding *x, const int32_t *ids, size_t n)
{
	if (qwen_grow(&x->out->id, &x->cap, x->out->n + n + 1, sizeof *ids) < 0)
		return qwen_oom(x->err);
	if (n > 0)
		memcpy(x->out->id + x->out->n, ids, n * sizeof *ids);
	x->out->n += n;
	return 0;
}

/* Encode up to byte `to' with the tokenizer. */
static int
encode_part(struct encoding *x, size_t to)
{
	int32_t *ids;
	size_t n;
	int rc;

	if (qwen_prompt_encode(x->p, x->tok, x->at, to, &ids, &n, x->err) < 0)
		return -1;
	rc = push(x, ids, n);
	free(ids);
	x->at = to;
	return rc;
}

/* The same, recording the positions to keep on the way. */
static int
encode_to(struct encoding *x, size_t to)
{
	struct qserve_prompt *about = x->about;
	size_t i;

	for (i = 0; i < x->n_keep; i++) {
		if (x->keep_at[i] <= x->at || x->keep_at[i] > to)
			continue;
		if (encode_part(x, x->keep_at[i]) < 0)
			return -1;
		if (x->out->n > 0 && (about->n_keep == 0 ||
		    about->keep[about->n_keep - 1] < x->out->n))
			about->keep[about->n_keep++] = x->out->n;
	}
	return x->at < to ? encode_part(x, to) : 0;
}

/* Encode a known answer that begins at from: 1, 0 if none begins there, or -1. */
static int
encode_answer(struct qserve_history *h, struct encoding *x,
    struct hashing *hashes, size_t from)
{
	const struct entry *e;
	unsigned char key[16];
	int32_t *ids;
	size_t n;
	int rc = 0;

	if (qwen_prompt_encode(x->p, x->tok, x->at, from, &ids, &n, x->err) < 0)
		return -1;
	hash(hashes, x->out, ids, n, key);
	if ((e = find_text(h, key, x->p, from)) != NULL) {
		rc = push(x, ids, n) < 0 || push(x, e->ids, e->n) < 0 ? -1 : 1;
		x->at = from + (size_t)e->n_bytes;
	}
	free(ids);
	return rc;
}

/* Encode a turn with its generated ids, if known. */
static int
encode_turn(struct qserve_history *h, struct encoding *x,
    struct hashing *hashes, size_t turn, size_t next)
{
	size_t from, i;
	int rc = encode_to(x, turn);

	for (i = 0; rc == 0 && i < TURN_LENGTHS && h->turn_bytes[i] > 0; i++) {
		from = turn + (size_t)h->turn_bytes[i];
		if (from < next)
			rc = encode_answer(h, x, hashes, from);
	}
	return rc < 0 ? -1 : 0;
}

static int
encode_turns(struct qserve_history *h, struct encoding *x)
{
	size_t len = qwen_prompt_text(x->p).len, turn, next;
	struct hashing hashes;
	int rc = 0;

	if (hash_init(&hashes, &h->vocab) < 0)
		return qwen_oom(x->err);
	for (turn = qwen_prompt_turn(x->p, 0); rc == 0 && turn < len &&
	    h->oldest != NULL; turn = next) {
		next = qwen_prompt_turn(x->p, turn + 1);
		if (next < len)
			rc = encode_turn(h, x, &hashes, turn, next);
	}
	if (rc == 0)
		rc = encode_to(x, len);
	if (rc == 0)
		hash(&hashes, x->out, NULL, 0, x->about->key);
	hash_fini(&hashes);
	return rc;
}

/* -------------------------------------------------------- positions to keep */

/* Return 1 if s is one token: then text before it always has the same ids. */
static int
is_token(const struct qwen_tok *tok, const char *s)
{
	int32_t *ids;
	size_t n;

	if (qwen_tok_encode(tok, s, strlen(s), QWEN_TOK_SPECIAL, &ids, &n,
	    NULL) < 0)
		return 0;
	free(ids);
	return n == 1;
}

/*
 * Find where later prompts may differ: after the system turn with the tools; at
 * the last question; and at the answer's thought, which later prompts omit, or
 * its turn.
 */
static void
find_keep(struct encoding *x, size_t *last)
{
	static const char answer[] = "<|im_start|>assistant\n";
	struct qwen_str s = qwen_prompt_text(x->p);
	size_t turn = qwen_prompt_turn(x->p, 0), next, user = 0, after;

	*last = turn;
	if (turn < s.len && begins(s, turn, "<|im_start|>system\n") &&
	    (next = qwen_prompt_turn(x->p, turn + 1)) < s.len)
		x->keep_at[x->n_keep++] = next;
	for (; turn < s.len; turn = qwen_prompt_turn(x->p, turn + 1)) {
		*last = turn;
		if (begins(s, turn, "<|im_start|>user\n"))
			user = turn;
	}
	if (user > 0 && (x->n_keep == 0 || x->keep_at[0] < user))
		x->keep_at[x->n_keep++] = user;
	if (*last <= user || !begins(s, *last, answer))
		return;
	after = *last + sizeof answer - 1;
	x->keep_at[x->n_keep++] = begins(s, after, "<think>") &&
	    is_token(x->tok, "<think>") ? after : *last;
}

int
qserve_history_encode(struct qserve_history *h, const struct qwen_tok *tok,
    const struct qwen_prompt *p, struct qserve_prompt *about,
    struct qwen_ids *out, struct qwen_err *err)
{
	struct encoding x = { .tok = tok, .p = p, .about = about, .out = out,
	    .err = err };
	struct qwen_str s = qwen_prompt_text(p);
	size_t last;

	memset(about, 0, sizeof *about);
	*out = (struct qwen_ids){ NULL, 0 };
	find_keep(&x, &last);
	if (h != NULL ? encode_turns(h, &x) < 0 : encode_to(&x, s.len) < 0)
		return -1;
	if (last >= s.len)
		return 0;
	about->turn_bytes = s.len - last;
	if ((about->turn = malloc(about->turn_bytes)) == NULL)
		return qwen_oom(err);
	memcpy(about->turn, s.s + last, about->turn_bytes);
	return 0;
}

/* ---------------------------------------------------------------- generated */

/* Return 1 if the tokenizer gives the same ids for the text after the turn. */
static int
is_usual(const struct qserve_history *h, const struct qserve_prompt *about,
    const struct qwen_text *text, const int32_t *ids, size_t n)
{
	struct qwen_text all = { 0 };
	int32_t *turn = NULL, *both = NULL;
	size_t n_turn, n_both;
	int usual = 0;

	qwen_text_add(&all, about->turn, about->turn_bytes);
	qwen_text_add(&all, text->s, text->n);
	if (!all.failed &&
	    qwen_tok_encode(h->tok, about->turn, about->turn_bytes,
	    QWEN_TOK_SPECIAL, &turn, &n_turn, NULL) == 0 &&
	    qwen_tok_encode(h->tok, all.s, all.n, QWEN_TOK_SPECIAL, &both,
	    &n_both, NULL) == 0)
		usual = n_both == n_turn + n &&
		    memcmp(both, turn, n_turn * sizeof *turn) == 0 &&
		    memcmp(both + n_turn, ids, n * sizeof *ids) == 0;
	free(turn);
	free(both);
	qwen_text_fini(&all);
	return usual;
}

void
qserve_history_add(struct qserve_history *h,
    const struct qserve_prompt *about, const int32_t *ids, size_t n)
{
	struct qwen_text text = { 0 };
	struct qwen_str piece;
	struct entry *e;
	ssize_t got;
	size_t i;

	if (about->turn == NULL || n == 0 || n > IDS_MAX ||
	    !are_text(h, ids, n))
		return;
	for (i = 0; i < n && qwen_tok_decoder_put(h->spell, ids[i], &piece,
	    NULL) == 0; i++)
		qwen_text_add(&text, piece.s, piece.len);
	if (i < n || text.failed || text.n == 0 ||
	    is_usual(h, about, &text, ids, n) ||
	    (e = malloc(sizeof *e + n * sizeof *ids)) == NULL) {
		qwen_text_fini(&text);
		return;
	}
	memcpy(e->key, about->key, 16);
	put_hash(e->text, XXH3_128bits(text.s, text.n));
	e->n_bytes = text.n;
	e->turn_bytes = about->turn_bytes;
	e->n = n;
	memcpy(e->ids, ids, n * sizeof *ids);
	text.n = 0;
	/* append it to the file; a failure is only noted */
	if (h->fd != -1) {
		encode_entry(e, &text);
		got = text.failed ? 0 : write(h->fd, text.s, text.n);
		if (got != (ssize_t)text.n)
			give_up(h, got == -1 ? strerror(errno) :
			    "the file is full");
	}
	qwen_text_fini(&text);
	insert(h, e);
}
