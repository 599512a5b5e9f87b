/* SPDX-License-Identifier: ISC */
/* rerank.h - the prompt of rerankers whose file has no other. */
#ifndef QWEN_TEXT_EMBED_RERANK_H
#define QWEN_TEXT_EMBED_RERANK_H

#define QWEN_RERANK_KEY "tokenizer.chat_template.rerank"

/* From the model card of Qwen3-Reranker. */
#define QWEN_RERANK_TEMPLATE						\
	"<|im_start|>system\n"						\
	"Judge whether the Document meets the requirements based on "	\
	"the Query and the Instruct provided. Note that the answer can " \
	"only be \"yes\" or \"no\".<|im_end|>\n"			\
	"<|im_start|>user\n"						\
	"<Instruct>: Given a web search query, retrieve relevant "	\
	"passages that answer the query\n"				\
	"<Query>: {query}\n"						\
	"<Document>: {document}<|im_end|>\n"				\
	"<|im_start|>assistant\n"					\
	"<think>\n\n</think>\n\n"

#endif
