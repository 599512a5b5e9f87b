/* SPDX-License-Identifier: ISC */
/* qstate.c - states in files, and the prefix store: look, check, cut, compare. */
#include <sys/stat.h>

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "qwen.h"
#include "cli/cli.h"

#undef warn	/* struct qwen_store_opts has a member of that name */

static const char usage[] =
    "qstate show [-qv] [--tokens] [--json] state ...\n"
    "       qstate verify [-qv] [--json] state ...\n"
    "       qstate diff [-qv] [--all] [--json] state1 state2\n"
    "       qstate slice -n count [-qv] [-m model] [-t threads] [-o state]\n"
    "              [--no-checkpoints] [--no-compress] state\n"
    "       qstate pack [-qv] [-o state] [--no-checkpoints] [--no-compress]\n"
    "              state\n"
    "       qstate cat [-qv] state\n"
    "       qstate ls [-qv] [--store folder] [--json]\n"
    "       qstate du [-qv] [--store folder] [--json]\n"
    "       qstate gc [-qv] [--store folder] [--store-max size] [--json]\n"
    "       qstate verify [-qv] [--store folder] [--remove] [--json]\n"
    "       qstate rm [-qv] [--store folder] [--json] --all | prefix ...\n";

enum { O_ALL = 256, O_JSON, O_NO_CHECKPOINTS, O_NO_COMPRESS, O_REMOVE, O_STORE,
    O_STORE_MAX, O_TOKENS };

static const struct cli_option options[] = {
	{ 'm', "model", 1 },
	{ 'n', "count", 1 },
	{ 'o', "output", 1 },
	{ 't', "threads", 1 },
	{ O_ALL, "all", 0 },
	{ O_JSON, "json", 0 },
	{ O_NO_CHECKPOINTS, "no-checkpoints", 0 },
	{ O_NO_COMPRESS, "no-compress", 0 },
	{ O_REMOVE, "remove", 0 },
	{ O_STORE, "store", 1 },
	{ O_STORE_MAX, "store-max", 1 },
	{ O_TOKENS, "tokens", 0 },
	{ 0, NULL, 0 },
};

static struct {
	const char		*model;
	const char		*output;	/* NULL: stdout */
	int			 n_threads;
	int			 count_given;
	uint64_t		 count;
	int			 all, json, remove, tokens;
	const char		*store;
	uint64_t		 store_max;	/* 0: no limit */
	struct qwen_state_opts	 state;
} opt;

/* ----------------------------------------------------------------- states */

/* A state in a file; "-" is stdin, by way of a temporary. */
struct state {
	const char			*name;		/* for messages */
	char				 path[1024];
	struct qwen_state_file		*f;
	const struct qwen_state_info	*info;
};

static void
copy_bytes(int from, const char *name, int to, const char *to_name)
{
	static char buf[1 << 16];
	ssize_t n, part, done;

	while ((n = read(from, buf, sizeof buf)) != 0) {
		if (n == -1 && errno == EINTR)
			continue;
		if (n == -1)
			die("%s: %s", name, strerror(errno));
		for (done = 0; done < n; done += part) {
			part = write(to, buf + done, (size_t)(n - done));
			if (part == -1 && errno == EINTR)
				part = 0;
			else if (part == -1 && errno == EPIPE)
				exit(1);
			else if (part == -1)
				die("%s: %s", to_name, strerror(errno));
		}
	}
}

static char spooled[1024];	/* what came from stdin */

static void
remove_spooled(void)
{
	if (spooled[0] != '\0')
		unlink(spooled);
	spooled[0] = '\0';
}

/* A state is opened by its end, which a pipe does not have. */
static void
spool(void)
{
	const char *dir = getenv("TMPDIR");
	int fd;

	cli_need_stdin();
	if (dir == NULL || dir[0] == '\0')
		dir = "/tmp";
	if ((size_t)snprintf(spooled, sizeof spooled, "%s/qstate.XXXXXX",
	    dir) >= sizeof spooled)
		die("TMPDIR: the name is too long");
	if ((fd = mkstemp(spooled)) == -1)
		die("%s: %s", spooled, strerror(errno));
	if (atexit(remove_spooled) != 0)
		die("out of memory");
	copy_bytes(STDIN_FILENO, "stdin", fd, spooled);
	if (close(fd) == -1)
		die("%s: %s", spooled, strerror(errno));
}

/* The file behind an operand. */
static const char *
file_of(const char *operand, const char **name)
{
	*name = operand;
	if (strcmp(operand, "-") != 0)
		return operand;
	*name = "stdin";
	spool();
	return spooled;
}

static void
open_state(struct state *s, const char *operand)
{
	const char *path = file_of(operand, &s->name);
	struct qwen_err err;

	if (qwen_state_open(&s->f, path, &err) < 0)
		cli_die_err(s->name, &err);
	s->info = qwen_state_info(s->f);
	remove_spooled();
}

static void
close_state(struct state *s)
{
	qwen_state_close(s->f);
}

static const unsigned char *
read_block(struct state *s, size_t i, size_t *n)
{
	const unsigned char *raw;
	struct qwen_err err;

	if (qwen_state_block_read(s->f, i, &raw, n, &err) < 0)
		cli_die_err(s->name, &err);
	return raw;
}

/* ------------------------------------------------------------------- show */

/* Blocks of a kind, or all. */
struct sum {
	const char	*kind;
	uint64_t	 blocks, raw, stored;
};

enum { MAX_KINDS = 32 };

static void
add_block(struct sum *sum, const struct qwen_state_block *b)
{
	sum->blocks++;
	sum->raw += b->len;
	sum->stored += b->bytes;
}

/* By kind, in the order of their first blocks; what is too much is "other". */
static size_t
sum_kinds(const struct state *s, struct sum sum[MAX_KINDS])
{
	struct qwen_state_block b;
	size_t i, k, n = 0;

	for (i = 0; i < s->info->n_blocks; i++) {
		qwen_state_block(s->f, i, &b);
		for (k = 0; k < n && strcmp(sum[k].kind, b.kind) != 0; k++)
			;
		if (k == MAX_KINDS)
			k--;
		if (k == n) {
			memset(&sum[n], 0, sizeof sum[n]);
			sum[n++].kind = k < MAX_KINDS - 1 ? b.kind : "other";
		}
		add_block(&sum[k], &b);
	}
	return n;
}

/* What each byte of the file stands for; framing alone stands for nothing. */
static double
ratio(uint64_t raw, uint64_t stored)
{
	return stored > 0 ? (double)raw / (double)stored : 0;
}

