/* SPDX-License-Identifier: ISC */
/*
 * dev.h - the words in which kernels for cards are written.
 *
 * The same text is compiled twice: by clang to PTX, the assembly language of
 * NVIDIA's drivers, and by any compiler as plain C for the emulator of
 * tests/cuda/emu.c, where each thread of a block is a coroutine.
 *
 * A block has up to 1024 threads, in warps of 32.  All arithmetic is IEEE,
 * rounded to nearest, and nothing is contracted; so a kernel that keeps the
 * order of qwen-numerics(7) has its bits.  Kernels use no libm, no floating-point
 * atomics, and (a > b ? a : b) in place of fmaxf().
 */
#ifndef QWEN_CUDA_DEV_H
#define QWEN_CUDA_DEV_H

typedef unsigned char u8;
typedef signed char s8;
typedef unsigned short u16;
typedef short s16;
typedef unsigned u32;
typedef int s32;
typedef unsigned long long u64;
typedef float f32;
typedef double f64;
typedef u32 u32x4 __attribute__((vector_size(16)));
typedef u32 u32x2 __attribute__((vector_size(8)));
typedef f32 f32x4 __attribute__((vector_size(16)));
typedef f32 f32x2 __attribute__((vector_size(8)));

#define DEV static inline __attribute__((always_inline, unused))

/*
 * Both forms define:
 *
 * KERNEL(name, struct args) { ... a.member ... }
 *	a kernel, whose argument is one struct `a', up to 1024 bytes.  It begins
 *	when the launch before has ended.
 * KERNEL_EARLY(name, struct args) { allow_next(); ... await_launch(); ... }
 *	one that may begin earlier.  Until it has waited, it reads nothing that
 *	another launch writes, and writes nothing.  allow_next lets the next launch
 *	begin when all blocks of this one have come there.
 * prefetch(p)
 *	asks for the 128 bytes at p, to be near when they are read.
 * GLOBAL, SHARED
 *	what a pointer points to: memory of the card, or of the block.
 * SMEM
 *	the block's memory, 128-byte aligned, of the size given at the launch.
 * UNROLL
 *	before a loop whose number of rounds is known.
 * ONE_BY_ONE
 *	before a loop that is to be kept as it is.
 * tid() n_threads() bid() bid_y() bid_z() n_blocks()
 *	the thread in its block; the block in the grid.
 * bar() warp_bar()
 *	wait for the threads of the block, or of the warp.
 * fence()
 *	what the thread has written is there for other blocks before what it writes
 *	later; and what they wrote before is there for what it reads later.
 * base(p)
 *	p, in a register of its own, to which constants are added in loads.
 * shfl_xor() shfl_xor_f32() shfl() shfl_f32()
 *	the value of lane `lane ^ m', or of lane i; all 32 lanes must come.
 * warp_most()
 *	the largest u32 of all 32 lanes.
 * rn_fma() rn_fma64() rn_sqrt() rn_int() up_int()
 *	fma, square root, rint, ceil.
 * bits_f32() f32_bits() f16_f32() f32_f16() bf16_f32()
 * dp4a() dp4a_us() dp4a_uu()
 *	c + the sum of four products of bytes: signed by signed, unsigned by
 *	signed, unsigned by unsigned.
 * prmt(a, b, sel) pick(a, b, sel)
 *	four bytes chosen by the lower four nibbles of sel: 0 .. 3 of a, 4 .. 7
 *	of b; prmt's is a constant.
 * mma_us() mma_ss() mma_uu(), mma16_us() mma16_ss() mma16_uu()
 *	tensor cores, exact: c[16][8] += a[16][k] b[8][k], k 32 or 16, in the
 *	fragments that the PTX manual gives for m16n8k32 and m16n8k16;
 *	mma_ss_0() sets c to the product.
 * copy16(shared, global) copy_commit() copy_wait(n)
 *	16 bytes that arrive later: copy_wait waits until at most the n last
 *	groups of copies are under way.
 * atomic_min(p, v) atomic_add(p, v) atomic_add_shared(p, v)
 *	on a u32; the last two return the old value.
 */
