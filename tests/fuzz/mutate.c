/* SPDX-License-Identifier: ISC */
/* mutate.c - changes bytes, GGUF files and text. */
#include <ctype.h>
#include <string.h>

#include "mutate.h"

uint32_t
mutate_random(uint64_t *seed)
{
	*seed = *seed * 6364136223846793005 + 1442695040888963407;
	return (uint32_t)(*seed >> 33);
}

size_t
mutate_below(uint64_t *seed, size_t n)
{
	return n > 0 ? mutate_random(seed) % n : 0;
}

/* A number in place of v, of those that programs stumble over. */
uint64_t
mutate_number(uint64_t v, uint64_t *seed)
{
	switch (mutate_random(seed) % 12) {
	case 0: return 0;
	case 1: return v + 1;
	case 2: return v - 1;
	case 3: return v * 2;
	case 4: return v / 2;
	case 5: return UINT64_MAX;
	case 6: return (uint64_t)1 << mutate_below(seed, 64);
	case 7: return ((uint64_t)1 << mutate_below(seed, 64)) - 1;
	case 8: return v ^ (uint64_t)1 << mutate_below(seed, 64);
	case 9: return v + ((uint64_t)1 << 32);
	case 10: return UINT64_MAX - mutate_below(seed, 64);
	default: return mutate_below(seed, 100);
	}
}

/* ------------------------------------------------------------------- bytes */

/* The len bytes at from, once more at to, where the rest moves on. */
size_t
mutate_insert(unsigned char *p, size_t n, size_t max, size_t to, const void *from,
    size_t len)
{
	if (len > max - n)
		return n;
	memmove(p + to + len, p + to, n - to);
	/* what is to be there may have been moved itself */
	if ((const unsigned char *)from >= p + to &&
	    (const unsigned char *)from < p + n)
		from = (const unsigned char *)from + len;
	memmove(p + to, from, len);
	return n + len;
}

size_t
mutate_drop(unsigned char *p, size_t n, size_t at, size_t len)
{
	memmove(p + at, p + at + len, n - at - len);
	return n - len;
}

size_t
mutate_bytes(unsigned char *p, size_t n, size_t max, uint64_t *seed)
{
	size_t k, at, to, len;

	for (k = 1 + mutate_below(seed, 4); k > 0 && n > 1; k--) {
		at = mutate_below(seed, n);
		len = 1 + mutate_below(seed, n - at) % 16;
		switch (mutate_random(seed) % 4) {
		case 0:
			p[at] = (unsigned char)mutate_random(seed);
			break;
		case 1:
			n = mutate_drop(p, n, at, len);
			break;
		case 2:
			if (n + len <= max)
				n = mutate_insert(p, n, max, at + len, p + at, len);
			break;
		case 3:
			to = mutate_below(seed, n - len + 1);
			memmove(p + to, p + at, len);
			break;
		}
	}
	return n;
}

/* -------------------------------------------------------------------- GGUF */

/* A field of a GGUF file's head; a string's bytes have width 0. */
struct field {
	size_t		at, len;
	unsigned	width;
};

struct walk {
	const unsigned char *p;
	size_t		n, at;
	size_t		met, want;	/* stop at this one */
	struct field	field;
};

static uint64_t
load(const unsigned char *p, unsigned width)
{
	uint64_t v = 0;
	unsigned i;

	for (i = 0; i < width; i++)
		v |= (uint64_t)p[i] << 8 * i;
	return v;
}

void
mutate_store(unsigned char *p, unsigned width, uint64_t v)
{
	unsigned i;

	for (i = 0; i < width; i++)
		p[i] = (unsigned char)(v >> 8 * i);
}

/* Pass by a field; 0 if it is the one, or there is none. */
static int
field(struct walk *w, size_t len, unsigned width)
{
	if (len > w->n - w->at)
		return 0;
	w->field = (struct field){ w->at, len, width };
	w->at += len;
	return w->met++ != w->want;
}

static int
integer(struct walk *w, unsigned width, uint64_t *v)
{
	if (width > w->n - w->at)
		return 0;
	*v = load(w->p + w->at, width);
	return field(w, width, width);
}

