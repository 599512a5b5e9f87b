/* SPDX-License-Identifier: ISC */
/*
 * emu.c - blocks run one after another; the threads of one are coroutines, which
 * change over where they wait, in an order that is drawn anew each round.  Half of
 * the warps are slow: they miss every other round.  So a kernel that lacks a
 * barrier gives other results.  A copy arrives at once, or
 * when the kernel waits for it.  Shared memory begins as nonsense.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#if !defined(__x86_64__)
#include <ucontext.h>
#endif

#include "engine/cuda/kernel/dev.h"
#include "emu.h"

enum {
	STACK = 128 << 10,
	THREADS = 1024,
	WARP = 32,
	COPIES = 64,
	GROUPS = 8,
	NONSENSE = 0xfe,	/* NaN as f32 */
	RED_ZONE = 256,
	SHARED_MAX = 227 << 10
};

struct copy {
	void	*to;
	u8	 data[16];
};

struct fiber {
#if defined(__x86_64__)
	void		*sp;
#else
	ucontext_t	 at;
#endif
	u8		*stack;
	int		 done;
	struct copy	 copy[COPIES];
	u32		 n_copy;
	u32		 group[GROUPS], n_group;	/* copies up to its end */
};

struct warp {
	u32	come, generation;
	int	op;
	u8	lane[2][WARP][EMU_LANE];	/* of even and odd generations */
};

struct emu_at emu_at;

static struct fiber fiber[THREADS];
static struct warp warp[THREADS / WARP];
static u32 bar_come, bar_generation, live;
static u64 events;		/* anything that lets a round be of use */
static void (*body)(const void *);
static const void *body_arg;

static void
fail(const char *what)
{
	fprintf(stderr, "emu: thread %u of block %u %u %u: %s\n", emu_at.tid,
	    emu_at.bid, emu_at.bid_y, emu_at.bid_z, what);
	abort();
}

/* ---------------------------------------------------------------- coroutines */

#if defined(__x86_64__)
static void *main_sp;

/* Saves where we are at *save, and goes to where `to' was saved. */
void emu_swap(void **save, void *to);
__asm__(".text\n.globl emu_swap\nemu_swap:\n"
    "push %rbp\npush %rbx\npush %r12\npush %r13\npush %r14\npush %r15\n"
    "mov %rsp,(%rdi)\nmov %rsi,%rsp\n"
    "pop %r15\npop %r14\npop %r13\npop %r12\npop %rbx\npop %rbp\nret\n");

static void go_in(struct fiber *f) { emu_swap(&main_sp, f->sp); }
static void go_out(struct fiber *f) { emu_swap(&f->sp, main_sp); }

static void
prepare(struct fiber *f, void (*entry)(void))
{
	void **sp = (void **)(void *)(f->stack + STACK - 64);

	*--sp = NULL;
	memcpy(--sp, &entry, sizeof entry);
	f->sp = sp - 6;
}
#else
static ucontext_t main_at;

static void go_in(struct fiber *f) { swapcontext(&main_at, &f->at); }
static void go_out(struct fiber *f) { swapcontext(&f->at, &main_at); }

static void
prepare(struct fiber *f, void (*entry)(void))
{
	getcontext(&f->at);
	f->at.uc_stack.ss_sp = f->stack;
	f->at.uc_stack.ss_size = STACK;
	f->at.uc_link = NULL;
	makecontext(&f->at, entry, 0);
}
#endif

static void
yield(void)
{
	u32 me = emu_at.tid;

	go_out(&fiber[me]);
	emu_at.tid = me;
}

static void
entry(void)
{
	body(body_arg);
	fiber[emu_at.tid].done = 1;
	live--;
	events++;
	if (bar_come > 0 || warp[emu_at.tid / WARP].come > 0)
		fail("it ends while others wait for it");
	for (;;)
		yield();
}

/* ------------------------------------------------------------ what kernels use */

void
emu_bar(void)
{
	u32 generation = bar_generation;

	events++;
	if (++bar_come == emu_at.n_threads) {
		bar_come = 0;
		bar_generation++;
		return;
	}
	while (bar_generation == generation)
		yield();
}

const u8 *
emu_warp(int op, const void *mine, u32 size)
{
	struct warp *w = &warp[emu_at.tid / WARP];
	u32 generation = w->generation;

	events++;
	if (w->come > 0 && w->op != op)
		fail("lanes of its warp are at different operations");
	w->op = op;
	memcpy(w->lane[generation & 1][emu_at.tid % WARP], mine, size);
	if (++w->come == WARP) {
		w->come = 0;
		w->generation++;
	}
	while (w->generation == generation)
		yield();
	return w->lane[generation & 1][0];
}

