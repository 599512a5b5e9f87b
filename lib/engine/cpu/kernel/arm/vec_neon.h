/* SPDX-License-Identifier: ISC */
/* vec_neon.h - the operations of vec.h in NEON: four registers. */
#ifndef QWEN_KERNEL_VEC_NEON_H
#define QWEN_KERNEL_VEC_NEON_H

#include <arm_neon.h>

typedef float32x4_t part;

VEC_INLINE part p_load(const float *p) { return vld1q_f32(p); }
VEC_INLINE void p_store(float *p, part a) { vst1q_f32(p, a); }
VEC_INLINE part p_set1(float x) { return vdupq_n_f32(x); }
VEC_INLINE part p_fma(part a, part b, part c) { return vfmaq_f32(c, a, b); }
VEC_INLINE part
p_choose(part a, part b, part yes, part no)
{
	return vbslq_f32(vcleq_f32(a, b), yes, no);
}
/* a > b ? a : b; FMAX treats NaN and -0 differently. */
VEC_INLINE part p_max(part a, part b) { return vbslq_f32(vcgtq_f32(a, b), a, b);
    }
VEC_INLINE part p_min(part a, part b) { return vminq_f32(a, b); }
VEC_INLINE part p_round(part a) { return vrndnq_f32(a); }
VEC_INLINE part
p_load_f16(const uint16_t *p)
{
	return vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(p)));
}
VEC_INLINE part
p_load_bf16(const uint16_t *p)
{
	return vreinterpretq_f32_u32(vshll_n_u16(vld1_u16(p), 16));
}
VEC_INLINE void
p_store_f16(uint16_t *p, part a)
{
	vst1_u16(p, vreinterpret_u16_f16(vcvt_f16_f32(a)));
}
VEC_INLINE void
p_store_upper(uint16_t *p, part a)
{
	vst1_u16(p, vshrn_n_u32(vreinterpretq_u32_f32(a), 16));
}
VEC_INLINE void
p_store_i8(int8_t *p, part a)
{
	int16x4_t i = vmovn_s32(vcvtnq_s32_f32(p_min(p_max(a, p_set1(-127.0f)),
	    p_set1(127.0f))));

	vst1_lane_s32((int32_t *)(void *)p,
	    vreinterpret_s32_s8(vmovn_s16(vcombine_s16(i, i))), 0);
}
VEC_INLINE float
p_sum(part a)
{
	float32x2_t t = vadd_f32(vget_low_f32(a), vget_high_f32(a));

	return vget_lane_f32(t, 0) + vget_lane_f32(t, 1);
}
VEC_INLINE float
p_hmax(part a)
{
	a = p_max(a, vextq_f32(a, a, 2));
	return vgetq_lane_f32(p_max(a, vextq_f32(a, a, 1)), 0);
}
VEC_INLINE unsigned
p_at_least(part a, part b)
{
	const uint32x4_t bit = { 1, 2, 4, 8 };

	return vaddvq_u32(vandq_u32(vcgeq_f32(a, b), bit));
}
VEC_INLINE void
v_absmax_bits(uint32_t *out, const float *x)
{
	uint32x4_t m;
	int i, j;

	for (j = 0; j < 8; j++, x += 32) {
		m = vdupq_n_u32(0);
		for (i = 0; i < 8; i++)
			m = vmaxq_u32(m, vreinterpretq_u32_f32(vabsq_f32(
			    vld1q_f32(x + 4 * i))));
		out[j] = vmaxvq_u32(m);
	}
}
VEC_INLINE void
v_sums16(int32_t *out, const int8_t *q)
{
	int i;

	for (i = 0; i < 16; i++)
		out[i] = vaddlvq_s8(vld1q_s8(q + 16 * i));
}

/* ------------------------------------------------------ integers, in pairs */

typedef struct { int32x4_t v[4]; } i16x;
typedef struct { int16x8_t v[4]; } i16p;

VEC_INLINE i16x
i_zero(void)
{
	int32x4_t z = vdupq_n_s32(0);

	return (i16x){ { z, z, z, z } };
}
VEC_INLINE i16p
i_pair(const int16_t *p)
{
	int16x8_t v;
	int32_t x;

	memcpy(&x, p, sizeof x);
	v = vreinterpretq_s16_s32(vdupq_n_s32(x));
	return (i16p){ { v, v, v, v } };
}
VEC_INLINE i16p
i_load8(const int8_t *p)
{
	int8x16_t a = vld1q_s8(p), b = vld1q_s8(p + 16);

	return (i16p){ { vmovl_s8(vget_low_s8(a)), vmovl_high_s8(a),
	    vmovl_s8(vget_low_s8(b)), vmovl_high_s8(b) } };
}
VEC_INLINE i16p
i_load4(const uint8_t *p, i16p *high)
{
	int8_t low[32], up[32];
	int i;

	for (i = 0; i < 32; i += 16) {
		uint8x16_t x = vld1q_u8(p + i);
		int8x16_t eight = vdupq_n_s8(8);

		vst1q_s8(low + i, vsubq_s8(vreinterpretq_s8_u8(vandq_u8(x,
		    vdupq_n_u8(15))), eight));
		vst1q_s8(up + i, vsubq_s8(vreinterpretq_s8_u8(vshrq_n_u8(x,
		    4)), eight));
	}
	*high = i_load8(up);
	return i_load8(low);
}
VEC_INLINE int32x4_t
dot_part(int32x4_t acc, int16x8_t a, int16x8_t b)
{
	return vaddq_s32(acc, vpaddq_s32(vmull_s16(vget_low_s16(a),
	    vget_low_s16(b)), vmull_high_s16(a, b)));
}
VEC_INLINE i16x
i_dot(i16x acc, i16p a, i16p b)
{
	return (i16x){ { dot_part(acc.v[0], a.v[0], b.v[0]),
	    dot_part(acc.v[1], a.v[1], b.v[1]),
	    dot_part(acc.v[2], a.v[2], b.v[2]),
	    dot_part(acc.v[3], a.v[3], b.v[3]) } };
}

#endif
