/* SPDX-License-Identifier: ISC */
/*
 * numpy.c - write an array in the .npy format of NumPy, or several to one file,
 * as numpy.savez() does: a zip archive of uncompressed .npy files.
 *
 * A trace is computed position by position, but the archive stores one array
 * after the other.  All sizes are known before the first row, so each row is
 * written to its final offset, and the headers, which contain checksums, at the
 * end: no array is kept in memory or written twice.  libzip and libarchive
 * write one member at a time, so all others would need temporary files.  All
 * sizes have 64 bits (zip64), as numpy.savez() writes them.
 */
#include <sys/stat.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cursor.h"
#include "base/err.h"
#include "qprefill.h"

/* Bytes of the local and the central header of a member, without its name. */
enum { LOCAL = 30 + 20, CENTRAL = 46 + 28 };
enum { VERSION = 45, FIRST_DAY = 0x21 };	/* zip64; 1 January 1980 */

struct member {
	char		 name[QWEN_TRACE_NAME];
	struct qprefill_array a;
	struct qwen_text npy;		/* header of the .npy file */
	uint64_t	 at;		/* offset of the local header */
	uint64_t	 n_bytes;	/* of the .npy file */
	uint64_t	 done;		/* bytes written so far, with npy */
	uint32_t	 crc;		/* of these bytes */
};

struct qprefill_npz {
	int		 fd;
	const char	*name;
	struct member	*m;
	size_t		 n, cap;
	size_t		 next;		/* where the search for a member
					   starts */
	uint64_t	 end;		/* offset after the last member */
	struct qwen_text row;
	uint32_t	 table[256];
};

/* ---------------------------------------------------------------- one array */

/*
 * Format version 1.0: a magic number, a length, and one line of text; padded to
 * a multiple of 64 bytes.
 */
void
qprefill_npy_header(struct qwen_text *t, const struct qprefill_array *a)
{
	size_t begin = t->n, len;

	qwen_text_add(t, "\x93NUMPY\x01\x00..", 10);
	qwen_text_fmt(t, "{'descr': '<%s', 'fortran_order': False, 'shape': "
	    "(%llu, %zu), }", a->integers ? "i4" : "f4",
	    cli_llu(a->n_rows), a->width);
	while ((t->n - begin) % 64 != 63 && !t->failed)
		qwen_text_str(t, " ");
	qwen_text_str(t, "\n");
	if (t->failed)
		return;
	len = t->n - begin - 10;
	qwen_put_le16((unsigned char *)t->s + begin + 8, (uint16_t)len);
}

/* Shorter rows are padded with zeros. */
void
qprefill_npy_row(struct qwen_text *t, const struct qprefill_array *a,
    const void *row, size_t n)
{
	unsigned char b[1024];
	uint32_t bits;
	size_t i, k = 0;

	for (i = 0; i < a->width; i++) {
		bits = 0;
		if (i < n)
			memcpy(&bits, (const char *)row + i * sizeof bits,
			    sizeof bits);
		qwen_put_le32(b + k, bits);
		k += sizeof bits;
		if (k == sizeof b || i == a->width - 1) {
			qwen_text_add(t, b, k);
			k = 0;
		}
	}
}

/* ------------------------------------------------------------------ writing */

static uint32_t
crc(const struct qprefill_npz *z, uint32_t c, const struct qwen_text *t)
{
	size_t i;

	for (c = ~c, i = 0; i < t->n; i++)
		c = z->table[(c ^ (unsigned char)t->s[i]) & 255] ^ c >> 8;
	return ~c;
}

static void
write_text(const struct qprefill_npz *z, const struct qwen_text *t, uint64_t at)
{
	size_t done;
	ssize_t n;

	if (t->failed)
		cli_must(NULL, qwen_oom(&cli_err));
	for (done = 0; done < t->n; done += (size_t)n) {
		n = pwrite(z->fd, t->s + done, t->n - done, (off_t)(at + done));
		if (n == -1 && errno == EINTR)
			n = 0;
		if (n == -1)
			die("%s: %s", z->name, strerror(errno));
	}
}

/*
 * Add little-endian numbers: sizes has the bytes of each as a digit, 2, 4 or 8.
 */
static void
numbers(struct qwen_text *t, const char *sizes, const uint64_t *v)
{
	unsigned char b[8];

	for (; *sizes != '\0'; sizes++) {
		qwen_put_le64(b, *v++);
		qwen_text_add(t, b, (size_t)(*sizes - '0'));
	}
}

#define NUMBERS(t, sizes, ...) \
	numbers(t, sizes, (const uint64_t[]){ __VA_ARGS__ })

/* ------------------------------------------------------------------ headers */

/*
 * Add the fields that both headers of a member have after the versions: flags,
 * method (stored), time, date, checksum, two sizes (see the extra field), and
 * the lengths of the name and of the extra field.
 */
static void
describe(struct qwen_text *t, const struct member *m, uint64_t n_extra)
{
	NUMBERS(t, "222244422", 0, 0, 0, FIRST_DAY, m->crc, UINT32_MAX,
	    UINT32_MAX, strlen(m->name) + strlen(".npy"), n_extra);
}

