/* SPDX-License-Identifier: ISC */
/*
 * fake.c - a libcuda.so.1 for machines without a card: its memory is the
 * process's own, and a launch runs the plain C form of the kernel, which is in
 * the same library, by emu.c.  Memory begins as nonsense and has a red zone.
 *
 * QWEN_FAKE_MEMORY: bytes of the card; a call that would take more fails.
 * QWEN_FAKE_LOSE: the cards are lost at this launch.
 * QWEN_FAKE_LOSE_COPY: they are lost at this copy to the host.
 * QWEN_FAKE_LOSE_CARD: only the card of this number is.
 * QWEN_FAKE_LOG: a file to which the names of kernels are added as they run.
 */
#define _GNU_SOURCE		/* dladdr */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "engine/cuda/driver.h"
#include "emu.h"

#define CALL __attribute__((visibility("default")))
enum { NOT_FOUND = 500, BAD_VALUE = 1, NO_MEMORY = CU_NO_MEMORY, BAD_DEVICE = 101,
    LOST = 719, ARG = 1024, HEAD = 256 };

#define X(member, name, params) CALL cu_result name params;
CU_CALLS(X)
#undef X

struct node {
	void		(*kernel)(const void *);
	struct emu_grid	 grid;
	_Alignas(16) unsigned char arg[ARG];
	cu_ptr		 to;		/* kernel NULL: a copy of n bytes */
	const void	*from;
	size_t		 n;
	int		 overlaps;	/* it may begin before the last one ends */
	int		 begun;
};

struct cu_graph {
	struct node	*node;
	size_t		 n;
};

static struct cu_graph *recording;
/* Before each piece of memory; HEAD bytes, so that it is aligned. */
struct piece {
	struct piece	*next;
	size_t		 n;
};

static struct piece *pieces;
static unsigned retained;	/* contexts */
static int here;		/* what handles point to */
static char context[2];		/* of the cards */
static unsigned long current;	/* card */
static size_t taken;
static unsigned long launches, copies;

static unsigned long
setting(const char *name, unsigned long without)
{
	const char *s = getenv(name);

	return s != NULL ? strtoul(s, NULL, 10) : without;
}

static size_t
memory(void)
{
	return (size_t)setting("QWEN_FAKE_MEMORY", 1ul << 34);
}

static int
is_lost(void)
{
	return setting("QWEN_FAKE_LOSE_CARD", current) == current &&
	    (launches >= setting("QWEN_FAKE_LOSE", ~0ul) ||
	    copies > setting("QWEN_FAKE_LOSE_COPY", ~0ul));
}

/* For tests. */
CALL unsigned long fake_launches(void);

unsigned long
fake_launches(void)
{
	return launches;
}

static void *
handle(void)
{
	return &here;
}

/* ------------------------------------------------------------- the last launch */

static void
log_kernel(const struct node *n)
{
	const char *path = getenv("QWEN_FAKE_LOG");
	FILE *f = path != NULL ? fopen(path, "a") : NULL;
	Dl_info info = { 0 };
	void *at;

	memcpy(&at, &n->kernel, sizeof at);
	if (f != NULL && dladdr(at, &info) != 0)
		fprintf(f, "%s\n", info.dli_sname);
	if (f != NULL)
		fclose(f);
}

/* The last launch, which has yet to run; kernel NULL: there is none. */
static struct node last;

/* Runs the last launch. */
static cu_result
flush(void)
{
	struct node n = last;

	last.kernel = NULL;
	if (n.kernel == NULL)
		return 0;
	if (is_lost())
		return LOST;
	launches++;
	log_kernel(&n);
	emu_run(n.kernel, n.arg, &n.grid, n.begun);
	return 0;
}

/* ------------------------------------------------------------------- the card */

cu_result cuInit(unsigned f) { return f == 0 ? 0 : BAD_VALUE; }
cu_result cuDriverGetVersion(int *v) { *v = 13000; return 0; }
cu_result cuDeviceGetCount(int *n) { *n = 2; return 0; }

cu_result
cuDeviceGet(cu_device *d, int i)
{
	*d = i;
	return i < 2 ? 0 : BAD_DEVICE;
}

cu_result
cuDeviceGetName(char *s, int n, cu_device d)
{
	(void)d;
	snprintf(s, (size_t)n, "emulated card");
	return 0;
}

cu_result
cuDeviceGetAttribute(int *v, int a, cu_device d)
{
	(void)d;
	*v = a == CU_MAJOR ? 9 : a == CU_N_SM ? 4 : a == CU_SHARED_MAX ?
	    227 << 10 : 0;
	return 0;
}

cu_result
cuDevicePrimaryCtxRetain(cu_context *c, cu_device d)
{
	*c = (cu_context)(void *)&context[d];
	retained++;
	return 0;
}

/* The memory of a card that was lost is freed with the last context. */
cu_result
cuDevicePrimaryCtxRelease_v2(cu_device d)
{
	struct piece *p;

	(void)d;
	flush();
	retained--;
	while (retained == 0 && (p = pieces) != NULL) {
		pieces = p->next;
		taken -= p->n;
		free(p);
	}
	return 0;
}

