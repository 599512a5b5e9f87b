/* SPDX-License-Identifier: ISC */
/*
 * foreign.h - hints for options of llama.cpp, vLLM and Ollama that users give
 * to several tools: rows of struct cli_foreign; the tool's own rows follow
 * them.
 */
#ifndef TOOL_FOREIGN_H
#define TOOL_FOREIGN_H

#define TOOL_HINT_CONTEXT "the context is always the model's; --mem limits " \
	"its memory, --rope-scaling makes it longer"
#define TOOL_HINT_ALWAYS "this is always so: leave it out"
#define TOOL_HINT_CARD "give --device cuda:0, which takes as many layers " \
	"as fit"
#define TOOL_HINT_FILES "no tool downloads models but gguf-fetch: give a " \
	"file or folder with -m"

#define TOOL_FOREIGN \
	{ "c", TOOL_HINT_CONTEXT }, { "context-length", TOOL_HINT_CONTEXT }, \
	{ "ctx", TOOL_HINT_CONTEXT }, { "ctx-size", TOOL_HINT_CONTEXT }, \
	{ "n-ctx", TOOL_HINT_CONTEXT }, { "num-ctx", TOOL_HINT_CONTEXT }, \
	{ "jinja", TOOL_HINT_ALWAYS }, { "fa", TOOL_HINT_ALWAYS }, \
	{ "flash-attn", TOOL_HINT_ALWAYS }, { "ngl", TOOL_HINT_CARD }, \
	{ "n-gpu-layers", TOOL_HINT_CARD }, { "gpu-layers", TOOL_HINT_CARD }, \
	{ "hf", TOOL_HINT_FILES }, \
	{ "hf-repo", TOOL_HINT_FILES }, { "hf-file", TOOL_HINT_FILES }, \
	{ "cache-type-k", "--kv-k" }, { "ctk", "--kv-k" }, \
	{ "cache-type-v", "--kv-v" }, { "ctv", "--kv-v" }, \
	{ "chat-template-file", "--template ./FILE" }, \
	{ "md", "--draft FILE" }, { "model-draft", "--draft FILE" }, \
	{ "lora-scaled", "--lora FILE=SCALE" }, \
	{ "reasoning-budget", "--think-max" }, \
	{ "tb", "-t" }, { "threads-batch", "-t" }

#endif
