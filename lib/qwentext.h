/* SPDX-License-Identifier: ISC */
/*
 * qwentext.h - libqwentext: text to token ids and back, chats, grammars.
 *
 *	qwen_tok_open(&t, qwen_model_gguf(m),
 *	    QWEN_TOK_ENCODE | QWEN_TOK_DECODE, &err);
 *	qwen_tok_encode(t, text, strlen(text), 0, &ids, &n_ids, &err);
 *
 *	qwen_tok_decoder_new(&d, t, 0, &err);
 *	qwen_tok_decoder_put(d, id, &piece, &err);	  once for each id
 *	qwen_tok_decoder_finish(d, &piece);
 *	qwen_tok_decoder_free(d);
 *	qwen_tok_close(t);				  before the model
 */
#ifndef QWENTEXT_H
#define QWENTEXT_H

/*
 * The tokenizer; chat templates and replies; grammars; embeddings and
 * reranking.
 */
#include "qwen/tok.h"
#include "qwen/chat.h"
#include "qwen/grammar.h"
#include "qwen/embed.h"

#endif
