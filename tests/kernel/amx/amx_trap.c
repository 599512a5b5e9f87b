/* SPDX-License-Identifier: ISC */
/*
 * amx_trap.c - decodes, on SIGILL, the tile instructions that kernels use.
 *
 * They have a VEX prefix of three bytes, map 0F38, W 0, L 0; the prefix field
 * pp (none, 66, F3, F2) is part of the opcode.
 */
#define _GNU_SOURCE
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "amx_model.h"
#include "amx_trap.h"

#if defined(__x86_64__) && defined(__linux__)
#include <ucontext.h>

enum { PP_NONE, PP_66, PP_F3, PP_F2 };

struct insn {
	unsigned	 pp, opcode;
	unsigned	 reg, rm, vvvv;
	unsigned	 mod;
	uint64_t	 base;		/* address without the index */
	uint64_t	 index;
	size_t		 length;
};

static uint64_t
reg_value(const ucontext_t *uc, unsigned r)
{
	static const int order[16] = { REG_RAX, REG_RCX, REG_RDX, REG_RBX,
	    REG_RSP, REG_RBP, REG_RSI, REG_RDI, REG_R8, REG_R9, REG_R10,
	    REG_R11, REG_R12, REG_R13, REG_R14, REG_R15 };

	return (uint64_t)uc->uc_mcontext.gregs[order[r]];
}

/* The memory operand at p, after ModRM; returns the bytes it took. */
static size_t
decode_memory(const ucontext_t *uc, const uint8_t *p, struct insn *in,
    unsigned x, unsigned b)
{
	const uint8_t *begin = p;
	unsigned base = in->rm & 7;
	int32_t disp = 0;

	if (base == 4) {
		unsigned i = (*p >> 3 & 7) | x << 3;

		base = *p & 7;
		in->index = i == 4 ? 0 : reg_value(uc, i) << (*p >> 6);
		p++;
	} else if (base == 5 && in->mod == 0) {
		/* relative to the next instruction: ModRM is byte 4 of this */
		memcpy(&disp, p, 4);
		in->base = (uint64_t)uc->uc_mcontext.gregs[REG_RIP] + 9 +
		    (uint64_t)(int64_t)disp;
		return 4;
	}
	if (in->mod == 1) {
		disp = (int8_t)*p++;
	} else if (in->mod == 2 || (base == 5 && in->mod == 0)) {
		memcpy(&disp, p, 4);
		p += 4;
	}
	in->base = (uint64_t)(int64_t)disp;
	if (base != 5 || in->mod != 0)
		in->base += reg_value(uc, base | b << 3);
	return (size_t)(p - begin);
}

static int
decode(const ucontext_t *uc, struct insn *in)
{
	const uint8_t *p = (const uint8_t *)
	    (uintptr_t)uc->uc_mcontext.gregs[REG_RIP];
	unsigned r, x, b;

	memset(in, 0, sizeof *in);
	/* map 2; W and L are 0 */
	if (p[0] != 0xc4 || (p[1] & 31) != 2 || (p[2] & 0x84) != 0)
		return -1;
	r = ~p[1] >> 7 & 1;
	x = ~p[1] >> 6 & 1;
	b = ~p[1] >> 5 & 1;
	in->vvvv = ~p[2] >> 3 & 15;
	in->pp = p[2] & 3;
	in->opcode = p[3];
	in->mod = p[4] >> 6;
	in->reg = (p[4] >> 3 & 7) | r << 3;
	in->rm = p[4] & 7;
	in->length = 5;
	if (in->mod != 3)
		in->length += decode_memory(uc, p + 5, in, x, b);
	else
		in->rm |= b << 3;
	return 0;
}

static int
execute(const struct insn *in)
{
	void *p = (void *)(uintptr_t)in->base;

	switch (in->opcode << 4 | in->pp << 1 | (in->mod == 3)) {
	case 0x49 << 4 | PP_NONE << 1:
		amx_model_config(p);
		return 0;
	case 0x49 << 4 | PP_NONE << 1 | 1:
		amx_model_release();
		return 0;
	case 0x49 << 4 | PP_F2 << 1 | 1:
		amx_model_zero((int)in->reg);
		return 0;
	case 0x4b << 4 | PP_F2 << 1:
		amx_model_load((int)in->reg, p, (size_t)in->index);
		return 0;
	case 0x4b << 4 | PP_F3 << 1:
		amx_model_store((int)in->reg, p, (size_t)in->index);
		return 0;
	case 0x5e << 4 | PP_F2 << 1 | 1:
		amx_model_dpbssd((int)in->reg, (int)in->rm, (int)in->vvvv);
		return 0;
	case 0x5e << 4 | PP_F3 << 1 | 1:
		amx_model_dpbsud((int)in->reg, (int)in->rm, (int)in->vvvv);
		return 0;
	case 0x5e << 4 | PP_66 << 1 | 1:
		amx_model_dpbusd((int)in->reg, (int)in->rm, (int)in->vvvv);
		return 0;
	case 0x5e << 4 | PP_NONE << 1 | 1:
		amx_model_dpbuud((int)in->reg, (int)in->rm, (int)in->vvvv);
		return 0;
	case 0x5c << 4 | PP_F3 << 1 | 1:
		amx_model_dpbf16((int)in->reg, (int)in->rm, (int)in->vvvv);
		return 0;
	}
	return -1;
}

static void
handle(int sig, siginfo_t *info, void *context)
{
	ucontext_t *uc = context;
	struct insn in;

	(void)info;
	if (decode(uc, &in) < 0 || execute(&in) < 0) {
		/* not ours: it is met again, and ends the process */
		signal(sig, SIG_DFL);
		return;
	}
	uc->uc_mcontext.gregs[REG_RIP] += (long long)in.length;
}

int
amx_trap_install(void)
{
	struct sigaction sa;

	memset(&sa, 0, sizeof sa);
	sa.sa_sigaction = handle;
	sa.sa_flags = SA_SIGINFO | SA_NODEFER;
	return sigaction(SIGILL, &sa, NULL);
}

#else

int
amx_trap_install(void)
{
	return -1;
}

#endif
