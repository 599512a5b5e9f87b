/* SPDX-License-Identifier: ISC */
/* driver.c - the driver's library, a card, its memory, and launches. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "engine/cuda/driver.h"

#ifndef QPIPE_STATIC
#include <dlfcn.h>
#endif

enum { MODULES_MAX = 64, FUNCTIONS = 512, ARG_MAX_BYTES = 1024,
    LAUNCHES = 1024 };

struct qwen_cuda_module {
	const char	*name;
	cu_module	 module;
};

struct qwen_cuda_function {
	const char	*name;		/* NULL: free */
	cu_function	 function;
	size_t		 shared;	/* bytes it may have */
	double		 ms;		/* see qwen_cuda_time() */
	uint64_t	 calls;
};

/* Launches whose time is not known yet. */
struct qwen_cuda_timing {
	size_t		 n;
	struct {
		cu_event			 begin, end;
		struct qwen_cuda_function	*f;
	} of[LAUNCHES];
};

int
qwen_cuda_note(struct qwen_cuda_card *c, const char *what, cu_result rc)
{
	const char *text = NULL;

	if (rc == 0)
		return 0;
	if (c->failed == NULL) {
		c->failed = what;
		c->cu.error_text(rc, &text);
		snprintf(c->why, sizeof c->why, "%s",
		    text != NULL ? text : "unknown error");
	}
	return -1;
}

void
qwen_cuda_put_off(struct qwen_cuda_card *c, void (*launch)(void *arg),
    void *arg)
{
	c->later = launch;
	c->later_arg = arg;
}

void
qwen_cuda_settle(struct qwen_cuda_card *c)
{
	void (*launch)(void *arg) = c->later;

	c->later = NULL;
	if (launch != NULL)
		launch(c->later_arg);
}

/*
 * Calls the driver, after what was put off, unless the card has failed; -1 if it
 * has, or fails now.
 */
