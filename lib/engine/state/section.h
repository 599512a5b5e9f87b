/* SPDX-License-Identifier: ISC */
/*
 * section.h - the table of the sections of a state: how the records of a kind
 * are read and written.
 *
 * To add a section, add a row in kind.c and its two functions in section.c.
 */
#ifndef QWEN_STATE_SECTION_H
#define QWEN_STATE_SECTION_H

#include "engine/state/read.h"

struct qwen_save;

struct qwen_section {
	/*
	 * For kinds that do not wait: reads a record whose fields and sequence
	 * were checked and whose data is decoded.
	 */
	int		(*read)(struct qwen_state_reader *v,
			    const struct qwen_state_rec *rec,
			    const unsigned char *raw, struct qwen_err *err);

	/*
	 * Writes all records of the section, v->kind.  The first kind of a
	 * position writes those of all such kinds.
	 */
	int		(*write)(struct qwen_save *v);
};

extern const struct qwen_section qwen_sections[QWEN_N_KINDS];

#endif
