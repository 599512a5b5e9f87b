/* SPDX-License-Identifier: ISC */
/*
 * request.h - requests in the forms of OpenAI, Anthropic, Ollama and llama.cpp,
 * and their answers, as a body or as events.  For everything that serves a
 * model, from files or from sockets.
 *
 * This code handles text only and knows no weights.  It returns a request's
 * sampling settings as options by name, for the caller's sampler.  The caller
 * gives back token ids, with the log-probabilities that the request wants.
 * Nothing here exits, prints or reads the environment.  An error in a request
 * becomes its refusal; functions fail only when out of memory, unless they say
 * otherwise.
 */
#ifndef QWEN_TEXT_REQUEST_REQUEST_H
#define QWEN_TEXT_REQUEST_REQUEST_H

#include "text/request/answer.h"
#include "text/request/images.h"
#include "text/request/lists.h"
#include "text/request/messages.h"
#include "text/request/refusal.h"
#include "text/request/service.h"

#endif
