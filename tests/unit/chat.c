/* SPDX-License-Identifier: ISC */
/*
 * chat.c - the template language, where each byte comes from, templates that
 * were made to do harm, and requests that are wrong.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../tap.h"
#include "text/chat/chat.h"
#include "qwen.h"
#include "qwentext.h"
#include "qwentext.h"

/* ---------------------------------------------------------------- language */

static const char request[] =
    "{\"messages\": [{\"role\": \"user\", \"content\": \"Hi\"}, {\"role\": "
    "\"assistant\", \"content\": \"a</think>b\"}, {\"role\": \"user\", "
    "\"content\": \"  x\\u00a0 \"}], \"tools\": null, \"n\": 3, \"f\": 1.5, "
    "\"big\": 123456789012345678901234567890, \"l\": [1, \"two\", null, true, "
    "[3.0]], \"d\": {\"a\": 1, \"items\": \"it\", \"k\": \"v\"}, \"s\": "
    "\"Caf\\u00e9 \\u4e2d\\u6587\", \"e\": \"\", \"t\": true, \"sp\": "
    "\" a  b\\tc\\n\"}";

/* Templates, and what Jinja 3.1.6, as transformers uses it, makes of them. */
static const struct {
	const char	*source, *text;
} language[] = {
	{ "{{ 1 + 2 * 3 - 4 }}",
	    "3" },
	{ "{{ 7 // 2 }} {{ -7 // 2 }} {{ -7 % 3 }} {{ 7 / 2 }} {{ 7.5 // "
	    "2 }} {{ -7.5 % 2 }}",
	    "3 -4 2 3.5 3.0 0.5" },
	{ "{{ 'a' ~ 1 ~ none ~ true ~ 1.0 }}",
	    "a1NoneTrue1.0" },
	{ "{{ 'a' + 'b' * 3 }}",
	    "abbb" },
	{ "{{ [1,2] + [3] }}",
	    "[1, 2, 3]" },
	{ "{{ (1,) }} {{ () }} {{ (1, 'x') }}",
	    "(1,) () (1, 'x')" },
	{ "{{ l }}",
	    "[1, 'two', None, True, [3.0]]" },
	{ "{{ d }}",
	    "{'a': 1, 'items': 'it', 'k': 'v'}" },
	{ "{{ l|tojson }}",
	    "[1, \"two\", null, true, [3.0]]" },
	{ "{{ d|tojson(indent=2) }}",
	    "{\n  \"a\": 1,\n  \"items\": \"it\",\n  \"k\": \"v\"\n}" },
	{ "{{ big }} {{ big|tojson }}",
	    "123456789012345678901234567890 123456789012345678901234567890" },
	{ "{{ f }} {{ 1e16 }} {{ 1e-5 }} {{ 0.0001 }} {{ 123456789.125 }}"
	    " {{ 1e22 }} {{ 1.5e300 }}",
	    "1.5 1e+16 1e-05 0.0001 123456789.125 1e+22 1.5e+300" },
	{ "{{ s|length }} {{ s[3] }} {{ s[-1] }} {{ s[1:3] }} {{ s[::-1] "
	    "}} {{ s[::2] }} {{ s[10:] }}|",
	    "7 \303\251 \346\226\207 af \346\226\207\344\270\255 \303\251fa"
	    "C Cf \346\226\207 |" },
	{ "{{ l[0] }} {{ l[-1] }} {{ l[1:3] }} {{ l[::-1] }} {{ l[9] }} {"
	    "{ l[-9] }}|{{ l[3:1] }}{{ l[3:1:-1] }}{{ l[:-1] }}{{ l[-2:] }}",
	    "1 [3.0] ['two', None] [[3.0], True, None, 'two', 1]  |[][True,"
	    " None][1, 'two', None, True][True, [3.0]]" },
	{ "{{ d.a }} {{ d['a'] }} {{ d.zz }}|{{ d['items'] }} {{ d.items("
	    ")|list }} {{ d.get('q', 5) }} {{ d.get('q') }} {{ d.keys()|lis"
	    "t }} {{ d.values()|list }}",
	    "1 1 |it [('a', 1), ('items', 'it'), ('k', 'v')] 5 None ['a', '"
	    "items', 'k'] [1, 'it', 'v']" },
	{ "{% for k, v in d|items %}{{ k }}={{ v }};{% endfor %}",
	    "a=1;items=it;k=v;" },
	{ "{% for k in d %}{{ loop.index }}{{ k }}{{ ',' if not loop.last"
	    " }}{% endfor %}",
	    "1a,2items,3k" },
	{ "{% for m in messages %}{{ loop.index0 }}{{ loop.first }}{{ loo"
	    "p.last }}{{ loop.revindex }}{{ loop.length }}{{ loop.previtem."
	    "role if loop.previtem }}{{ loop.nextitem.role if loop.nextitem"
	    " is defined }};{% endfor %}",
	    "0TrueFalse33assistant;1FalseFalse23useruser;2FalseTrue13assist"
	    "ant;" },
	{ "{% for x in [] %}a{% else %}none{% endfor %}",
	    "none" },
	{ "{% for x in l if x %}{{ loop.index }}{{ x }} {% endfor %}",
	    "11 2two 3True 4[3.0] " },
	{ "{% for x in 'h\303\251y' %}{{ x }}-{% endfor %}",
	    "h-\303\251-y-" },
	{ "{% for x in range(3) %}{{ x }}{% endfor %}{{ range(2,10,3)|lis"
	    "t }}{{ range(5,0,-2)|list }}",
	    "012[2, 5, 8][5, 3, 1]" },
	{ "{% for x in range(9) %}{% if x == 2 %}{% continue %}{% endif %"
	    "}{% if x == 5 %}{% break %}{% endif %}{{ x }}{% endfor %}",
	    "0134" },
	{ "{% set x = 1 %}{% for i in range(3) %}{% set x = x + i %}{{ x "
	    "}}{% endfor %}{{ x }}",
	    "1231" },
	{ "{% set ns = namespace(a=1) %}{% for i in range(3) %}{% set ns."
	    "a = ns.a + i %}{% endfor %}{{ ns.a }}",
	    "4" },
	{ "{% if n > 2 %}a{% elif n %}b{% else %}c{% endif %}{% if n == 4"
	    " %}a{% elif n == 3 %}b{% else %}c{% endif %}{% if 0 %}a{% elif"
	    " '' %}b{% else %}c{% endif %}",
	    "abc" },
	{ "{% macro m(a, b=2, c='x') %}[{{ a }}{{ b }}{{ c }}]{% endmacro"
	    " %}{{ m(1) }}{{ m(1, c=3) }}{{ m(b=5, a=4) }}{{ m() }}",
	    "[12x][123][45x][2x]" },
	{ "{% macro f(n) %}{% if n > 0 %}{{ n }}{{ f(n - 1) }}{% endif %}"
	    "{% endmacro %}{{ f(5) }}",
	    "54321" },
	{ "{{ u }}|{{ u is defined }} {{ u is undefined }} {{ n is define"
	    "d }} {{ none is none }} {{ u is none }} {{ u|length }} {{ u|de"
	    "fault('q') }} {{ ''|default('q') }}|{{ ''|default('q', true) }"
	    "}",
	    "|False True True True False 0 q |q" },
	{ "{{ s is string }} {{ l is string }} {{ d is mapping }} {{ l is"
	    " mapping }} {{ s is iterable }} {{ l is iterable }} {{ d is it"
	    "erable }} {{ n is iterable }} {{ none is iterable }} {{ u is i"
	    "terable }}",
	    "True False True False True True True False False True" },
	{ "{{ s is sequence }} {{ l is sequence }} {{ d is sequence }} {{"
	    " n is sequence }} {{ t is true }} {{ n is true }} {{ t is bool"
	    "ean }} {{ n is number }} {{ t is number }} {{ f is float }} {{"
	    " n is integer }} {{ t is integer }} {{ big is integer }}",
	    "True True True False True False True True True True True False"
	    " True" },
	{ "{{ n is odd }} {{ n is even }} {{ n is divisibleby 3 }} {{ n i"
	    "s divisibleby(2) }} {{ n is eq 3 }} {{ n is ne(3) }} {{ 'a' is"
	    " in l }} {{ 1 is in(l) }} {{ n is not defined }} {{ n is gt 2 "
	    "}}",
	    "True False True False True False False True False True" },
	{ "{{ 'a' in 'cat' }} {{ 'x' not in 'cat' }} {{ 1 in l }} {{ 'a' "
	    "in d }} {{ 5 in l }} {{ not 1 in l }} {{ 'q' in u }} {{ '' in "
	    "'a' }}",
	    "True True True True False False False True" },
	{ "{{ 1 == 1.0 }} {{ 1 == true }} {{ '1' == 1 }} {{ [1,2] == [1,2"
	    "] }} {{ {'a':1} == {'a':1.0} }} {{ 1 < 2 < 3 }} {{ 1 < 3 < 2 }"
	    "} {{ 'a' < 'b' }} {{ 2 >= 2 }} {{ 1 != 2 }} {{ none == none }}"
	    " {{ u == u2 }} {{ (1,2) == [1,2] }}",
	    "True True False True True True False True True True True True "
	    "False" },
	{ "{{ 1 and 0 }} {{ '' or 'x' }} {{ 1 and 'y' or 'z' }} {{ not ''"
	    " }} {{ not not n }}",
	    "0 x y True True" },
	{ "{{ 'a' if t }}{{ 'b' if not t }}{{ 'c' if not t else 'd' }}{{ "
	    "'x' if e else 'y' if e else 'z' }}",
	    "adz" },
	{ "{{ sp|trim }}|{{ sp.strip() }}|{{ sp.lstrip() }}|{{ sp.rstrip("
	    ") }}|{{ 'xxaxx'.strip('x') }}|{{ 'xyaxy'.strip('yx') }}|{{ 'ab"
	    "'|trim('b') }}|{{ '\344\270\255a\344\270\255'.strip('\344\270"
	    "\255') }}",
	    "a  b\tc|a  b\tc|a  b\tc\n| a  b\tc|a|a|a|a" },
	{ "{{ sp.split() }} {{ 'a,b,c'.split(',') }} {{ 'a,b,c'.split(','"
	    ", 1) }} {{ 'abc'.split('x') }} {{ ''.split(',') }} {{ ''.split"
	    "() }} {{ 'a,b,c'.rsplit(',', 1) }} {{ 'a,b,c'.rsplit(',') }} {"
	    "{ ' a b '.split(none, 1) }}",
	    "['a', 'b', 'c'] ['a', 'b', 'c'] ['a', 'b,c'] ['abc'] [''] [] ["
	    "'a,b', 'c'] ['a', 'b', 'c'] ['a', 'b ']" },
	{ "{{ 'abc'.startswith('ab') }} {{ 'abc'.endswith('bc') }} {{ 'ab"
	    "c'.startswith(('x','a')) }} {{ 'abc'.startswith('') }} {{ 'abc"
	    "'.endswith('abcd') }}",
	    "True True True True False" },
	{ "{{ 'aXbX'.replace('X','--') }} {{ 'aXbX'.replace('X','-',1) }}"
	    " {{ 'aXbX'|replace('X','') }} {{ 'abc'|upper }} {{ 'ABC'|lower"
	    " }} {{ 'aBC'|capitalize }} {{ 'abc'.find('c') }} {{ 'abc'.find"
	    "('q') }} {{ 'aXbX'.count('X') }} {{ '12'.isdigit() }}",
	    "a--b-- a-bX ab ABC abc Abc 2 -1 2 True" },
	{ "{{ l|first }} {{ l|last }} {{ ['b','a']|join }} {{ ['b','a',1]"
	    "|join(', ') }} {{ ','.join(['x','y']) }} {{ 'abc'|list }} {{ '"
	    "abc'|reverse }} {{ [1,2]|reverse|list }} {{ '12'|int + 1 }} {{"
	    " 'x'|int }} {{ 3.9|int }} {{ -3|abs }} {{ d|count }} {{ []|fir"
	    "st }}|",
	    "1 [3.0] ba b, a, 1 x,y ['a', 'b', 'c'] cba [2, 1] 13 0 3 3 3 |" },
	{ "{{ messages|selectattr('role','equalto','user')|list|length }}"
	    " {{ messages|rejectattr('role','equalto','user')|list|length }"
	    "} {{ [1,0,2]|select|list }} {{ [1,2,3]|select('odd')|list }} {"
	    "{ [1,2,3]|reject('odd')|list }}",
	    "2 1 [1, 2] [1, 3] [2]" },
	{ "{{ {'b':1,'a':2}|dictsort }} {{ {'a':1}.items()|list }} {{ {'x"
	    "': [1, {'y': 'z'}]} }} {{ {1: 2}|tojson }} {{ dict(a=1,b='c') "
	    "}}",
	    "[('a', 2), ('b', 1)] [('a', 1)] {'x': [1, {'y': 'z'}]} {\"1\":"
	    " 2} {'a': 1, 'b': 'c'}" },
	{ "{{ \"it's\" }} {{ [\"it's\", 'say \"x\"', \"both ' and \\\"\","
	    " 'nl\\n', '\303\251', 'tab\\t', 'bs\\\\'] }}",
	    "it's [\"it's\", 'say \"x\"', 'both \\' and \"', 'nl\\n', '\303"
	    "\251', 'tab\\t', 'bs\\\\']" },
	{ "{{ ['\\x01', '\\x7f', '\\u200b', '\\u00a0', '\\u3000', '\\U000"
	    "1f600', '\\ue000'] }}",
	    "['\\x01', '\\x7f', '\\u200b', '\\xa0', '\\u3000', '\360\237"
	    "\230\200', '\\ue000']" },
	{ "{{ 'a\\nb\\t\\'\\\"\\\\ \\x41\\u0042' }}",
	    "a\nb\t'\"\\ AB" },
	{ "{{ 'a' 'b' }}",
	    "ab" },
	{ "{{ messages[1].content.split('</think>')[0].rstrip('\\n').spli"
	    "t('<think>')[-1].lstrip('\\n') }}",
	    "a" },
	{ "{{ messages[-1]['content']|trim }}|",
	    "x|" },
	{ "{{ (messages|length - 1) - 1 }}",
	    "1" },
	{ "a\n  {% if t %}\n  b\n  {% endif %}\nc\n",
	    "a\n  b\nc" },
	{ "a\n  {%- if t -%}\n  b\n  {%- endif -%}\nc",
	    "abc" },
	{ "{{ 'x' }}\n\n{{- 'y' -}}\n z",
	    "xyz" },
	{ "  {% if t %}x{% endif %}  \n",
	    "x  " },
	{ "{# c #}\na{# d #}\nb {#- e -#} c",
	    "abc" },
	{ "a\n  {# c #}\nb",
	    "a\nb" },
	{ "x {%+ if t %}y{% endif +%}\nz",
	    "x y\nz" },
	{ "{% set q %}in {{ n }}{% endset %}[{{ q }}]",
	    "[in 3]" },
	{ "{% set a, b = 1, 2 %}{{ b }}{{ a }}",
	    "21" },
	{ "{% for a, b in [(1,2),[3,4]] %}{{ a }}{{ b }}{% endfor %}",
	    "1234" },
	{ "{%- set x = '<' -%}  {{ x }}",
	    "<" },
	{ "{{ none }} {{ True }} {{ False }} {{ None }}",
	    "None True False None" },
	{ "{{ l is string or (n is defined and n == 3) }}",
	    "True" },
	{ "{{ -n }} {{ - -n }} {{ +n }} {{ -f }}",
	    "-3 3 3 -1.5" },
	{ "{{ n|string + 'x' }} {{ f|string }} {{ none|string }} {{ l|str"
	    "ing }}",
	    "3x 1.5 None [1, 'two', None, True, [3.0]]" },
	{ "{{ '\303\251\342\200\250\302\205'|tojson }} {{ '\\u0001\\b\\f"
	    "\"\\\\/<>&'|tojson }}",
	    "\"\303\251\342\200\250\302\205\" \"\\u0001\\b\\f\\\"\\\\/<>&\"" },
	{ "{{ {'a': 1}['a'] }}{{ [[1,2],[3]][0][1] }}",
	    "12" },
	{ "{{ 'abc'[n - 2] }}",
	    "b" },
	{ "{% if not (n == 3 and t) %}x{% else %}y{% endif %}",
	    "y" },
	{ "{{ l|length > 3 and d|length == 3 }}",
	    "True" },
	{ "{{ 'x'.upper() }}{{ 'abc'.removeprefix('a') }}{{ 'abc'.removes"
	    "uffix('c') }}{{ 'a\\nb\\r\\nc\\n'.splitlines() }}",
	    "Xbcab['a', 'b', 'c']" },
	{ "{{ 10 }}{{ 1_000 }}{{ 1.5e3 }}{{ 2e0 }}",
	    "1010001500.02.0" },
	{ "{{ [] or 'n' }}{{ {} or 'm' }}{{ 0.0 or 'z' }}",
	    "nmz" },
	{ "{{ true + 1 }} {{ 2 * true }}",
	    "2 2" },
	{ "{% macro a() %}{{ b() }}{% endmacro %}{% macro b() %}B{% endma"
	    "cro %}{{ a() }}",
	    "B" },
	{ "{% macro m() %}{{ zz }}{% endmacro %}{% set zz = 5 %}{{ m() }}",
	    "5" },
	{ "{% if tools %}x{% else %}y{% endif %}{{ tools is defined }}{{ "
	    "tools is none }}",
	    "yTrueTrue" },
	{ "{{ '%s' }}{{ '{' }}{{ '}}' }}{{ '%}' }}",
	    "%s{}}%}" },
	{ "{{ {'a': {'b': 1}}.a.b }}",
	    "1" },
	{ "{{ 1 if t else 2 if t else 3 }}",
	    "1" },
	{ "{{ 'a' if t else 'b' ~ 'c' }}",
	    "a" },
	{ "{{ l[0]|string ~ l[1] }}",
	    "1two" },
	{ "{{ '\n' }}|",
	    "\n|" },
	{ "{{ 'abc'|safe }}{{ 5|safe }}",
	    "abc5" },
};

