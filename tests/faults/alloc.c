/* SPDX-License-Identifier: ISC */
/*
 * alloc.c - makes chosen allocations fail.
 *
 * A place is the chain of calls that led to an allocation: five return
 * addresses.  All allocations of a loop have the same place.
 *
 * With FAULT_PRELOAD this is a shared object for LD_PRELOAD (glibc), controlled
 * by the environment:
 *	FAULT_LOG=FILE		at exit, write a line for each place: its name,
 *				number of allocations, and addresses
 *	FAULT_AT=PLACE:N	fail the N-th allocation at PLACE; with a "+" at
 *				the end, also all later ones
 * Otherwise the linker puts it between a program and the allocator
 * (-Wl,--wrap=malloc and so on), and the program calls the functions of
 * alloc.h.
 */
#define _GNU_SOURCE
#include <sys/mman.h>
#include <sys/syscall.h>

#include <errno.h>
#include <execinfo.h>
#include <link.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "alloc.h"

#define DEPTH	5	/* calls that tell places apart */
#define MOST	8192	/* places */
#define MODULES	64

#ifdef FAULT_PRELOAD
#define OURS(name)	name
#define SKIP		2	/* our own frames: met(), malloc() */
void *__libc_malloc(size_t);
void *__libc_calloc(size_t, size_t);
void *__libc_realloc(void *, size_t);
void *__libc_memalign(size_t, size_t);
#define real_malloc	__libc_malloc
#define real_calloc	__libc_calloc
#define real_realloc	__libc_realloc
#define real_aligned_alloc __libc_memalign
#else
#define OURS(name)	__wrap_##name
#define SKIP		2
void *__real_malloc(size_t);
void *__real_calloc(size_t, size_t);
void *__real_realloc(void *, size_t);
void *__real_aligned_alloc(size_t, size_t);
int __real_posix_memalign(void **, size_t, size_t);
void __real_free(void *);
void *__real_mmap(void *, size_t, int, int, int, off_t);
void *__wrap_malloc(size_t);
void *__wrap_calloc(size_t, size_t);
void *__wrap_realloc(void *, size_t);
void *__wrap_aligned_alloc(size_t, size_t);
int __wrap_posix_memalign(void **, size_t, size_t);
void __wrap_free(void *);
char *__wrap_strdup(const char *);
char *__wrap_strndup(const char *, size_t);
void *__wrap_mmap(void *, size_t, int, int, int, off_t);
#define real_malloc	__real_malloc
#define real_calloc	__real_calloc
#define real_realloc	__real_realloc
#define real_aligned_alloc __real_aligned_alloc
#endif

static struct place {
	uint64_t	name;
	unsigned long	met;
	uintptr_t	at[DEPTH];
} place[MOST];

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static size_t n_places;
static int watching, from_then_on, failing;
static uint64_t fail_at;
static unsigned long fail_n;
static long live;

/* Where the program (first) and its libraries were loaded. */
static struct module {
	uintptr_t	begin, end;
} module[MODULES];
static size_t n_modules;
static __thread int inside __attribute__((tls_model("initial-exec")));

static struct place *
find(uint64_t name)
{
	size_t i = name % MOST;

	while (place[i].met > 0 && place[i].name != name)
		i = (i + 1) % MOST;
	return &place[i];
}

static int
add_module(struct dl_phdr_info *info, size_t size, void *arg)
{
	struct module *m = &module[n_modules];
	uintptr_t end;
	size_t i;

	(void)size;
	(void)arg;
	m->begin = info->dlpi_addr;
	for (i = 0; i < info->dlpi_phnum; i++) {
		if (info->dlpi_phdr[i].p_type != PT_LOAD)
			continue;
		end = m->begin + info->dlpi_phdr[i].p_vaddr +
		    info->dlpi_phdr[i].p_memsz;
		if (end > m->end)
			m->end = end;
	}
	return ++n_modules == MODULES;
}

/* An address that is the same in every run: which module, and where in it. */
static uintptr_t
fixed(void *p)
{
	uintptr_t a = (uintptr_t)p;
	size_t i;

	for (i = 0; i < n_modules; i++) {
		if (a >= module[i].begin && a < module[i].end)
			return a - module[i].begin + ((uintptr_t)i << 40);
	}
	return 0;
}

/* An allocation: whether it is to fail. */
static int __attribute__((noinline))
met(void)
{
	void *at[SKIP + DEPTH];
	struct place *p;
	uint64_t name = 14695981039346656037u;
	int i, n, fail;

	if (!watching || inside)
		return 0;
	inside = 1;
	n = backtrace(at, SKIP + DEPTH);
	for (i = SKIP; i < n; i++)
		name = (name ^ fixed(at[i])) * 1099511628211u;
	pthread_mutex_lock(&lock);
	p = find(name);
	if (p->met == 0 && n_places < MOST - 1) {
		n_places++;
		p->name = name;
		for (i = SKIP; i < n; i++)
			p->at[i - SKIP] = fixed(at[i]);
	}
	p->met++;
	fail = failing || (fail_n > 0 && name == fail_at && p->met == fail_n);
	failing = fail && from_then_on;
	pthread_mutex_unlock(&lock);
	inside = 0;
	if (fail)
		errno = ENOMEM;
	return fail;
}

