/* SPDX-License-Identifier: ISC */
/*
 * split.h - the splitter of all Qwen pre-tokenizers.  Each includes this file
 * and sets the character classes W of a word.  It cuts text like the matches of
 *
 *   (?i:'s|'t|'re|'ve|'m|'ll|'d) | [^\r\n\p{L}\p{N}]?W+ | \p{N} |
 *    ?[^\s W \p{N}]+[\r\n]* | \s*[\r\n]+ | \s+(?!\S) | \s+
 *
 * A byte that is not UTF-8 is a character of class "other".
 */
#ifndef QWEN_TOKEN_SPLIT_H
#define QWEN_TOKEN_SPLIT_H

#include <stdint.h>

#include "text/token/load.h"
#include "text/token/pre.h"
#include "text/token/unicode.h"

/* Two more classes: the end of the text, and the end of the bytes so far. */
enum { SPLIT_END = QWEN_N_CLASSES, SPLIT_WAIT };

#define SPLIT_BIT(class) (1u << (class))
#define SPLIT_IN(set, class) (((set) >> (class) & 1) != 0)

struct split_text {
	const unsigned char	*p;
	size_t			 n;
	int			 final;
	unsigned		 word;	/* set of the classes of a word */
	unsigned		 punct;	/* set of the classes of punctuation */
	struct qwen_pre_resume	*r;
};

/*
 * split_at() for characters other than ASCII; not inlined, to keep the rest
 * fast.
 */
static unsigned __attribute__((noinline))
split_far(const struct split_text *t, size_t i, size_t *len)
{
	uint32_t c;
	int k;

	if (i >= t->n)
		return t->final ? SPLIT_END : SPLIT_WAIT;
	k = qwen_utf8_read(t->p + i, t->n - i, &c);
	if (k < 0 && !t->final)
		return SPLIT_WAIT;
	if (k <= 0) {
		*len = 1;
		return QWEN_CLASS_OTHER;
	}
	*len = (size_t)k;
	return qwen_unicode_class(c);
}

/* Returns the class of the character at i; *len is its length. */
static inline unsigned
split_at(const struct split_text *t, size_t i, size_t *len)
{
	if (i < t->n && t->p[i] < 0x80) {
		*len = 1;
		return qwen_unicode_ascii[t->p[i]];
	}
	return split_far(t, i, len);
}

/* Returns the number of ASCII letters at p, of the next 8 bytes. */
static inline unsigned
split_letters(const unsigned char *p)
{
	const uint64_t ones = 0x0101010101010101, tops = ones << 7;
	uint64_t x = qwen_load64(p), low = (x | ones * 0x20) & ~tops;
	uint64_t from_a = low + ones * (0x80 - 'a');
	uint64_t past_z = low + ones * (0x80 - 'z' - 1);
	uint64_t other = ~(from_a & ~past_z & ~x) & tops;

	return other == 0 ? 8 : (unsigned)__builtin_ctzll(other) / 8;
}

/* Returns the end of the ASCII letters at i. */
static inline size_t
split_ascii(const struct split_text *t, size_t i)
{
	unsigned k;

	while (i < t->n) {
		k = split_letters(t->p + i);
		i += k;
		if (k < 8)
			break;
	}
	return i < t->n ? i : t->n;
}

/* The bytes end at i, before the end of the piece at s: notes i, returns 0. */
static inline size_t
split_wait(const struct split_text *t, size_t s, size_t i)
{
	t->r->pos = i - s;
	return 0;
}

/* Returns the end of the word that began at s and has reached i. */
static inline size_t
split_word(const struct split_text *t, size_t s, size_t i)
{
	size_t len;
	unsigned c;

	if (i < s + t->r->pos)
		i = s + t->r->pos;
	for (;;) {
		i = split_ascii(t, i);
		c = split_at(t, i, &len);
		if (!SPLIT_IN(t->word, c))
			return c == SPLIT_WAIT ? split_wait(t, s, i) : i;
		i += len;
	}
}

