/* SPDX-License-Identifier: ISC */
/*
 * mutate_cbor.c - changes streams and states, and corrects the checksums of
 * states: qwen-stream(5), qwen-state(5).
 */
#include <string.h>

#include <xxhash.h>

#include "mutate.h"

enum { ENTRY = 88 };	/* bytes of a record in the index */


struct item {
	size_t		at, body, end;	/* head, content of strings, next */
	unsigned	major, width;
	uint64_t	arg;
};

/* The item whose head is at this place; what arrays hold comes after it. */
static int
item_at(const unsigned char *p, size_t n, size_t at, struct item *it)
{
	unsigned i, info;

	if (at >= n)
		return 0;
	info = p[at] & 31;
	*it = (struct item){ .at = at, .major = p[at] >> 5, .arg = info };
	if (info > 27)
		return 0;
	if (info >= 24) {
		it->width = 1u << (info - 24);
		it->arg = 0;
	}
	if (it->width >= n - at)
		return 0;
	for (i = 0; i < it->width; i++)
		it->arg = it->arg << 8 | p[at + 1 + i];
	it->body = it->end = at + 1 + it->width;
	if (it->major == 2 || it->major == 3) {
		if (it->arg > n - it->body)
			return 0;
		it->end += (size_t)it->arg;
	}
	return 1;
}

/* Where the item ends with all that is in it; 0 if it does not. */
static size_t
span(const unsigned char *p, size_t n, size_t at)
{
	uint64_t left = 1;
	struct item it;

	for (; left > 0; left--) {
		if (!item_at(p, n, at, &it))
			return 0;
		if (it.major >= 4 && it.major <= 6 && it.arg > n)
			return 0;
		left += it.major == 4 ? it.arg : it.major == 5 ? 2 * it.arg :
		    it.major == 6;
		at = it.end;
	}
	return at;
}

static void
put_arg(unsigned char *p, const struct item *it, uint64_t v)
{
	unsigned i;

	if (it->width == 0)
		p[it->at] = (unsigned char)(it->major << 5 | v % 24);
	for (i = 0; i < it->width; i++)
		p[it->at + 1 + i] = (unsigned char)(v >>
		    8 * (it->width - 1 - i));
}

/* Item number k, or a later one where there are no so many. */
static size_t
pick_item(const unsigned char *p, size_t n, struct item *it, uint64_t *seed)
{
	size_t at, met = 0, k;

	for (at = 0; item_at(p, n, at, it); at = it->end)
		met++;
	k = mutate_below(seed, met);
	for (at = 0; item_at(p, n, at, it) && k > 0; at = it->end)
		k--;
	return met;
}

/* Within a string: numbers of its width, letters of a key. */
static void
mutate_content(unsigned char *p, const struct item *it, uint64_t *seed)
{
	static const uint32_t hard[] = { 0x7fc00000, 0x7f800000, 0xff800000,
	    0x80000000, 0x7fffffff, 0xffffffff, 0, 1, 0x7f7fffff };
	size_t len = it->end - it->body, at;

	if (len == 0)
		return;
	at = mutate_below(seed, len);
	if (it->major == 3 || len < 4 || mutate_random(seed) % 4 == 0)
		p[it->body + at] = (unsigned char)mutate_random(seed);
	else
		mutate_store(p + it->body + at % (len - 3) / 4 * 4, 4,
		    hard[mutate_below(seed, sizeof hard / sizeof hard[0])]);
}

