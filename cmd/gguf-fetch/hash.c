/* SPDX-License-Identifier: ISC */
/* hash.c - SHA-256, and SHA-1 as git has it, by libcrypto. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gguf-fetch.h"

enum { PIECE = 1 << 20 };

int
fetch_is_hex(const char *s, size_t n)
{
	return strlen(s) == n && strspn(s, "0123456789abcdef") == n;
}

#if FETCH_NETWORK
#include <openssl/evp.h>

struct fetch_hash {
	EVP_MD_CTX	*ctx;
};

static void
must(int ok)
{
	if (!ok)
		die("libcrypto cannot compute a hash");
}

struct fetch_hash *
fetch_hash_new(const char *hash, uint64_t bytes)
{
	struct fetch_hash *h = cli_check_alloc(calloc(1, sizeof *h));
	int git = strlen(hash) == 40, n;
	char head[48];

	h->ctx = cli_check_alloc(EVP_MD_CTX_new());
	must(EVP_DigestInit_ex(h->ctx, git ? EVP_sha1() : EVP_sha256(), NULL));
	if (git) {
		/* and a NUL */
		n = snprintf(head, sizeof head, "blob %" PRIu64, bytes) + 1;
		fetch_hash_add(h, head, (size_t)n);
	}
	return h;
}

void
fetch_hash_add(struct fetch_hash *h, const void *p, size_t n)
{
	must(EVP_DigestUpdate(h->ctx, p, n));
}

int
fetch_hash_is(struct fetch_hash *h, const char *hash, char out[FETCH_HASH])
{
	unsigned char sum[EVP_MAX_MD_SIZE];
	unsigned n = 0, i;

	must(EVP_DigestFinal_ex(h->ctx, sum, &n));
	for (i = 0; i < n && i < FETCH_HASH / 2; i++)
		snprintf(out + 2 * i, 3, "%02x", sum[i]);
	fetch_hash_free(h);
	return strcmp(out, hash) == 0;
}

void
fetch_hash_free(struct fetch_hash *h)
{
	if (h == NULL)
		return;
	EVP_MD_CTX_free(h->ctx);
	free(h);
}

#endif

int
fetch_hash_file(struct fetch_hash *h, int fd, const char *path, uint64_t n)
{
	char *buf = cli_check_alloc(malloc(PIECE));
	uint64_t at = 0;
	int started = 0;
	ssize_t got;

	while (at < n) {
		got = pread(fd, buf, n - at < PIECE ? (size_t)(n - at) : PIECE,
		    (off_t)at);
		if (got <= 0) {
			if (got == -1 && errno == EINTR)
				continue;
			free(buf);
			cli_progress_end();
			return got == 0 ? fetch_fail("%s: the file became "
			    "shorter", path) : fetch_errno(path);
		}
		fetch_hash_add(h, buf, (size_t)got);
		at += (uint64_t)got;
		cli_progress_bytes(&started, at, n);
	}
	if (started)
		cli_progress_end();
	free(buf);
	return 0;
}

int
fetch_hash_check(int fd, const char *path, uint64_t bytes, const char *hash,
    char sum[FETCH_HASH])
{
	struct fetch_hash *h = fetch_hash_new(hash, bytes);

	if (fetch_hash_file(h, fd, path, bytes) == 0)
		return fetch_hash_is(h, hash, sum);
	fetch_hash_free(h);
	return -1;
}

void
fetch_sha256(const void *p, size_t n, char out[FETCH_HASH])
{
	struct fetch_hash *h = fetch_hash_new("", n);

	fetch_hash_add(h, p, n);
	fetch_hash_is(h, "", out);
}