/* Returns the end of the punctuation, with the line ends after it. */
static inline size_t
split_punct(const struct split_text *t, size_t s, size_t i)
{
	size_t len = 0;
	unsigned c;

	if (i < s + t->r->pos)
		i = s + t->r->pos;
	c = split_at(t, i, &len);
	if (t->p[i - 1] != '\n' && t->p[i - 1] != '\r') {
		while (SPLIT_IN(t->punct, c)) {
			i += len;
			c = split_at(t, i, &len);
		}
	}
	while (c == QWEN_CLASS_NEWLINE) {
		i += len;
		c = split_at(t, i, &len);
	}
	return c == SPLIT_WAIT ? split_wait(t, s, i) : i;
}

/*
 * Returns the end of a piece of white space.  A piece ends after the last line
 * end of the run.  If there is no line end, it is the whole run at the end of
 * the text, else the run without its last character, which may begin the next
 * piece.
 */
static inline size_t
split_space(const struct split_text *t, size_t s)
{
	size_t i = s + t->r->pos, nl = t->r->nl, last = t->r->last, len;
	unsigned c;

	while (c = split_at(t, i, &len),
	    c == QWEN_CLASS_SPACE || c == QWEN_CLASS_NEWLINE) {
		last = i - s;
		i += len;
		if (c == QWEN_CLASS_NEWLINE)
			nl = i - s;
	}
	if (c == SPLIT_WAIT) {
		t->r->nl = nl;
		t->r->last = last;
		return split_wait(t, s, i);
	}
	if (nl > 0)
		return s + nl;
	return c == SPLIT_END || last == 0 ? i : s + last;
}

/*
 * Returns the length of the contraction at the apostrophe at s; 0 if there is
 * none; *wait is set if more text must decide.  U+017F matches s when case is
 * ignored.
 */
static inline size_t
split_contraction(const struct split_text *t, size_t s, int *wait)
{
	const unsigned char *p = t->p + s + 1;
	size_t n = t->n - s - 1;
	unsigned a = n > 0 ? p[0] : 0, b = n > 1 ? p[1] : 0;

	*wait = 0;
	if (a == 0xc5 && b == 0xbf)
		return 3;
	if (a != 0xc5 && a < 0x80)
		a |= 0x20;
	if (n > 0 && (a == 's' || a == 't' || a == 'm' || a == 'd'))
		return 2;
	if (n > 1 && b < 0x80)
		b |= 0x20;
	if (n > 1 && ((a == 'r' && b == 'e') || (a == 'v' && b == 'e') ||
	    (a == 'l' && b == 'l')))
		return 3;
	*wait = !t->final && (n == 0 || (n == 1 &&
	    (a == 'r' || a == 'v' || a == 'l' || a == 0xc5)));
	return 0;
}

/* Returns the end of the piece at s; 0 if more text must decide. */
static inline size_t
split_piece(const struct split_text *t, size_t s)
{
	size_t i, len, next_len = 0, k;
	unsigned c = split_at(t, s, &len), next;
	int wait;

	if (SPLIT_IN(t->word, c))
		return split_word(t, s, s + len);
	if (t->p[s] == '\'') {
		k = split_contraction(t, s, &wait);
		if (k > 0 || wait)
			return wait ? 0 : s + k;
	}
	if (c == QWEN_CLASS_NUMBER)
		return s + len;
	if (c == SPLIT_WAIT)
		return 0;
	i = s + len;
	if (c != QWEN_CLASS_NEWLINE) {
		next = split_at(t, i, &next_len);
		if (SPLIT_IN(t->word, next))
			return split_word(t, s, i + next_len);
		if (next == SPLIT_WAIT)
			return 0;
		if (t->p[s] == ' ' && SPLIT_IN(t->punct, next))
			return split_punct(t, s, i + next_len);
	}
	if (SPLIT_IN(t->punct, c))
		return split_punct(t, s, i);
	return split_space(t, s);
}

static inline size_t
split_pieces(const struct split_text *t, size_t *ends, size_t max)
{
	static const struct qwen_pre_resume fresh;
	size_t s = 0, e, k;

	for (k = 0; k < max && s < t->n; k++) {
		e = split_piece(t, s);
		if (e == 0)
			break;
		if (k == 0)
			*t->r = fresh;
		ends[k] = s = e;
	}
	return k;
}

#endif
