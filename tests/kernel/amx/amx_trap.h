/* SPDX-License-Identifier: ISC */
/*
 * amx_trap.h - tile instructions on a CPU without them: each is an illegal
 * instruction, which a signal handler decodes and gives to the model.  So the
 * very code that is shipped runs in the tests, if slowly.
 */
#ifndef AMX_TRAP_H
#define AMX_TRAP_H

/* 0 if tile instructions work from now on; -1 where they cannot. */
int amx_trap_install(void);

#endif
