/* SPDX-License-Identifier: ISC */
/*
 * args.h - rows and shares of a pass (device.h) as kernels see them, in the
 * memory of the card.
 */
#ifndef QWEN_CUDA_ARGS_H
#define QWEN_CUDA_ARGS_H

#include "engine/cuda/kernel/dev.h"

/* A row of a pass: struct qwen_input. */
struct dev_row {
	u32	share;		/* index of its share */
	u32	slot;		/* of its keys and values */
	u32	wanted;		/* 0: the mixer of the last layer skips the row,
				   whose result is not needed */
	u32	deep;		/* 1 + index of its vectors that are added to
				   results of the first layers; 0: none */
};

/* The rows of a session: struct qwen_share. */
struct dev_share {
	u64	table;		/* u64 [blocks]: address of each KV block; the
				   first has slot 0 */
	u64	state;		/* the session's recurrent states, then the
				   journal's rows: see memory.c */
	u32	first, n;	/* rows of the pass */
	u32	n_sure;		/* those after them are drafts */
	u32	want;
	u32	pos;		/* position of the first row */
	u32	owed;		/* tokens of the journal before pos that the
				   state lacks */
	u32	pad[2];
};

/*
 * Where a share has a NaN or infinity: the first place (QWEN_PLACE_) in rows of
 * tokens, and the first draft that has one.  0xffffffff: all numbers are finite.
 */
struct dev_flag {
	u32	bad, good;
};

/* What every kernel of a pass gets. */
struct dev_pass {
	const GLOBAL struct dev_row	*row;
	const GLOBAL struct dev_share	*share;
	GLOBAL struct dev_flag		*flag;	/* [shares] */
	u32				 n;	/* rows */
	u32				 pad;
};

/* qwen_note_bad(): row t has a NaN or infinity at a place. */
DEV void
note_bad(const struct dev_pass *p, u32 t, u32 place)
{
	const u32 at = p->row[t].share;
	const GLOBAL struct dev_share *s = p->share + at;

	if (t - s->first < s->n_sure)
		atomic_min(&p->flag[at].bad, place);
	else
		atomic_min(&p->flag[at].good, t - s->first - s->n_sure);
}

#endif
