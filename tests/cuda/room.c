/* SPDX-License-Identifier: ISC */
/*
 * room.c - the memory of passes on a card: a text after one that was too long;
 * growth where there is too little memory for twice as much; a card that is lost
 * while it has a session.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../tap.h"
#include "engine/cuda/cuda.h"
#include "engine/timeline/timeline.h"
#include "small.h"

/* Saves a session to nowhere. */
static int
save(struct qwen_session *s)
{
	int fd = open("/dev/null", O_WRONLY), rc = -1;
	struct qwen_writer *w;

	if (qwen_writer_open(&w, fd, NULL, &err) == 0) {
		rc = qwen_state_save(s, NULL, w, NULL, NULL, &err);
		qwen_writer_free(w);
	}
	close(fd);
	return rc;
}

static int
fit(struct qwen_session *s, size_t end)
{
	return qwen_cuda_device.fit(s->cache->work[1], 8, 1, end, &err);
}

static uint64_t
bytes(struct qwen_model *m, size_t end)
{
	return qwen_cuda_device.bytes(m->place.on[1], 8, 1, end);
}

static uint64_t
taken(struct qwen_model *m)
{
	struct qwen_cuda *c = (struct qwen_cuda *)(void *)m->place.on[1];

	return ((uint64_t)1 << 34) - qwen_cuda_memory_left(c->card);
}

static void
limit(uint64_t n)
{
	char text[32];

	snprintf(text, sizeof text, "%llu", (unsigned long long)n);
	setenv("QWEN_FAKE_MEMORY", text, 1);
}

/* After a call for which there is no memory, a shorter one has it. */
static void
test_blocks(struct qwen_model *m)
{
	struct qwen_session *s;
	int32_t ids[600] = { 0 };
	float want[N_VOCAB];

	if (qwen_session_new(&s, m, &err) < 0 ||
	    qwen_session_eval(s, ids, 3, NULL, &err) < 0)
		exit(1);
	memcpy(want, qwen_session_logits(s), sizeof want);
	qwen_session_free(s);
	if (qwen_place(m, "cuda:0", &err) < 0 ||
	    qwen_session_new(&s, m, &err) < 0)
		exit(1);
	limit(taken(m) + bytes(m, 600) - 1);
	ok(qwen_session_eval(s, ids, 600, NULL, &err) < 0 &&
	    err.code == QWEN_ENOMEM, "no memory for a long text");
	unsetenv("QWEN_FAKE_MEMORY");
	ok(qwen_session_eval(s, ids, 3, NULL, &err) == 0 &&
	    memcmp(qwen_session_logits(s), want, sizeof want) == 0,
	    "the start of it has its place, and the right bits");
	qwen_session_free(s);
}

/* Texts may grow until the memory is used up. */
static void
test_growth(struct qwen_model *m)
{
	struct qwen_session *s;
	int32_t ids[3] = { 0 };

	if (qwen_session_new(&s, m, &err) < 0 ||
	    qwen_session_eval(s, ids, 3, NULL, &err) < 0 || fit(s, 1000) < 0)
		exit(1);
	limit(taken(m) + bytes(m, 1500) - bytes(m, 1000));
	ok(fit(s, 1001) == 0, "growth without memory for twice as much");
	ok(fit(s, 1500) == 0, "growth to the last byte");
	ok(fit(s, 4000) < 0 && err.code == QWEN_ENOMEM, "and no further");
	ok(qwen_session_eval(s, ids, 3, NULL, &err) == 0,
	    "what has room goes on");
	unsetenv("QWEN_FAKE_MEMORY");
	ok(save(s) == 0, "the session can be saved");
	qwen_session_eval(s, ids, 3, NULL, &err);
	setenv("QWEN_FAKE_LOSE", "0", 1);
	err.code = 0;
	ok(fit(s, 4000) < 0 && err.code == QWEN_EIO,
	    "a lost card is not one without memory");
	ok(save(s) == 0 && qwen_place(m, "cuda:0", &err) < 0 &&
	    qwen_session_eval(s, ids, 3, NULL, &err) == 0,
	    "what it had can be saved, and the session goes on");
	unsetenv("QWEN_FAKE_LOSE");
	qwen_session_free(s);
}

int
main(void)
{
	struct qwen_model *m;

	if (getenv("CARD") != NULL) {
		skip("room", "only the fake driver has limits");
		return done_testing();
	}
	m = open_small(4000);
	test_blocks(m);
	test_growth(m);
	qwen_model_close(m);
	return done_testing();
}