#ifdef __NVPTX__

#define GLOBAL __attribute__((address_space(1)))
#define SHARED __attribute__((address_space(3)))
#define KERNEL_EARLY(name, type)					\
	__attribute__((nvptx_kernel)) void name(const type a);		\
	__attribute__((nvptx_kernel)) void name(const type a)
#define KERNEL(name, type)						\
	DEV void name##_rest(const type a);				\
	KERNEL_EARLY(name, type)					\
	{								\
		allow_next();						\
		await_launch();						\
		name##_rest(a);						\
	}								\
	DEV void name##_rest(const type a)
#define UNROLL _Pragma("unroll")
#define ONE_BY_ONE _Pragma("nounroll")

extern SHARED u8 dev_smem[] __attribute__((aligned(128)));
#define SMEM ((SHARED u8 *)dev_smem)

DEV u32 tid(void) { return (u32)__nvvm_read_ptx_sreg_tid_x(); }
DEV u32 n_threads(void) { return (u32)__nvvm_read_ptx_sreg_ntid_x(); }
DEV u32 bid(void) { return (u32)__nvvm_read_ptx_sreg_ctaid_x(); }
DEV u32 bid_y(void) { return (u32)__nvvm_read_ptx_sreg_ctaid_y(); }
DEV u32 bid_z(void) { return (u32)__nvvm_read_ptx_sreg_ctaid_z(); }
DEV u32 n_blocks(void) { return (u32)__nvvm_read_ptx_sreg_nctaid_x(); }
DEV void bar(void) { __nvvm_bar_sync(0); }

/* Instructions of sm_90, which ptx.c makes of these comments. */
DEV void
allow_next(void)
{
	__asm__ volatile("//griddepcontrol.launch_dependents;" ::: "memory");
}

DEV void
await_launch(void)
{
	__asm__ volatile("//griddepcontrol.wait;" ::: "memory");
}

DEV void
prefetch(const GLOBAL void *p)
{
	__asm__ volatile("prefetch.global.L2 [%0];" :: "l"((u64)p));
}

DEV void
warp_bar(void)
{
	__asm__ volatile("bar.warp.sync 0xffffffff;" ::: "memory");
}

DEV void
fence(void)
{
	__asm__ volatile("fence.acq_rel.gpu;" ::: "memory");
}

#define base(p) ({							\
	__typeof__(p) p_ = (p);						\
									\
	__asm__("" : "+l"(p_));						\
	p_;								\
})

DEV f32 rn_fma(f32 a, f32 b, f32 c) { return __builtin_fmaf(a, b, c); }
DEV f64 rn_fma64(f64 a, f64 b, f64 c) { return __builtin_fma(a, b, c); }
DEV f32 rn_sqrt(f32 a) { return __builtin_sqrtf(a); }
DEV f32 rn_int(f32 a) { return __builtin_rintf(a); }
DEV f32 up_int(f32 a) { return __builtin_ceilf(a); }
DEV f32 bits_f32(u32 u) { return __builtin_bit_cast(f32, u); }
DEV u32 f32_bits(f32 f) { return __builtin_bit_cast(u32, f); }

DEV f32
f16_f32(u16 h)
{
	f32 f;

	__asm__("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(h));
	return f;
}

DEV u16
f32_f16(f32 f)
{
	u16 h;

	__asm__("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(f));
	return h;
}

DEV s32
shfl_xor(s32 v, u32 m)
{
	return __nvvm_shfl_sync_bfly_i32(~0u, v, (int)m, 31);
}

DEV s32
shfl(s32 v, u32 i)
{
	return __nvvm_shfl_sync_idx_i32(~0u, v, (int)i, 31);
}

DEV u32
warp_most(u32 v)
{
	u32 d;

	__asm__ volatile("redux.sync.max.u32 %0, %1, 0xffffffff;" : "=r"(d) :
	    "r"(v));
	return d;
}

#define prmt(a, b, sel) ({						\
	u32 d_;								\
									\
	__asm__("prmt.b32 %0, %1, %2, %3;" : "=r"(d_) : "r"(a), "r"(b),	\
	    "n"(sel));							\
	d_;								\
})

