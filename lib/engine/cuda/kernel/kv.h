/* SPDX-License-Identifier: ISC */
/*
 * kv.h - keys and values in the blocks of a session, whose layout quant/kv.h
 * gives, as kernels read and write them.
 */
#ifndef QWEN_CUDA_KV_H
#define QWEN_CUDA_KV_H

#include "engine/cuda/kernel/args.h"
#include "engine/quant/kv.h"

/* A head's keys, or with is_v values, of 16 positions. */
struct dev_kv {
	GLOBAL u8	*p;
	enum qwen_kv	 type;
	u32		 d;
	int		 is_v;
};

/*
 * Returns those of the block that has the slot.  block is where the layer's part
 * of a slot begins.
 */
DEV struct dev_kv
kv_at(const GLOBAL struct dev_share *share, u64 block,
    const struct qwen_kv_shape *s, u32 slot, u32 head, int is_v)
{
	const GLOBAL u64 *table = (const GLOBAL u64 *)share->table;
	struct dev_kv kv = { .type = is_v ? s->v : s->k, .d = (u32)s->d,
	    .is_v = is_v };

	kv.p = (GLOBAL u8 *)(table[slot / QWEN_KV_BLOCK] + block) +
	    qwen_kv_head_at(s, head, is_v);
	return kv;
}

/* ---- f16 and f32: number i of position `at' (0 .. 15) */

DEV f32
kv_float(const struct dev_kv *kv, u32 at, u32 i)
{
	const GLOBAL u8 *p = kv->p + qwen_kv_number_at(kv->type, kv->d,
	    kv->is_v, at, i);

	return kv->type == QWEN_KV_F32 ? *(const GLOBAL f32 *)p :
	    f16_f32(*(const GLOBAL u16 *)p);
}

DEV void
kv_put_float(const struct dev_kv *kv, u32 at, u32 i, f32 x)
{
	GLOBAL u8 *p = kv->p + qwen_kv_number_at(kv->type, kv->d, kv->is_v, at,
	    i);

	if (kv->type == QWEN_KV_F32)
		*(GLOBAL f32 *)p = x;
	else
		*(GLOBAL u16 *)p = f32_f16(x);
}

/* ---- integers, and the scales of each 32 */

DEV s32
kv_integer(const struct dev_kv *kv, u32 at, u32 i)
{
	u32 byte = kv->p[qwen_kv_number_at(kv->type, kv->d, kv->is_v, at, i)];

	return kv->type == QWEN_KV_Q8_0 ? (s8)byte :
	    (s32)(byte >> i % QWEN_KV_GROUP / 16 * 4 & 15) - 8;
}

DEV GLOBAL u16 *
kv_scale(const struct dev_kv *kv, u32 at, u32 group)
{
	return (GLOBAL u16 *)kv->p + group * QWEN_KV_BLOCK + at;
}

#endif