/* Draws a number. */
static u64
draw(void)
{
	static u64 r = 88172645463325252ull;

	r ^= r << 13;
	r ^= r >> 7;
	r ^= r << 17;
	return r;
}

void
copy16(void *s, const void *g)
{
	struct fiber *f = &fiber[emu_at.tid];

	if (f->n_copy == COPIES)
		fail("too many copies under way for the emulator");
	if (((uintptr_t)s | (uintptr_t)g) % 16 != 0)
		fail("a copy is not 16-byte aligned");
	if (draw() >> 63 != 0) {
		memcpy(s, g, 16);
		return;
	}
	f->copy[f->n_copy].to = s;
	memcpy(f->copy[f->n_copy++].data, g, 16);
}

void
copy_commit(void)
{
	struct fiber *f = &fiber[emu_at.tid];

	if (f->n_group == GROUPS)
		fail("too many groups of copies for the emulator");
	f->group[f->n_group++] = f->n_copy;
}

void
emu_copy_wait(u32 n)
{
	struct fiber *f = &fiber[emu_at.tid];
	u32 first, end, i;

	if (f->n_group <= n)
		return;
	first = f->n_group - n;
	end = f->group[first - 1];
	for (i = 0; i < end; i++)
		memcpy(f->copy[i].to, f->copy[i].data, 16);
	memmove(f->copy, f->copy + end, (f->n_copy - end) * sizeof *f->copy);
	f->n_copy -= end;
	for (i = 0; i < n; i++)
		f->group[i] = f->group[first + i] - end;
	f->n_group = n;
}

/* ---------------------------------------------------------------------- a grid */

/* Draws an order of n threads. */
static void
shuffle(u32 *order, u32 n)
{
	u32 i, j, t;

	for (i = n - 1; i > 0; i--) {
		j = (u32)(draw() % (i + 1));
		t = order[i];
		order[i] = order[j];
		order[j] = t;
	}
}

static void
run_block(u32 n, size_t shared)
{
	static u32 order[THREADS];
	u64 before;
	u32 i, idle = 0, slow = (u32)draw(), misses;

	memset(emu_at.smem, NONSENSE, shared + RED_ZONE);
	memset(warp, 0, sizeof warp);
	bar_come = 0;
	for (i = 0; i < n; i++) {
		fiber[i].done = 0;
		fiber[i].n_copy = fiber[i].n_group = 0;
		prepare(&fiber[i], entry);
		order[i] = i;
	}
	for (live = n; live > 0;) {
		before = events;
		misses = idle == 0 ? slow & (u32)draw() : 0;
		shuffle(order, n);
		for (i = 0; i < n; i++) {
			if (fiber[order[i]].done || (misses >> order[i] /
			    WARP & 1))
				continue;
			emu_at.tid = order[i];
			go_in(&fiber[order[i]]);
		}
		for (i = 0; i < RED_ZONE; i++) {
			if (emu_at.smem[shared + i] != NONSENSE)
				fail("something is written after SMEM");
		}
		idle = events == before ? idle + 1 : 0;
		if (idle > 2)
			fail("all threads wait");
	}
}

void
emu_run(void (*kernel)(const void *), const void *arg,
    const struct emu_grid *g)
{
	static u8 *memory;
	u32 i;

	if (memory == NULL)
		memory = aligned_alloc(128, SHARED_MAX + RED_ZONE + 128 -
		    RED_ZONE % 128);
	if (g->shared > SHARED_MAX || g->threads > THREADS ||
	    g->threads % WARP != 0 || g->threads == 0)
		fail("no card takes this launch");
	for (i = 0; i < g->threads; i++) {
		if (fiber[i].stack == NULL)
			fiber[i].stack = aligned_alloc(64, STACK);
	}
	body = kernel;
	body_arg = arg;
	emu_at = (struct emu_at){ .n_threads = g->threads, .n_blocks = g->x,
	    .smem = memory };
	for (emu_at.bid_z = 0; emu_at.bid_z < g->z; emu_at.bid_z++)
		for (emu_at.bid_y = 0; emu_at.bid_y < g->y; emu_at.bid_y++)
			for (emu_at.bid = 0; emu_at.bid < g->x; emu_at.bid++)
				run_block(g->threads, g->shared);
}
