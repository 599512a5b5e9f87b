/* SPDX-License-Identifier: ISC */
/*
 * qbench.c - measure the speed of a model, and compare it with the limits of
 * the machine.  This file chooses what to measure.
 */
#include <stdlib.h>

#include "qbench/qbench.h"

/* Measure a model with each number of threads. */
static void
measure_model(void)
{
	size_t i;

	qbench_model_path = qbench_model_name = qbench_opt.synthetic == NULL ?
	    tool_model_path(qbench_opt.model) : NULL;
	if (qbench_opt.synthetic != NULL)
		qbench_make_synthetic();
	qbench_check_memory();
	qbench_warm_file();
	for (i = 0; i < qbench_opt.threads.n; i++)
		(qbench_opt.has_drafts ? qbench_run_drafts : qbench_run)(
		    (int)qbench_opt.threads.v[i]);
	free(qbench_ids);
}

int
main(int argc, char *argv[])
{
	if (qbench_options(argc, argv))
#if __has_include(<curl/curl.h>)
		return qbench_run_url();
#else
		die("--url: built without libcurl");
#endif
	tool_cpu();	/* reports bad settings before any table */
	if (cli_given(&qbench_opt.since))
		qbench_run_since();
	else if (qbench_opt.machine)
		(tool_device != NULL ? qbench_show_cards :
		    qbench_show_machine)();
	else if (qbench_opt.sampling)
		qbench_show_sampling();
	else if (qbench_opt.tune)
		qbench_show_tuning();
	else
		measure_model();
	return cli_finish();
}
