/* SPDX-License-Identifier: ISC */
/* child.c - measurements in child processes: the machine, and the start. */
#include <sys/wait.h>

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "text/json/json.h"
#include "qbench.h"

/*
 * Run a function in a child process, and read what it writes to fd into out.
 * Return the number of bytes; die if the child fails.
 */
static size_t
ask_child(void (*child)(void *arg, int fd), void *arg, void *out, size_t size)
{
	char *p = out;
	size_t n = 0;
	ssize_t k;
	int fd[2], status;
	pid_t pid;

	fflush(stdout);
	if (pipe(fd) == -1 || (pid = fork()) == -1)
		die("cannot start a process: %s", strerror(errno));
	if (pid == 0) {
		close(fd[0]);
		child(arg, fd[1]);
		_exit(0);
	}
	close(fd[1]);
	while (n < size && ((k = read(fd[0], p + n, size - n)) > 0 ||
	    (k == -1 && errno == EINTR)))
		n += k > 0 ? (size_t)k : 0;
	close(fd[0]);
	while (waitpid(pid, &status, 0) == -1)
		if (errno != EINTR)
			die("waitpid: %s", strerror(errno));
	if (WIFEXITED(status) && WEXITSTATUS(status) == 1)
		exit(1);	/* the child printed why */
	if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
		die("the measuring process failed");
	return n;
}

struct machine_job {
	int			 n_threads;
	const char		*cpu;
	double			 seconds;	/* per measurement; 0: enough */
};

static void
machine_child(void *arg, int fd)
{
	const struct machine_job *job = arg;
	struct qwen_machine m;

	cli_must(NULL, qwen_machine_measure(&m, job->n_threads, job->cpu,
	    job->seconds, &cli_err));
	if (write(fd, &m, sizeof m) != (ssize_t)sizeof m)
		_exit(1);
}

/*
 * The child has the measurement's buffer, so that it does not count as memory
 * of this process.
 */
void
qbench_measure_machine(struct qwen_machine *m, int n_threads, double seconds)
{
	struct machine_job job = { n_threads, tool_cpu(), seconds };

	if (ask_child(machine_child, &job, m, sizeof *m) != sizeof *m)
		die("the measurement of the machine was cut short");
}

/* Replace the child by qbench --since; the clock starts right before exec. */
static void
since_child(void *arg, int fd)
{
	char since[32], threads[16];
	char *argv[] = { "qbench", "-q", "-m", (char *)qbench_model_path, "-t",
	    threads, "--since", since, NULL };

	snprintf(threads, sizeof threads, "%d", *(int *)arg);
	if (dup2(fd, STDOUT_FILENO) == -1)
		_exit(1);
	close(fd);
	snprintf(since, sizeof since, "%" PRIu64, qbench_now_ns());
	execv("/proc/self/exe", argv);
	execvp("qbench", argv);
	_exit(1);
}

/* The new process: prints two times, in ns. */
void
qbench_run_since(void)
{
	struct qwen_session *s;
	struct qwen_model *m;
	uint64_t kernel, token;
	int32_t id = 0;

	m = tool_model_open(qbench_opt.model, (int)qbench_opt.threads.v[0],
	    qbench_opt.numerics);
	cli_must(NULL, qwen_session_new(&s, m, &cli_err));
	kernel = qbench_now_ns();
	tool_eval(s, &id, 1, NULL);
	token = qbench_now_ns();
	if (kernel < qbench_opt.since)
		cli_usage("--since: this time is in the future");
	printf("%" PRIu64 " %" PRIu64 "\n", kernel - qbench_opt.since,
	    token - qbench_opt.since);
	qwen_session_free(s);
	qwen_model_close(m);
}

void
qbench_measure_start(struct qbench_start *s, int n_threads)
{
	double kernel[QBENCH_MAX_ROUNDS], token[QBENCH_MAX_ROUNDS];
	uint64_t a, b;
	char text[64];
	size_t i, n;

	for (i = 0; i < qbench_opt.rounds; i++) {
		n = ask_child(since_child, &n_threads, text, sizeof text - 1);
		text[n] = '\0';
		if (sscanf(text, "%" SCNu64 " %" SCNu64, &a, &b) != 2)
			die("cannot measure the start");
		kernel[i] = (double)a * 1e-6;
		token[i] = (double)b * 1e-6;
	}
	s->kernel = qbench_spread_of(kernel, qbench_opt.rounds);
	s->token = qbench_spread_of(token, qbench_opt.rounds);
}

