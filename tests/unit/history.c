/* SPDX-License-Identifier: ISC */
/*
 * history.c - conversations as clients send them, which a template does not
 * accept unchanged: system messages in all places, calls in all forms, a last
 * message to continue.  history.test gives the expected result as other
 * messages, which the template accepts unchanged; golden/chat_render compares
 * the prompts of those with transformers.
 */
#include "../cases.h"
#include "../tap.h"
#include "qwentext.h"

static const char *const systems[] = { "remind", "first", "template" };

static struct qwen_template *
open_template(const struct test_case *c, struct qwen_err *err)
{
	const struct qwen_text *own = case_get(c, "template");
	struct qwen_template *t = NULL;

	if (own != NULL)
		qwen_template_open_text(&t, own->s, own->n, err);
	else
		qwen_template_open(&t, case_str(c, "use"), err);
	return t;
}

/* A prompt as text, owned; NULL and what is wrong. */
static char *
render(struct qwen_template *t, int how, const struct qwen_text *json,
    struct qwen_prompt **p, struct qwen_err *err)
{
	struct qwen_str s;
	char *text;

	qwen_template_set_systems(t, (enum qwen_systems)how);
	if (qwen_template_render(t, json->s, json->n, p, err) < 0)
		return NULL;
	s = qwen_prompt_text(*p);
	if ((text = malloc(s.len + 1)) == NULL)
		exit(1);
	memcpy(text, s.s, s.len);
	text[s.len] = '\0';
	return text;
}

/* The text without the turn that it opens at its end. */
static size_t
before_answer(const char *text)
{
	size_t n = strlen(text), i;

	for (i = n; i > 0; i--) {
		if (strncmp(text + i - 1, "<|im_start|>assistant", 21) == 0)
			return i - 1;
	}
	return n;
}

/* A line of a case, which the prompt is compared with. */
static int
holds(struct qwen_template *t, const struct case_line *l, int how,
    const char *text, const struct qwen_prompt *p)
{
	static const char *const thinking[] = { "none", "open", "closed" };
	struct qwen_prompt *other = NULL;
	struct qwen_err err = { 0 };
	char *want;
	int is_same = strcmp(l->key, "same") == 0, good;

	if (strcmp(l->key, "gives") == 0)
		return strcmp(text, l->text.s) == 0;
	if (strcmp(l->key, "has") == 0)
		return strstr(text, l->text.s) != NULL;
	if (strcmp(l->key, "ends") == 0)
		return l->text.n <= strlen(text) && strcmp(text +
		    strlen(text) - l->text.n, l->text.s) == 0;
	if (strcmp(l->key, "thinking") == 0)
		return strcmp(thinking[qwen_prompt_thinking(p)],
		    l->text.s) == 0;
	if (strcmp(l->key, "continues") == 0)
		return qwen_prompt_continues(p) == (l->text.s[0] == 'y');
	if (strcmp(l->key, "repaired") == 0)
		return qwen_prompt_repaired(p) == (l->text.s[0] == 'y');
	if (!is_same && strcmp(l->key, "grows") != 0)
		return 1;
	want = render(t, is_same ? QWEN_SYSTEMS_TEMPLATE : how, &l->text,
	    &other, &err);
	good = want != NULL && (is_same ? strcmp(want, text) == 0 :
	    strncmp(want, text, before_answer(text)) == 0);
	if (!good)
		fprintf(stderr, "-- %s\n%s\n", l->key, want != NULL ? want :
		    err.msg);
	free(want);
	qwen_prompt_free(other);
	return good;
}

static void
run_case(const struct test_case *c)
{
	const char *mode = case_str(c, "systems"), *error = case_str(c, "error");
	struct qwen_prompt *p = NULL;
	struct qwen_err err = { 0 };
	struct qwen_template *t = open_template(c, &err);
	char *text = NULL;
	int how = 0, good, i;

	while (mode[0] != '\0' && strcmp(systems[how], mode) != 0)
		how++;
	if (t != NULL)
		text = render(t, how, case_get(c, "request"), &p, &err);
	good = error[0] != '\0' ? text == NULL && strstr(err.msg, error) !=
	    NULL : text != NULL;
	for (i = 0; text != NULL && good && i < c->n; i++)
		good = holds(t, &c->l[i], how, text, p);
	ok(good, "%s", case_str(c, "case"));
	if (!good)
		fprintf(stderr, "-- line %d; got\n%s\n", i, text != NULL ? text :
		    err.msg);
	free(text);
	qwen_prompt_free(p);
	qwen_template_close(t);
}

int
main(void)
{
	static const char words[] = " case use template systems request same "
	    "grows gives has ends thinking continues repaired error ";
	struct test_case c = { .n = 0 };
	FILE *f = case_open("unit/history.test");

	while (case_next(&c, f, words))
		run_case(&c);
	fclose(f);
	return done_testing();
}