static void
print_fp(const char *what, const struct qwen_fp *fp)
{
	char hex[33];

	printf("%s %s\n", what, qwen_fp_hex(fp, hex));
}

/* One word or more of a file, whatever it holds. */
static void
print_masked(const char *s)
{
	for (; *s != '\0'; s++)
		putchar((unsigned char)*s < 0x20 || *s == 0x7f ? '?' : *s);
}

static void
print_layers(const struct qwen_state_info *s)
{
	const struct qwen_state_layer *l;
	size_t i, j, n;

	for (i = 0; i < s->n_layers; i++) {
		l = &s->layers[i];
		n = l->kv ? 2 : 5;
		printf("layer %zu %s", i, l->kv ? "kv" : "delta");
		for (j = 0; j < n; j++)
			printf(" %" PRIu64, l->n[j]);
		putchar('\n');
	}
}

static void
print_extra(const struct qwen_state_extra *x)
{
	size_t i;

	for (i = 0; i < x->n_generated; i++)
		printf("generated %" PRIu64 " %" PRIu64 "\n",
		    x->generated[i].pos, x->generated[i].n);
	if (x->sampler != NULL) {
		printf("sampler ");
		print_masked(x->sampler);
		putchar('\n');
	}
	if (x->memory[0] != '\0') {
		printf("memory ");
		print_masked(x->memory);
		putchar('\n');
	}
	if (x->n_pending > 0) {
		printf("pending ");
		for (i = 0; i < x->n_pending; i++)
			printf("%02x", x->pending[i]);
		putchar('\n');
	}
	if (x->run.options != NULL) {
		printf("run %" PRIu64 " %" PRIu64 " %s ", x->run.from,
		    x->run.count, x->run.finished ? "finished" : "unfinished");
		print_masked(x->run.options);
		putchar('\n');
	}
}

static void
print_checkpoints(const struct qwen_state_info *s)
{
	const struct qwen_checkpoint *c;
	size_t i;

	for (i = 0; i < s->n_checkpoints; i++) {
		c = &s->checkpoints[i];
		printf("checkpoint %" PRIu64 " %" PRIu64 "%s%s\n", c->at,
		    c->bytes, c->logits ? " logits" : "",
		    c->named ? " named" : "");
	}
}

static void
print_blocks(const struct state *s)
{
	struct qwen_state_block b;
	size_t i;

	for (i = 0; i < s->info->n_blocks; i++) {
		qwen_state_block(s->f, i, &b);
		printf("block %zu %s %" PRId64 " %" PRId64 " %" PRIu64
		    " %" PRIu64 " %" PRIu64 " %" PRIu64 " %s\n", i, b.kind,
		    b.layer, b.at, b.off, b.len, b.offset, b.bytes,
		    b.codec[0] != '\0' ? b.codec : "-");
	}
}

static void
print_sum(const char *what, const struct sum *sum)
{
	printf("%s %-9s %6" PRIu64 " %12" PRIu64 " %12" PRIu64 " %6.3f\n",
	    what, sum->kind, sum->blocks, sum->raw, sum->stored,
	    ratio(sum->raw, sum->stored));
}

static void
show_text(const struct state *s)
{
	const struct qwen_state_info *info = s->info;
	struct sum sum[MAX_KINDS], all = { .kind = "all" };
	size_t i, n = sum_kinds(s, sum);

	printf("state ");
	print_masked(s->name);
	putchar('\n');
	print_fp("fingerprint", &info->fp);
	print_fp("model", &info->header.model);
	print_fp("vocabulary", &info->header.vocab);
	printf("numerics %lu\n", (unsigned long)info->header.numerics);
	printf("form %s\n", info->mapped ? "mapped" : "compressed");
	if (info->part)
		printf("part %" PRIu64 "\n", info->from);
	if (cli_verbose)
		print_layers(info);
	printf("tokens %" PRIu64 "\n", info->n_tokens);
	printf("logits %s\n", info->logits ? "yes" : "no");
	print_checkpoints(info);
	print_extra(info->extra);
	if (cli_verbose)
		print_blocks(s);
	for (i = 0; i < n; i++)
		print_sum("kind ", &sum[i]);
	all.blocks = info->n_blocks;
	all.raw = info->raw;
	all.stored = info->stored;
	print_sum("total", &all);
}

static void
show_tokens(const struct state *s)
{
	uint64_t i;

	for (i = 0; i < s->info->n_tokens - s->info->from; i++)
		printf("%" PRId32 "\n", s->info->tokens[i]);
}

/* -------------------------------------------------------- the same as JSON */

static void
json_fp(const char *key, const struct qwen_fp *fp)
{
	char hex[33];

	printf(",\"%s\":\"%s\"", key, qwen_fp_hex(fp, hex));
}

static const char *
json_bool(int v)
{
	return v ? "true" : "false";
}

static void
json_tokens(const struct qwen_state_info *s)
{
	uint64_t i;

	printf(",\"tokens\":[");
	for (i = 0; i < s->n_tokens - s->from; i++)
		printf("%s%" PRId32, i > 0 ? "," : "", s->tokens[i]);
	putchar(']');
}

static void
json_layers(const struct qwen_state_info *s)
{
	const struct qwen_state_layer *l;
	size_t i, j, n;

	printf(",\"layers\":[");
	for (i = 0; i < s->n_layers; i++) {
		l = &s->layers[i];
		n = l->kv ? 2 : 5;
		printf("%s[\"%s\"", i > 0 ? "," : "", l->kv ? "kv" : "delta");
		for (j = 0; j < n; j++)
			printf(",%" PRIu64, l->n[j]);
		putchar(']');
	}
	putchar(']');
}

static void
json_checkpoints(const struct qwen_state_info *s)
{
	const struct qwen_checkpoint *c;
	size_t i;

	printf(",\"checkpoints\":[");
	for (i = 0; i < s->n_checkpoints; i++) {
		c = &s->checkpoints[i];
		printf("%s{\"at\":%" PRIu64 ",\"bytes\":%" PRIu64
		    ",\"logits\":%s,\"named\":%s}", i > 0 ? "," : "", c->at,
		    c->bytes, json_bool(c->logits), json_bool(c->named));
	}
	putchar(']');
}

static void
json_run(const struct qwen_run *r)
{
	if (r->options == NULL)
		return;
	printf(",\"run\":{\"from\":%" PRIu64 ",\"count\":%" PRIu64
	    ",\"finished\":%s,\"options\":", r->from, r->count,
	    json_bool(r->finished));
	cli_json_string(r->options);
	putchar('}');
}

