#!/bin/sh
# make install into a staging folder, the tools and the library as they are
# used from there, and make uninstall.
. "$TOP/tests/cli/tap.sh"
if [ -n "$QPIPE_SAN" ]; then
	skip "install" "nobody installs a sanitizer build"
	done_testing
fi
unset MAKEFLAGS MFLAGS MAKELEVEL MAKEOVERRIDES
stage="$PWD/a stage"
U=$stage/usr
install_() {
	make -C "$TOP" --no-print-directory B="$B" BIN="$BIN" \
	    DESTDIR="$stage" PREFIX=/usr "$@" 2>&1
}

install_ install >log
ok $? "make install"
grep -- ' -c -o ' log >compiled
[ ! -s compiled ]
ok $? "it compiles nothing that make had compiled"
cat compiled >&2

# -- what is there
tools=$(cd "$TOP/cmd" && ls ./*.c | sed 's/^..\(.*\)\.c$/\1/')
n=0
for t in $tools; do
	[ -x "$U/bin/$t" ] && [ -e "$U/share/man/man1/$t.1" ] &&
	    [ -e "$U/share/bash-completion/completions/$t" ] && n=$((n + 1))
done
is $n "$(echo "$tools" | wc -l)" "every tool, its page and its completion"
is "$(find "$U/share/man" -name '*.*' | wc -l | xargs)" \
    "$(ls "$TOP"/man/*.* | wc -l | xargs)" "every page"
for l in libqwen libqwentext; do
	is "$(cd "$U/lib" && readlink $l.so && readlink $l.so.0)" \
	    "$l.so.0
$l.so.$(sed -n 's/.*define QWEN_VERSION "\(.*\)"/\1/p' \
	    "$TOP/lib/qwen/base.h")" "names of the shared $l"
done
grep -rl -e "$stage" "$U" >staged
[ ! -s staged ]
ok $? "no file knows the staging folder"
cat staged >&2
is "$(cd "$stage" && find . ! -type d ! -path './usr/*')" "" "nothing outside PREFIX"
is "$(find "$U" -type f ! -perm -444)" "" "everybody may read it"

# -- the tools, without an environment
cat >pipe.sh <<'EOF'
echo hi | "$1/qtok" | "$1/qprefill" -o state.cbor |
    "$1/qdecode" -s state.cbor -n 8 | "$1/qtok" -d
EOF
env -i /bin/sh pipe.sh "$U/bin" >text 2>err
is "$?$(cat err)" 0 "the pipeline with nothing in the environment"
[ "$(wc -c <text)" -gt 8 ]
ok $? "it finds the demo model and writes: $(head -n 1 text | cut -c1-40)"
ln -s "$U/bin/qtok" here
is "$(echo hi | env -i ./here -c)" "$(echo hi | "$U/bin/qtok" -c)" \
    "also through a symbolic link"

# -- the library
cat >use.c <<'EOF'
#include <stdio.h>
#include <stdlib.h>
#include <qwen.h>
#include <qwentext.h>

static int
fail(const char *what, const struct qwen_err *err)
{
	fprintf(stderr, "%s: %s\n", what, err->msg);
	return 1;
}

int
main(int argc, char *argv[])
{
	struct qwen_err err;
	struct qwen_model *m;
	struct qwen_session *s;
	struct qwen_tok *t;
	int32_t *ids;
	size_t n, i, best = 0;
	const float *l;

	(void)argc;
	if (qwen_model_open(&m, argv[1], NULL, &err) < 0)
		return fail(argv[1], &err);
	if (qwen_tok_open(&t, qwen_model_gguf(m), QWEN_TOK_ENCODE, &err) < 0 ||
	    qwen_tok_encode(t, "hi\n", 3, 0, &ids, &n, &err) < 0)
		return fail("hi", &err);
	if (qwen_session_new(&s, m, &err) < 0 ||
	    qwen_session_eval(s, ids, n, NULL, &err) < 0)
		return fail("eval", &err);
	l = qwen_session_logits(s);
	for (i = 1; i < qwen_model_n_vocab(m); i++)
		best = l[i] > l[best] ? i : best;
	printf("%zu\n", best);
	free(ids);
	qwen_session_free(s);
	qwen_tok_close(t);
	qwen_model_close(m);
	return 0;
}
EOF
demo=$U/share/qpipe/demo.gguf
want=$(echo hi | "$U/bin/qtok" | "$U/bin/qdecode" -n 1 -f text)
: "${CC:=cc}"
if command -v pkg-config >/dev/null 2>&1; then
	PKG_CONFIG_LIBDIR=$U/lib/pkgconfig; export PKG_CONFIG_LIBDIR
	is "libqwen $(pkg-config --modversion libqwen)" \
	    "$("$U/bin/qtok" --version | sed 's/.*(\(.*\))/\1/')" \
	    "pkg-config knows the version"
	# a path with a space is beyond pkg-config: reach it by a link
	ln -s "$U" there
	is "$(pkg-config --print-requires libqwentext)" libqwen \
	    "libqwentext brings libqwen"
	flags="--define-variable=prefix=$PWD/there libqwentext"
	warn="-std=c99 -pedantic -Wall -Wextra -Wstrict-prototypes -Werror"
	$CC $warn $(pkg-config --cflags $flags) use.c -o shared \
	    $(pkg-config --libs $flags)
	ok $? "a program with the shared library"
	is "$(LD_BIND_NOW=1 LD_LIBRARY_PATH=$U/lib ./shared "$demo")" "$want" "computes what qdecode does"
	rm -f there/lib/libqwen*.so
	$CC $warn $(pkg-config --cflags $flags) use.c -o static \
	    $(pkg-config --libs --static $flags)
	ok $? "a program with the static library"
	is "$(./static "$demo")" "$want" "computes the same"
else
	skip "a program with the library" "no pkg-config"
fi
if command -v c++ >/dev/null 2>&1; then
	printf '#include <%s.h>\n' qwen qwentext >use.cc
	c++ -Wall -Wextra -Werror -I"$U/include" -c use.cc
	ok $? "the headers in C++"
else
	skip "the headers in C++" "no C++ compiler"
fi

# -- and away again
install_ install >log
ok $? "make install again"
install_ uninstall >log
ok $? "make uninstall"
is "$(find "$stage" ! -type d)" "" "leaves no file"
is "$(find "$stage" -name '*qpipe*')" "" "and no folder of its own"
install_ uninstall >log
ok $? "make uninstall of nothing"
done_testing
