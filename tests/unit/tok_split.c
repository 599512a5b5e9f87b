/* SPDX-License-Identifier: ISC */
/*
 * tok_split.c - where the pre-tokenizers split: the examples of tok_split.test,
 * and random text against a second splitter that tries the alternatives of the
 * regular expression one by one.
 */
#include "../cases.h"
#include "../tap.h"
#include "text/token/pre.h"
#include "text/token/unicode.h"
#include "tok_util.h"

enum { MAX = 4096 };

/* ----------------------------------------------- the expression, word by word */

struct chars {
	size_t		n;
	uint32_t	c[MAX];
	unsigned	cls[MAX];
	size_t		at[MAX + 1];	/* byte offset */
	int		marks;		/* are part of words */
};

static void
read_chars(struct chars *t, const unsigned char *p, size_t n, int marks)
{
	size_t i = 0;
	int len;

	t->n = 0;
	t->marks = marks;
	for (; i < n; i += (size_t)len, t->n++) {
		t->at[t->n] = i;
		len = qwen_utf8_read(p + i, n - i, &t->c[t->n]);
		if (len <= 0) {
			len = 1;
			t->c[t->n] = 0xfffd;
			t->cls[t->n] = QWEN_CLASS_OTHER;
		} else
			t->cls[t->n] = t->c[t->n] < 128 ?
			    qwen_unicode_ascii[t->c[t->n]] :
			    qwen_unicode_class(t->c[t->n]);
	}
	t->at[t->n] = n;
}

static int
is_letter(const struct chars *t, size_t i)
{
	return i < t->n && (t->cls[i] == QWEN_CLASS_LETTER ||
	    (t->marks && t->cls[i] == QWEN_CLASS_MARK));
}

static int
is_space(const struct chars *t, size_t i)
{
	return i < t->n && (t->cls[i] == QWEN_CLASS_SPACE ||
	    t->cls[i] == QWEN_CLASS_NEWLINE);
}

static int
is_newline(const struct chars *t, size_t i)
{
	return i < t->n && t->cls[i] == QWEN_CLASS_NEWLINE;
}

static int
is_number(const struct chars *t, size_t i)
{
	return i < t->n && t->cls[i] == QWEN_CLASS_NUMBER;
}

static int
is_punct(const struct chars *t, size_t i)
{
	return i < t->n && !is_letter(t, i) && !is_space(t, i) &&
	    !is_number(t, i);
}

/* 's 't 're 've 'm 'll 'd */
static size_t
contraction(const struct chars *t, size_t i)
{
	static const char *const tails[] = {
		"s", "t", "re", "ve", "m", "ll", "d",
	};
	size_t k, j, len;
	uint32_t c;

	if (t->c[i] != '\'')
		return 0;
	for (k = 0; k < 7; k++) {
		len = strlen(tails[k]);
		for (j = 0; j < len && i + 1 + j < t->n; j++) {
			c = t->c[i + 1 + j];
			c = c == 0x17f ? 's' : c >= 'A' && c <= 'Z' ?
			    c + 32 : c;
			if (c != (unsigned char)tails[k][j])
				break;
		}
		if (j == len)
			return 1 + len;
	}
	return 0;
}

static size_t
word(const struct chars *t, size_t i)
{
	size_t j = i, begin;

	if (!is_newline(t, i) && t->cls[i] != QWEN_CLASS_LETTER &&
	    !is_number(t, i) && is_letter(t, i + 1))
		j = i + 1;
	for (begin = j; is_letter(t, j); j++)
		;
	return j > begin ? j - i : 0;
}

static size_t
punct(const struct chars *t, size_t i)
{
	size_t j = i, begin;

	if (t->c[i] == ' ')
		j++;
	for (begin = j; is_punct(t, j); j++)
		;
	if (j == begin)
		return 0;
	while (is_newline(t, j))
		j++;
	return j - i;
}

static size_t
space(const struct chars *t, size_t i)
{
	size_t j, nl = 0;

	for (j = i; is_space(t, j); j++) {
		if (is_newline(t, j))
			nl = j + 1;
	}
	if (nl > 0)
		return nl - i;			/* \s*[\r\n]+ */
	if (j == t->n)
		return j - i;			/* \s+(?!\S) at the end */
	return j - i > 1 ? j - i - 1 : j - i;	/* \s+(?!\S), \s+ */
}

static size_t
split_slowly(const struct chars *t, size_t *ends)
{
	size_t i = 0, k, n = 0;

	while (i < t->n) {
		if ((k = contraction(t, i)) == 0 && (k = word(t, i)) == 0 &&
		    (k = is_number(t, i) ? 1 : 0) == 0 &&
		    (k = punct(t, i)) == 0)
			k = space(t, i);
		i += k;
		ends[n++] = t->at[i];
	}
	return n;
}

