/* SPDX-License-Identifier: ISC */
/*
 * rows.h - part of tool.h: rows of options that several tools have.  The other
 * headers declare the functions and variables that the rows name.
 */
#ifndef TOOL_ROWS_H
#define TOOL_ROWS_H


/*
 * p is a const char ** for tool_model_path().  If the model is an alias, the
 * options of the alias are set, too.
 */
#define TOOL_OPT_MODEL(p) TOOL_OPT_MODEL_ROW(p, \
	"model: a GGUF file, Hugging Face folder, or name")
#define TOOL_OPT_MODEL_ROW(p, h) \
	{ CLI_ROW(TEXT, 'm', "model", "model", CLI_P(const char *, p), h), \
	  .completes = "file gguf", .ready = tool_alias_apply }

#define TOOL_OPT_NUMERICS(p) \
	CLI_CALL(0, "numerics", "version", CLI_P(unsigned, p), \
	    tool_numerics_parse, "words 1 3 4", \
	    "version of the arithmetic, see qwen-numerics(7)")
/* Whether to convert weights when a model is loaded; sets tool_quantize. */
#define TOOL_OPT_QUANTIZE \
	CLI_CALL(0, "quantize", "type", CLI_P(tool_quantize_fn *, \
	    &tool_quantize), tool_quantize_parse, "words none q8_0", \
	    "convert F32, F16 and BF16 weights when loading (default none)")
/* Devices of the models opened afterwards; sets tool_device. */
#define TOOL_OPT_DEVICE \
	CLI_TEXT(0, "device", "list", &tool_device, \
	    "what computes: cpu (default), cards (cuda:0), other hosts (mpi)")
/* KV cache formats of the models opened afterwards; sets tool_kv. */
#define TOOL_KV_KINDS "f16 q8_0 q4_0 f32"
#define TOOL_OPT_KV \
	CLI_CALL(0, "kv", "kind", CLI_P(int, tool_kv), tool_kv_parse, \
	    "words " TOOL_KV_KINDS, \
	    "number format of the KV cache"), \
	CLI_WORD(0, "kv-k", "kind", CLI_P(int, &tool_kv[0]), TOOL_KV_KINDS, \
	    "format of keys, instead of that of --kv"), \
	CLI_WORD(0, "kv-v", "kind", CLI_P(int, &tool_kv[1]), TOOL_KV_KINDS, \
	    "format of values, instead of that of --kv")
/* Adapters of the models opened afterwards; sets tool_lora. */
#define TOOL_OPT_LORA \
	CLI_CALL(0, "lora", "adapter", CLI_P(struct tool_lora, &tool_lora), \
	    tool_lora_parse, "file gguf", \
	    "apply this LoRA adapter, or FILE=SCALE; repeatable")
/* RoPE scaling of the models opened afterwards; sets tool_rope. */
#define TOOL_OPT_ROPE \
	CLI_CALL(0, "rope-scaling", "how", CLI_P(struct qwen_rope, &tool_rope), \
	    tool_rope_parse, "words none linear=4 yarn=4", \
	    "RoPE scaling by a factor, for a longer context")
#define TOOL_OPT_BATCH(p) \
	CLI_INT(0, "batch", "n", p, 1, 1 << 20, \
	    "tokens per pass; changes no result")
#define TOOL_OPT_FORCE(h) CLI_FLAG(0, "force", &tool_force, h)
#define TOOL_FORCE_MEMORY "run even if memory does not suffice"
#define TOOL_OPT_FORCE_TEXT TOOL_OPT_FORCE("accept input that is not text; " \
	TOOL_FORCE_MEMORY)
/* p is an int *, such as the strict member of a struct qwen_unknown. */
#define TOOL_OPT_STRICT(p) CLI_FLAG(0, "strict", p, \
	"reject requests with unknown fields")
#define TOOL_OPT_STRICT_CALLS(p) CLI_FLAG(0, "strict-calls", p, \
	"accept only tool calls in exactly the template's form")
/* p is an enum qwen_systems *. */
#define TOOL_OPT_SYSTEMS(p) CLI_WORD(0, "system-messages", \
	"remind | first | template", \
	CLI_P(enum qwen_systems, p), "remind first template", \
	"how to pass system messages that the template rejects")
/* p is a const char **: NULL without the option, "" without its argument. */
#define TOOL_OPT_PLACEHOLDER(p) CLI_CALL(0, "image-placeholder", "[text]", \
	CLI_P(const char *, p), tool_placeholder, NULL, \
	"replace images and documents by a line of text")
#define TOOL_OPT_OUTPUT(p) CLI_STD('o', "output", "output", p, \
	"output", "write to this file instead of stdout")
/* The options of a struct tool_store. */
#define TOOL_OPT_STORE_DIR(p) \
	{ CLI_ROW(TEXT, 0, "store", "folder", CLI_P(const char *, p), \
	    "prefix store: folder that keeps prompts already read"), \
	  .completes = "folder", .min = 1 }
#define TOOL_OPT_STORE_MAX(p) \
	CLI_CALL(0, "store-max", "size", CLI_P(uint64_t, p), tool_store_max_parse, \
	    "words none 20G", \
	    "limit of the store's size")