/* The prompt, or NULL and err. */
static struct qwen_prompt *
render_n(const char *source, size_t n, const char *json, struct qwen_err *err)
{
	struct qwen_template *t;
	struct qwen_prompt *p;

	memset(err, 0, sizeof *err);
	if (qwen_template_open_text(&t, source, n, err) < 0)
		return NULL;
	if (qwen_template_render(t, json, strlen(json), &p, err) < 0)
		p = NULL;
	qwen_template_close(t);
	return p;
}

static struct qwen_prompt *
render(const char *source, const char *json, struct qwen_err *err)
{
	return render_n(source, strlen(source), json, err);
}

static int
is_text(const struct qwen_prompt *p, const char *want)
{
	struct qwen_str s;

	if (p == NULL)
		return 0;
	s = qwen_prompt_text(p);
	return s.len == strlen(want) && memcmp(s.s, want, s.len) == 0;
}

static void
same_as_jinja(void)
{
	struct qwen_prompt *p;
	struct qwen_err err;
	size_t i, bad = 0;

	for (i = 0; i < sizeof language / sizeof *language; i++) {
		p = render(language[i].source, request, &err);
		if (!is_text(p, language[i].text)) {
			bad++;
			fprintf(stderr, "%s: %s\n", language[i].source,
			    p != NULL ? qwen_prompt_text(p).s : err.msg);
		}
		qwen_prompt_free(p);
	}
	ok(bad == 0, "%zu templates give what Jinja gives, %zu do not", i,
	    bad);
}