#define ASK(c, call, ...)						\
	(qwen_cuda_settle(c), (c)->failed != NULL ? -1 :		\
	    qwen_cuda_note(c, #call, (c)->cu.call(__VA_ARGS__)))

int
qwen_cuda_check(const struct qwen_cuda_card *c, struct qwen_err *err)
{
	if (c->failed == NULL)
		return 0;
	return qwen_fail(err, QWEN_EIO, "the card %s has failed: %s (%s)",
	    c->name, c->why, c->failed);
}

/* ------------------------------------------------------------ opening a card */

#ifdef QPIPE_STATIC
static int
load_library(struct qwen_cuda_card *c, struct qwen_err *err)
{
	(void)c;
	return qwen_fail(err, QWEN_EUNSUP, "static tools use no cards, since "
	    "NVIDIA's driver is a shared library");
}

static void
unload_library(struct qwen_cuda_card *c)
{
	(void)c;
}
#else
static int
load_library(struct qwen_cuda_card *c, struct qwen_err *err)
{
	static const struct {
		const char	*name;
		size_t		 at;
	} calls[] = {
#define X(member, name, params)						\
		{ #name, offsetof(struct qwen_cuda_calls, member) },
		CU_CALLS(X)
#undef X
	};
	void *p;
	size_t i;

	if ((c->library = dlopen("libcuda.so.1", RTLD_NOW)) == NULL)
		return qwen_fail(err, QWEN_EUNSUP, "no libcuda.so.1: NVIDIA's "
		    "driver is not installed");
	for (i = 0; i < sizeof calls / sizeof calls[0]; i++) {
		if ((p = dlsym(c->library, calls[i].name)) == NULL)
			return qwen_fail(err, QWEN_EUNSUP, "libcuda.so.1 has "
			    "no %s: the driver is too old", calls[i].name);
		memcpy((char *)&c->cu + calls[i].at, &p, sizeof p);
	}
	p = dlsym(c->library, "cuLaunchKernelEx");
	memcpy(&c->launch_ex, &p, sizeof p);
	return 0;
}

static void
unload_library(struct qwen_cuda_card *c)
{
	if (c->library != NULL)
		dlclose(c->library);
}
#endif

/* -1 if a call of opening a card has failed. */
static int
fail_open(const struct qwen_cuda_card *c, int n, struct qwen_err *err)
{
	return c->failed == NULL ? 0 : qwen_fail(err, QWEN_EIO,
	    "card %d cannot be opened: %s (%s)", n, c->why, c->failed);
}

static int
open_card(struct qwen_cuda_card *c, int n, struct qwen_err *err)
{
	int count = 0, major = 0, minor = 0, version = 0;

	if (ASK(c, init, 0) < 0 || ASK(c, count, &count) < 0)
		return fail_open(c, n, err);
	if (n < 0 || n >= count)
		return qwen_fail(err, QWEN_ERANGE,
		    "there is no card %d: the driver knows %d", n, count);
	ASK(c, device, &c->device, n);
	ASK(c, name, c->name, (int)sizeof c->name - 1, c->device);
	ASK(c, attribute, &major, CU_MAJOR, c->device);
	ASK(c, attribute, &minor, CU_MINOR, c->device);
	ASK(c, attribute, &c->n_sm, CU_N_SM, c->device);
	ASK(c, attribute, &c->shared_max, CU_SHARED_MAX, c->device);
	ASK(c, version, &version);
	if (major < 9 || version < CU_OVERLAP_VERSION)
		c->launch_ex = NULL;
	if (fail_open(c, n, err) < 0)
		return -1;
	if (major < 8)
		return qwen_fail(err, QWEN_EUNSUP, "%s: sm_%d%d; sm_80 or "
		    "newer is needed", c->name, major, minor);
	if (ASK(c, retain, &c->context, c->device) == 0 &&
	    ASK(c, set_current, c->context) == 0)
		ASK(c, stream_new, &c->stream, 1);
	return fail_open(c, n, err);
}

static cu_module find_module(struct qwen_cuda_card *c,
    const struct qwen_cuda_launch *l);

/* Unpacks the PTX, and loads a small module: does the driver take it? */
static int
check_kernels(struct qwen_cuda_card *c, int n, struct qwen_err *err)
{
	struct qwen_cuda_launch l = { .module = "rows" };

	if (qwen_cuda_ptx_unpack(&c->ptx, err) < 0)
		return -1;
	if (c->launch_ex != NULL)
		qwen_cuda_ptx_overlap(&c->ptx);
	return find_module(c, &l) != NULL ? 0 : fail_open(c, n, err);
}

int
qwen_cuda_card_open(struct qwen_cuda_card **out, int n, struct qwen_err *err)
{
	struct qwen_cuda_card *c = qwen_alloc(1, sizeof *c);

	*out = NULL;
	if (c == NULL)
		return qwen_oom(err);
	c->module = qwen_alloc(MODULES_MAX, sizeof *c->module);
	c->function = qwen_alloc(FUNCTIONS, sizeof *c->function);
	if (c->module == NULL || c->function == NULL)
		qwen_oom(err);
	else if (load_library(c, err) == 0 &&
	    open_card(c, n, err) == 0 && check_kernels(c, n, err) == 0) {
		*out = c;
		return 0;
	}
	qwen_cuda_card_close(c);
	return -1;
}

void
qwen_cuda_card_close(struct qwen_cuda_card *c)
{
	size_t i;

	if (c == NULL)
		return;
	if (c->context != NULL) {
		c->cu.set_current(c->context);
		qwen_cuda_time(c, 0);
		for (i = 0; i < MODULES_MAX && c->module[i].name != NULL; i++)
			c->cu.module_unload(c->module[i].module);
		if (c->stream != NULL)
			c->cu.stream_free(c->stream);
		c->cu.release(c->device);
	}
	unload_library(c);
	free(c->module);
	free(c->function);
	free(c->ptx.text);
	free(c);
}

void
qwen_cuda_enter(struct qwen_cuda_card *c)
{
	ASK(c, set_current, c->context);
}

int
qwen_cuda_sync(struct qwen_cuda_card *c)
{
	return ASK(c, sync, c->stream);
}

/* ------------------------------------------------------------------- memory */

uint64_t
qwen_cuda_memory_left(struct qwen_cuda_card *c)
{
	size_t left = 0, all;

	ASK(c, mem_info, &left, &all);
	return left;
}

cu_ptr
qwen_cuda_alloc(struct qwen_cuda_card *c, size_t bytes)
{
	cu_result rc;
	cu_ptr p = 0;

	if (c->failed != NULL)
		return 0;
	rc = c->cu.alloc(&p, bytes > 0 ? bytes : 1);
	/* too little memory does not mean that the card has failed */
	if (rc != 0 && rc != CU_NO_MEMORY)
		qwen_cuda_note(c, "alloc", rc);
	return rc == 0 ? p : 0;
}

void
qwen_cuda_free(struct qwen_cuda_card *c, cu_ptr p)
{
	if (p != 0)
		ASK(c, free, p);
}

void
qwen_cuda_put(struct qwen_cuda_card *c, cu_ptr to, const void *from,
    size_t bytes)
{
	/* the memory is not pinned, so the driver copies it before it returns */
	if (bytes > 0)
		ASK(c, put, to, from, bytes, c->stream);
}

void
qwen_cuda_get(struct qwen_cuda_card *c, void *to, cu_ptr from, size_t bytes)
{
	if (bytes > 0 && ASK(c, get, to, from, bytes, c->stream) == 0)
		qwen_cuda_sync(c);
}

void *
qwen_cuda_pinned(struct qwen_cuda_card *c, size_t bytes)
{
	cu_result rc;
	void *p = NULL;

	if (c->failed != NULL)
		return NULL;
	rc = c->cu.host_alloc(&p, bytes, 0);
	if (rc != 0 && rc != CU_NO_MEMORY)
		qwen_cuda_note(c, "host_alloc", rc);
	return rc == 0 ? p : NULL;
}

void
qwen_cuda_pinned_free(struct qwen_cuda_card *c, void *p)
{
	if (p != NULL)
		ASK(c, host_free, p);
}

void
qwen_cuda_get_begin(struct qwen_cuda_card *c, void *to, cu_ptr from,
    size_t bytes)
{
	if (bytes > 0)
		ASK(c, get, to, from, bytes, c->stream);
}

void
qwen_cuda_copy(struct qwen_cuda_card *c, cu_ptr to, cu_ptr from, size_t bytes)
{
	if (bytes > 0)
		ASK(c, copy, to, from, bytes, c->stream);
}

void
qwen_cuda_zero(struct qwen_cuda_card *c, cu_ptr p, size_t bytes)
{
	if (bytes > 0)
		ASK(c, set, p, 0, bytes, c->stream);
}

void
qwen_cuda_ones(struct qwen_cuda_card *c, cu_ptr p, size_t bytes)
{
	if (bytes > 0)
		ASK(c, set, p, 0xff, bytes, c->stream);
}

/* ------------------------------------------------------------------ kernels */

static cu_module
find_module(struct qwen_cuda_card *c, const struct qwen_cuda_launch *l)
{
	int option = CU_JIT_REGISTERS;
	void *value = (void *)(uintptr_t)l->registers;
	const char *name = l->module;
	size_t i;

	for (i = 0; i < MODULES_MAX && c->module[i].name != NULL; i++) {
		if (strcmp(c->module[i].name, name) == 0)
			return c->module[i].module;
	}
	if (i == MODULES_MAX || ASK(c, module_load, &c->module[i].module,
	    qwen_cuda_ptx_find(&c->ptx, name), l->registers > 0, &option, &value) < 0)
		return NULL;
	c->module[i].name = name;
	return c->module[i].module;
}

/* Names are string constants, so each is known by its address. */
static struct qwen_cuda_function *
find_function(struct qwen_cuda_card *c, const struct qwen_cuda_launch *l)
{
	size_t at = (uintptr_t)l->name * 0x9e3779b97f4a7c15u >> 40;
	struct qwen_cuda_function *f;
	cu_module m;

	for (;; at++) {
		f = &c->function[at % FUNCTIONS];
		if (f->name == l->name)
			return f;
		if (f->name == NULL)
			break;
	}
	if (2 * c->n_function >= FUNCTIONS ||
	    (m = find_module(c, l)) == NULL ||
	    ASK(c, module_function, &f->function, m, l->name) < 0)
		return NULL;
	c->n_function++;
	f->name = l->name;
	f->shared = 48 << 10;	/* the driver's default */
	return f;
}

/* Adds up the times of all launches so far. */
static void
add_times(struct qwen_cuda_card *c)
{
	struct qwen_cuda_timing *t = c->timing;
	float ms;
	size_t i;

	qwen_cuda_sync(c);
	for (i = 0; i < t->n; i++) {
		if (ASK(c, event_time, &ms, t->of[i].begin, t->of[i].end) < 0)
			break;
		t->of[i].f->ms += (double)ms;
		t->of[i].f->calls++;
	}
	t->n = 0;
}

int
qwen_cuda_time(struct qwen_cuda_card *c, int on)
{
	struct qwen_cuda_timing *t = c->timing;
	size_t i;

	for (i = 0; i < FUNCTIONS && on; i++)
		c->function[i].ms = (double)(c->function[i].calls = 0);
	if (t == NULL && on && (t = qwen_alloc(1, sizeof *t)) == NULL)
		return -1;
	for (i = 0; t != NULL && i < LAUNCHES && (on != 0) != (c->timing !=
	    NULL); i++) {
		if (on && (ASK(c, event_new, &t->of[i].begin, 0) < 0 ||
		    ASK(c, event_new, &t->of[i].end, 0) < 0))
			break;
		if (!on) {
			ASK(c, event_free, t->of[i].begin);
			ASK(c, event_free, t->of[i].end);
		}
	}
	if (!on)
		free(t);
	c->timing = on ? t : NULL;
	return 0;
}

size_t
qwen_cuda_times(struct qwen_cuda_card *c, struct qwen_kernel_stat *out,
    size_t max)
{
	const struct qwen_cuda_function *f;
	size_t i, n = 0;

	if (c->timing == NULL)
		return 0;
	add_times(c);
	for (i = 0; i < FUNCTIONS; i++) {
		f = &c->function[i];
		if (f->name == NULL || f->calls == 0 || n++ >= max)
			continue;
		out[n - 1] = (struct qwen_kernel_stat){ .variant = "cuda",
		    .calls = f->calls, .ms = f->ms };
		snprintf(out[n - 1].name, sizeof out->name, "%s", f->name);
	}
	return n;
}

/* Launches a kernel, which may begin before the last one has ended. */
static void
launch(struct qwen_cuda_card *c, const struct qwen_cuda_launch *l,
    cu_function f, void **params)
{
	struct cu_attribute overlap = { .id = CU_OVERLAP, .value.on = 1 };
	struct cu_config config = { l->x, l->y > 0 ? l->y : 1,
	    l->z > 0 ? l->z : 1, l->threads, 1, 1, (unsigned)l->shared,
	    c->stream, &overlap, 1 };

	if (c->launch_ex != NULL && c->timing == NULL)
		qwen_cuda_note(c, "launch", c->launch_ex(&config, f, params,
		    NULL));
	else
		ASK(c, launch, f, config.x, config.y, config.z, config.threads,
		    1, 1, config.shared, c->stream, params, NULL);
}

void
qwen_cuda_run(struct qwen_cuda_card *c, const struct qwen_cuda_launch *l,
    const void *arg, size_t arg_bytes)
{
	_Alignas(16) unsigned char copy[ARG_MAX_BYTES] = { 0 };
	void *params[] = { copy };
	struct qwen_cuda_function *f;

	qwen_cuda_settle(c);
	if (c->failed != NULL || (f = find_function(c, l)) == NULL)
		return;
	if (l->shared > f->shared) {
		if (ASK(c, function_set, f->function, CU_FUNCTION_SHARED,
		    (int)l->shared) < 0)
			return;
		f->shared = l->shared;
	}
	assert(arg_bytes <= sizeof copy);
	memcpy(copy, arg, arg_bytes);
	if (c->timing != NULL && c->timing->n == LAUNCHES)
		add_times(c);
	if (c->timing != NULL)
		ASK(c, event_record, c->timing->of[c->timing->n].begin,
		    c->stream);
	launch(c, l, f->function, params);
	if (c->timing != NULL) {
		c->timing->of[c->timing->n].f = f;
		ASK(c, event_record, c->timing->of[c->timing->n++].end,
		    c->stream);
	}
}