static int
string(struct walk *w)
{
	uint64_t len;

	return integer(w, 8, &len) && len <= w->n - w->at &&
	    field(w, (size_t)len, 0);
}

static int
value(struct walk *w, uint64_t type, int depth)
{
	static const unsigned char width[] =
	    { 1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8 };
	uint64_t v, n, i;

	if (type == 8)
		return string(w);
	if (type != 9)
		return type < sizeof width && integer(w, width[type], &v);
	if (depth > 3 || !integer(w, 4, &type) || !integer(w, 8, &n))
		return 0;
	for (i = 0; i < n; i++) {
		if (!value(w, type, depth + 1))
			return 0;
	}
	return 1;
}

static void
walk_gguf(struct walk *w)
{
	uint64_t v, n_tensors, n_kv, i, j, n_dims;

	if (!integer(w, 4, &v) || !integer(w, 4, &v) ||
	    !integer(w, 8, &n_tensors) || !integer(w, 8, &n_kv))
		return;
	for (i = 0; i < n_kv; i++) {
		if (!string(w) || !integer(w, 4, &v) || !value(w, v, 0))
			return;
	}
	for (i = 0; i < n_tensors; i++) {
		if (!string(w) || !integer(w, 4, &n_dims))
			return;
		for (j = 0; j < n_dims; j++) {
			if (!integer(w, 8, &v))
				return;
		}
		if (!integer(w, 4, &v) || !integer(w, 8, &v))
			return;
	}
}

static size_t
mutate_gguf(unsigned char *p, size_t n, size_t max, uint64_t *seed)
{
	struct walk w = { .p = p, .n = n, .want = SIZE_MAX };
	size_t head, met, at, len;
	struct field f;

	walk_gguf(&w);
	met = w.met;
	head = w.at;
	if (met == 0)
		return mutate_bytes(p, n, max, seed);
	w = (struct walk){ .p = p, .n = n, .want = mutate_below(seed, met) };
	/* half the time what is not the vocabulary: the first and the last */
	if (mutate_random(seed) % 2 == 0)
		w.want = mutate_random(seed) % 2 == 0 ? mutate_below(seed, met) % 120 :
		    met - 1 - mutate_below(seed, met) % 400;
	walk_gguf(&w);
	f = w.field;
	switch (mutate_random(seed) % 16) {
	case 0:		/* cut, mostly in the head */
		return mutate_below(seed, mutate_random(seed) % 2 == 0 ? head : n);
	case 1:		/* a piece of the head twice, or not at all */
		at = mutate_below(seed, head);
		len = mutate_below(seed, head - at) % 256;
		return mutate_random(seed) % 2 == 0 ?
		    mutate_insert(p, n, max, f.at, p + at, len) : mutate_drop(p, n, at, len);
	case 2:		/* any bytes of the head */
		at = mutate_below(seed, head);
		p[at] = (unsigned char)mutate_random(seed);
		return n;
	case 3:		/* weights: an infinite scale, for one */
		for (len = 64; len > 0 && head + 1 < n; len--) {
			at = head + mutate_below(seed, n - head - 1);
			mutate_store(p + at, 2, 0x7c00 + mutate_below(seed, 2));
		}
		return n;
	}
	if (f.width > 0)
		mutate_store(p + f.at, f.width, mutate_number(load(p + f.at, f.width), seed));
	else if (f.len > 0)
		p[f.at + mutate_below(seed, f.len)] = (unsigned char)
		    mutate_random(seed);
	return n;
}

/* -------------------------------------------------------------------- text */

