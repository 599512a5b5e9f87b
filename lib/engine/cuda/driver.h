/* SPDX-License-Identifier: ISC */
/*
 * driver.h - what is used of NVIDIA's driver, libcuda.so.1, which is loaded when
 * a card is asked for.  Its calls are declared here, so that nothing of NVIDIA's
 * is needed to build.
 */
#ifndef QWEN_CUDA_DRIVER_H
#define QWEN_CUDA_DRIVER_H

#include <stddef.h>
#include <stdint.h>

#include "engine/cuda/ptx.h"
#include "qwen.h"

typedef int cu_result, cu_device;
typedef unsigned long long cu_ptr;
typedef struct cu_context *cu_context;
typedef struct cu_module *cu_module;
typedef struct cu_function *cu_function;
typedef struct cu_stream *cu_stream;
typedef struct cu_event *cu_event;
typedef struct cu_graph *cu_graph;
typedef struct cu_exec *cu_exec;

/* member, name in the library, parameters */
#define CU_CALLS(X)							\
	X(init, cuInit, (unsigned))					\
	X(version, cuDriverGetVersion, (int *))				\
	X(count, cuDeviceGetCount, (int *))				\
	X(device, cuDeviceGet, (cu_device *, int))			\
	X(name, cuDeviceGetName, (char *, int, cu_device))		\
	X(attribute, cuDeviceGetAttribute, (int *, int, cu_device))	\
	X(retain, cuDevicePrimaryCtxRetain, (cu_context *, cu_device))	\
	X(release, cuDevicePrimaryCtxRelease_v2, (cu_device))		\
	X(set_current, cuCtxSetCurrent, (cu_context))			\
	X(mem_info, cuMemGetInfo_v2, (size_t *, size_t *))		\
	X(alloc, cuMemAlloc_v2, (cu_ptr *, size_t))			\
	X(free, cuMemFree_v2, (cu_ptr))					\
	X(host_alloc, cuMemHostAlloc, (void **, size_t, unsigned))	\
	X(host_free, cuMemFreeHost, (void *))				\
	X(put, cuMemcpyHtoDAsync_v2, (cu_ptr, const void *, size_t,	\
	    cu_stream))							\
	X(get, cuMemcpyDtoHAsync_v2, (void *, cu_ptr, size_t, cu_stream)) \
	X(copy, cuMemcpyDtoDAsync_v2, (cu_ptr, cu_ptr, size_t, cu_stream)) \
	X(set, cuMemsetD8Async, (cu_ptr, unsigned char, size_t, cu_stream)) \
	X(module_load, cuModuleLoadDataEx, (cu_module *, const void *,	\
	    unsigned, int *, void **))					\
	X(module_unload, cuModuleUnload, (cu_module))			\
	X(module_function, cuModuleGetFunction, (cu_function *, cu_module, \
	    const char *))						\
	X(function_set, cuFuncSetAttribute, (cu_function, int, int))	\
	X(launch, cuLaunchKernel, (cu_function, unsigned, unsigned,	\
	    unsigned, unsigned, unsigned, unsigned, unsigned, cu_stream, \
	    void **, void **))						\
	X(stream_new, cuStreamCreate, (cu_stream *, unsigned))		\
	X(stream_free, cuStreamDestroy_v2, (cu_stream))			\
	X(sync, cuStreamSynchronize, (cu_stream))			\
	X(capture, cuStreamBeginCapture_v2, (cu_stream, int))		\
	X(capture_end, cuStreamEndCapture, (cu_stream, cu_graph *))	\
	X(graph_free, cuGraphDestroy, (cu_graph))			\
	X(exec_new, cuGraphInstantiateWithFlags, (cu_exec *, cu_graph,	\
	    unsigned long long))					\
	X(exec_free, cuGraphExecDestroy, (cu_exec))			\
	X(exec_run, cuGraphLaunch, (cu_exec, cu_stream))		\
	X(event_new, cuEventCreate, (cu_event *, unsigned))		\
	X(event_free, cuEventDestroy_v2, (cu_event))			\
	X(event_record, cuEventRecord, (cu_event, cu_stream))		\
	X(event_time, cuEventElapsedTime, (float *, cu_event, cu_event))	\
	X(error_text, cuGetErrorString, (cu_result, const char **))

/* Of cuLaunchKernelEx, which drivers before 11.8 lack. */
struct cu_attribute {
	int		 id, pad;
	union {
		char	 bytes[64];
		int	 on;
	} value;
};
struct cu_config {
	unsigned		 x, y, z, threads, threads_y, threads_z, shared;
	cu_stream		 stream;
	struct cu_attribute	*attribute;
	unsigned		 n_attribute;
};
typedef cu_result cu_launch_ex(const struct cu_config *, cu_function, void **,
    void **);

/* Numbers of the driver: attributes of devices and functions, a result. */
enum {
	CU_OVERLAP = 6,		/* of a launch: it may begin early */
	CU_OVERLAP_VERSION = 12030,	/* of the driver; graphs know it, too */
	CU_NO_MEMORY = 2,
	CU_N_SM = 16,
	CU_MAJOR = 75,
	CU_MINOR = 76,
	CU_SHARED_MAX = 97,
	CU_FUNCTION_SHARED = 8,
	CU_JIT_REGISTERS = 0	/* an option of module_load */
};

