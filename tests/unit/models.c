/* SPDX-License-Identifier: ISC */
/*
 * models.c - model names, the files that they mean, and aliases: models.test.
 */
#include <sys/stat.h>

#include <unistd.h>

#include "../cases.h"
#include "../tap.h"
#include "models/models.h"

static const char *const kinds[] = { "stem", "repo", "hf", "ms", "ollama" };

static void
add(struct qwen_text *t, const char *what, const char *s)
{
	if (s != NULL)
		qwen_text_fmt(t, " %s%s", what, s);
}

static void
test_name(const char *text, const char *want, const char *error)
{
	struct qwen_err err = { 0, "" };
	struct qwen_text t = { 0 };
	struct qwen_name n;

	if (qwen_name_parse(&n, text, &err) < 0) {
		ok(error != NULL && strstr(err.msg, error) != NULL &&
		    n.text == NULL, "no name: %s", err.msg);
		return;
	}
	qwen_text_str(&t, kinds[n.kind]);
	add(&t, "", n.org);
	add(&t, "", n.repo);
	add(&t, "quant=", n.quant);
	add(&t, "path=", n.path);
	add(&t, "rev=", n.rev);
	add(&t, "host=", n.host);
	ok(want != NULL && strcmp(t.s, want) == 0 && strcmp(n.text, text) == 0,
	    "%s is %s", text, t.s);
	qwen_text_fini(&t);
	qwen_name_fini(&n);
}

/* ------------------------------------------------------------------- files */

/* The words of a text, which is changed; how many there are. */
static size_t
words(char *s, const char **v, size_t max)
{
	size_t n = 0;

	for (s = strtok(s, " "); s != NULL && n < max; s = strtok(NULL, " "))
		v[n++] = s;
	return n;
}

static void
test_match(const char *files, const char *quant, const char *want)
{
	char *copy = strdup(files);
	const char *v[32];
	size_t n = words(copy, v, 32), pick[32], i, k;
	struct qwen_text t = { 0 };

	k = qwen_repo_match(v, n, quant, pick);
	qwen_text_str(&t, "");
	for (i = 0; i < k; i++)
		qwen_text_fmt(&t, "%s%s", i > 0 ? " " : "", v[pick[i]]);
	ok(strcmp(t.s, want) == 0, "%s means %s", quant != NULL ? quant :
	    "nothing said", k > 0 ? t.s : "none");
	qwen_text_fini(&t);
	free(copy);
}

/* The projector of a model among these files. */
static void
test_projector(const char *files, const char *model, const char *want)
{
	char *copy = strdup(files);
	const char *v[32];
	size_t n = words(copy, v, 32), pick[32], i, k;
	struct qwen_text t = { 0 };

	k = qwen_repo_projector(v, n, model, pick);
	qwen_text_str(&t, "");
	for (i = 0; i < k; i++)
		qwen_text_fmt(&t, "%s%s", i > 0 ? " " : "", v[pick[i]]);
	ok(strcmp(t.s, want) == 0, "%s has %s", model, k > 0 ? t.s : "none");
	qwen_text_fini(&t);
	free(copy);
}

/* Looks for the projector of folder/model; returns what it is for messages. */
static const char *
beside(const char *folder, const char *model)
{
	static char text[400];
	struct qwen_err err = { 0, "" };
	char path[300], *out;

	snprintf(path, sizeof path, "%s/%s", folder, model);
	if (qwen_models_projector(&out, path, &err) < 0)
		snprintf(text, sizeof text, "%d %s", out == NULL ? err.code :
		    -1, err.msg);
	else
		snprintf(text, sizeof text, "%s", out == NULL ? "none" :
		    out + strlen(folder) + 1);
	free(out);
	return text;
}

static void
put_file(const char *folder, const char *name)
{
	char path[300];
	FILE *f;

	snprintf(path, sizeof path, "%s/%s", folder, name);
	if ((f = fopen(path, "w")) != NULL)
		fclose(f);
}

static void
test_projector_files(void)
{
	char folder[] = "/tmp/qpipe-models-XXXXXX", path[300];
	static const char *const files[] = { "mmproj-F16.gguf",
	    "mmproj-Q8_0.gguf", "mmproj-model-F16.gguf", "Q4/mmproj-F16.gguf",
	    "Q4", "Q8" };
	struct qwen_err err = { 0, "" };
	char *out;
	size_t i;

	if (mkdtemp(folder) == NULL) {
		ok(0, "a folder");
		return;
	}
	for (i = 4; i < 6; i++) {
		snprintf(path, sizeof path, "%s/%s", folder, files[i]);
		mkdir(path, 0700);
	}
	ok(strcmp(beside(folder, "M-Q4.gguf"), "none") == 0, "no projector");
	put_file(folder, files[0]);
	put_file(folder, files[1]);
	ok(strcmp(beside(folder, "M-Q4.gguf"), files[0]) == 0,
	    "the best beside it: %s", beside(folder, "M-Q4.gguf"));
	ok(strcmp(beside(folder, "Q4/M-Q4.gguf"), files[0]) == 0,
	    "above a folder of a format: %s", beside(folder, "Q4/M-Q4.gguf"));
	ok(strcmp(beside(folder, "Q8/M-Q4.gguf"), "none") == 0,
	    "but not above any other");
	ok(qwen_models_projector(&out, folder, &err) == 0 && out != NULL &&
	    strcmp(qwen_base_name(out), files[0]) == 0, "of a folder");
	free(out);
	put_file(folder, files[3]);
	ok(strcmp(beside(folder, "Q4/M-Q4.gguf"), files[3]) == 0,
	    "its own before that");
	put_file(folder, files[2]);
	ok(strcmp(beside(folder, "M-Q4.gguf"), "5 2 image encoders beside the "
	    "model: name one of mmproj-F16.gguf, mmproj-model-F16.gguf") == 0,
	    "several: %s", beside(folder, "M-Q4.gguf"));
	ok(strcmp(beside("/nonexistent", "M.gguf"), "none") == 0, "no folder");
	for (i = 0; i < 6; i++) {
		snprintf(path, sizeof path, "%s/%s", folder, files[i]);
		if (i < 4)
			unlink(path);
		else
			rmdir(path);
	}
	rmdir(folder);
}