/* -------------------------------------------------------------- provenance */

/* For each byte T if the template wrote it, d if the request s has it. */
static const struct {
	const char	*source, *from;
} provenance[] = {
	{ "x{{ s }}y", "TddT" },
	{ "{{ 'x' + s }}", "Tdd" },
	{ "{{ s + 'x' + s }}", "ddTdd" },
	{ "{{ 'x' ~ 5 ~ s }}", "Tddd" },
	{ "{{ (s + 'x')[::-1] }}", "Tdd" },
	{ "{{ ('x' + s + 'y')[1:] }}", "ddT" },
	{ "{{ ('x' + s)[-1] }}", "d" },
	{ "{{ s * 2 }}{{ 'x' * 2 }}", "ddddTT" },
	{ "{{ s|tojson }}{{ 'x'|tojson }}", "dddddTd" },
	{ "{{ [s, 'x']|tojson }}", "ddddddddTdd" },
	{ "{{ ['x', s] }}", "ddTdddddddd" },
	{ "{{ s.replace('a', 'XY') }}", "TTd" },
	{ "{{ 'aXa'.replace('X', s) }}", "TddT" },
	{ "{{ s|upper }}{{ 'a'|upper }}", "ddT" },
	{ "{{ ('x' + s)|capitalize }}", "Tdd" },
	{ "{{ 'a,b'.split(',')|join(s) }}", "TddT" },
	{ "{{ s.join(['x', 'y']) }}", "TddT" },
	{ "{{ ('x' + s).split('a')[0] }}", "T" },
	{ "{{ ('x' + s).split('a')[1] }}", "d" },
	{ "{{ (' ' + s + ' x ')|trim }}", "ddTT" },
	{ "{{ ('x' + s).lstrip('x') }}", "dd" },
	{ "{{ ('x' + s).removeprefix('x') }}", "dd" },
	{ "{% set q %}x{{ s }}{% endset %}{{ q }}", "Tdd" },
	{ "{% macro m(a) %}x{{ a }}{% endmacro %}{{ m(s) }}{{ m('y') }}",
	    "TddTT" },
	{ "{% for c in 'x' + s %}{{ c }}{% endfor %}", "Tdd" },
	{ "{% for k, v in {'x': s}|items %}{{ k }}{{ v }}{% endfor %}",
	    "Tdd" },
	{ "{% for k in o %}{{ k }}{{ o[k] }}{% endfor %}", "dddd" },
	{ "{% set n = namespace(a='x') %}{% set n.a = n.a + s %}{{ n.a }}",
	    "Tdd" },
	{ "{{ s if s else 'x' }}{{ u|default('x') }}{{ u|default(s) }}",
	    "ddTdd" },
	{ "{{ s|string|trim|safe }}", "dd" },
	{ "{{ '{}'.join([s, s]) }}", "ddTTdd" },
};

