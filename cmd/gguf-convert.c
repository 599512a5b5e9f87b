/* SPDX-License-Identifier: ISC */
/*
 * gguf-convert.c - convert a Hugging Face folder (safetensors), a model or an
 * adapter, to GGUF.
 */
#define _GNU_SOURCE
#include <sys/mman.h>

#include <stdio.h>
#include <unistd.h>

#include "cli/cli.h"
#include "hub/hub.h"
#include "tool/model_out.h"

static struct opts {
	const char		*out, *base;
	struct qwen_hub_opts	 hub;
} opt;

static const struct cli_opt options[] = {
	CLI_GROUP("options:"),
	CLI_STD('o', "output", "file", &opt.out, "output",
	    "write to this file instead of stdout"),
	CLI_WORD(0, "type", "auto | f32 | f16 | bf16 | q8_0", &opt.hub.type,
	    "auto f32 f16 bf16 q8_0",
	    "number format of matrices; auto keeps theirs (default auto)"),
	CLI_FLAG(0, "no-mtp", &opt.hub.no_mtp,
	    "leave out the MTP block"),
	CLI_FLAG(0, "mtp-only", &opt.hub.mtp_only,
	    "write only the MTP block, to be used with --draft"),
	CLI_FLAG(0, "mmproj", &opt.hub.mmproj,
	    "write only the image encoder (mmproj), to be used beside the model"),
	CLI_FLAG(0, "no-vocab", &opt.hub.no_vocab, "leave out the tokenizer"),
	{ CLI_ROW(TEXT, 0, "base", "folder", CLI_P(const char *, &opt.base),
	    "folder of the model that the adapter (peft) is for"),
	  .completes = "folder" },
	CLI_OPT_THREADS(&opt.hub.threads),
	CLI_END,
};

static const struct cli_tool tool = {
	.name = "gguf-convert",
	.about = "convert a Hugging Face folder, model or adapter, to GGUF",
	.usage = "[options] folder", .options = options, .max = 1,
	.completes = "folder",
};

static void
refuse(void *arg, const char *why)
{
	die("%s: no tool can use the file: %s", (const char *)arg, why);
}

/*
 * Exit with an error if config and tensors do not agree.  Checks an outline of
 * the GGUF file in memory before anything is written; does nothing where no
 * outline can be made.
 */
static void
check(struct qwen_hub_gguf *g, char *folder)
{
#ifdef MFD_CLOEXEC
	const struct qwen_gguf_checker c = { .problem = refuse, .arg = folder };
	int fd = memfd_create("outline", MFD_CLOEXEC);
	struct qwen_gguf *outline;
	struct qwen_err err;
	char path[32];

	snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
	if (fd != -1 && qwen_gguf_write_outline(qwen_hub_gguf_writer(g), fd,
	    &err) == 0 &&	 access(path, R_OK) == 0) {
		cli_must(folder, qwen_gguf_open(&outline, path, &cli_err));
		cli_must(folder, qwen_model_check(outline, &c, &cli_err));
		qwen_gguf_close(outline);
	}
	if (fd != -1)
		close(fd);
#else
	(void)g;
	(void)folder;
#endif
}

static void
convert(char *folder, const struct opts *o)
{
	struct tool_model_out out;
	struct qwen_hub_gguf *g;
	struct qwen_hub *h;
	int adapter = o->base != NULL || qwen_hub_is_adapter(folder);
	int fd;

	if (adapter && o->hub.mmproj)
		die("%s: an adapter, which has no image encoder: give the "
		    "model's folder", folder);
	if (adapter)
		cli_must(NULL, qwen_hub_open_adapter(&h, folder, o->base,
		    &cli_err));
	else
		cli_must(NULL, qwen_hub_open(&h, folder, &cli_err));
	tool_protect_folder(folder);
	if (o->base != NULL)
		tool_protect_folder(o->base);
	cli_must(NULL, qwen_hub_gguf_new(&g, h, &o->hub, &cli_err));
	tool_model_out_notes(qwen_hub_gguf_writer(g), folder);
	if (!adapter && !o->hub.mtp_only && !o->hub.mmproj)
		check(g, folder);
	fd = tool_model_out_open(&out, o->out, qwen_hub_gguf_writer(g));
	cli_must(out.name, qwen_hub_gguf_write(g, fd, &cli_err));
	tool_model_out_end(&out, NULL);
	qwen_hub_gguf_free(g);
	qwen_hub_close(h);
}

int
main(int argc, char *argv[])
{
	int n = cli_begin(&tool, argc, argv);

	if (n == 0)
		cli_usage("no folder given");
	if (opt.hub.no_mtp && opt.hub.mtp_only)
		cli_usage("--no-mtp and --mtp-only exclude each other");
	if (opt.hub.mmproj && (opt.hub.no_mtp || opt.hub.mtp_only ||
	    opt.hub.no_vocab || opt.base != NULL))
		cli_usage("--mmproj excludes --no-mtp, --mtp-only, --no-vocab "
		    "and --base");
	tool_model_out_check(opt.out);
	convert(argv[1], &opt);
	return cli_finish();
}
