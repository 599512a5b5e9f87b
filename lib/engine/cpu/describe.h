/* SPDX-License-Identifier: ISC */
/* describe.h - kernels in use, and counts: functions of struct qwen_device. */
#ifndef QWEN_CPU_DESCRIBE_H
#define QWEN_CPU_DESCRIBE_H

#include "engine/cpu/cpu.h"

size_t qwen_cpu_stats(const struct qwen_resident *r, int by_purpose,
    struct qwen_kernel_stat *out, size_t max);
size_t qwen_cpu_describe(const struct qwen_resident *r, char *buf, size_t size);

#endif
