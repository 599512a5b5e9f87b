/* SPDX-License-Identifier: ISC */
/*
 * cost.c - the time of a pass by its number of rows.
 *
 * A time is a product: the time of a plain pass (one row), which changes as
 * texts grow and other programs run, and a factor for the rows, which hardly
 * changes.  A measured time adjusts both, the plain time more; a plain pass
 * adjusts only the plain time.  A time far off, as when another program had the
 * processor, counts as slightly off.  The factors are made to ascend, and gaps
 * are filled: a number of rows that was never measured lies between its
 * neighbours, or on a line beyond them.
 */
#include <math.h>

#include "engine/draft/cost.h"

/*
 * Factors assumed before any measurement: for each further row, and for making
 * a draft.
 */
#define ROW_GUESS 0.1
#define DRAFT_GUESS 0.05

/*
 * How much a measurement moves the plain time: by a plain pass, by a larger
 * pass.
 */
#define MOVE_PLAIN 0.3
#define MOVE 0.15

/*
 * The first draft is slow: the block's weights come from memory.  So that this
 * does not stop drafting, it counts as at most FIRST_DRAFT times the estimate.
 */
#define FIRST_DRAFT 2

/* Measurements after which a factor is reliable; maximum that count. */
enum { SURE = 3, MOST = 50 };

/*
 * After this many passes a factor that was not measured loses one measurement;
 * with the last one it moves towards the assumption.
 */
enum { FADE_EVERY = 12 };
#define FADE 0.2

/*
 * Plain passes at the start, and the maximum number of passes between later
 * ones.
 */
enum { FIRST_PLAIN = 2, PLAIN_EVERY = 128 };

/* ----------------------------------------------------- fitting the factors */

static double
assumed_cost(size_t rows)
{
	return 1 + ROW_GUESS * (double)(rows - 1);
}

/*
 * Neighbouring factors that do not ascend are merged into one step, at their
 * mean.
 */
struct step {
	double	 mean, weight;
	size_t	 first, last;
};

static size_t
ascend(const struct qwen_cost *c, struct step *step)
{
	size_t k, n = 1;

	/* one row is the unit */
	step[0] = (struct step){ 1, 1, 1, 1 };
	for (k = 2; k <= QWEN_COST_ROWS; k++) {
		const struct qwen_cost_mean *m = &c->rows[k];

		if (m->n == 0)
			continue;
		step[n++] = (struct step){ m->v < 1 ? 1 : m->v, m->n, k, k };
		while (n > 2 && step[n - 2].mean >= step[n - 1].mean) {
			struct step *a = &step[n - 2], *b = a + 1;

			a->mean = (a->mean * a->weight + b->mean * b->weight) /
			    (a->weight + b->weight);
			a->weight += b->weight;
			a->last = b->last;
			n--;
		}
	}
	return n;
}

static void
fit_factors(struct qwen_cost *c)
{
	struct step step[QWEN_COST_ROWS];
	size_t n = ascend(c, step), i, k;
	const struct step *end = &step[n - 1];
	double slope = ROW_GUESS;

	for (i = 0; i < n; i++) {
		for (k = step[i].first; k <= step[i].last; k++)
			c->fit[k] = step[i].mean;
		if (i + 1 == n)
			break;
		for (; k < step[i + 1].first; k++)
			c->fit[k] = step[i].mean + (step[i + 1].mean -
			    step[i].mean) * (double)(k - step[i].last) /
			    (double)(step[i + 1].first - step[i].last);
	}
	c->known = end->last;
	if (end->last > 1)
		slope = fmax((end->mean - 1) / (double)(end->last - 1), 0.01);
	for (k = end->last + 1; k <= QWEN_COST_ROWS; k++)
		c->fit[k] = c->fit[k - 1] + slope;
}

/* measurements */

/* Returns the relative error of a measurement, clamped. */
static double
relative_error(double ratio, double n)
{
	double most = n < SURE ? 1 / n : 0.3;

	return fmin(fmax(ratio - 1, -most), most);
}

static void
fade_others(struct qwen_cost *c, size_t but)
{
	size_t k;

	for (k = 2; k <= QWEN_COST_ROWS; k++) {
		struct qwen_cost_mean *m = &c->rows[k];

		if (k == but || m->n == 0)
			continue;
		if (m->n > 1)
			m->n--;
		else if (m->v > assumed_cost(k))
			m->v += FADE * (assumed_cost(k) - m->v);
	}
}

