/* SPDX-License-Identifier: ISC */
/* property.c - characters of a Unicode property, as in the pattern \p{L}. */
#include <string.h>

#include "text/schema/schema.h"
#include "text/token/unicode.h"

/*
 * Properties whose characters the tokenizer's tables know completely; below,
 * some characters of other properties, for uses where a subset suffices.
 */
static const struct {
	const char	*name;
	enum qwen_class	 of;
} whole[] = {
	{ "L", QWEN_CLASS_LETTER }, { "Letter", QWEN_CLASS_LETTER },
	{ "M", QWEN_CLASS_MARK }, { "Mark", QWEN_CLASS_MARK },
	{ "N", QWEN_CLASS_NUMBER }, { "Number", QWEN_CLASS_NUMBER },
};

static const struct {
	const char	*name;
	uint32_t	 lo, hi;
} some[] = {
	{ "Lu", 'A', 'Z' }, { "Lu", 0xc0, 0xd6 }, { "Lu", 0xd8, 0xde },
	{ "Lu", 0x391, 0x3a1 }, { "Lu", 0x3a3, 0x3a9 }, { "Lu", 0x410, 0x42f },
	{ "Ll", 'a', 'z' }, { "Ll", 0xdf, 0xf6 }, { "Ll", 0xf8, 0xff },
	{ "Ll", 0x3b1, 0x3c9 }, { "Ll", 0x430, 0x44f },
	{ "Nd", '0', '9' }, { "Zs", ' ', ' ' }, { "Z", ' ', ' ' },
	{ "P", '!', '#' }, { "P", '%', '*' }, { "P", ',', '/' },
	{ "P", ':', ';' }, { "P", '?', '@' }, { "P", '[', ']' },
	{ "P", '_', '_' }, { "P", '{', '{' }, { "P", '}', '}' },
	{ "Sc", '$', '$' }, { "Sc", 0xa2, 0xa5 }, { "Sc", 0x20ac, 0x20ac },
};

/* Is s a name of the property, perhaps with General_Category= or gc=? */
static int
is_name(const char *name, const char *s, size_t n)
{
	static const char key[] = "General_Category=", in_short[] = "gc=";

	if (n > sizeof key - 1 && memcmp(s, key, sizeof key - 1) == 0) {
		s += sizeof key - 1;
		n -= sizeof key - 1;
	} else if (n > sizeof in_short - 1 &&
	    memcmp(s, in_short, sizeof in_short - 1) == 0) {
		s += sizeof in_short - 1;
		n -= sizeof in_short - 1;
	}
	return strlen(name) == n && memcmp(name, s, n) == 0;
}

static enum qwen_class
class_of(uint32_t c)
{
	return c < 0x80 ? (enum qwen_class)qwen_unicode_ascii[c] :
	    qwen_unicode_class(c);
}

static void
add_class(struct schema *s, struct schema_set *set, enum qwen_class of)
{
	uint32_t c, from;

	s->work += 1 << 16;
	for (c = 0; c <= 0x10ffff && qwen_schema_step(s); c++) {
		for (; c <= 0x10ffff && class_of(c) != of; c++)
			;
		for (from = c; c <= 0x10ffff && class_of(c) == of; c++)
			;
		if (c > from)
			qwen_set_add(s, set, from, c - 1);
	}
}

int
qwen_set_property(struct schema *s, struct schema_set *set, const char *name,
    size_t n, int turned)
{
	size_t i;
	int found = 0;

	for (i = 0; i < sizeof whole / sizeof whole[0]; i++) {
		if (is_name(whole[i].name, name, n)) {
			add_class(s, set, whole[i].of);
			return 1;
		}
	}
	for (i = 0; i < sizeof some / sizeof some[0] && !turned; i++) {
		if (is_name(some[i].name, name, n)) {
			qwen_set_add(s, set, some[i].lo, some[i].hi);
			found = 1;
		}
	}
	return found;
}
