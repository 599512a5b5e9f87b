/* SPDX-License-Identifier: ISC */
/* emu.h - runs a kernel for cards on the CPU. */
#ifndef EMU_H
#define EMU_H

#include <stddef.h>

/* Blocks of a grid, threads of a block, bytes of its memory. */
struct emu_grid {
	unsigned	x, y, z, threads;
	size_t		shared;
};

/*
 * Runs the plain C form of a kernel.  The process ends, with a line on stderr,
 * if lanes come to different warp operations, threads to different barriers, or
 * one writes after the block's memory.
 */
void emu_run(void (*kernel)(const void *), const void *arg,
    const struct emu_grid *g, int begun);

/*
 * Runs the first block of a kernel until it waits for the launch before, which is
 * the next one to run; then comes this one, with begun set.
 */
void emu_begin(void (*kernel)(const void *), const void *arg,
    const struct emu_grid *g);

#endif
