/* SPDX-License-Identifier: ISC */
/*
 * section.h - the table of what a state consists of: a row says all that
 * reading, writing and checking need to know of a kind of records.
 *
 * A new section is a kind in state.h, a row in section.c, and the two functions
 * that the row names: one takes it from a record, one puts it into one.
 */
#ifndef QWEN_STATE_SECTION_H
#define QWEN_STATE_SECTION_H

#include "engine/state/state.h"

struct qwen_session;
struct qwen_state_in;
struct qwen_save;

/* Where data is to go. */
struct qwen_place {
	struct qwen_session	*s;
	void			*recurrent;	/* laid out as in s */
	float			*logits;
	uint64_t		 first, stop;	/* KV blocks of s: the object's
						   first, and the first that is
						   not wanted */
	int			 mapped;	/* raw data stay where they are
						   as long as s lives */
};

struct qwen_section {
	const char	*name;
	unsigned	 fields;	/* bits 1 << field that it has, */
	unsigned	 optional;	/* and may have */
	unsigned	 width;		/* bytes of a number of its data; 0: it
					   has no data */

	/* Of data: how long its object is, in this layer if it is of one. */
	uint64_t	(*bytes)(const struct qwen_state_layout *l,
			    const struct qwen_state_layer *layer);

	/*
	 * Data that can wait until it is wanted: put the piece where it goes.
	 * NULL: it is read at once, like what has no data.
	 */
	void		(*place)(const struct qwen_place *p,
			    const struct qwen_state_entry *e,
			    const unsigned char *raw);

	/* A record whose fields and place are right, its data decoded. */
	int		(*take)(struct qwen_state_in *v,
			    const struct qwen_state_rec *rec,
			    const unsigned char *raw, struct qwen_err *err);

	/* All records of it; those of a position are put by the first. */
	int		(*put)(struct qwen_save *v);
};

/* By kind; the last one is that of unknown kinds. */
extern const struct qwen_section qwen_sections[QWEN_K_N + 1];

#endif