static void
json_extra(const struct qwen_state_extra *x)
{
	size_t i;

	printf(",\"generated\":[");
	for (i = 0; i < x->n_generated; i++)
		printf("%s[%" PRIu64 ",%" PRIu64 "]", i > 0 ? "," : "",
		    x->generated[i].pos, x->generated[i].n);
	putchar(']');
	if (x->sampler != NULL) {
		printf(",\"sampler\":");
		cli_json_string(x->sampler);
	}
	if (x->memory[0] != '\0') {
		printf(",\"memory\":");
		cli_json_string(x->memory);
	}
	printf(",\"pending\":\"");
	for (i = 0; i < x->n_pending; i++)
		printf("%02x", x->pending[i]);
	putchar('"');
	json_run(&x->run);
}

static void
json_kinds(const struct state *s)
{
	struct sum sum[MAX_KINDS];
	size_t i, n = sum_kinds(s, sum);

	printf(",\"kinds\":[");
	for (i = 0; i < n; i++) {
		printf("%s{\"kind\":", i > 0 ? "," : "");
		cli_json_string(sum[i].kind);
		printf(",\"blocks\":%" PRIu64 ",\"raw\":%" PRIu64
		    ",\"stored\":%" PRIu64 "}", sum[i].blocks, sum[i].raw,
		    sum[i].stored);
	}
	putchar(']');
}

static void
json_blocks(const struct state *s)
{
	struct qwen_state_block b;
	size_t i;

	printf(",\"blocks\":[");
	for (i = 0; i < s->info->n_blocks; i++) {
		qwen_state_block(s->f, i, &b);
		printf("%s{\"kind\":", i > 0 ? "," : "");
		cli_json_string(b.kind);
		if (b.layer >= 0)
			printf(",\"layer\":%" PRId64, b.layer);
		if (b.at >= 0)
			printf(",\"at\":%" PRId64, b.at);
		printf(",\"off\":%" PRIu64 ",\"len\":%" PRIu64 ",\"offset\":%"
		    PRIu64 ",\"bytes\":%" PRIu64 ",\"codec\":\"%s\"}", b.off,
		    b.len, b.offset, b.bytes, b.codec);
	}
	putchar(']');
}

static void
show_json(const struct state *s)
{
	const struct qwen_state_info *info = s->info;

	printf("{\"state\":");
	cli_json_string(s->name);
	json_fp("fingerprint", &info->fp);
	json_fp("model", &info->header.model);
	json_fp("vocabulary", &info->header.vocab);
	printf(",\"numerics\":%lu,\"mapped\":%s",
	    (unsigned long)info->header.numerics, json_bool(info->mapped));
	if (info->part)
		printf(",\"part\":%" PRIu64, info->from);
	printf(",\"n_tokens\":%" PRIu64 ",\"logits\":%s", info->n_tokens,
	    json_bool(info->logits));
	json_layers(info);
	json_checkpoints(info);
	json_extra(info->extra);
	json_kinds(s);
	printf(",\"n_blocks\":%zu,\"raw\":%" PRIu64 ",\"stored\":%" PRIu64,
	    info->n_blocks, info->raw, info->stored);
	if (cli_verbose)
		json_blocks(s);
	if (opt.tokens)
		json_tokens(info);
	printf("}\n");
}

static void
run_show(char *paths[])
{
	struct state s;

	for (; *paths != NULL; paths++) {
		open_state(&s, *paths);
		if (opt.json)
			show_json(&s);
		else if (opt.tokens)
			show_tokens(&s);
		else
			show_text(&s);
		close_state(&s);
		if (fflush(stdout) == EOF)
			exit(cli_finish());
	}
}

/* ----------------------------------------------------------------- verify */

static void
told(const char *name, const char *bad)
{
	if (opt.json) {
		printf("{\"state\":");
		cli_json_string(name);
		printf(",\"ok\":%s", json_bool(bad == NULL));
		if (bad != NULL) {
			printf(",\"error\":");
			cli_json_string(bad);
		}
		printf("}\n");
	} else if (bad == NULL && cli_verbose)
		cli_note("%s: whole", name);
	if (bad != NULL)
		cli_warn("%s: %s", name, bad);
}

static void verify_store(void);

/* All of them are looked at, whatever the first one is like. */
static void
run_verify(char *paths[])
{
	const char *name, *path;
	struct qwen_err err;

	if (*paths == NULL) {
		verify_store();
		return;
	}
	if (opt.store != NULL || opt.remove)
		cli_usage("--store and --remove are for verify without files");
	for (; *paths != NULL; paths++) {
		path = file_of(*paths, &name);
		told(name, qwen_state_verify(path, &err) < 0 ? err.msg : NULL);
		remove_spooled();
	}
}

/* -------------------------------------------------------------------- cat */

/* What is checked is what is written: one descriptor for both. */
static void
run_cat(char *paths[])
{
	const char *name, *path = file_of(paths[0], &name);
	struct stat a, b;
	struct qwen_err err;
	int fd;

	cli_no_binary_tty();
	if ((fd = open(path, O_RDONLY | O_CLOEXEC)) == -1)
		die("%s: %s", name, strerror(errno));
	if (qwen_state_verify(path, &err) < 0)
		cli_die_err(name, &err);
	if (fstat(fd, &a) == -1 || stat(path, &b) == -1)
		die("%s: %s", name, strerror(errno));
	if (a.st_dev != b.st_dev || a.st_ino != b.st_ino)
		die("%s: it was replaced while it was read", name);
	copy_bytes(fd, name, STDOUT_FILENO, "stdout");
	close(fd);
	remove_spooled();
}

/* ----------------------------------------------------------- pack and slice */

static void
copy_state(struct state *s, int fd, const char *name)
{
	struct qwen_writer *w = cli_writer(fd, QWEN_FORMAT_CBOR);
	struct qwen_err err;

	if (qwen_state_copy(s->f, w, &opt.state, NULL, &err) < 0)
		cli_die_err(err.code == QWEN_EIO || err.code == QWEN_EPIPE ?
		    name : s->name, &err);
	if (qwen_writer_close(w, &err) < 0)
		cli_die_err(name, &err);
}

static void
write_copy(struct state *s)
{
	struct cli_output *out;

	if (opt.output == NULL) {
		copy_state(s, STDOUT_FILENO, "stdout");
		return;
	}
	out = cli_output_open(opt.output);
	copy_state(s, cli_output_fd(out), opt.output);
	cli_output_commit(out);
}

