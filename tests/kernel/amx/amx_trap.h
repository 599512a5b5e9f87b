/* SPDX-License-Identifier: ISC */
/*
 * amx_trap.h - tile instructions on a CPU without them.  Each raises an
 * illegal-instruction signal, whose handler decodes the instruction and calls
 * the software model.  So the tests run the shipped code, slowly.
 */
#ifndef AMX_TRAP_H
#define AMX_TRAP_H

/* Return 0 if tile instructions work from now on; -1 if that is impossible. */
int amx_trap_install(void);

#endif