cu_result
cuCtxSetCurrent(cu_context c)
{
	flush();
	current = (unsigned long)((char *)c - context);
	return current < 2 ? 0 : 201;
}

cu_result
cuGetErrorString(cu_result r, const char **s)
{
	*s = r == LOST ? "the card was lost" : "an error";
	return 0;
}

/* ------------------------------------------------------------------- memory */

cu_result
cuMemGetInfo_v2(size_t *left, size_t *all)
{
	*all = memory();
	*left = taken < *all ? *all - taken : 0;
	return 0;
}

cu_result
cuMemAlloc_v2(cu_ptr *p, size_t n)
{
	size_t all = (n + 255) / 256 * 256 + 2 * HEAD;
	unsigned char *q;

	if (is_lost())
		return LOST;
	if (taken > memory() || n > memory() - taken ||
	    (q = aligned_alloc(256, all)) == NULL)
		return NO_MEMORY;
	memset(q, 0xee, all);
	memcpy(q, &(struct piece){ pieces, n }, sizeof(struct piece));
	pieces = (struct piece *)(void *)q;
	taken += n;
	*p = (cu_ptr)(uintptr_t)(q + HEAD);
	return 0;
}

cu_result
cuMemFree_v2(cu_ptr p)
{
	unsigned char *q = (unsigned char *)(uintptr_t)p - HEAD;
	struct piece **at = &pieces;
	size_t n, i;

	flush();
	while ((unsigned char *)*at != q)
		at = &(*at)->next;
	n = (*at)->n;
	*at = (*at)->next;
	for (i = n; i < (n + 255) / 256 * 256 + HEAD; i++) {
		if (q[HEAD + i] != 0xee) {
			fprintf(stderr, "fake: written after the memory\n");
			abort();
		}
	}
	taken -= n;
	free(q);
	return 0;
}

cu_result
cuMemHostAlloc(void **p, size_t n, unsigned f)
{
	(void)f;
	*p = malloc(n);
	return *p != NULL ? 0 : NO_MEMORY;
}

cu_result cuMemFreeHost(void *p) { free(p); return 0; }

/* ------------------------------------------------------------------- launches */

/*
 * A launch runs when another call asks for something.  Before, the next one begins
 * if it may.
 */
static cu_result
run(const struct node *n)
{
	struct node next = *n;
	cu_result rc;

	next.begun = n->kernel != NULL && n->overlaps && last.kernel != NULL &&
	    !is_lost();
	if (next.begun)
		emu_begin(next.kernel, next.arg, &next.grid);
	rc = flush();
	if (is_lost())
		return LOST;
	if (n->kernel == NULL)
		memcpy((void *)(uintptr_t)n->to, n->from, n->n);
	else
		last = next;
	return rc;
}

/* Runs it, or puts it into the graph that is being recorded. */
static cu_result
run_or_record(const struct node *n)
{
	struct node *all;

	if (recording == NULL)
		return run(n);
	all = realloc(recording->node, (recording->n + 1) * sizeof *all);
	if (all == NULL)
		return NO_MEMORY;
	recording->node = all;
	all[recording->n++] = *n;
	return 0;
}

cu_result
cuMemcpyHtoDAsync_v2(cu_ptr to, const void *from, size_t n, cu_stream s)
{
	struct node c = { .to = to, .from = from, .n = n };

	(void)s;
	return run_or_record(&c);
}

cu_result
cuMemcpyDtoDAsync_v2(cu_ptr to, cu_ptr from, size_t n, cu_stream s)
{
	struct node c = { .to = to, .from = (void *)(uintptr_t)from, .n = n };

	(void)s;
	return run_or_record(&c);
}

cu_result
cuMemcpyDtoHAsync_v2(void *to, cu_ptr from, size_t n, cu_stream s)
{
	struct node c = { .to = (cu_ptr)(uintptr_t)to,
	    .from = (void *)(uintptr_t)from, .n = n };

	(void)s;
	copies++;
	return run_or_record(&c);
}

cu_result
cuMemsetD8Async(cu_ptr p, unsigned char c, size_t n, cu_stream s)
{
	(void)s;
	if (recording != NULL)
		return BAD_VALUE;
	flush();
	memset((void *)(uintptr_t)p, c, n);
	return is_lost() ? LOST : 0;
}

cu_result
cuModuleLoadDataEx(cu_module *m, const void *text, unsigned n, int *o,
    void **v)
{
	(void)n;
	(void)o;
	(void)v;
	*m = handle();
	return text != NULL ? 0 : BAD_VALUE;
}

cu_result cuModuleUnload(cu_module m) { (void)m; return 0; }

