/* SPDX-License-Identifier: ISC */
/*
 * emu.c - blocks run one after another; the threads of one are coroutines, which
 * change over where they wait, in an order that is drawn anew each round.  Half of
 * the warps are slow: they miss every other round.  So a kernel that lacks a
 * barrier gives other results.  A copy arrives at once, or when the kernel waits
 * for it.  Shared memory begins as nonsense.
 * The first block of a launch that may overlap with the one before comes as far as
 * it can before that one has run.
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
	int		 done, waits;	/* waits: for the launch before */
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

/* A block that runs: there may be two, of two launches. */
struct block {
	struct emu_at	 at;
	struct fiber	 fiber[THREADS];
	struct warp	 warp[THREADS / WARP];
	u32		 bar_come, bar_generation, live;
	u64		 events;	/* anything that lets a round be of use */
	int		 may_go;	/* the launch before has ended */
	void		 (*body)(const void *);
	const void	*arg;
};

static struct block both[2], *now = &both[0];
static int has_begun;		/* the other one, whose turn is next */

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

	go_out(&now->fiber[me]);
	emu_at.tid = me;
}

static void
entry(void)
{
	now->body(now->arg);
	now->fiber[emu_at.tid].done = 1;
	now->live--;
	now->events++;
	if (now->bar_come > 0 || now->warp[emu_at.tid / WARP].come > 0)
		fail("it ends while others wait for it");
	for (;;)
		yield();
}

/* ------------------------------------------------------------ what kernels use */

void
emu_bar(void)
{
	u32 generation = now->bar_generation;

	now->events++;
	if (++now->bar_come == emu_at.n_threads) {
		now->bar_come = 0;
		now->bar_generation++;
		return;
	}
	while (now->bar_generation == generation)
		yield();
}

void
await_launch(void)
{
	struct fiber *f = &now->fiber[emu_at.tid];

	while (!now->may_go) {
		f->waits = 1;
		yield();
	}
	f->waits = 0;
}

const u8 *
emu_warp(int op, const void *mine, u32 size)
{
	struct warp *w = &now->warp[emu_at.tid / WARP];
	u32 generation = w->generation;

	now->events++;
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
	struct fiber *f = &now->fiber[emu_at.tid];

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
	struct fiber *f = &now->fiber[emu_at.tid];

	if (f->n_group == GROUPS)
		fail("too many groups of copies for the emulator");
	f->group[f->n_group++] = f->n_copy;
}

void
emu_copy_wait(u32 n)
{
	struct fiber *f = &now->fiber[emu_at.tid];
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
begin_block(size_t shared)
{
	u32 n = emu_at.n_threads, i;

	memset(emu_at.smem, NONSENSE, shared + RED_ZONE);
	memset(now->warp, 0, sizeof now->warp);
	now->bar_come = 0;
	now->live = n;
	now->at = emu_at;
	for (i = 0; i < n; i++) {
		if (now->fiber[i].stack == NULL)
			now->fiber[i].stack = aligned_alloc(64, STACK);
		now->fiber[i].done = now->fiber[i].waits = 0;
		now->fiber[i].n_copy = now->fiber[i].n_group = 0;
		prepare(&now->fiber[i], entry);
	}
}

/* Returns how many threads do not wait for the launch before. */
static u32
busy(void)
{
	u32 n = 0, i;

	for (i = 0; i < emu_at.n_threads; i++)
		n += !now->fiber[i].done && !now->fiber[i].waits;
	return n;
}

/* Runs the block to its end or, if it may not go on, until all its threads wait. */
static void
run_block(size_t shared)
{
	static u32 order[THREADS];
	u32 n, i, idle = 0, slow = (u32)draw(), misses;
	u64 before;

	emu_at = now->at;
	n = emu_at.n_threads;
	for (i = 0; i < n; i++)
		order[i] = i;
	while (now->may_go ? now->live > 0 : busy() > 0) {
		before = now->events;
		misses = idle == 0 ? slow & (u32)draw() : 0;
		shuffle(order, n);
		for (i = 0; i < n; i++) {
			if (now->fiber[order[i]].done || (misses >> order[i] /
			    WARP & 1))
				continue;
			emu_at.tid = order[i];
			go_in(&now->fiber[order[i]]);
		}
		for (i = 0; i < RED_ZONE; i++) {
			if (emu_at.smem[shared + i] != NONSENSE)
				fail("something is written after SMEM");
		}
		idle = now->events == before ? idle + 1 : 0;
		if (idle > 2)
			fail("all threads wait");
	}
}

static void
begin_grid(void (*kernel)(const void *), const void *arg,
    const struct emu_grid *g)
{
	static u8 *memory[2];
	size_t i = (size_t)(now - both);

	if (memory[i] == NULL)
		memory[i] = aligned_alloc(128, SHARED_MAX + RED_ZONE + 128 -
		    RED_ZONE % 128);
	if (g->shared > SHARED_MAX || g->threads > THREADS ||
	    g->threads % WARP != 0 || g->threads == 0)
		fail("no card takes this launch");
	now->body = kernel;
	now->arg = arg;
	emu_at = (struct emu_at){ .n_threads = g->threads, .n_blocks = g->x,
	    .smem = memory[i] };
}

void
emu_begin(void (*kernel)(const void *), const void *arg,
    const struct emu_grid *g)
{
	now = &both[now == &both[0]];
	begin_grid(kernel, arg, g);
	now->may_go = 0;
	begin_block(g->shared);
	run_block(g->shared);
	now = &both[now == &both[0]];
	has_begun = 1;
}

void
emu_run(void (*kernel)(const void *), const void *arg,
    const struct emu_grid *g, int begun)
{
	struct emu_at at;

	if (!begun)
		begin_grid(kernel, arg, g);
	now->arg = arg;
	now->may_go = 1;
	if (begun)
		run_block(g->shared);
	at = (struct emu_at){ .n_threads = g->threads, .n_blocks = g->x,
	    .smem = begun ? now->at.smem : emu_at.smem };
	for (at.bid_z = 0; at.bid_z < g->z; at.bid_z++) {
		for (at.bid_y = 0; at.bid_y < g->y; at.bid_y++) {
			for (at.bid = 0; at.bid < g->x; at.bid++) {
				if (begun && (at.bid | at.bid_y | at.bid_z) ==
				    0)
					continue;
				emu_at = at;
				begin_block(g->shared);
				run_block(g->shared);
			}
		}
	}
	if (has_begun)
		now = &both[now == &both[0]];
	has_begun = 0;
}