DEV u32
pick(u32 a, u32 b, u32 sel)
{
	u32 d;

	__asm__("prmt.b32 %0, %1, %2, %3;" : "=r"(d) : "r"(a), "r"(b),
	    "r"(sel));
	return d;
}

#define DP4A(name, types)						\
DEV s32									\
name(u32 a, u32 b, s32 c)						\
{									\
	s32 d;								\
									\
	__asm__("dp4a." types " %0, %1, %2, %3;" : "=r"(d) : "r"(a),	\
	    "r"(b), "r"(c));						\
	return d;							\
}
DP4A(dp4a, "s32.s32")
DP4A(dp4a_us, "u32.s32")
DP4A(dp4a_uu, "u32.u32")

#define MMA32(name, types)						\
DEV void								\
name(s32 *c, const u32 *a, const u32 *b)				\
{									\
	__asm__("mma.sync.aligned.m16n8k32.row.col.s32." types ".s32 "	\
	    "{%0,%1,%2,%3},{%4,%5,%6,%7},{%8,%9},{%0,%1,%2,%3};"	\
	    : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])		\
	    : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]),	\
	    "r"(b[1]));							\
}
#define MMA16(name, types)						\
DEV void								\
name(s32 *c, const u32 *a, const u32 *b)				\
{									\
	__asm__("mma.sync.aligned.m16n8k16.row.col.s32." types ".s32 "	\
	    "{%0,%1,%2,%3},{%4,%5},{%6},{%0,%1,%2,%3};"			\
	    : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])		\
	    : "r"(a[0]), "r"(a[1]), "r"(b[0]));				\
}

/* Sets c to the product. */
DEV void
mma_ss_0(s32 *c, const u32 *a, const u32 *b)
{
	__asm__("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 "
	    "{%0,%1,%2,%3},{%4,%5,%6,%7},{%8,%9},{%10,%10,%10,%10};"
	    : "=r"(c[0]), "=r"(c[1]), "=r"(c[2]), "=r"(c[3])
	    : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]),
	    "r"(b[1]), "r"(0));
}

MMA32(mma_us, "u8.s8")
MMA32(mma_ss, "s8.s8")
MMA32(mma_uu, "u8.u8")
MMA16(mma16_us, "u8.s8")
MMA16(mma16_ss, "s8.s8")
MMA16(mma16_uu, "u8.u8")

DEV void
copy16(SHARED void *s, const GLOBAL void *g)
{
	__asm__ volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::
	    "r"((u32)(u64)s), "l"((u64)g) : "memory");
}

DEV void
copy_commit(void)
{
	__asm__ volatile("cp.async.commit_group;" ::: "memory");
}

#define copy_wait(n)							\
	__asm__ volatile("cp.async.wait_group %0;" :: "n"(n) : "memory")

DEV void
atomic_min(GLOBAL u32 *p, u32 v)
{
	__asm__ volatile("red.global.min.u32 [%0], %1;" :: "l"((u64)p),
	    "r"(v) : "memory");
}

DEV u32
atomic_add(GLOBAL u32 *p, u32 v)
{
	u32 old;

	__asm__ volatile("atom.global.add.u32 %0, [%1], %2;" : "=r"(old) :
	    "l"((u64)p), "r"(v) : "memory");
	return old;
}

DEV u32
atomic_add_shared(SHARED u32 *p, u32 v)
{
	u32 old;

	__asm__ volatile("atom.shared.add.u32 %0, [%1], %2;" : "=r"(old) :
	    "r"((u32)(u64)p), "r"(v) : "memory");
	return old;
}