cu_result
cuModuleGetFunction(cu_function *f, cu_module m, const char *name)
{
	(void)m;
	*f = dlsym(RTLD_DEFAULT, name);
	if (*f == NULL) {
		Dl_info self;
		void *lib = dladdr(&here, &self) ? dlopen(self.dli_fname,
		    RTLD_NOW | RTLD_NOLOAD) : NULL;

		*f = lib != NULL ? dlsym(lib, name) : NULL;
		if (lib != NULL)
			dlclose(lib);
	}
	return *f != NULL ? 0 : NOT_FOUND;
}

cu_result
cuFuncSetAttribute(cu_function f, int a, int v)
{
	(void)f;
	(void)a;
	return v > 227 << 10 ? BAD_VALUE : 0;
}

cu_result
cuLaunchKernel(cu_function f, unsigned gx, unsigned gy, unsigned gz,
    unsigned bx, unsigned by, unsigned bz, unsigned shared, cu_stream s,
    void **params, void **extra)
{
	struct node n = { .grid = { gx, gy, gz, bx, shared } };

	(void)s;
	(void)extra;
	if (gx == 0 || gy == 0 || gz == 0 || gy > 65535 || gz > 65535 ||
	    by != 1 || bz != 1)
		return BAD_VALUE;
	memcpy(&n.kernel, &f, sizeof f);
	/* the size of the argument is the kernel's secret: what follows is not
	   read */
	memcpy(n.arg, params[0], ARG);
	return run_or_record(&n);
}

CALL cu_launch_ex cuLaunchKernelEx;

cu_result
cuLaunchKernelEx(const struct cu_config *c, cu_function f, void **params,
    void **extra)
{
	struct node n = { .grid = { c->x, c->y, c->z, c->threads, c->shared } };

	(void)extra;
	if (c->n_attribute != 1 || c->attribute->id != CU_OVERLAP ||
	    c->attribute->value.on != 1 || c->x == 0 || c->y == 0 ||
	    c->z == 0 || c->y > 65535 || c->z > 65535 || c->threads_y != 1 ||
	    c->threads_z != 1)
		return BAD_VALUE;
	memcpy(&n.kernel, &f, sizeof f);
	memcpy(n.arg, params[0], ARG);
	n.overlaps = 1;
	return run_or_record(&n);
}

/* ------------------------------------------------------ events, which take time */

cu_result
cuEventCreate(cu_event *e, unsigned f)
{
	(void)f;
	*e = calloc(1, sizeof(struct timespec));
	return *e != NULL ? 0 : NO_MEMORY;
}

cu_result cuEventDestroy_v2(cu_event e) { free(e); return 0; }

cu_result
cuEventRecord(cu_event e, cu_stream s)
{
	(void)s;
	flush();
	clock_gettime(CLOCK_MONOTONIC, (struct timespec *)(void *)e);
	return 0;
}

cu_result
cuEventElapsedTime(float *ms, cu_event a, cu_event b)
{
	const struct timespec *x = (void *)a, *y = (void *)b;

	*ms = (float)((double)(y->tv_sec - x->tv_sec) * 1e3 +
	    (double)(y->tv_nsec - x->tv_nsec) * 1e-6);
	return 0;
}

/* ---------------------------------------------------------- streams and graphs */

cu_result
cuStreamCreate(cu_stream *s, unsigned f)
{
	(void)f;
	*s = handle();
	return 0;
}

cu_result cuStreamDestroy_v2(cu_stream s) { (void)s; return 0; }
cu_result cuStreamSynchronize(cu_stream s)
{
	(void)s;
	flush();
	return is_lost() ? LOST : 0;
}

cu_result
cuStreamBeginCapture_v2(cu_stream s, int mode)
{
	(void)s;
	(void)mode;
	recording = calloc(1, sizeof *recording);
	return recording != NULL ? 0 : NO_MEMORY;
}

cu_result
cuStreamEndCapture(cu_stream s, cu_graph *g)
{
	(void)s;
	*g = recording;
	recording = NULL;
	return *g != NULL ? 0 : BAD_VALUE;
}

cu_result
cuGraphDestroy(cu_graph g)
{
	free(g->node);
	free(g);
	return 0;
}

/* An executable graph is a copy. */
cu_result
cuGraphInstantiateWithFlags(cu_exec *e, cu_graph g, unsigned long long f)
{
	struct cu_graph *copy = malloc(sizeof *copy);

	(void)f;
	if (copy == NULL)
		return NO_MEMORY;
	*copy = *g;
	if ((copy->node = malloc(g->n * sizeof *g->node)) == NULL) {
		free(copy);
		return NO_MEMORY;
	}
	memcpy(copy->node, g->node, g->n * sizeof *g->node);
	*e = (cu_exec)copy;
	return 0;
}

cu_result
cuGraphExecDestroy(cu_exec e)
{
	return cuGraphDestroy((cu_graph)e);
}

cu_result
cuGraphLaunch(cu_exec e, cu_stream s)
{
	const struct cu_graph *g = (const struct cu_graph *)e;
	cu_result rc = 0;
	size_t i;

	(void)s;
	for (i = 0; i < g->n && rc == 0; i++)
		rc = run(&g->node[i]);
	return rc;
}