#define TOOL_OPT_STORE(s) TOOL_OPT_STORE_DIR(&(s)->dir), \
	CLI_FLAG(0, "no-store", &(s)->none, "use no store, even if " \
	    "$QWEN_STORE names one"), \
	TOOL_OPT_STORE_MAX(&(s)->max)
/* A folder of encoded images, and its limit as that of a store. */
#define TOOL_OPT_IMAGES(p) \
	{ CLI_ROW(TEXT, 0, "images", "folder", CLI_P(const char *, p), \
	    "folder that keeps encoded images"), \
	  .completes = "folder", .min = 1 }
#define TOOL_OPT_IMAGES_MAX(p) \
	CLI_CALL(0, "images-max", "size", CLI_P(uint64_t, p), \
	    tool_store_max_parse, "words none 20G", \
	    "limit of the folder's size")
/* The options of a struct tool_work: how to compute, */
#define TOOL_OPT_COMPUTE(w) CLI_OPT_THREADS(&(w)->n_threads), \
	TOOL_OPT_DEVICE, TOOL_OPT_NUMERICS(&(w)->numerics), \
	TOOL_OPT_QUANTIZE, TOOL_OPT_KV
/* how many sequences and tokens at a time, */
#define TOOL_OPT_PASSES(w) \
	TOOL_OPT_ROPE, \
	CLI_BYTES(0, "mem", "size", &(w)->mem, 1, \
	    "limit of memory for caches and states, as in 20G"), \
	CLI_INT(0, "max-sequences", "n", &(w)->n_sequences, 1, 4096, \
	    "at most N texts at the same time (default 32)"), \
	TOOL_OPT_BATCH(&(w)->n_pass)
/* and, for tools that serve clients, what to keep and how long to pause. */
#define TOOL_OPT_TURNS(w) \
	CLI_INT(0, "keep", "n", &(w)->n_keep, 0, 1 << 16, \
	    "keep N texts in memory, to continue them (default 64)"), \
	CLI_INT(0, "pause", "ms", &(w)->pause_ms, 0, 1 << 20, \
	    "longest pause of generation for a prompt, in ms, roughly " \
	    "(default 500)"), \
	TOOL_OPT_DRAFT(&(w)->draft)
#define TOOL_OPT_WORK(w) TOOL_OPT_COMPUTE(w), TOOL_OPT_LORA, \
	TOOL_OPT_PASSES(w), TOOL_OPT_STORE(&(w)->at)
/* The options of a struct tool_grammar. */
#define TOOL_OPT_GRAMMAR(g) \
	CLI_FILE(0, "grammar", "file", &(g)->path, "file", \
	    "generate only text that this grammar allows"), \
	CLI_FILE(0, "json-schema", "file", &(g)->schema, "file json", \
	    "generate only JSON that is valid by this schema")
/* The options of a struct tool_draft. */
#define TOOL_OPT_DRAFT(d) \
	CLI_CALL(0, "draft", "how", CLI_P(struct tool_draft, d), \
	    tool_draft_parse, "words auto mtp lookup none", \
	    "speculative decoding, with :N for N drafts per pass; or a file " \
	    "with the MTP block"), \
	CLI_FILE(0, "draft-text", "file", &(d)->text, "file", \
	    "look up drafts in this text, too")
#define TOOL_OPT_NO_COMPRESS(p) CLI_FLAG(0, "no-compress", &(p)->no_compress, \
	"write the state uncompressed: larger, but faster")
#define TOOL_OPT_MASK_UNUSED(p) \
	CLI_FLAG(0, "mask-unused", p, "never choose an id that stands for no " \
	    "token")
/* Applies to the tokenizers that tool_tok_open() opens. */
#define TOOL_OPT_NFC \
	CLI_FLAG(0, "nfc", &tool_nfc, \
	    "normalise text to NFC before tokenizing it")
#define TOOL_OPT_IGNORE_EOS(p) \
	CLI_FLAG(0, "ignore-eos", p, "continue after tokens that end a text")
/* Whether texts begin with BOS; read by tool_bos(). */
#define TOOL_OPT_BOS \
	CLI_SET(0, "bos", &tool_bos_flags, TOOL_BOS, \
	    "always begin texts with the BOS token"), \
	CLI_SET(0, "no-bos", &tool_bos_flags, TOOL_NO_BOS, \
	    "never begin texts with the BOS token")
/* Reasoning effort and date for chat templates; sets tool_effort. */
#define TOOL_OPT_EFFORT \
	CLI_FILE(0, "effort", "level", &tool_effort.level, \
	    "words none minimal low medium high xhigh max", \
	    "reasoning effort, if the template has it; none: no thinking"), \
	CLI_FILE(0, "effort-high", "medium | xhigh", &tool_effort.high, \
	    "words medium xhigh", \
	    "level to use for high if the template has no high (default " \
	    "xhigh)"), \
	CLI_TEXT(0, "date", "date", &tool_effort.date, \
	    "date for templates that print one, as in 2026-01-31")
/* p is a struct qwen_sampler **; the row creates the sampler. */
#define TOOL_OPT_SAMPLING(p) \
	CLI_ROWS(CLI_P(struct qwen_sampler *, p), tool_sampling_rows)

#endif