struct qwen_cuda_calls {
#define X(member, name, params) cu_result (*member)params;
	CU_CALLS(X)
#undef X
};

/* A card that is open. */
struct qwen_cuda_card {
	struct qwen_cuda_calls cu;
	void		*library;
	cu_launch_ex	*launch_ex;	/* NULL: launches do not overlap */
	cu_device	 device;
	cu_context	 context;
	cu_stream	 stream;	/* all work is on it */
	char		 name[96];
	int		 n_sm, shared_max;
	/*
	 * The first call that failed, and what the driver says; then nothing
	 * more is asked of the card.
	 */
	const char	*failed;
	char		 why[128];
	struct qwen_cuda_ptx		 ptx;
	struct qwen_cuda_module		*module;
	struct qwen_cuda_function	*function;	/* a hash table */
	size_t		 n_function;
	struct qwen_cuda_timing	*timing;	/* NULL: launches are not timed */
	void		(*later)(void *arg);	/* see qwen_cuda_put_off() */
	void		*later_arg;
};

/* Opens card number n.  Errors say what is missing. */
int qwen_cuda_card_open(struct qwen_cuda_card **out, int n,
    struct qwen_err *err);
void qwen_cuda_card_close(struct qwen_cuda_card *c);	/* or NULL */

/*
 * Makes the card the one of the calling thread.  Every function of the device
 * begins with it.
 */
void qwen_cuda_enter(struct qwen_cuda_card *c);

/* Waits until the card has done all work; -1 if the card has failed. */
int qwen_cuda_sync(struct qwen_cuda_card *c);

/* Returns -1, with the reason in err, if the card has failed; else 0. */
int qwen_cuda_check(const struct qwen_cuda_card *c, struct qwen_err *err);

/*
 * Notes what the driver's call `what' has returned: rc 0 is success.  Returns
 * -1 if the call failed.
 */
int qwen_cuda_note(struct qwen_cuda_card *c, const char *what, cu_result rc);

/* Returns how many bytes of the card's memory are free. */
uint64_t qwen_cuda_memory_left(struct qwen_cuda_card *c);

/*
 * Returns new memory of the card, aligned to 256 bytes and not cleared, or 0 if
 * the card has too little left.
 */
cu_ptr qwen_cuda_alloc(struct qwen_cuda_card *c, size_t bytes);
void qwen_cuda_free(struct qwen_cuda_card *c, cu_ptr p);	/* or 0 */

/*
 * Copies to the card (put) and from it (get), after all earlier launches.  The
 * caller may change its memory when put returns.  get returns when the copy is
 * complete.
 */
void qwen_cuda_put(struct qwen_cuda_card *c, cu_ptr to, const void *from,
    size_t bytes);
void qwen_cuda_get(struct qwen_cuda_card *c, void *to, cu_ptr from,
    size_t bytes);

/*
 * pinned returns memory of the host that the card can write to at full speed,
 * or NULL.  get_begin starts a copy to it; qwen_cuda_sync() waits for the copy.
 */
void *qwen_cuda_pinned(struct qwen_cuda_card *c, size_t bytes);
void qwen_cuda_pinned_free(struct qwen_cuda_card *c, void *p);	/* or NULL */
void qwen_cuda_get_begin(struct qwen_cuda_card *c, void *to, cu_ptr from,
    size_t bytes);

/* Copy within the card's memory; set all bytes of it to 0, or to 0xff. */
void qwen_cuda_copy(struct qwen_cuda_card *c, cu_ptr to, cu_ptr from,
    size_t bytes);
void qwen_cuda_zero(struct qwen_cuda_card *c, cu_ptr p, size_t bytes);
void qwen_cuda_ones(struct qwen_cuda_card *c, cu_ptr p, size_t bytes);

/* Resets the times of kernels and begins to measure (on = 1), or stops (0). */
int qwen_cuda_time(struct qwen_cuda_card *c, int on);

/* Fills at most max entries, one a kernel; returns how many there are. */
size_t qwen_cuda_times(struct qwen_cuda_card *c, struct qwen_kernel_stat *out,
    size_t max);

/* A launch of a kernel of a module: a file of kernel/, without its suffix. */
struct qwen_cuda_launch {
	const char	*module, *name;
	unsigned	 x, y, z;	/* blocks; 0: 1 */
	unsigned	 threads;	/* of a block: a multiple of 32 */
	size_t		 shared;	/* bytes of SMEM */
	unsigned	 registers;	/* that a thread of the module's kernels
					   may have; 0: any number */
};

/* Launches the kernel with its argument, a struct of at most 1024 bytes. */
void qwen_cuda_run(struct qwen_cuda_card *c, const struct qwen_cuda_launch *l,
    const void *arg, size_t arg_bytes);

/*
 * put_off has `launch' called before anything else is asked of the card, so that
 * the caller may add to it what comes next.  settle calls it now, if there is one.
 */
void qwen_cuda_put_off(struct qwen_cuda_card *c, void (*launch)(void *arg),
    void *arg);
void qwen_cuda_settle(struct qwen_cuda_card *c);

#endif