/* ------------------------------------------------------------------- examples */

static size_t
split_all(const struct qwen_pre *pre, const unsigned char *p, size_t n,
    size_t *ends)
{
	struct qwen_pre_resume r = { 0, 0, 0 };
	unsigned char *buf = calloc(1, n + QWEN_PRE_SLACK);

	if (buf == NULL)
		abort();
	if (n > 0)
		memcpy(buf, p, n);
	n = pre->split(buf, n, 1, &r, ends, MAX);
	free(buf);
	return n;
}

/* The pieces of text, with a bar between. */
static void
example(const struct qwen_pre *pre, const char *text, const char *want)
{
	static size_t ends[MAX];
	char got[256];
	size_t n, i, begin = 0, len = 0;

	n = split_all(pre, (const unsigned char *)text, strlen(text), ends);
	for (i = 0; i < n; i++) {
		len += (size_t)snprintf(got + len, sizeof got - len, "%s%.*s",
		    i > 0 ? "|" : "", (int)(ends[i] - begin), text + begin);
		begin = ends[i];
	}
	got[len] = '\0';
	if (!ok(strcmp(got, want) == 0, "%s: example %d", pre->name, tap_n))
		fprintf(stderr, "got %s\nwant %s\n", got, want);
}

static void
examples(void)
{
	static const struct qwen_pre *const pre[] = {
		&qwen_pre_qwen2, &qwen_pre_qwen35,
	};
	struct test_case c = { .n = 0 };
	FILE *f = case_open("unit/tok_split.test");
	int i;

	while (case_next(&c, f, " text qwen2 qwen35 ")) {
		for (i = 0; i < 2; i++)
			example(pre[i], case_str(&c, "text"),
			    case_str(&c, pre[i]->name));
	}
	fclose(f);
}

/* ----------------------------------------------------------------- random text */

/* Bits of text at which the alternatives meet. */
static size_t
random_text(uint64_t *seed, unsigned char *p, size_t max)
{
	static const char *const bits[] = {
		"a", "Z", "s", "t", "re", "VE", "ll", "d", "m", "'", "'", " ",
		" ", "  ", "\t", "\n", "\r", "\r\n", "\v", "1", "42", "!", ".",
		"--", "\xc3\xa9", "\xcc\x81", "\xe4\xb8\xad", "\xc5\xbf",
		"\xc2\xa0", "\xc2\x85", "\xe3\x80\x80", "\xe2\x80\xa8",
		"\xc2\xb2", "\xf0\x9f\xa6\x99", "\xe2\x80\x8d",
		"\xe0\xa4\xbf", "\xff", "\xe2", "\xe2\x82", "\x80", "\xed\xa0",
		"\xf4\x90\x80\x80", "\xcd\xb8", "\xf0\x9d\x9f\x98", "\x1c",
		"wordsoflengths", "_",
	};
	size_t n = 0, k, len, count = 1 + rnd(seed) % 40;
	const char *s;

	for (k = 0; k < count; k++) {
		s = bits[rnd(seed) % (sizeof bits / sizeof bits[0])];
		len = strlen(s);
		if (n + len > max)
			break;
		memcpy(p + n, s, len);
		n += len;
	}
	return n;
}

static int
same_as_slowly(const struct qwen_pre *pre, const unsigned char *p, size_t n)
{
	static struct chars t;
	static size_t want[MAX], got[MAX];
	size_t n_want, n_got;

	read_chars(&t, p, n, pre == &qwen_pre_qwen35);
	n_want = split_slowly(&t, want);
	n_got = split_all(pre, p, n, got);
	return n_got == n_want &&
	    memcmp(got, want, n_got * sizeof *got) == 0;
}

/* The same cuts when the text grows bit by bit, and none taken back. */
static int
same_in_parts(const struct qwen_pre *pre, const unsigned char *p, size_t n,
    uint64_t *seed)
{
	static size_t want[MAX], ends[MAX];
	static unsigned char buf[MAX + QWEN_PRE_SLACK];
	struct qwen_pre_resume r = { 0, 0, 0 };
	size_t n_want = split_all(pre, p, n, want), done = 0, pos = 0, have = 0;
	size_t k, i;

	while (done < n_want) {
		have += have < n ? 1 + rnd(seed) % (n - have) % 7 : 0;
		memset(buf, rnd(seed) % 2 ? 'x' : ' ', sizeof buf);
		memcpy(buf, p + pos, have - pos);
		k = pre->split(buf, have - pos, have == n, &r, ends,
		    1 + rnd(seed) % 3);
		for (i = 0; i < k; i++, done++) {
			if (pos + ends[i] != want[done])
				return 0;
		}
		pos += k > 0 ? ends[k - 1] : 0;
		if (k == 0 && have == n)
			return 0;
	}
	return pos == n;
}

