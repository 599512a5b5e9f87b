/* SPDX-License-Identifier: ISC */
/* qwentext.h - libqwentext: text to token ids and back, chats, grammars. */
#ifndef QWENTEXT_H
#define QWENTEXT_H

#include "qwen/chat.h"
#include "qwen/grammar.h"
#include "qwen/tok.h"

#endif