static const char *const words[] = {
	/* numbers */
	"-9223372036854775808", "9223372036854775807", "9223372036854775808",
	"18446744073709551616", "4294967296", "2147483648", "-1", "0", "1e999",
	"-1e999", "1e-999", "0.1e1", "NaN", "Infinity", "00", "1048576",
	/* JSON */
	"null", "true", "[]", "{}", "\"\"", "\"\\u0000\"", "\"\\ud800\"",
	"\"\\udc00\\ud800\"", "\"a\":", ",", ":", "\"", "\\", "\\u", "[[[[",
	"{\"a\":{\"a\":", "\"type\":\"object\",", "\"type\":[\"null\",",
	"\"$ref\":\"#\",", "\"anyOf\":[{},", "\"allOf\":[{},", "\"enum\":[],",
	"\"pattern\":\"^(a|b*)*$\",", "\"maxLength\":1000000,",
	"\"minItems\":1000000,", "\"maximum\":-1,", "\"multipleOf\":0,",
	"\"role\":\"tool\",", "\"content\":null,", "\"content\":[{}],",
	"\"logit_bias\":{\"1\":100,\"1\":-100},", "\"stop\":[\"\"],", "\"n\":0,",
	"\"max_tokens\":-1,", "\"seed\":1.5,", "\"temperature\":1e308,",
	/* templates */
	"{%", "%}", "{{", "}}", "{#", "#}", "{%- if x -%}", "{% endif %}",
	"{% for i in range(1000000000) %}", "{% endfor %}", "{% macro m() %}",
	"{% set x = x ~ x %}", "{{ x|trim(x) }}", "{{ x|int }}", "|join(x)",
	"|replace('', x)", "|sort", "|tojson", "|length", "x[::-1]", "x[-1:]",
	"'a' * 1000000000", "loop.index", "namespace(x=1)", "is defined",
	"messages", "not ", " in ", "% 0", "// 0", "- 1", "** 99",
	/* grammars */
	"root ::= ", "root", "::=", "|", "(", ")", "[^]", "[\\x00-\\U0010ffff]",
	"{1000000}", "{0,}", "{2,1}", "()*", "(\"\")*", "(root)+", "\"\\x", "?",
	"#", ".",
	/* bytes */
	"\xff", "\xc0\x80", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xc2\x9b",
	"\x1b[2J", "\xef\xbb\xbf", "\r\n", "\n", "\t", "<|im_start|>",
	"<|im_end|>", "<think>", "</think>", "<tool_call>",
};

/* Another number in place of one. */
static size_t
mutate_digits(unsigned char *p, size_t n, size_t max, uint64_t *seed)
{
	const char *w = words[mutate_below(seed, 16)];
	size_t at = mutate_below(seed, n), len = 0;

	while (at < n && !isdigit(p[at]))
		at++;
	while (at + len < n && isdigit(p[at + len]))
		len++;
	if (len == 0)
		return n;
	n = mutate_drop(p, n, at, len);
	return mutate_insert(p, n, max, at, w, strlen(w));
}

/* A piece so often that it is at most max bytes, mostly far fewer. */
static size_t
repeat(unsigned char *p, size_t n, size_t max, uint64_t *seed)
{
	size_t at = mutate_below(seed, n), len = 1 + mutate_below(seed, n - at) % 32;
	size_t times = (size_t)1 << mutate_below(seed, 17);

	for (; times > 1 && len * 2 <= max - n; times /= 2) {
		n = mutate_insert(p, n, max, at + len, p + at, len);
		len *= 2;
	}
	return n;
}

static size_t
mutate_text(unsigned char *p, size_t n, size_t max, uint64_t *seed)
{
	size_t k, at, len;
	const char *w;

	for (k = 1 + mutate_below(seed, 3); k > 0 && n > 0; k--) {
		at = mutate_below(seed, n);
		len = 1 + mutate_below(seed, n - at) % 64;
		w = words[mutate_below(seed, sizeof words / sizeof words[0])];
		switch (mutate_random(seed) % 8) {
		case 0:
			n = mutate_bytes(p, n, max, seed);
			break;
		case 1:
			n = mutate_digits(p, n, max, seed);
			break;
		case 2:
			n = mutate_drop(p, n, at, len);
			break;
		case 3:
			n = mutate_insert(p, n, max, mutate_below(seed, n), p + at, len);
			break;
		case 4:
			n = repeat(p, n, max, seed);
			break;
		case 5:
			n = mutate_drop(p, n, at, len);
			/* FALLTHROUGH */
		default:
			n = mutate_insert(p, n, max, at, w, strlen(w));
			break;
		}
	}
	return n;
}

size_t
mutate(enum mutate_kind kind, unsigned char *p, size_t n, size_t max,
    uint64_t *seed)
{
	static size_t (*const how[])(unsigned char *, size_t, size_t,
	    uint64_t *) = { mutate_bytes, mutate_gguf, mutate_cbor,
	    mutate_text };

	return how[kind](p, n, max, seed);
}
