/* SPDX-License-Identifier: ISC */
/* vec_neon.h - vec.h in NEON: four registers. */
#ifndef QWEN_KERNEL_VEC_NEON_H
#define QWEN_KERNEL_VEC_NEON_H

#include <arm_neon.h>

typedef struct { float32x4_t v[4]; } v16;

#define FOUR(expr) do {							\
	v16 r_;								\
	int i;								\
									\
	for (i = 0; i < 4; i++)						\
		r_.v[i] = (expr);					\
	return r_;							\
} while (0)

/* a > b ? a : b; FMAX would make more of NaN and of -0. */
VI float32x4_t
max_f32(float32x4_t a, float32x4_t b)
{
	return vbslq_f32(vcgtq_f32(a, b), a, b);
}
VI float32x4_t
load4_f16(const uint16_t *p)
{
	return vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(p)));
}

VI v16 v_load(const float *p) { FOUR(vld1q_f32(p + 4 * i)); }
VI v16 v_set1(float x) { FOUR(vdupq_n_f32(x)); }
VI v16 v_add(v16 a, v16 b) { FOUR(vaddq_f32(a.v[i], b.v[i])); }
VI v16 v_sub(v16 a, v16 b) { FOUR(vsubq_f32(a.v[i], b.v[i])); }
VI v16 v_mul(v16 a, v16 b) { FOUR(vmulq_f32(a.v[i], b.v[i])); }
VI v16 v_div(v16 a, v16 b) { FOUR(vdivq_f32(a.v[i], b.v[i])); }
VI v16 v_max(v16 a, v16 b) { FOUR(max_f32(a.v[i], b.v[i])); }
VI v16
v_fma(v16 a, v16 b, v16 c)
{
	FOUR(vfmaq_f32(c.v[i], a.v[i], b.v[i]));
}
VI v16 v_load_f16(const uint16_t *p) { FOUR(load4_f16(p + 4 * i)); }
VI v16
v_load_bf16(const uint16_t *p)
{
	FOUR(vreinterpretq_f32_u32(vshll_n_u16(vld1_u16(p + 4 * i), 16)));
}
VI void
v_store(float *p, v16 a)
{
	int i;

	for (i = 0; i < 4; i++)
		vst1q_f32(p + 4 * i, a.v[i]);
}
VI void
v_store_f16(uint16_t *p, v16 a)
{
	int i;

	for (i = 0; i < 4; i++)
		vst1_u16(p + 4 * i,
		    vreinterpret_u16_f16(vcvt_f16_f32(a.v[i])));
}
VI uint16x4_t
round4_bf16(float32x4_t a)
{
	uint32x4_t u = vreinterpretq_u32_f32(a);
	uint32x4_t odd = vandq_u32(vshrq_n_u32(u, 16), vdupq_n_u32(1));
	uint32x4_t r = vaddq_u32(vaddq_u32(u, odd), vdupq_n_u32(0x7fff));

	r = vbslq_u32(vceqq_f32(a, a), r, vorrq_u32(u,
	    vdupq_n_u32(0x400000)));
	r = vbicq_u32(r, vcltq_f32(vabsq_f32(a), vdupq_n_f32(QWEN_BF16_LEAST)));
	return vshrn_n_u32(r, 16);
}
VI void
v_store_bf16(uint16_t *p, v16 a)
{
	int i;

	for (i = 0; i < 4; i++)
		vst1_u16(p + 4 * i, round4_bf16(a.v[i]));
}
VI float
v_sum(v16 a)
{
	float32x4_t s = vaddq_f32(vaddq_f32(a.v[0], a.v[2]),
	    vaddq_f32(a.v[1], a.v[3]));
	float32x2_t t = vadd_f32(vget_low_f32(s), vget_high_f32(s));

	return vget_lane_f32(t, 0) + vget_lane_f32(t, 1);
}
VI float
v_hmax(v16 a)
{
	float32x4_t s = max_f32(max_f32(a.v[0], a.v[2]),
	    max_f32(a.v[1], a.v[3]));

	s = max_f32(s, vextq_f32(s, s, 2));
	return vgetq_lane_f32(max_f32(s, vextq_f32(s, s, 1)), 0);
}
VI unsigned
v_at_least(v16 a, v16 b)
{
	const uint32x4_t bit = { 1, 2, 4, 8 };
	unsigned m = 0;
	int i;

	for (i = 0; i < 4; i++)
		m |= vaddvq_u32(vandq_u32(vcgeq_f32(a.v[i], b.v[i]), bit)) <<
		    4 * i;
	return m;
}
VI float32x4_t
exp4(float32x4_t x)
{
	float32x4_t lo = vdupq_n_f32(EXP_LO), hi = vdupq_n_f32(EXP_HI);
	float32x4_t y = vminq_f32(vmaxq_f32(x, lo), hi);
	float32x4_t n = vrndnq_f32(vmulq_f32(y, vdupq_n_f32(EXP_LOG2E)));
	float32x4_t r, p;

	r = vfmsq_f32(y, n, vdupq_n_f32(EXP_LN2_HI));
	r = vfmsq_f32(r, n, vdupq_n_f32(EXP_LN2_LO));
	p = vfmaq_f32(vdupq_n_f32(EXP_C5), vdupq_n_f32(EXP_C6), r);
	p = vfmaq_f32(vdupq_n_f32(EXP_C4), p, r);
	p = vfmaq_f32(vdupq_n_f32(EXP_C3), p, r);
	p = vfmaq_f32(vdupq_n_f32(EXP_C2), p, r);
	p = vaddq_f32(vfmaq_f32(r, p, vmulq_f32(r, r)), vdupq_n_f32(1.0f));
	p = vmulq_f32(p, vreinterpretq_f32_s32(vshlq_n_s32(vaddq_s32(
	    vcvtq_s32_f32(n), vdupq_n_s32(127)), 23)));
	p = vbslq_f32(vcltq_f32(x, lo), vdupq_n_f32(0.0f), p);
	p = vbslq_f32(vcgtq_f32(x, hi), vdupq_n_f32(INFINITY), p);
	return vbslq_f32(vceqq_f32(x, x), p, x);
}
VI v16 v_exp(v16 x) { FOUR(exp4(x.v[i])); }
VI void
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
/* FMAXNM takes the number where the other is NaN, as plain C does. */
VI int16x4_t
round4(float32x4_t a)
{
	return vmovn_s32(vcvtnq_s32_f32(vminq_f32(vmaxnmq_f32(a,
	    vdupq_n_f32(-127.0f)), vdupq_n_f32(127.0f))));
}
VI void
v_store_i8(int8_t *p, v16 a)
{
	vst1q_s8(p, vcombine_s8(
	    vmovn_s16(vcombine_s16(round4(a.v[0]), round4(a.v[1]))),
	    vmovn_s16(vcombine_s16(round4(a.v[2]), round4(a.v[3])))));
}
VI void
v_sums16(int32_t *out, const int8_t *q)
{
	int i;

	for (i = 0; i < 16; i++)
		out[i] = vaddlvq_s8(vld1q_s8(q + 16 * i));
}

#endif
