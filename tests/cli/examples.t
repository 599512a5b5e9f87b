#!/bin/sh
# The programs of examples/, built with pkg-config against an installed tree,
# with the shared and the static libraries; their results are those of the
# tools.
. "$TOP/tests/cli/tap.sh"
if [ -n "$QPIPE_SAN" ]; then
	skip "examples" "nobody installs a sanitizer build"
	done_testing
fi
if ! command -v pkg-config >/dev/null 2>&1; then
	skip "examples" "no pkg-config"
	done_testing
fi
unset MAKEFLAGS MFLAGS MAKELEVEL MAKEOVERRIDES
: "${CC:=cc}"
U=$PWD/usr
make -C "$TOP" --no-print-directory B="$B" BIN="$BIN" PREFIX="$U" \
    install >log 2>&1
ok $? "make install"
demo=$U/share/qpipe/demo.gguf
doc=$U/share/doc/qpipe/examples
is "$(ls "$doc" | xargs)" "$(ls "$TOP/examples" | xargs)" \
    "they are beside the documentation"

PKG_CONFIG_LIBDIR=$U/lib/pkgconfig; export PKG_CONFIG_LIBDIR
is "qtok $(pkg-config --modversion libqwen)" \
    "$("$U/bin/qtok" --version | sed 's/ (.*//')" \
    "pkg-config knows the version"
is "$(pkg-config --print-requires libqwentext)" libqwen \
    "libqwentext brings libqwen"
# a tree without the shared libraries
mkdir alone && cp "$U"/lib/*.a alone
warn="-pedantic -Wall -Wextra -Wstrict-prototypes -Werror"
for e in generate save_restore sequences similar; do
	case $e in
	save_restore) lib=libqwen std="-std=c99 -D_POSIX_C_SOURCE=200809L" ;;
	*) lib=libqwentext std=-std=c99 ;;
	esac
	$CC $std $warn $(pkg-config --cflags $lib) "$doc/$e.c" -o $e.shared \
	    $(pkg-config --libs $lib)
	ok $? "$e.c with the shared libraries"
	$CC $std $warn $(pkg-config --cflags $lib) "$doc/$e.c" -o $e.static \
	    $(pkg-config --libs --static --define-variable=libdir="$PWD/alone" \
	    $lib)
	ok $? "$e.c with the static ones"
done
LD_LIBRARY_PATH=$U/lib; export LD_LIBRARY_PATH
LD_BIND_NOW=1; export LD_BIND_NOW

# -- the tokens that the tools choose
PATH=$U/bin:$PATH
QWEN_MODEL=$demo; export QWEN_MODEL
text="The first thing that"
want=$(printf %s "$text" | qtok | qdecode -n 12 --temp 0 | qtok -d)
for how in shared static; do
	is "$(./generate.$how "$demo" "$text" 12)" "$want" "generate, $how:$want"
	printf %s "$text" | qtok | ./save_restore.$how "$demo" $how.cbor
	ok $? "save_restore saves, $how"
	is "$(./save_restore.$how "$demo" $how.cbor 12 | qtok -d)" "$want" \
	    "and goes on as if it had not"
	is "$(./sequences.$how "$demo" 12 "$text" One "$text")" \
	    "$text$want
One$(./generate.$how "$demo" One 12)
$text$want" "sequences, $how"
done
is "$(qdecode -s static.cbor -n 12 --temp 0 </dev/null | qtok -d)" "$want" \
    "qdecode goes on from the state, too"
# of the vectors that qembed makes
model qwen3-embed
for how in shared static; do
	./similar.$how "$MODEL" 'a header' 'the header' '' 'a header' >got
	printf 'a header\nthe header\n\na header\n' |
	    qembed -m "$MODEL" -f text | awk 'NR == 1 { split($0, q) }
	    NR > 1 { s = 0; for (i = 1; i <= NF; i++) s += q[i] * $i
	    printf "%.3f\n", s }' >want
	cut -f 1 got | awk '{ printf "%.3f\n", $1 }' | cmp -s - want &&
	    is "$(tail -n 1 got)" "1.0000	a header" "similar, $how"
done
if command -v python3 >/dev/null 2>&1; then
	is "$(python3 "$doc/generate.py" "$demo" "$text" 12)" "$want" \
	    "generate.py"
	is "$(LD_LIBRARY_PATH=$B python3 "$TOP/examples/generate.py" "$demo" \
	    "$text" 12)" "$want" "in the tree, with what make has built"
	for p in python3 /usr/bin/python3; do
		$p -c 'import numpy' 2>/dev/null || continue
		is "$(cd / && LD_LIBRARY_PATH='' PYTHONDONTWRITEBYTECODE=1 \
		    PYTHONPATH=$U/share/qpipe/python $p -c '
import qwen, sys
m = qwen.Model(sys.argv[1])
s = m.session()
s.eval(m.encode(sys.argv[2]))
print(m.decode(s.generate(12)))' "$demo" "$text")" "$want" \
		    "the installed qwen.py finds its libraries"
		break
	done
else
	skip "generate.py" "no python3"
fi
# -- the program of the page
sed -n '/^\.Sh EXAMPLES/,/^\.Ed/p' "$TOP/man/libqwen.3" |
    sed '1,/^\.Bd/d; /^\.Ed/d; s/\\e/\\/g' >page.c
$CC -std=c99 $warn $(pkg-config --cflags libqwen) page.c -o page \
    $(pkg-config --libs libqwen)
ok $? "the program of libqwen(3)"
is "$(./page "$demo" $(printf %s "$text" | qtok -f text) | xargs)" \
    "$(printf %s "$text" | qtok | qdecode -n 20 --temp 0.7 --seed 1 -f text |
    xargs)" "draws what qdecode draws"

refused 1 "no model" ./generate.static /nonexistent a 1
refused 1 "no state" ./save_restore.static "$demo" /nonexistent 1

# -- headers
if command -v c++ >/dev/null 2>&1; then
	for h in qwen qwentext $(cd "$TOP/lib" && ls qwen/*.h | sed 's/\.h$//'); do
		printf '#include <%s.h>\n#include <%s.h>\n' $h $h >use.cc
		c++ -Wall -Wextra -Werror -I"$U/include" -c use.cc ||
		    echo $h >>other
		cp use.cc use.c
		$CC -std=c99 $warn -I"$U/include" -c use.c || echo $h >>other
	done
	[ ! -e other ]
	ok $? "each header stands alone, in C99 and C++"
else
	skip "headers in C++" "no C++ compiler"
fi
done_testing