/* Add the name, and the zip64 extra field up to its sizes. */
static void
name_and_sizes(struct qwen_text *t, const struct member *m, uint64_t n_extra)
{
	qwen_text_fmt(t, "%s.npy", m->name);
	NUMBERS(t, "2288", 1, n_extra - 4, m->n_bytes, m->n_bytes);
}

static void
central_header(struct qwen_text *t, const struct member *m)
{
	qwen_text_str(t, "PK\x01\x02");
	NUMBERS(t, "22", VERSION, VERSION);
	describe(t, m, 28);
	/* comment, disk, two attributes, offset: see the extra field */
	NUMBERS(t, "22244", 0, 0, 0, 0, UINT32_MAX);
	name_and_sizes(t, m, 28);
	NUMBERS(t, "8", m->at);
}

/*
 * Add the records that follow the central headers, which are all of t so far.
 */
static void
end_records(struct qwen_text *t, const struct qprefill_npz *z)
{
	uint64_t bytes = t->n;

	qwen_text_str(t, "PK\x06\x06");
	/* bytes of the rest of the record, versions, disks, members, headers */
	NUMBERS(t, "822448888", 44, VERSION, VERSION, 0, 0, z->n, z->n, bytes,
	    z->end);
	qwen_text_str(t, "PK\x06\x07");
	/* disk, offset of the record above, disks */
	NUMBERS(t, "484", 0, z->end + bytes, 1);
	/* refers to the zip64 records */
	qwen_text_str(t, "PK\x05\x06");
	NUMBERS(t, "422442", 0, UINT16_MAX, UINT16_MAX, UINT32_MAX, UINT32_MAX,
	    0);
}

/* -------------------------------------------------------------- the archive */

struct qprefill_npz *
qprefill_npz_new(int fd, const char *name)
{
	struct qprefill_npz *z = cli_check_alloc(calloc(1, sizeof *z));
	uint32_t i, k, c;
	struct stat st;

	if (fstat(fd, &st) == -1 || !S_ISREG(st.st_mode))
		die("%s: -f npz needs a regular file: see --trace-out", name);
	z->fd = fd;
	z->name = name;
	/* the table of CRC-32 (ISO 3309), which zip uses */
	for (i = 0; i < 256; i++) {
		for (c = i, k = 0; k < 8; k++)
			c = c & 1 ? c >> 1 ^ 0xedb88320 : c >> 1;
		z->table[i] = c;
	}
	return z;
}

void
qprefill_npz_add(struct qprefill_npz *z, const char *array,
    const struct qprefill_array *a)
{
	struct member *m;
	uint64_t bytes;

	cli_grow(&z->m, &z->cap, z->n + 1, sizeof *z->m);
	m = &z->m[z->n++];
	memset(m, 0, sizeof *m);
	strncpy(m->name, array, sizeof m->name - 1);
	m->a = *a;
	qprefill_npy_header(&m->npy, a);
	if (m->npy.failed)
		cli_must(NULL, qwen_oom(&cli_err));
	/* no overflow: the context limits positions, the model limits widths */
	bytes = a->n_rows * a->width * 4;
	m->n_bytes = m->npy.n + bytes;
	m->done = m->npy.n;
	m->crc = crc(z, 0, &m->npy);
	m->at = z->end;
	z->end += LOCAL + strlen(m->name) + strlen(".npy") + m->n_bytes;
}

void
qprefill_npz_row(struct qprefill_npz *z, const char *array, const void *row,
    size_t n)
{
	struct member *m;
	uint64_t data;

	/* rows of the arrays alternate, so the search is short */
	while (strcmp(z->m[z->next].name, array) != 0)
		z->next = (z->next + 1) % z->n;
	m = &z->m[z->next];
	z->next = (z->next + 1) % z->n;
	z->row.n = 0;
	qprefill_npy_row(&z->row, &m->a, row, n);
	m->crc = crc(z, m->crc, &z->row);
	data = m->at + LOCAL + strlen(m->name) + strlen(".npy");
	write_text(z, &z->row, data + m->done);
	m->done += z->row.n;
}

void
qprefill_npz_end(struct qprefill_npz *z)
{
	struct member *m;

	for (m = z->m; m < z->m + z->n; m++) {
		z->row.n = 0;
		qwen_text_str(&z->row, "PK\x03\x04");
		NUMBERS(&z->row, "2", VERSION);
		describe(&z->row, m, 20);
		name_and_sizes(&z->row, m, 20);
		qwen_text_add(&z->row, m->npy.s, m->npy.n);
		write_text(z, &z->row, m->at);
		qwen_text_fini(&m->npy);
	}
	z->row.n = 0;
	for (m = z->m; m < z->m + z->n; m++)
		central_header(&z->row, m);
	end_records(&z->row, z);
	write_text(z, &z->row, z->end);
	qwen_text_fini(&z->row);
	free(z->m);
	free(z);
}