#else	/* ---- plain C, for the emulator */

#include <math.h>
#include <string.h>

#include "base/half.h"

#define GLOBAL
#define SHARED
#define KERNEL_EARLY(name, type)					\
static void name##_body(const type a);					\
void name(const void *p);						\
void name(const void *p) { name##_body(*(const type *)p); }		\
static void name##_body(const type a)
#define KERNEL(name, type)						\
static void name##_rest(const type a);					\
KERNEL_EARLY(name, type) { await_launch(); name##_rest(a); }		\
static void name##_rest(const type a)
#define UNROLL
#define ONE_BY_ONE

/* ---- what the emulator gives: tests/cuda/emu.c */

struct emu_at {
	u32	 tid, n_threads, bid, bid_y, bid_z, n_blocks;
	u8	*smem;
};
extern struct emu_at emu_at;
void emu_bar(void);
void await_launch(void);
/*
 * Waits for all lanes of the warp with the same op, which bring size bytes each
 * (64 at most); returns those of lane 0; those of lane i are i * 64 further.
 */
const u8 *emu_warp(int op, const void *mine, u32 size);
void copy16(void *s, const void *g);
void copy_commit(void);
void emu_copy_wait(u32 n);

#define SMEM (emu_at.smem)
#define copy_wait(n) emu_copy_wait(n)
enum { EMU_SHFL, EMU_WARP_BAR, EMU_MAX, EMU_MMA, EMU_LANE = 64 };

DEV u32 tid(void) { return emu_at.tid; }
DEV u32 n_threads(void) { return emu_at.n_threads; }
DEV u32 bid(void) { return emu_at.bid; }
DEV u32 bid_y(void) { return emu_at.bid_y; }
DEV u32 bid_z(void) { return emu_at.bid_z; }
DEV u32 n_blocks(void) { return emu_at.n_blocks; }
DEV void bar(void) { emu_bar(); }
DEV void fence(void) { }
DEV void allow_next(void) { }
DEV void prefetch(const void *p) { (void)p; }
#define base(p) (p)
DEV f32 rn_fma(f32 a, f32 b, f32 c) { return fmaf(a, b, c); }
DEV f64 rn_fma64(f64 a, f64 b, f64 c) { return fma(a, b, c); }
DEV f32 rn_sqrt(f32 a) { return sqrtf(a); }
DEV f32 rn_int(f32 a) { return rintf(a); }
DEV f32 up_int(f32 a) { return ceilf(a); }
DEV f32 bits_f32(u32 u) { f32 f; memcpy(&f, &u, 4); return f; }
DEV u32 f32_bits(f32 f) { u32 u; memcpy(&u, &f, 4); return u; }
DEV f32 f16_f32(u16 h) { return qwen_f16_f32(h); }
DEV u16 f32_f16(f32 f) { return qwen_f32_f16(f); }

DEV void
warp_bar(void)
{
	u32 nothing = 0;

	emu_warp(EMU_WARP_BAR, &nothing, sizeof nothing);
}

DEV s32
shfl(s32 v, u32 i)
{
	s32 r;

	memcpy(&r, emu_warp(EMU_SHFL, &v, sizeof v) + i % 32 * EMU_LANE,
	    sizeof r);
	return r;
}

DEV s32 shfl_xor(s32 v, u32 m) { return shfl(v, (tid() & 31) ^ m); }

DEV u32
warp_most(u32 v)
{
	const u8 *p = emu_warp(EMU_MAX, &v, sizeof v);
	u32 i, one;

	for (i = 0; i < 32; i++) {
		memcpy(&one, p + i * EMU_LANE, sizeof one);
		v = one > v ? one : v;
	}
	return v;
}

DEV s32
dp4a(u32 a, u32 b, s32 c)
{
	int i;

	for (i = 0; i < 4; i++)
		c += (s8)(a >> 8 * i) * (s8)(b >> 8 * i);
	return c;
}

DEV s32
dp4a_us(u32 a, u32 b, s32 c)
{
	int i;

	for (i = 0; i < 4; i++)
		c += (u8)(a >> 8 * i) * (s8)(b >> 8 * i);
	return c;
}

DEV s32
dp4a_uu(u32 a, u32 b, s32 c)
{
	int i;

	for (i = 0; i < 4; i++)
		c += (u8)(a >> 8 * i) * (u8)(b >> 8 * i);
	return c;
}

DEV u32
prmt(u32 a, u32 b, u32 sel)
{
	u64 v = (u64)b << 32 | a;
	u32 i, d = 0;

	for (i = 0; i < 4; i++)
		d |= (u32)(v >> 8 * (sel >> 4 * i & 7) & 255) << 8 * i;
	return d;
}

DEV u32 pick(u32 a, u32 b, u32 sel) { return prmt(a, b, sel); }

DEV s32 emu_byte(const u8 *p, int is_s) { return is_s ? (s8)*p : *p; }

/*
 * Row r and number k of A are in register r / 8 + 2 * (k / 16) of lane
 * r % 8 * 4 + k % 16 / 4; B's column in the place of a row, with half of the
 * registers.  A lane has rows lane / 4 and 8 more of C, and two columns.
 */
DEV void
emu_mma(s32 *c, const u32 *a, const u32 *b, int as, int bs, u32 k)
{
	struct { u32 a[4], b[2]; } f = { { 0 }, { 0 } };
	const u8 *p, *x, *y;
	u32 lane = tid() & 31, i, j, row, col;

	memcpy(f.a, a, k / 2);
	memcpy(f.b, b, k / 4);
	p = emu_warp(EMU_MMA + as + 2 * bs + (int)k, &f, sizeof f);
	for (i = 0; i < 4; i++) {
		row = lane / 4 + i / 2 * 8;
		col = lane % 4 * 2 + i % 2;
		for (j = 0; j < k; j++) {
			x = p + (row % 8 * 4 + j % 16 / 4) * EMU_LANE +
			    (row / 8 + 2 * (j / 16)) * 4 + j % 4;
			y = p + (col * 4 + j % 16 / 4) * EMU_LANE + 16 +
			    j / 16 * 4 + j % 4;
			c[i] += emu_byte(x, as) * emu_byte(y, bs);
		}
	}
}

#define MMA(name, as, bs, k)						\
DEV void								\
name(s32 *c, const u32 *a, const u32 *b)				\
{									\
	emu_mma(c, a, b, as, bs, k);					\
}
MMA(mma_us, 0, 1, 32)
MMA(mma_ss, 1, 1, 32)
MMA(mma_uu, 0, 0, 32)
MMA(mma16_us, 0, 1, 16)
MMA(mma16_ss, 1, 1, 16)
MMA(mma16_uu, 0, 0, 16)

DEV void
mma_ss_0(s32 *c, const u32 *a, const u32 *b)
{
	c[0] = c[1] = c[2] = c[3] = 0;
	mma_ss(c, a, b);
}

DEV void atomic_min(u32 *p, u32 v) { *p = v < *p ? v : *p; }
DEV u32 atomic_add(u32 *p, u32 v) { *p += v; return *p - v; }
DEV u32 atomic_add_shared(u32 *p, u32 v) { *p += v; return *p - v; }

#endif

DEV f32
shfl_xor_f32(f32 v, u32 m)
{
	return bits_f32((u32)shfl_xor((s32)f32_bits(v), m));
}

DEV f32
shfl_f32(f32 v, u32 i)
{
	return bits_f32((u32)shfl((s32)f32_bits(v), i));
}

DEV f32 bf16_f32(u16 h) { return bits_f32((u32)h << 16); }

/* Is it neither a NaN nor an infinity? */
DEV int
is_finite(f32 x)
{
	return (f32_bits(x) & 0x7f800000) != 0x7f800000;
}

#endif
