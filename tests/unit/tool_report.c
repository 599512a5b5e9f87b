/* SPDX-License-Identifier: ISC */
/* tool_report.c - when requests arrive, and statistics of how they fared. */
#include <math.h>
#include <string.h>

#include "../tap.h"
#include "tool/tool.h"

/* By the definition: mean 1 / rate, variance 1 / rate^2. */
static void
gaps(void)
{
	enum { N = 200000 };
	double sum = 0, squares = 0, least = 1, mean, var;
	uint64_t rng = 7;
	int i;

	for (i = 0; i < N; i++) {
		double x = tool_request_gap(&rng, 5);

		sum += x;
		squares += x * x;
		least = x < least ? x : least;
	}
	mean = sum / N * 5;
	var = (squares / N - sum / N * (sum / N)) * 25;
	ok(least >= 0 && fabs(mean - 1) < 0.02 && fabs(var - 1) < 0.05,
	    "gaps of a Poisson process: mean %.3f, variance %.3f of what is "
	    "due", mean, var);
}

static void
figures(void)
{
	struct tool_timings s = { 0 };
	struct qwen_text t = { 0 };
	int i;

	tool_timings_json(&t, "a", &s);
	for (i = 200; i > 0; i--)
		tool_timings_add(&s, i);
	tool_timings_add(&s, -1);
	tool_timings_json(&t, "b", &s);
	ok(t.s != NULL && strcmp(t.s, "\"a\":{\"n\":0,\"mean\":0,\"p50\":0,"
	    "\"p90\":0,\"p95\":0,\"p99\":0,\"max\":0}"
	    "\"b\":{\"n\":200,\"mean\":100.5,\"p50\":100,\"p90\":180,"
	    "\"p95\":190,\"p99\":198,\"max\":200}") == 0, "figures of samples");
	qwen_text_fini(&t);
	tool_timings_fini(&s);
}

static void
goals(void)
{
	struct tool_times g = { { 0 } }, t = { { 500, -1, 1e9 } };
	struct cli_opt o = { .to = &g };

	tool_goals_parse(&o, "ttft:500,tpot:50");
	ok(tool_goals_met(&g, &t), "goals that are just met");
	t.ms[TOOL_TTFT] = 500.1;
	ok(!tool_goals_met(&g, &t), "one that is not");
}

int
main(void)
{
	gaps();
	figures();
	goals();
	return done_testing();
}