static void
run_pack(char *paths[])
{
	struct state s;

	if (opt.output == NULL)
		cli_no_binary_tty();
	open_state(&s, paths[0]);
	write_copy(&s);
	close_state(&s);
}

/* Whether the state can be cut at n, logits included, without the model. */
static int
has_cut(const struct qwen_state_info *s, uint64_t n)
{
	size_t i;

	if (n == s->n_tokens)
		return s->recurrent;
	for (i = 0; i < s->n_checkpoints; i++) {
		if (s->checkpoints[i].at == n)
			return s->checkpoints[i].logits;
	}
	return 0;
}

static void
save_slice(struct cli_intake *in)
{
	struct cli_output *out;

	if (opt.output == NULL) {
		cli_save(in, STDOUT_FILENO, "stdout", &opt.state, NULL);
		return;
	}
	out = cli_output_open(opt.output);
	cli_save(in, cli_output_fd(out), opt.output, &opt.state, NULL);
	cli_output_commit(out);
}

/*
 * From the last position that can be gone on from, up to the cut, by the
 * arithmetic that the state was made by.
 */
static void
replay(struct state *s, uint64_t n)
{
	struct qwen_model *m = cli_model_open(opt.model, opt.n_threads,
	    s->info->header.numerics);
	struct cli_intake in = { 0 };
	struct qwen_eval how = { .logits = QWEN_LOGITS_LAST };
	struct qwen_err err;
	size_t at;

	cli_tell_model(m);
	if (qwen_state_restore(&in.session, &in.extra, m, &s->f, 1, (size_t)n,
	    1, &err) < 0)
		cli_die_err(s->name, &err);
	at = qwen_session_n_tokens(in.session);
	if (cli_verbose)
		cli_note("%zu tokens from %s, %zu to read", at, s->name,
		    (size_t)n - at);
	in.n = (size_t)n - at;
	if ((in.tokens = calloc(in.n + 1, sizeof *in.tokens)) == NULL)
		die("out of memory");
	if (in.n > 0)
		memcpy(in.tokens, s->info->tokens + at,
		    in.n * sizeof *in.tokens);
	cli_prefill(&in, &how);
	save_slice(&in);
	cli_tell_stats(m);
	cli_intake_fini(&in);
	qwen_model_close(m);
}

static void
run_slice(char *paths[])
{
	struct state s;

	if (!opt.count_given)
		cli_usage("slice needs -n: how many tokens to keep");
	if (opt.output == NULL)
		cli_no_binary_tty();
	open_state(&s, paths[0]);
	if (s.info->part)
		die("%s: a part of a state, from position %" PRIu64 " on",
		    s.name, s.info->from);
	if (opt.count > s.info->n_tokens)
		die("%s: it has %" PRIu64 " tokens, not %" PRIu64, s.name,
		    s.info->n_tokens, opt.count);
	if (has_cut(s.info, opt.count)) {
		opt.state.to = opt.count < s.info->n_tokens ? opt.count : 0;
		write_copy(&s);
	} else
		replay(&s, opt.count);
	close_state(&s);
}

/* ------------------------------------------------------------------- diff */

/* A number of a state: bytes that belong to one object, from the first on. */
struct object {
	const char	*kind;
	int64_t		 layer, at;
	uint64_t	 bytes;
};

struct cursor {
	struct state		*s;
	const struct object	*o;
	size_t			 next;		/* block to look at */
	const unsigned char	*p;
	size_t			 left;
};

static int
belongs(const struct object *o, const struct qwen_state_block *b)
{
	return strcmp(o->kind, b->kind) == 0 && o->layer == b->layer &&
	    o->at == b->at;
}

/* The next n bytes of the object, or what is left of it. */
static size_t
take(struct cursor *c, unsigned char *buf, size_t n)
{
	struct qwen_state_block b;
	size_t done, part;

	for (done = 0; done < n; done += part) {
		while (c->left == 0 && c->next < c->s->info->n_blocks) {
			qwen_state_block(c->s->f, c->next++, &b);
			if (belongs(c->o, &b))
				c->p = read_block(c->s, c->next - 1, &c->left);
		}
		part = c->left < n - done ? c->left : n - done;
		if (part == 0)
			break;
		memcpy(buf + done, c->p, part);
		c->p += part;
		c->left -= part;
	}
	return done;
}

/* The state's numbers; those of other kinds are not compared this way. */
static struct object *
find_objects(const struct state *s, size_t *n)
{
	struct object *o = calloc(s->info->n_blocks + 1, sizeof *o);
	struct qwen_state_block b;
	size_t i, k;

	if (o == NULL)
		die("out of memory");
	for (*n = i = 0; i < s->info->n_blocks; i++) {
		qwen_state_block(s->f, i, &b);
		if (strcmp(b.kind, "kv") != 0 && strcmp(b.kind, "delta") != 0 &&
		    strcmp(b.kind, "conv") != 0 && strcmp(b.kind, "logits") != 0)
			continue;
		for (k = *n; k > 0 && !belongs(&o[k - 1], &b); k--)
			;
		if (k == 0) {
			k = ++*n;
			o[k - 1].kind = b.kind;
			o[k - 1].layer = b.layer;
			o[k - 1].at = b.at;
		}
		o[k - 1].bytes += b.len;
	}
	return o;
}

/* Where two objects part. */
struct part {
	uint64_t	 count;		/* numbers that differ */
	uint64_t	 index;		/* of the first, in position if kv */
	uint64_t	 position;
	int		 v;		/* it is of V, not K */
	uint32_t	 a, b;		/* its bits */
};

/* Which position a number of a block of the KV cache belongs to. */
static uint64_t
kv_position(const struct qwen_state_layer *l, uint64_t i, int *v)
{
	uint64_t half = 16 * l->n[0] * l->n[1];

	*v = i >= half;
	return *v ? (i - half) / l->n[1] % 16 : i % 16;
}