static int
from_is(const struct qwen_prompt *p, const char *want)
{
	struct qwen_str s = qwen_prompt_text(p);
	const unsigned char *own = qwen_prompt_own(p);
	size_t i;

	for (i = 0; i < s.len && own[i] == (want[i] == 'T'); i++)
		;
	return i == s.len && s.len == strlen(want);
}

static void
where_from(void)
{
	struct qwen_prompt *p;
	struct qwen_err err;
	size_t i;

	for (i = 0; i < sizeof provenance / sizeof *provenance; i++) {
		p = render(provenance[i].source, "{\"messages\": [{}], \"s\": "
		    "\"ab\", \"o\": {\"kk\": \"vv\"}}", &err);
		ok(p != NULL && from_is(p, provenance[i].from),
		    "whose bytes: %s", provenance[i].source);
		qwen_prompt_free(p);
	}
}

/* ------------------------------------------------------------------- hostile */

/* A loop that does so a hundred times with ns.s, 'x' at first. */
#define LOOP(what) "{% set ns = namespace(s='x', l=[1]) %}" \
	"{% for i in range(100) %}{% set ns." what " %}{% endfor %}"
/* and 50,000 times */
#define LONG(what) "{% set ns = namespace(s='x', l=[1]) %}" \
	"{% for i in range(50000) %}{% set ns." what " %}{% endfor %}"

