/* SPDX-License-Identifier: ISC */
/* qwen.h - libqwen: token ids in, token ids, logits and state out. */
#ifndef QWEN_H
#define QWEN_H

#include "qwen/base.h"
#include "qwen/constraint.h"
#include "qwen/gguf.h"
#include "qwen/machine.h"
#include "qwen/model.h"
#include "qwen/quant.h"
#include "qwen/sample.h"
#include "qwen/session.h"
#include "qwen/state.h"
#include "qwen/store.h"
#include "qwen/stream.h"
#include "qwen/work.h"

#endif