static void
random_texts(const struct qwen_pre *pre)
{
	unsigned char text[1024];
	uint64_t seed = 35;
	int i, bad = 0, bad_parts = 0;
	size_t n;

	for (i = 0; i < 40000; i++) {
		n = random_text(&seed, text, sizeof text);
		bad += !same_as_slowly(pre, text, n);
		bad_parts += !same_in_parts(pre, text, n, &seed);
	}
	ok(bad == 0, "%s: 40000 random texts as by the expression (%d differ)",
	    pre->name, bad);
	ok(bad_parts == 0, "%s: and when they come in parts (%d differ)",
	    pre->name, bad_parts);
}

/* A piece that comes byte by byte is not read again for each. */
static void
slow_arrival(const char *what, const char *unit)
{
	const struct qwen_pre *pre = &qwen_pre_qwen35;
	struct qwen_pre_resume r = { 0, 0, 0 };
	size_t n = 400000, len = strlen(unit), i, ends[4], k = 0;
	unsigned char *p = malloc(n + QWEN_PRE_SLACK);

	if (p == NULL)
		abort();
	for (i = 0; i < n + QWEN_PRE_SLACK; i++)
		p[i] = (unsigned char)unit[i % len];
	for (i = 1; i <= n && k == 0; i++)
		k = pre->split(p, i, 0, &r, ends, 4);
	ok(k == 0 && r.pos + 3 >= n, "a run of %s, byte by byte", what);
	free(p);
}

static void
classes(void)
{
	static const unsigned want[][2] = {
		{ 0x85, QWEN_CLASS_SPACE }, { 0xa0, QWEN_CLASS_SPACE },
		{ 0x1680, QWEN_CLASS_SPACE }, { 0x180e, QWEN_CLASS_OTHER },
		{ 0x200a, QWEN_CLASS_SPACE }, { 0x200b, QWEN_CLASS_OTHER },
		{ 0x202f, QWEN_CLASS_SPACE }, { 0x3000, QWEN_CLASS_SPACE },
		{ 0xfeff, QWEN_CLASS_OTHER }, { 0xaa, QWEN_CLASS_LETTER },
		{ 0xb2, QWEN_CLASS_NUMBER }, { 0x2167, QWEN_CLASS_NUMBER },
		{ 0x300, QWEN_CLASS_MARK }, { 0x20dd, QWEN_CLASS_MARK },
		{ 0x903, QWEN_CLASS_MARK }, { 0x378, QWEN_CLASS_OTHER },
		{ 0x4e00, QWEN_CLASS_LETTER }, { 0x9fff, QWEN_CLASS_LETTER },
		{ 0xac00, QWEN_CLASS_LETTER }, { 0x1f999, QWEN_CLASS_OTHER },
		{ 0x1c89, QWEN_CLASS_LETTER },	/* new in Unicode 16.0 */
		{ 0x2ebf0, QWEN_CLASS_LETTER },	/* new in 15.1 */
		{ 0x1d7d8, QWEN_CLASS_NUMBER }, { 0xe0100, QWEN_CLASS_MARK },
		{ 0x10ffff, QWEN_CLASS_OTHER }, { 0xe000, QWEN_CLASS_OTHER },
	};
	size_t i, n[QWEN_N_CLASSES] = { 0 };
	uint32_t c;
	int bad = 0;

	for (i = 0; i < sizeof want / sizeof want[0]; i++)
		bad += qwen_unicode_class(want[i][0]) != want[i][1];
	ok(bad == 0, "classes of some code points");
	for (c = 0x80; c < 0x110000; c++)
		n[qwen_unicode_class(c)]++;
	ok(n[QWEN_CLASS_LETTER] == 140976 && n[QWEN_CLASS_MARK] == 2501 &&
	    n[QWEN_CLASS_NUMBER] == 1901 && n[QWEN_CLASS_SPACE] == 19,
	    "as many of each class above ASCII as in Unicode 16.0");
}

int
main(void)
{
	classes();
	examples();
	random_texts(&qwen_pre_qwen2);
	random_texts(&qwen_pre_qwen35);
	slow_arrival("letters", "a");
	slow_arrival("ideographs", "\xe4\xb8\xad");
	slow_arrival("punctuation", "!?");
	slow_arrival("white space", " \t");
	slow_arrival("line ends after punctuation", "\n");
	return done_testing();
}