/* Each must fail, and say what with a word of these. */
static const struct {
	const char	*source, *says;
} hostile[] = {
	{ "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "depth" },
	{ "{% macro f() %}{{ g() }}{% endmacro %}{% macro g() %}{{ f() }}"
	    "{% endmacro %}{{ f() }}", "depth" },
	{ "{% macro f(n) %}{% if n > 0 %}{{ f(n - 1) }}{{ f(n - 1) }}"
	    "{% endif %}{% endmacro %}{{ f(60) }}", "limit" },
	{ "{% for i in range(1000000000) %}x{% endfor %}", "a range" },
	{ "{{ range(-1000000000000000000, 1000000000000000000)|length }}",
	    "a range" },
	{ "{{ range(9223372036854775807) }}", "very large" },
	{ "{% for i in range(99999) %}{% for j in range(99999) %}"
	    "{% for k in range(99999) %}{% endfor %}{% endfor %}"
	    "{% endfor %}", "limit" },
	{ "{% for i in range(99999) %}{% for j in range(99999) %}x"
	    "{% endfor %}{% endfor %}", "limit" },
	{ "{{ 'x' * 1000000000000 }}", "limit" },
	{ "{{ '' * 1000000000000 }}{{ ('x' * 1000000)|length * 'x' * 1000 }}",
	    "limit" },
	{ LOOP("s = ns.s + ns.s"), "limit" },
	{ LOOP("s = ns.s ~ ns.s ~ i"), "limit" },
	{ LOOP("s = ns.s.replace('x', 'xx')"), "limit" },
	{ LOOP("s = [ns.s, ns.s]|join"), "limit" },
	{ LOOP("s = ns.s|tojson|tojson"), "limit" },
	{ LOOP("l = ns.l + ns.l"), "limit" },
	{ LOOP("l = [ns.l, ns.l]") "{{ ns.l|tojson }}", "limit" },
	{ LOOP("l = [ns.l, ns.l]") "{{ ns.l == [] }}{{ ns.l == ns.l[0] + [] "
	    "}}{{ ns.l[0] == ns.l[1] }}", "steps" },
	{ LONG("l = [ns.l]") "{{ ns.l|tojson }}", "depth" },
	{ LONG("l = [ns.l]") "{{ ns.l }}", "depth" },
	{ LONG("l = [ns.l]") "{{ ns.l == ns.l }}", "depth" },
	{ LONG("l = {i: ns.l}") "{{ ns.l }}", "depth" },
	{ LONG("l = ns.l + [i]"), "limit" },
	{ LONG("s = ns.s + 'yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy'"),
	    "limit" },
	{ "{% set a = 'a' * 3000000 %}{% for i in range(1000) %}"
	    "{{ ('a' * 1000000 + 'b') in a }}{% endfor %}", "limit" },
	{ "{% set a = 'ab' * 3000000 %}{% for i in range(100000) %}"
	    "{{ a.split('b')|length }}{% endfor %}", "limit" },
	{ "{% set a = ' ' * 9000000 %}{% for i in range(100000) %}"
	    "{{ a.strip('abcdefghijklmnopqrstuvwxyz '*9) }}{% endfor %}",
	    "limit" },
	{ "{% set a = 'ab' * 3000000 %}{% for i in range(100000) %}"
	    "{{ a[5000000] }}{{ a.upper()|length }}{% endfor %}", "limit" },
	{ "{% set ns = namespace() %}{% set ns.ns = ns %}{{ ns|tojson }}",
	    "namespace" },
	{ "{% set ns = namespace() %}{% set ns.ns = [ns] %}{{ ns.ns }}",
	    "namespace" },
	{ "{{ 9223372036854775807 + 1 }}", "64 bits" },
	{ "{{ -9223372036854775807 * 9 }}", "64 bits" },
	{ "{{ 9223372036854775808 }}", "64 bits" },
	{ "{{ 1 // 0 }}", "zero" },
	{ "{{ 1 % 0 }}", "zero" },
	{ "{{ 1.0 / 0 }}", "zero" },
	{ "{{ 'abc'[::0] }}", "zero" },
	{ "{% for i in range(1, 2, 0) %}{% endfor %}", "zero" },
	{ "{{ u.v }}", "'u' is undefined" },
	{ "{{ u() }}", "'u' is undefined" },
	{ "{{ u + 'x' }}", "'u' is undefined" },
	{ "{{ 'x' + 1 }}", "a string + an integer" },
	{ "{{ [] < 1 }}", "a list < an integer" },
	{ "{{ 'a'.format(1) }}", "not for templates" },
	{ "{{ {}.update({}) }}", "not for templates" },
	{ "{{ ''.__class__.__mro__ }}", "undefined" },
	{ "{{ raise_exception('so it is') }}", "refuses: so it is" },
	{ "{{ raise_exception() }}", "refuses" },
	{ "{{ x|nothing }}", "no filter 'nothing'" },
	{ "{{ x is nothing }}", "no test 'nothing'" },
	{ "{% include 'x' %}", "no statement 'include'" },
	{ "{% import 'x' as y %}", "no statement 'import'" },
	{ "\n\n{% if x %}", "line 3: 'endif' was expected" },
	{ "{% endif %}", "'endif' without a beginning" },
	{ "{% for x %}{% endfor %}", "'in' was expected" },
	{ "{% break %}", "in no loop" },
	{ "{% for x in [1] %}{% macro m() %}{% break %}{% endmacro %}"
	    "{% endfor %}", "in no loop" },
	{ "{% set x.y = 1 %}", "not in a namespace" },
	{ "{% set true = 1 %}", "cannot be set" },
	{ "{% for a, b in [[1]] %}{% endfor %}", "2 names for 1 values" },
	{ "{% macro m(a) %}{% endmacro %}{{ m(1, 2) }}", "no such argument" },
	{ "{% macro m(a) %}{% endmacro %}{{ m(b=2) }}", "no such argument" },
	{ "{{ [1, 2 }}", "bracket" },
	{ "{{ (1", "does not end" },
	{ "{{ 'abc }}", "does not end" },
	{ "{# abc", "does not end" },
	{ "{{", "does not end" },
	{ "{%", "does not end" },
	{ "{{ 1 $ 2 }}", "no meaning" },
	{ "{{ }}", "an expression was expected" },
	{ "{% %}", "a statement was expected" },
	{ "{{ 1 2 }}", "goes on unexpectedly" },
	{ "{{ {[]: 1} }}", "cannot be a key" },
	{ "{{ messages|tojson(sort_keys=true) }}", "sort_keys" },
};

static void
must_fail(const char *source, size_t n, const char *says, const char *name)
{
	struct qwen_err err;
	struct qwen_prompt *p = render_n(source, n, "{\"messages\": [{}]}",
	    &err);

	if (p == NULL && strstr(err.msg, says) == NULL)
		fprintf(stderr, "says: %s\n", err.msg);
	ok(p == NULL && strstr(err.msg, says) != NULL, "%s: %.60s", says,
	    name);
	qwen_prompt_free(p);
}

/* begin, then part n times, then end. */
static void
long_one(const char *begin, const char *part, size_t n, const char *end,
    const char *says)
{
	size_t len = strlen(part), at = strlen(begin), i;
	char *s = malloc(at + n * len + strlen(end) + 1);

	if (s == NULL)
		exit(1);
	memcpy(s, begin, at);
	for (i = 0; i < n; i++, at += len)
		memcpy(s + at, part, len);
	memcpy(s + at, end, strlen(end) + 1);
	must_fail(s, at + strlen(end), says, s);
	free(s);
}

static void
to_do_harm(void)
{
	size_t i;

	for (i = 0; i < sizeof hostile / sizeof *hostile; i++)
		must_fail(hostile[i].source, strlen(hostile[i].source),
		    hostile[i].says, hostile[i].source);
	long_one("{{ ", "(", 100000, "", "in each other");
	long_one("{{ ", "[", 90, "1", "each other");
	long_one("{{ x", "[1", 90000, "", "each other");
	long_one("{{ x", "(", 90000, "", "in each other");
	long_one("{{ ", "-", 100000, "1 }}", "in each other");
	long_one("{{ ", "not ", 60000, "1 }}", "in each other");
	long_one("{{ 1", "+1", 100000, " }}", "depth");
	long_one("{{ 1", " if 1 else 1", 20000, " }}", "in each other");
	long_one("{{ x", ".x", 100000, " }}", "depth");
	long_one("{{ 'x'", "|trim", 50000, " }}", "depth");
	long_one("", "{% if x %}", 20000, "", "in each other");
	long_one("{% if x %}", "{% elif x %}", 20000, "{% endif %}", "depth");
	long_one("", "{% for x in y %}", 10000, "", "in each other");
	long_one("", "x", CHAT_TEMPLATE_MAX + 1, "", "bytes; at most");
	must_fail("a\0{{ u.v }}", 11, "undefined", "a NUL");
}

/* Requests in which the published templates have much to do. */
static void
large(const char *part)
{
	size_t n = strlen(part), len = 1 << 19, i, at;
	char *s = malloc(len + 3 * n + 300);
	struct qwen_template *t;
	struct qwen_prompt *p;
	struct qwen_err err;

	if (s == NULL)
		exit(1);
	at = (size_t)sprintf(s, "{\"messages\": [{\"role\": \"user\", "
	    "\"content\": \"x\"}, {\"role\": \"assistant\", \"content\": \"");
	while (at < len) {
		memcpy(s + at, part, n);
		at += n;
	}
	strcpy(s + at, "\"}, {\"role\": \"user\", \"content\": \"x\"}]}");
	err.msg[0] = '\0';
	for (i = 0; qwen_template_name(i) != NULL; i++) {
		if (qwen_template_open(&t, qwen_template_name(i), NULL) < 0)
			exit(1);
		ok(qwen_template_render(t, s, strlen(s), &p, &err) == 0,
		    "%s: half a megabyte of %s %s", qwen_template_name(i),
		    part, err.msg);
		qwen_prompt_free(p);
		qwen_template_close(t);
	}
	free(s);
}

/* ---------------------------------------------------------------- requests */

static const struct {
	const char	*json, *says;
} bad_request[] = {
	{ "", "no JSON" },
	{ "{\"messages\": [", "no JSON at byte" },
	{ "[]", "no JSON object" },
	{ "{}", "no list of messages" },
	{ "{\"messages\": {}}", "no list of messages" },
	{ "{\"messages\": []}", "no messages" },
	{ "{\"messages\": [1]}", "a message is no object" },
	{ "{\"messages\": [{\"content\": \"\\ud800\"}]}", "no JSON" },
	{ "{\"messages\": [{\"content\": \"\xff\"}]}", "no JSON" },
	{ "{\"messages\": [{}]} x", "no JSON" },
	{ "{\"messages\": [{\"role\": \"assistant\", \"tool_calls\": "
	    "[{\"name\": \"f\", \"arguments\": \"{\"}]}]}", "arguments of a" },
	{ "{\"messages\": [{\"role\": \"assistant\", \"tool_calls\": "
	    "[{\"function\": {\"arguments\": \"[]\"}}]}]}", "are no object" },
};

static void
wrong_requests(void)
{
	struct qwen_template *t;
	struct qwen_prompt *p;
	struct qwen_err err;
	char deep[1000];
	size_t i, n;

	if (qwen_template_open(&t, "qwen3.6", NULL) < 0)
		exit(1);
	for (i = 0; i < sizeof bad_request / sizeof *bad_request; i++) {
		n = strlen(bad_request[i].json);
		ok(qwen_template_render(t, bad_request[i].json, n, &p,
		    &err) < 0 && p == NULL &&
		    strstr(err.msg, bad_request[i].says) != NULL,
		    "refused: %.60s (%s)", bad_request[i].json,
		    bad_request[i].says);
	}
	n = (size_t)sprintf(deep, "{\"messages\": ");
	memset(deep + n, '[', 400);
	memset(deep + n + 400, ']', 400);
	strcpy(deep + n + 800, "}");
	ok(qwen_template_render(t, deep, strlen(deep), &p, &err) < 0 &&
	    strstr(err.msg, "too deeply") != NULL, "refused: lists in lists");
	qwen_template_close(t);
	ok(qwen_template_open(&t, "qwen9", &err) < 0 && t == NULL &&
	    strstr(err.msg, "known are qwen3") != NULL &&
	    strstr(err.msg, "qwen3.6-ud") != NULL, "no template qwen9");
}

/* What a template cannot take, put right. */
static const struct {
	const char	*template, *messages, *text;
} right[] = {
	{ "qwen3", "{\"role\": \"user\", \"content\": [{\"type\": \"text\", "
	    "\"text\": \"a\"}, {\"type\": \"text\", \"text\": \"b\"}]}",
	    "<|im_start|>user\na\nb<|im_end|>\n" },
	{ "qwen3", "{\"role\": \"user\", \"content\": null}",
	    "<|im_start|>user\n<|im_end|>\n" },
	{ "qwen3-coder", "{\"role\": \"user\"}",
	    "<|im_start|>user\n<|im_end|>\n" },
	{ "qwen3", "{\"role\": \"user\", \"content\": \"x\"}, {\"role\": "
	    "\"assistant\", \"content\": null, \"tool_calls\": [{\"type\": "
	    "\"function\", \"function\": {\"name\": \"f\", \"arguments\": "
	    "\"{\\\"a\\\":  1}\"}}]}",
	    "<|im_start|>user\nx<|im_end|>\n<|im_start|>assistant\n<think>\n"
	    "\n</think>\n\n<tool_call>\n{\"name\": \"f\", \"arguments\": "
	    "{\"a\":  1}}\n</tool_call><|im_end|>\n" },
	{ "qwen3.6-ud", "{\"role\": \"user\", \"content\": \"x\"}, {\"role\": "
	    "\"assistant\", \"tool_calls\": [{\"function\": {\"name\": \"f\", "
	    "\"arguments\": \"{\\\"a\\\": 1e2}\"}}]}",
	    "<|im_start|>user\nx<|im_end|>\n<|im_start|>assistant\n<think>\n"
	    "\n</think>\n\n<tool_call>\n<function=f>\n<parameter=a>\n100.0\n"
	    "</parameter>\n</function>\n</tool_call><|im_end|>\n" },
	{ "qwen3.5", "{\"role\": \"user\", \"content\": \"x\"}, {\"role\": "
	    "\"assistant\", \"content\": \"y\", \"thinking\": \"hm\"}",
	    "<|im_start|>user\nx<|im_end|>\n<|im_start|>assistant\n<think>\n"
	    "hm\n</think>\n\ny<|im_end|>\n" },
};

static void
put_right(void)
{
	struct qwen_template *t;
	struct qwen_prompt *p;
	struct qwen_err err = { 0 };
	char json[1000];
	size_t i;

	for (i = 0; i < sizeof right / sizeof *right; i++) {
		snprintf(json, sizeof json, "{\"messages\": [%s], "
		    "\"add_generation_prompt\": false}", right[i].messages);
		if (qwen_template_open(&t, right[i].template, NULL) < 0)
			exit(1);
		if (qwen_template_render(t, json, strlen(json), &p, &err) < 0)
			fprintf(stderr, "%s\n", err.msg);
		ok(is_text(p, right[i].text), "put right: %s: %.60s",
		    right[i].template, right[i].messages);
		qwen_prompt_free(p);
		qwen_template_close(t);
	}
}

/* Beside the text: what it says of thinking, and where turns begin. */
static void
prompts(void)
{
	static const char json[] = "{\"messages\": [{\"role\": \"system\", "
	    "\"content\": \"s\"}, {\"role\": \"user\", \"content\": "
	    "\"<|im_start|>x<think>\\n\"}], \"tools\": null";
	static const struct {
		const char		*name, *more;
		enum qwen_thinking	 want;
	} say[] = {
		{ "qwen3", "}", QWEN_THINKING_NONE },
		{ "qwen3", ", \"enable_thinking\": false}",
		    QWEN_THINKING_CLOSED },
		{ "qwen3.6", "}", QWEN_THINKING_OPEN },
		{ "qwen3.6", ", \"enable_thinking\": null}",
		    QWEN_THINKING_OPEN },
		{ "qwen3.6", ", \"enable_thinking\": false}",
		    QWEN_THINKING_CLOSED },
		{ "qwen3.6", ", \"chat_template_kwargs\": "
		    "{\"enable_thinking\": false}}", QWEN_THINKING_CLOSED },
		{ "qwen3.6", ", \"add_generation_prompt\": false}",
		    QWEN_THINKING_NONE },
	};
	struct qwen_template *t;
	struct qwen_prompt *p;
	char buf[400];
	size_t i, at, n;

	for (i = 0; i < sizeof say / sizeof *say; i++) {
		snprintf(buf, sizeof buf, "%s%s", json, say[i].more);
		if (qwen_template_open(&t, say[i].name, NULL) < 0 ||
		    qwen_template_render(t, buf, strlen(buf), &p, NULL) < 0)
			exit(1);
		ok(qwen_prompt_thinking(p) == say[i].want,
		    "how the prompt ends: %s%s", say[i].name, say[i].more);
		for (n = at = 0; (at = qwen_prompt_turn(p, at)) <
		    qwen_prompt_text(p).len; at++)
			n++;
		ok(n == 2 + (strstr(buf, "prompt\": false") == NULL),
		    "%zu turns, not those that the user writes", n);
		qwen_prompt_free(p);
		qwen_template_close(t);
	}
}

int
main(void)
{
	same_as_jinja();
	where_from();
	to_do_harm();
	large("<");
	large("</think>");
	large("<think></think>");
	large("\\n");
	wrong_requests();
	put_right();
	prompts();
	return done_testing();
}