/* --------------------------------------------------------------- --machine */

enum { MACHINE_CELLS = 7 };

static void
machine_cells(struct qbench_cell to[MACHINE_CELLS],
    const struct qwen_machine *m)
{
	const struct qbench_cell all[MACHINE_CELLS] = {
		QBENCH_REAL("threads", "threads", 7, 0, m->n_threads),
		QBENCH_TEXT("variant", "variant", -10, m->variant),
		QBENCH_REAL("read_gb_s", "read GB/s", 10, 2, m->read * 1e-9),
		QBENCH_REAL("copy_gb_s", "copy GB/s", 10, 2, m->copy * 1e-9),
		QBENCH_REAL("int8_gmac_s", "int8 GMAC/s", 11, 2,
		    m->int8 * 1e-9),
		QBENCH_REAL("f32_gmac_s", "f32 GMAC/s", 11, 2, m->f32 * 1e-9),
		QBENCH_TEXT("int8_op", "int8 by", 0, m->int8_op),
	};

	memcpy(to, all, sizeof all);
}

void
qbench_json_machine(struct qwen_text *t, const struct qwen_machine *m)
{
	struct qbench_cell cell[MACHINE_CELLS];

	machine_cells(cell, m);
	qwen_json_put(t, ",'machine':{'cpu':'%s'", qbench_cpu_name());
	qbench_json_cells(t, cell, MACHINE_CELLS);
	qwen_text_str(t, "}");
}

static void
show_machine(const struct qwen_machine *m, int first)
{
	struct qbench_cell cell[MACHINE_CELLS];
	struct qwen_text t = { 0 };

	machine_cells(cell, m);
	if (qbench_opt.json) {
		qwen_text_str(&t, "{");
		qbench_json_machine(&t, m);
		qwen_text_str(&t, "}\n");
	} else
		qbench_row(&t, cell, MACHINE_CELLS, first);
	qbench_write(&t);
}

static void
show_card(const struct qwen_card_speed *c, int first)
{
	char device[32];
	const struct qbench_cell cell[] = {
		QBENCH_TEXT("device", "device", -8, device),
		QBENCH_REAL("peak_gb_s", "peak GB/s", 10, 1, c->peak * 1e-9),
		QBENCH_REAL("memory_gb_s", "memory", 8, 1, c->memory * 1e-9),
		QBENCH_REAL("put_gb_s", "put", 7, 2, c->put * 1e-9),
		QBENCH_REAL("get_gb_s", "get", 7, 2, c->get * 1e-9),
		QBENCH_REAL("put_pageable_gb_s", "pageable", 8, 2,
		    c->put_pageable * 1e-9),
		QBENCH_REAL("get_pageable_gb_s", "get", 7, 2,
		    c->get_pageable * 1e-9),
		QBENCH_REAL("launch_us", "launch us", 9, 2, 1e6 / c->launches),
		QBENCH_REAL("graph_launch_us", "in graphs", 9, 2,
		    1e6 / c->graph_launches),
		QBENCH_REAL("int8_gmac_s", "int8 GMAC/s", 11, 1,
		    c->int8 * 1e-9),
		QBENCH_TEXT("name", "name", 0, c->name),
	};

	snprintf(device, sizeof device, "cuda:%d", c->number);
	qbench_show_row(cell, sizeof cell / sizeof cell[0], first);
}

void
qbench_show_cards(void)
{
	struct qwen_card_speed card[8];
	size_t i, n;

	cli_must("--device", qwen_card_measure(card, 8, &n, tool_device,
	    &cli_err));
	for (i = 0; i < n; i++)
		show_card(&card[i], i == 0);
	if (n == 0)
		qbench_show_machine();
}

/*
 * Measure with 1 .. t threads, doubled above 4, for the largest t of the list.
 */
void
qbench_show_machine(void)
{
	struct qwen_machine m;
	int i, n;

	n = (int)qbench_longest(&qbench_opt.threads);
	if (n == 0)
		n = (int)sysconf(_SC_NPROCESSORS_ONLN);
	for (i = 1; i <= n;
	    i = i < 4 ? i + 1 : i < n && 2 * i > n ? n : 2 * i) {
		qbench_measure_machine(&m, i, 0);
		show_machine(&m, i == 1);
	}
}