static void
add_plain_pass(struct qwen_cost *c, double seconds)
{
	struct qwen_cost_mean *m = &c->rows[1];

	/* the first passes read from the disk and touch new memory */
	if (m->n < SURE)
		c->scale = m->n == 0 ? seconds : fmin(c->scale, seconds);
	else
		c->scale *= 1 + MOVE_PLAIN * relative_error(seconds / c->scale,
		    m->n);
	m->n += m->n < MOST;
	c->last_plain = c->n_passes;
}

static void
add_larger_pass(struct qwen_cost *c, size_t rows, double seconds)
{
	struct qwen_cost_mean *m = &c->rows[rows];
	double r;

	if (m->n == 0) {
		/* a slow first time by chance must not stop drafting */
		r = seconds / c->scale / c->fit[rows];
		*m = (struct qwen_cost_mean){ c->fit[rows] * (r > 1 ? sqrt(r) :
		    r), 1 };
		return;
	}
	r = relative_error(seconds / c->scale / m->v, m->n);
	if (m->n >= SURE)
		c->scale *= 1 + MOVE * r;
	m->v *= 1 + r / (m->n + 1);
	m->n += m->n < MOST;
}

void
qwen_cost_pass(struct qwen_cost *c, size_t rows, double seconds)
{
	if (rows == 0 || rows > QWEN_COST_ROWS || !(seconds > 0))
		return;
	if (c->n_passes++ == 0) {
		c->scale = seconds / assumed_cost(rows);
		fit_factors(c);
	}
	if (rows == 1)
		add_plain_pass(c, seconds);
	else
		add_larger_pass(c, rows, seconds);
	if (c->n_passes % FADE_EVERY == 0)
		fade_others(c, rows);
	fit_factors(c);
	/*
	 * larger excess comes from other programs, except while little is known
	 */
	c->last_ratio = fmin(fmax(seconds / c->scale / c->fit[rows], 0.5),
	    rows > 1 && c->rows[rows].n <= SURE ? 4 : 1.5);
}

int
qwen_cost_is_due(const struct qwen_cost *c)
{
	return c->rows[1].n < FIRST_PLAIN ||
	    c->n_passes - c->last_plain >= PLAIN_EVERY;
}

void
qwen_cost_draft(struct qwen_cost *c, size_t n, double seconds)
{
	struct qwen_cost_mean *m = &c->draft;

	if (n == 0 || !(seconds > 0) || c->n_passes == 0)
		return;
	seconds /= (double)n * c->scale;
	if (m->n == 0)
		m->v = fmin(seconds, FIRST_DRAFT * DRAFT_GUESS);
	else
		m->v *= 1 + relative_error(seconds / m->v, m->n) / (m->n + 1);
	m->n += m->n < MOST;
}

double
qwen_cost_of(const struct qwen_cost *c, size_t rows)
{
	if (rows > QWEN_COST_ROWS)
		rows = QWEN_COST_ROWS;
	return c->n_passes == 0 ? assumed_cost(rows) : c->fit[rows];
}

double
qwen_cost_of_draft(const struct qwen_cost *c)
{
	return c->draft.n == 0 ? DRAFT_GUESS : c->draft.v;
}

size_t
qwen_cost_best(const struct qwen_cost *c, const struct qwen_cost_choice *o,
    double *rate)
{
	double none = qwen_cost_of(c, o->rows), tokens = o->tokens, time, r;
	double most = tokens / none;
	size_t i, best = 0, end = 2 * c->known;

	*rate = most;
	/* grow at most one row beyond the sizes measured so far */
	if (end <= o->rows)
		end = o->rows + 1;
	if (end > QWEN_COST_ROWS)
		end = QWEN_COST_ROWS;
	/* require 1 % gain, the measurement noise */
	most *= 1.01;
	for (i = 1; i <= o->n && o->rows + i <= end; i++) {
		tokens += o->p[i - 1];
		time = qwen_cost_of(c, o->rows + i) + (double)i * o->draft;
		if (time - none > o->risk)
			break;
		if ((r = tokens / time) > most) {
			*rate = most = r;
			best = i;
		}
	}
	return best;
}