static uint32_t
number(const unsigned char *p, size_t width)
{
	uint32_t v = (uint32_t)p[0] | (uint32_t)p[1] << 8;

	return width == 2 ? v : v | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static void
note_number(struct part *d, uint64_t index, uint64_t position, int v,
    uint32_t a, uint32_t b)
{
	/* of the KV cache, the earliest position comes first */
	if (d->count++ > 0 && position >= d->position)
		return;
	d->index = index;
	d->position = position;
	d->v = v;
	d->a = a;
	d->b = b;
}

/* Compare n bytes of the objects, which begin with number first. */
static void
compare_bytes(struct part *d, const struct qwen_state_layer *kv,
    uint64_t limit, uint64_t first, const unsigned char *a,
    const unsigned char *b, size_t n)
{
	size_t i, width = kv != NULL ? 2 : 4;
	uint64_t block = kv != NULL ? 32 * kv->n[0] * kv->n[1] : 1, at, pos;
	uint32_t x, y;
	int v = 0;

	if (memcmp(a, b, n) == 0)
		return;
	for (i = 0; i + width <= n; i += width) {
		x = number(a + i, width);
		y = number(b + i, width);
		if (x == y)
			continue;
		at = first + i / width;
		pos = kv == NULL ? 0 : 16 * (at / block) +
		    kv_position(kv, at % block, &v);
		/* lanes behind the shorter one's end are zero there */
		if (kv == NULL || pos < limit)
			note_number(d, at, pos, v, x, y);
	}
}

/* limit: positions that both have, of the KV cache. */
static void
compare_objects(struct part *d, struct state *sa, struct state *sb,
    const struct object *oa, const struct object *ob, uint64_t limit)
{
	static unsigned char a[1 << 16], b[1 << 16];
	struct cursor ca = { .s = sa, .o = oa }, cb = { .s = sb, .o = ob };
	const struct qwen_state_layer *kv = NULL;
	uint64_t first = 0;
	size_t n, m;

	memset(d, 0, sizeof *d);
	if (strcmp(oa->kind, "kv") == 0)
		kv = &sa->info->layers[oa->layer];
	do {
		n = take(&ca, a, sizeof a);
		m = take(&cb, b, sizeof b);
		n = n < m ? n : m;
		compare_bytes(d, kv, limit, first, a, b, n);
		first += n / (kv != NULL ? 2 : 4);
	} while (n == sizeof a);
}

/* ------------------------------------------------- what diff has to say */

static int n_differ;	/* lines so far, which are the elements of JSON */

static void
json_next(void)
{
	if (opt.json)
		putchar(n_differ > 0 ? ',' : '[');
	n_differ++;
}

/* A fact that differs; the words are plain. */
static void
differ_text(const char *what, const char *a, const char *b)
{
	json_next();
	if (opt.json) {
		printf("{\"what\":\"%s\",\"a\":", what);
		cli_json_string(a);
		printf(",\"b\":");
		cli_json_string(b);
		putchar('}');
	} else if (!cli_quiet)
		printf("%s %s %s\n", what, a, b);
}

static void
differ_number(const char *what, uint64_t a, uint64_t b)
{
	char x[24], y[24];

	snprintf(x, sizeof x, "%" PRIu64, a);
	snprintf(y, sizeof y, "%" PRIu64, b);
	differ_text(what, x, y);
}

/* What one side has and the other has not. */
static void
differ_only(const char *side, const char *kind, int64_t layer, uint64_t at)
{
	json_next();
	if (opt.json)
		printf("{\"what\":\"%s\",\"layer\":%" PRId64 ",\"at\":%" PRIu64
		    ",\"only\":\"%s\"}", kind, layer, at, side);
	else if (!cli_quiet)
		printf("only %s %s %" PRId64 " %" PRIu64 "\n", side, kind,
		    layer, at);
}

static void
format_number(char buf[24], int is_kv, uint32_t bits)
{
	float f;

	memcpy(&f, &bits, sizeof f);
	if (is_kv)
		snprintf(buf, 24, "0x%04x", (unsigned)bits);
	else
		snprintf(buf, 24, "%.9g", (double)f);
}

static void
differ_part(const struct object *o, const struct part *d)
{
	int kv = strcmp(o->kind, "kv") == 0;
	char a[24], b[24];

	format_number(a, kv, d->a);
	format_number(b, kv, d->b);
	json_next();
	if (opt.json) {
		printf("{\"what\":\"%s\"", o->kind);
		if (o->layer >= 0)
			printf(",\"layer\":%" PRId64, o->layer);
		if (kv)
			printf(",\"position\":%" PRIu64 ",\"of\":\"%s\"",
			    d->position, d->v ? "v" : "k");
		else
			printf(",\"at\":%" PRId64 ",\"index\":%" PRIu64,
			    o->at, d->index);
		printf(",\"a\":\"%s\",\"b\":\"%s\",\"count\":%" PRIu64 "}", a,
		    b, d->count);
	} else if (cli_quiet)
		return;
	else if (kv)
		printf("kv %" PRId64 " %" PRIu64 " %s %s %s %" PRIu64 "\n",
		    o->layer, d->position, d->v ? "v" : "k", a, b, d->count);
	else
		printf("%s %" PRId64 " %" PRId64 " %" PRIu64 " %s %s %" PRIu64
		    "\n", o->kind, o->layer, o->at, d->index, a, b, d->count);
}

static void
diff_headers(const struct qwen_state_info *a, const struct qwen_state_info *b)
{
	const struct qwen_header *x = &a->header, *y = &b->header;
	char s[33], t[33];

	if (memcmp(&x->model, &y->model, sizeof x->model) != 0)
		differ_text("model", qwen_fp_hex(&x->model, s),
		    qwen_fp_hex(&y->model, t));
	if (memcmp(&x->vocab, &y->vocab, sizeof x->vocab) != 0)
		differ_text("vocabulary", qwen_fp_hex(&x->vocab, s),
		    qwen_fp_hex(&y->vocab, t));
	if (x->numerics != y->numerics)
		differ_number("numerics", x->numerics, y->numerics);
}

static void
token_text(char buf[24], const struct qwen_state_info *s, uint64_t i)
{
	if (i < s->n_tokens)
		snprintf(buf, 24, "%" PRId32, s->tokens[i]);
	else
		snprintf(buf, 24, "-");
}

/* The first token that differs; returns how many are the same. */
static uint64_t
diff_tokens(const struct qwen_state_info *a, const struct qwen_state_info *b)
{
	uint64_t i, n = a->n_tokens < b->n_tokens ? a->n_tokens : b->n_tokens;
	char x[24], y[24];

	for (i = 0; i < n && a->tokens[i] == b->tokens[i]; i++)
		;
	if (i == a->n_tokens && i == b->n_tokens)
		return i;
	token_text(x, a, i);
	token_text(y, b, i);
	json_next();
	if (opt.json)
		printf("{\"what\":\"token\",\"position\":%" PRIu64 ",\"a\":%s,"
		    "\"b\":%s}", i, x[0] == '-' ? "null" : x,
		    y[0] == '-' ? "null" : y);
	else if (!cli_quiet)
		printf("token %" PRIu64 " %s %s\n", i, x, y);
	return i;
}

/* Does the object belong to the end of its state, not to a checkpoint? */
static int
is_end(const struct state *s, const struct object *o)
{
	return o->at == -1 || (uint64_t)o->at == s->info->n_tokens;
}

static const struct object *
find_object(const struct object *o, size_t n, const struct object *like)
{
	size_t i;

	for (i = 0; i < n; i++) {
		if (strcmp(o[i].kind, like->kind) == 0 &&
		    o[i].layer == like->layer && o[i].at == like->at)
			return &o[i];
	}
	return NULL;
}

/* same: so many tokens are the same, and with them what they led to. */
static void
diff_objects(struct state *a, struct state *b, uint64_t same)
{
	size_t na, nb, i;
	struct object *oa = find_objects(a, &na), *ob = find_objects(b, &nb);
	int whole = same == a->info->n_tokens && same == b->info->n_tokens;
	const struct object *o;
	struct part d;

	for (i = 0; i < na; i++) {
		if (oa[i].at >= 0 && (uint64_t)oa[i].at > same)
			continue;
		if ((o = find_object(ob, nb, &oa[i])) == NULL) {
			if (whole && is_end(a, &oa[i]))
				differ_only("a", oa[i].kind, oa[i].layer,
				    a->info->n_tokens);
			continue;
		}
		compare_objects(&d, a, b, &oa[i], o, same);
		if (d.count > 0)
			differ_part(&oa[i], &d);
	}
	for (i = 0; whole && i < nb; i++) {
		if (find_object(oa, na, &ob[i]) == NULL && is_end(b, &ob[i]))
			differ_only("b", ob[i].kind, ob[i].layer,
			    b->info->n_tokens);
	}
	free(oa);
	free(ob);
}

static const char *
or_none(const char *s)
{
	return s != NULL ? s : "-";
}

static void
diff_run(const struct qwen_run *a, const struct qwen_run *b)
{
	if (strcmp(or_none(a->options), or_none(b->options)) != 0)
		differ_text("run", or_none(a->options), or_none(b->options));
	else if (a->from != b->from || a->count != b->count)
		differ_number("run", a->from + a->count, b->from + b->count);
	else if (a->finished != b->finished)
		differ_number("run", (uint64_t)a->finished,
		    (uint64_t)b->finished);
}

/* Checkpoints at up to same tokens that one has and the other has not. */
static void
diff_checkpoints(const struct qwen_state_info *a,
    const struct qwen_state_info *b, const char *side, uint64_t same)
{
	size_t i, k;

	for (i = k = 0; i < a->n_checkpoints; i++) {
		while (k < b->n_checkpoints &&
		    b->checkpoints[k].at < a->checkpoints[i].at)
			k++;
		if (a->checkpoints[i].at <= same && (k == b->n_checkpoints ||
		    b->checkpoints[k].at != a->checkpoints[i].at))
			differ_only(side, "checkpoint", -1,
			    a->checkpoints[i].at);
	}
}

/* How the text was made: not part of what follows from it. */
static void
diff_extra(const struct qwen_state_extra *a, const struct qwen_state_extra *b)
{
	size_t i;

	for (i = 0; i < a->n_generated && i < b->n_generated; i++) {
		if (a->generated[i].pos != b->generated[i].pos ||
		    a->generated[i].n != b->generated[i].n)
			break;
	}
	if (i < a->n_generated || i < b->n_generated)
		differ_number("generated", i < a->n_generated ?
		    a->generated[i].pos : 0, i < b->n_generated ?
		    b->generated[i].pos : 0);
	if (strcmp(or_none(a->sampler), or_none(b->sampler)) != 0)
		differ_text("sampler", or_none(a->sampler),
		    or_none(b->sampler));
	if (strcmp(a->memory, b->memory) != 0)
		differ_text("memory", a->memory, b->memory);
	if (a->n_pending != b->n_pending ||
	    memcmp(a->pending, b->pending, a->n_pending) != 0)
		differ_number("pending", a->n_pending, b->n_pending);
	diff_run(&a->run, &b->run);
}

static int
same_layers(const struct qwen_state_info *a, const struct qwen_state_info *b)
{
	size_t i;

	if (a->n_layers != b->n_layers)
		return 0;
	for (i = 0; i < a->n_layers; i++) {
		if (a->layers[i].kv != b->layers[i].kv || memcmp(
		    a->layers[i].n, b->layers[i].n, (a->layers[i].kv ? 2 : 5) *
		    sizeof a->layers[i].n[0]) != 0)
			return 0;
	}
	return 1;
}

/* 0 if they are equal, 1 if not. */
static int
run_diff(char *paths[])
{
	struct state s[2];
	uint64_t same = 0;
	int i, status;

	for (i = 0; i < 2; i++) {
		open_state(&s[i], paths[i]);
		if (s[i].info->part)
			die("%s: a part of a state, from position %" PRIu64
			    " on", s[i].name, s[i].info->from);
	}
	if (opt.json) {
		printf("{\"a\":");
		cli_json_string(s[0].name);
		printf(",\"b\":");
		cli_json_string(s[1].name);
		printf(",\"differences\":");
	}
	diff_headers(s[0].info, s[1].info);
	if (!same_layers(s[0].info, s[1].info))
		differ_number("layers", s[0].info->n_layers,
		    s[1].info->n_layers);
	else if (n_differ == 0) {
		same = diff_tokens(s[0].info, s[1].info);
		diff_objects(&s[0], &s[1], same);
	}
	if (opt.all) {
		diff_checkpoints(s[0].info, s[1].info, "a", same);
		diff_checkpoints(s[1].info, s[0].info, "b", same);
		diff_extra(s[0].info->extra, s[1].info->extra);
	}
	if (opt.json)
		printf("%s],\"equal\":%s}\n", n_differ == 0 ? "[" : "",
		    json_bool(n_differ == 0));
	close_state(&s[0]);
	close_state(&s[1]);
	status = cli_finish();
	return n_differ > 0 ? 1 : status;
}

/* -------------------------------------------------------------- the store */

static void
warn_store(void *arg, const char *msg)
{
	(void)arg;
	cli_warn("%s: %s", opt.store, msg);
}

/* Which one; it is looked at, not made. */
static struct qwen_store *
open_store(void)
{
	struct qwen_store_opts o = { .max = 0 };
	struct qwen_store *st;
	struct stat sb;
	struct qwen_err err;

	if (opt.store == NULL)
		opt.store = getenv("QWEN_STORE");
	if (opt.store == NULL || opt.store[0] == '\0')
		cli_usage("which store? Give --store, or set QWEN_STORE");
	if (stat(opt.store, &sb) == -1)
		die("%s: %s", opt.store, strerror(errno));
	o.dir = opt.store;
	o.warn = warn_store;
	if (qwen_store_open(&st, &o, &err) < 0)
		cli_die_err(opt.store, &err);
	return st;
}

static struct qwen_store_list *
list_store(struct qwen_store *st)
{
	struct qwen_store_list *l;
	struct qwen_err err;

	if (qwen_store_list(&l, st, &err) < 0)
		cli_die_err(opt.store, &err);
	return l;
}

static const char *
kind_name(const struct qwen_store_entry *e)
{
	return e->kind == QWEN_STORE_KV ? "kv" : "checkpoint";
}

static void
ls_text(const struct qwen_store_entry *e)
{
	time_t used = (time_t)e->used;
	struct tm tm;
	char when[32], hex[33];

	if (gmtime_r(&used, &tm) == NULL ||
	    strftime(when, sizeof when, "%Y-%m-%dT%H:%M:%SZ", &tm) == 0)
		strcpy(when, "-");
	printf("%-10s %8" PRIu64 " %8" PRIu64 " %12" PRIu64 " %s %s%s",
	    kind_name(e), e->from, e->end, e->bytes, when,
	    qwen_fp_hex(&e->prefix, hex), e->orphan ? " orphan" : "");
	if (cli_verbose) {
		putchar(' ');
		print_masked(e->path);
	}
	putchar('\n');
}

static void
ls_json(const struct qwen_store_entry *e)
{
	char hex[33];

	printf("{\"kind\":\"%s\",\"prefix\":\"%s\"", kind_name(e),
	    qwen_fp_hex(&e->prefix, hex));
	json_fp("model", &e->model);
	json_fp("vocabulary", &e->vocab);
	printf(",\"numerics\":%lu,\"from\":%" PRIu64 ",\"end\":%" PRIu64
	    ",\"depth\":%zu,\"orphan\":%s,\"bytes\":%" PRIu64 ",\"used\":%"
	    PRId64 ",\"path\":", (unsigned long)e->numerics, e->from, e->end,
	    e->depth, json_bool(e->orphan), e->bytes, e->used);
	cli_json_string(e->path);
	printf("}\n");
}

/* Is this the first entry of another model? */
static int
begins_model(const struct qwen_store_list *l, size_t i)
{
	const struct qwen_store_entry *e = qwen_store_list_at(l, i), *before;

	if (i == 0)
		return 1;
	before = qwen_store_list_at(l, i - 1);
	return memcmp(&e->model, &before->model, sizeof e->model) != 0 ||
	    e->numerics != before->numerics;
}

static void
run_ls(void)
{
	struct qwen_store *st = open_store();
	struct qwen_store_list *l = list_store(st);
	const struct qwen_store_entry *e;
	char hex[33];
	size_t i;

	for (i = 0; i < qwen_store_list_n(l); i++) {
		e = qwen_store_list_at(l, i);
		if (!opt.json && begins_model(l, i))
			printf("model %s numerics %lu\n",
			    qwen_fp_hex(&e->model, hex),
			    (unsigned long)e->numerics);
		if (opt.json)
			ls_json(e);
		else
			ls_text(e);
	}
	qwen_store_list_free(l);
	qwen_store_close(st);
}

/* What the entries of a model, or all, come to. */
struct usage {
	uint64_t	files, bytes, tokens;
};

static void
print_usage(const char *what, const struct qwen_store_entry *e,
    const struct usage *u)
{
	char hex[33] = "all";

	if (e != NULL)
		qwen_fp_hex(&e->model, hex);
	if (opt.json) {
		printf("{\"%s\":\"%s\"", what, hex);
		if (e != NULL)
			printf(",\"numerics\":%lu",
			    (unsigned long)e->numerics);
		printf(",\"files\":%" PRIu64 ",\"bytes\":%" PRIu64
		    ",\"tokens\":%" PRIu64 "}\n", u->files, u->bytes,
		    u->tokens);
		return;
	}
	printf("%-5s %-32s %8" PRIu64 " %14" PRIu64 " %10" PRIu64, what, hex,
	    u->files, u->bytes, u->tokens);
	if (e != NULL)
		printf(" numerics %lu", (unsigned long)e->numerics);
	putchar('\n');
}

static void
run_du(void)
{
	struct qwen_store *st = open_store();
	struct qwen_store_list *l = list_store(st);
	struct usage one = { 0 }, all = { 0 };
	const struct qwen_store_entry *e;
	size_t i, n = qwen_store_list_n(l);

	for (i = 0; i < n; i++) {
		e = qwen_store_list_at(l, i);
		if (begins_model(l, i))
			memset(&one, 0, sizeof one);
		one.files++;
		one.bytes += e->bytes;
		one.tokens += e->end - e->from;
		if (i + 1 < n && !begins_model(l, i + 1))
			continue;
		print_usage("model", e, &one);
		all.files += one.files;
		all.bytes += one.bytes;
		all.tokens += one.tokens;
	}
	print_usage("total", NULL, &all);
	qwen_store_list_free(l);
	qwen_store_close(st);
}

static void
print_removed(const struct qwen_store_gc_result *r)
{
	if (opt.json)
		printf("{\"removed\":{\"files\":%" PRIu64 ",\"bytes\":%" PRIu64
		    "},\"left\":{\"files\":%" PRIu64 ",\"bytes\":%" PRIu64
		    "}}\n", r->files, r->bytes, r->left_files, r->left_bytes);
	else if (!cli_quiet)
		printf("removed %" PRIu64 " %" PRIu64 "\nleft %" PRIu64 " %"
		    PRIu64 "\n", r->files, r->bytes, r->left_files,
		    r->left_bytes);
}

static void
run_gc(void)
{
	struct qwen_store *st = open_store();
	struct qwen_store_gc_result r = { 0 };
	struct qwen_err err;

	if (qwen_store_gc(st, opt.store_max, &r, &err) < 0)
		cli_die_err(opt.store, &err);
	print_removed(&r);
	qwen_store_close(st);
}

/* Each prefix is looked for; those that are not there are told of. */
static void
run_rm(char *digits[])
{
	struct qwen_store *st;
	struct qwen_store_gc_result r, all = { 0 };
	struct qwen_err err;

	if (opt.all == (digits[0] != NULL))
		cli_usage("rm takes prefixes, or --all");
	st = open_store();
	do {
		memset(&r, 0, sizeof r);
		if (qwen_store_remove(st, digits[0], &r, &err) < 0) {
			if (err.code != QWEN_ERANGE || digits[0] == NULL)
				cli_die_err(opt.store, &err);
			cli_warn("%s: %s", opt.store, err.msg);
			continue;
		}
		all.files += r.files;
		all.bytes += r.bytes;
		all.left_files = r.left_files;
		all.left_bytes = r.left_bytes;
	} while (*digits != NULL && *++digits != NULL);
	print_removed(&all);
	qwen_store_close(st);
}

static void
bad_entry(void *arg, const char *path, const char *msg)
{
	char name[2048];

	(void)arg;
	snprintf(name, sizeof name, "%s/%s", opt.store, path);
	told(name, msg);
}

static void
verified(void *arg, uint64_t bytes)
{
	uint64_t *sum = arg;

	*sum += bytes;
	cli_progress(*sum >> 20);
}

static void
verify_store(void)
{
	struct qwen_store *st = open_store();
	uint64_t files = 0, n_bad = 0, bytes = 0;
	struct qwen_store_verifier v = {
		.bad = bad_entry, .progress = verified, .arg = &bytes,
		.remove = opt.remove,
	};
	struct qwen_err err;
	int rc;

	cli_progress_start("MiB", 0);
	rc = qwen_store_verify(st, &v, &files, &n_bad, &err);
	cli_progress_end();
	if (rc < 0)
		cli_die_err(opt.store, &err);
	if (cli_verbose)
		cli_note("%s: %" PRIu64 " files, %" PRIu64 " bad", opt.store,
		    files, n_bad);
	qwen_store_close(st);
}

/* -------------------------------------------------------------------- main */

enum command { SHOW, VERIFY, DIFF, SLICE, PACK, CAT, LS, DU, GC, RM,
    N_COMMANDS };

static const struct {
	const char	*name;
	int		 min, max;	/* operands; max -1: any number */
	const char	*takes;		/* letters of the options */
} commands[N_COMMANDS] = {
	[SHOW] = { "show", 1, -1, "JT" },
	[VERIFY] = { "verify", 0, -1, "JRS" },
	[DIFF] = { "diff", 2, 2, "AJ" },
	[SLICE] = { "slice", 1, 1, "nmtoKC" },
	[PACK] = { "pack", 1, 1, "oKC" },
	[CAT] = { "cat", 1, 1, "" },
	[LS] = { "ls", 0, 0, "JS" },
	[DU] = { "du", 0, 0, "JS" },
	[GC] = { "gc", 0, 0, "JSM" },
	[RM] = { "rm", 0, -1, "AJS" },
};

/* What the table above calls an option. */
static char
letter(int c)
{
	static const char big[] = "AJKCRSMT";	/* from O_ALL on */

	return c < O_ALL ? (char)c : big[c - O_ALL];
}

static void
set_option(int c, const char *arg)
{
	switch (c) {
	case 'm': opt.model = arg; break;
	case 'n':
		opt.count = (uint64_t)cli_int("-n", arg, 1, INT64_MAX);
		opt.count_given = 1;
		break;
	case 'o': opt.output = strcmp(arg, "-") == 0 ? NULL : arg; break;
	case 't': opt.n_threads = cli_threads(arg); break;
	case O_ALL: opt.all = 1; break;
	case O_JSON: opt.json = 1; break;
	case O_NO_CHECKPOINTS: opt.state.no_checkpoints = 1; break;
	case O_NO_COMPRESS: opt.state.no_compress = 1; break;
	case O_REMOVE: opt.remove = 1; break;
	case O_STORE: opt.store = arg; break;
	case O_STORE_MAX:
		opt.store_max = cli_bytes("--store-max", arg);
		if (opt.store_max == 0)
			cli_usage("--store-max: to remove all, use rm --all");
		break;
	case O_TOKENS: opt.tokens = 1; break;
	}
}

static enum command
find_command(const char *name)
{
	int i;

	for (i = 0; i < N_COMMANDS; i++) {
		if (strcmp(commands[i].name, name) == 0)
			return (enum command)i;
	}
	cli_usage("no command '%s'", name);
}

static const char *
option_name(int c)
{
	size_t i;

	for (i = 0; options[i].c != c; i++)
		;
	return options[i].name;
}

static void
check_options(enum command cmd, const int *seen, size_t n)
{
	size_t i;

	for (i = 0; i < n; i++) {
		if (strchr(commands[cmd].takes, letter(seen[i])) == NULL)
			cli_usage("--%s has no meaning for %s",
			    option_name(seen[i]), commands[cmd].name);
	}
}

/* The command, and its operands in *operands. */
static enum command
parse(int argc, char *argv[], char ***operands)
{
	int seen[64], c, operand, first = 0;
	const char *arg, *name = NULL;
	enum command cmd;
	size_t n = 0;

	/* the word goes first, but --help and the like need none */
	if (argc > 1 && argv[1][0] != '-') {
		name = argv[1];
		first = 1;
	}
	while ((c = cli_getopt(argc - first, argv + first, options, NULL, &arg,
	    &operand)) != -1) {
		set_option(c, arg);
		if (n < sizeof seen / sizeof seen[0])
			seen[n++] = c;
	}
	operand += first;
	if (name == NULL && operand < argc)
		name = argv[operand++];
	if (name == NULL)
		cli_usage("which command?");
	cmd = find_command(name);
	check_options(cmd, seen, n);
	if (argc - operand < commands[cmd].min)
		cli_usage("%s needs %s", cmd == DIFF ? "diff" : name,
		    cmd == DIFF ? "two states" : "a state");
	if (commands[cmd].max >= 0)
		cli_no_operands(argc, argv, operand + commands[cmd].max);
	*operands = argv + operand;
	return cmd;
}

int
main(int argc, char *argv[])
{
	char **operands;

	cli_init("qstate", usage);
	switch (parse(argc, argv, &operands)) {
	case SHOW: run_show(operands); break;
	case VERIFY: run_verify(operands); break;
	case LS: run_ls(); break;
	case DU: run_du(); break;
	case GC: run_gc(); break;
	case RM: run_rm(operands); break;
	case DIFF: return run_diff(operands);
	case SLICE: run_slice(operands); break;
	case PACK: run_pack(operands); break;
	case CAT: run_cat(operands); break;
	case N_COMMANDS: break;
	}
	return cli_finish();
}