static void *
count(void *p)
{
	if (p != NULL && watching)
		__atomic_add_fetch(&live, 1, __ATOMIC_RELAXED);
	return p;
}

void *
OURS(malloc)(size_t n)
{
	return met() ? NULL : count(real_malloc(n));
}

void *
OURS(calloc)(size_t n, size_t size)
{
	return met() ? NULL : count(real_calloc(n, size));
}

void *
OURS(realloc)(void *p, size_t n)
{
	if (met())
		return NULL;
	return p != NULL ? real_realloc(p, n) : count(real_realloc(p, n));
}

int
OURS(posix_memalign)(void **out, size_t align, size_t n)
{
	void *p = NULL;

	if (met())
		return ENOMEM;
#ifdef FAULT_PRELOAD
	p = __libc_memalign(align, n);
#else
	if (__real_posix_memalign(&p, align, n) != 0)
		p = NULL;
#endif
	if (count(p) == NULL)
		return ENOMEM;
	*out = p;
	return 0;
}

void *
OURS(aligned_alloc)(size_t align, size_t n)
{
	return met() ? NULL : count(real_aligned_alloc(align, n));
}

#ifdef FAULT_PRELOAD

/* Maps of files too: the address space is memory. */
void *
mmap(void *p, size_t n, int prot, int flags, int fd, off_t at)
{
	if (met())
		return MAP_FAILED;
	return (void *)syscall(SYS_mmap, p, n, prot, flags, fd, at);
}

static void __attribute__((constructor))
start(void)
{
	const char *s = getenv("FAULT_AT");
	void *at[2];
	char *end;

	dl_iterate_phdr(add_module, NULL);
	backtrace(at, 2);	/* loads what it needs */
	if (s != NULL) {
		fail_at = strtoull(s, &end, 16);
		fail_n = strtoul(end + 1, &end, 10);
		from_then_on = *end == '+';
	}
	watching = s != NULL || getenv("FAULT_LOG") != NULL;
}

static void __attribute__((destructor))
stop(void)
{
	const char *file = getenv("FAULT_LOG");
	size_t i, j;
	FILE *f;

	watching = 0;
	if (file == NULL || (f = fopen(file, "w")) == NULL)
		return;
	for (i = 0; i < MOST; i++) {
		if (place[i].met == 0)
			continue;
		fprintf(f, "%016llx %lu", (unsigned long long)place[i].name,
		    place[i].met);
		for (j = 0; j < DEPTH; j++)
			fprintf(f, " %#llx",
			    (unsigned long long)place[i].at[j]);
		fputc('\n', f);
	}
	fclose(f);
}

#else

char *
OURS(strndup)(const char *s, size_t n)
{
	char *p;

	n = strnlen(s, n);
	if ((p = OURS(malloc)(n + 1)) == NULL)
		return NULL;
	p[n] = '\0';
	return memcpy(p, s, n);
}

char *
OURS(strdup)(const char *s)
{
	return OURS(strndup)(s, strlen(s));
}

void
OURS(free)(void *p)
{
	if (p != NULL && watching)
		__atomic_sub_fetch(&live, 1, __ATOMIC_RELAXED);
	__real_free(p);
}

void *__real_mmap(void *, size_t, int, int, int, off_t);


void *
OURS(mmap)(void *p, size_t n, int prot, int flags, int fd, off_t at)
{
	return met() ? MAP_FAILED : __real_mmap(p, n, prot, flags, fd, at);
}

void
fault_watch(uint64_t name, unsigned long n, int and_all_after)
{
	void *at[2];
	size_t i;

	if (n_modules == 0) {
		dl_iterate_phdr(add_module, NULL);
		backtrace(at, 2);	/* loads what it needs */
	}
	for (i = 0; i < MOST; i++)
		place[i].met = 0;
	n_places = 0;
	fail_at = name;
	fail_n = n;
	from_then_on = and_all_after;
	failing = 0;
	live = 0;
	watching = 1;
}

long
fault_stop(void)
{
	watching = 0;
	return live;
}

size_t
fault_places(uint64_t *name, unsigned long *met, size_t most)
{
	size_t i, n = 0;

	for (i = 0; i < MOST && n < most; i++) {
		if (place[i].met == 0)
			continue;
		name[n] = place[i].name;
		met[n++] = place[i].met;
	}
	return n;
}

void
fault_print(uint64_t name)
{
	const struct place *p = find(name);
	size_t j;

	printf("#  ");
	for (j = 0; j < DEPTH; j++)
		printf(" %#llx", (unsigned long long)p->at[j]);
	printf("\n");
}

#endif