static void
test_parts(void)
{
	char *s;

	ok(qwen_repo_n_parts("a-00001-of-00012.gguf") == 12 &&
	    qwen_repo_n_parts("a-00001-of-0012.gguf") == 1 &&
	    qwen_repo_n_parts("-00003-of-00002.gguf") == 1 &&
	    qwen_repo_n_parts("a-00000-of-00002.gguf") == 1 &&
	    qwen_repo_n_parts("a.gguf") == 1, "how many parts a name tells");
	s = qwen_repo_part("d/a-00001-of-00012.gguf", 9, 12);
	ok(strcmp(s, "d/a-00010-of-00012.gguf") == 0, "part 10 is %s", s);
	free(s);
	s = qwen_repo_part("a.gguf", 0, 1);
	ok(strcmp(s, "a.gguf") == 0, "the only part is %s", s);
	free(s);
	ok(qwen_repo_is_projector("x/mmproj-BF16.gguf") &&
	    !qwen_repo_is_projector("mmproj/a.gguf") &&
	    !qwen_repo_is_projector("mmproj.txt"), "projectors");
	ok(!qwen_repo_is_model("a-00002-of-00002.gguf") &&
	    !qwen_repo_is_model(".gguf") && qwen_repo_is_model("a.GGUF"),
	    "models");
}

/* ----------------------------------------------------------------- aliases */

static void
test_aliases(const struct test_case *c)
{
	const struct qwen_text *text = case_get(c, "aliases");
	const char *error = case_str(c, "error");
	struct qwen_err err = { 0, "" };
	struct qwen_aliases a;
	struct qwen_text t = { 0 };
	size_t k, i = 0;
	int l;

	if (qwen_aliases_parse(&a, text->s, text->n, &err) < 0) {
		ok(error[0] != '\0' && strstr(err.msg, error) != NULL &&
		    a.n == 0, "no aliases: %s", err.msg);
		return;
	}
	for (l = 0; l < c->n; l++) {
		if (strcmp(c->l[l].key, "alias") != 0)
			continue;
		qwen_text_fini(&t);
		if (i < a.n) {
			qwen_text_fmt(&t, "%s|%s", a.v[i].name, a.v[i].model);
			for (k = 0; k < a.v[i].n_options; k++)
				qwen_text_fmt(&t, "|%s", a.v[i].option[k]);
			ok(qwen_aliases_find(&a, a.v[i].name) == &a.v[i],
			    "it is found by its name");
		}
		ok(i < a.n && strcmp(t.s, c->l[l].text.s) == 0, "alias %s",
		    c->l[l].text.s);
		i++;
	}
	ok(i == a.n && error[0] == '\0' && qwen_aliases_find(&a, "none") ==
	    NULL, "%zu aliases", a.n);
	qwen_text_fini(&t);
	qwen_aliases_fini(&a);
}

static void
test_case(const struct test_case *c)
{
	const char *files = NULL, *quant = NULL, *model = "", *key, *s;
	int l;

	if (case_get(c, "aliases") != NULL)
		test_aliases(c);
	if (case_get(c, "name") != NULL)
		test_name(case_str(c, "name"), case_get(c, "is") != NULL ?
		    case_str(c, "is") : NULL, case_get(c, "error") != NULL ?
		    case_str(c, "error") : NULL);
	for (l = 0; l < c->n; l++) {
		key = c->l[l].key;
		s = c->l[l].text.s != NULL ? c->l[l].text.s : "";
		if (strcmp(key, "files") == 0)
			files = s;
		else if (strcmp(key, "quant") == 0)
			quant = s;
		else if (strcmp(key, "pick") == 0)
			test_match(files, quant, s);
		else if (strcmp(key, "model") == 0)
			model = s;
		else if (strcmp(key, "projector") == 0)
			test_projector(files, model, s);
		else if (strcmp(key, "safe") == 0 || strcmp(key, "unsafe") == 0)
			ok(qwen_repo_path_is_safe(s) == (key[0] == 's'),
			    "%s: %s", key, s);
	}
}

int
main(void)
{
	FILE *f = case_open("unit/models.test");
	struct test_case c = { .n = 0 };

	while (case_next(&c, f, " name is error files quant pick model projector safe unsafe "
	    "aliases alias "))
		test_case(&c);
	fclose(f);
	test_parts();
	test_projector_files();
	return done_testing();
}