static size_t
mutate_items(unsigned char *p, size_t n, size_t max, uint64_t *seed)
{
	static const unsigned char wide[8];
	struct item it, other;
	size_t end;

	if (pick_item(p, n, &it, seed) == 0)
		return mutate_bytes(p, n, max, seed);
	switch (mutate_random(seed) % 10) {
	case 0:
		p[it.at] ^= (unsigned char)((1 + mutate_below(seed, 7)) << 5);
		return n;
	case 1:		/* one item once more, before another */
		if ((end = span(p, n, it.at)) == 0)
			return n;
		pick_item(p, n, &other, seed);
		return mutate_insert(p, n, max, other.at, p + it.at, end - it.at);
	case 2:
		end = span(p, n, it.at);
		return end == 0 ? n : mutate_drop(p, n, it.at, end - it.at);
	case 3:		/* a number that takes nine bytes */
		if (it.width == 0 && n + 8 <= max) {
			n = mutate_insert(p, n, max, it.at + 1, wide, 8);
			p[it.at] = (unsigned char)(it.major << 5 | 27);
			it.width = 8;
		}
		put_arg(p, &it, mutate_number(it.arg, seed));
		return n;
	case 4:
		return it.at;
	case 5:
	case 6:
		mutate_content(p, &it, seed);
		return n;
	default:
		put_arg(p, &it, mutate_number(it.arg, seed));
		return n;
	}
}

/* The item after this key within the record, if there is one. */
static int
find_key(const unsigned char *p, size_t from, size_t to, const char *key,
    struct item *it)
{
	size_t at, len = strlen(key);

	for (at = from; item_at(p, to, at, it); at = it->end) {
		if (it->major == 3 && it->arg == len &&
		    memcmp(p + it->body, key, len) == 0)
			return item_at(p, to, it->end, it);
	}
	return 0;
}

/* The integer of this key, or what it is without. */
static uint64_t
integer_of(const unsigned char *p, size_t from, size_t to, const char *key,
    uint64_t without)
{
	struct item it;

	return find_key(p, from, to, key, &it) && it.major == 0 ? it.arg :
	    without;
}

/* The text of a record's kind, or of a key, in a field of the index. */
static void
put_name(unsigned char *out, size_t size, const unsigned char *p,
    const struct item *it)
{
	memset(out, 0, size);
	if (it->major == 3 && it->arg < size)
		memcpy(out, p + it->body, (size_t)it->arg);
}

/* What the index says of the record from at to end. */
static void
put_entry(unsigned char *out, const unsigned char *p, size_t at, size_t end)
{
	static const char *const keys[] = { "layer", "at", "off", "len" };
	struct item it;
	unsigned i;

	/* after the array's head and the number, the kind */
	if (item_at(p, end, at, &it) && item_at(p, end, it.end, &it) &&
	    item_at(p, end, it.end, &it))
		put_name(out, 24, p, &it);
	if (find_key(p, at, end, "codec", &it))
		put_name(out + 24, 8, p, &it);
	else
		memset(out + 24, 0, 8);
	for (i = 0; i < 4; i++)
		mutate_store(out + 32 + 8 * i, 8, integer_of(p, at, end,
		    keys[i], i < 2 ? UINT64_MAX : 0));
	mutate_store(out + 64, 8, at);
	mutate_store(out + 72, 8, end - at);
	memcpy(out + 80, p + end - 8, 8);
}

/* The index, where it can be read as it is, says what the records are. */
static void
repair_index(unsigned char *p, size_t head_n, size_t from, size_t to)
{
	struct item it;
	size_t at, end, n = 0;

	if (!find_key(p, from, to, "index", &it))
		return;
	/* its data: the string before the check */
	for (at = from; item_at(p, to, at, &it) && it.end < to - 9; at = it.end)
		;
	if (it.major != 2)
		return;
	for (at = head_n; at < from && (n + 1) * ENTRY <= it.arg; at = end) {
		if ((end = span(p, from, at)) == 0 || end - at <= 8)
			return;
		put_entry(p + it.body + n++ * ENTRY, p, at, end);
	}
}

/* What the end record says of the others, made true. */
static void
repair_end(unsigned char *p, size_t from, size_t to, uint64_t n_records,
    size_t index, XXH3_state_t *checks)
{
	XXH128_canonical_t total;
	struct item it;

	if (!find_key(p, from, to, "end", &it))
		return;
	if (find_key(p, from, to, "total", &it) && it.major == 2 &&
	    it.arg == sizeof total.digest) {
		XXH128_canonicalFromHash(&total, XXH3_128bits_digest(checks));
		memcpy(p + it.body, total.digest, sizeof total.digest);
	}
	if (find_key(p, from, to, "records", &it) && it.major == 0)
		put_arg(p, &it, n_records);
	if (find_key(p, from, to, "bytes", &it) && it.major == 0)
		put_arg(p, &it, from);
	if (find_key(p, from, to, "index", &it) && it.major == 0 && index != 0)
		put_arg(p, &it, index);
}

static int
is_kind(const unsigned char *p, size_t at, size_t end, const char *kind)
{
	struct item it;

	return item_at(p, end, at, &it) && item_at(p, end, it.end, &it) &&
	    item_at(p, end, it.end, &it) && it.major == 3 &&
	    it.arg == strlen(kind) &&
	    memcmp(p + it.body, kind, strlen(kind)) == 0;
}

void
mutate_repair(unsigned char *p, size_t n, size_t head_n)
{
	XXH3_state_t *checks = XXH3_createState();
	XXH64_canonical_t check;
	size_t at, end, from = 0, index = 0;
	uint64_t n_records = 0;

	if (checks == NULL || XXH3_128bits_reset(checks) != XXH_OK)
		return;
	for (at = head_n; (end = span(p, n, at)) != 0; at = from = end) {
		if (end - at <= sizeof check.digest)
			break;
		if (index == 0 && is_kind(p, at, end, "index"))
			index = at;
		repair_index(p, head_n, at, end);
		repair_end(p, at, end, n_records++, index, checks);
		/* the header is of the first record's */
		XXH64_canonicalFromHash(&check, XXH3_64bits(p + from,
		    end - from - sizeof check.digest));
		memcpy(p + end - sizeof check.digest, check.digest,
		    sizeof check.digest);
		XXH3_128bits_update(checks, check.digest, sizeof check.digest);
	}
	XXH3_freeState(checks);
}

/* The end record from at to end, without the index that it has told of. */
static size_t
end_alone(unsigned char *p, size_t n, size_t at, size_t end, uint64_t raw)
{
	struct item it;

	if (find_key(p, at, end, "raw", &it) && it.major == 0)
		put_arg(p, &it, it.arg - raw);
	if (!find_key(p, at, end, "index", &it))
		return n;
	n = mutate_drop(p, n, it.at - 6, it.end - it.at + 6);
	/* array, number, kind: then the map of fields */
	if (!item_at(p, n, at, &it) || !item_at(p, n, it.end, &it))
		return n;
	put_arg(p, &it, it.arg - 1);
	if (item_at(p, n, it.end, &it) && item_at(p, n, it.end, &it))
		put_arg(p, &it, it.arg - 1);
	return n;
}

/* A state without its index, which may be compressed: none need have one. */
static size_t
drop_index(unsigned char *p, size_t n)
{
	size_t at = span(p, n, 0), end;
	uint64_t raw = 0;

	for (; (end = span(p, n, at)) != 0; at = end) {
		if (is_kind(p, at, end, "index")) {
			raw += integer_of(p, at, end, "len", 0);
			n = mutate_drop(p, n, at, end - at);
			end = at;
		} else if (is_kind(p, at, end, "end"))
			return end_alone(p, n, at, end, raw);
	}
	return n;
}

size_t
mutate_cbor(unsigned char *p, size_t n, size_t max, uint64_t *seed)
{
	size_t k;

	if (mutate_random(seed) % 2 == 0)
		n = drop_index(p, n);
	for (k = 1 + mutate_below(seed, 3) / 2; k > 0; k--)
		n = mutate_items(p, n, max, seed);
	if (mutate_random(seed) % 4 != 0)
		mutate_repair(p, n, span(p, n, 0));
	return n;
}
