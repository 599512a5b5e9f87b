#!/bin/sh
# What the library may not do: exit, print, read the environment; and the names
# that it shows.
. "$TOP/tests/cli/tap.sh"
if ! command -v nm >/dev/null 2>&1; then
	skip "symbols" "no nm"
	done_testing
fi
if [ -n "$QPIPE_SAN" ]; then
	skip "symbols" "a sanitizer adds its own"
	done_testing
fi

# -- the static library; of yyjson, which is not ours, only what is called counts
nm -A -P -u "$B/libqwen.a" | grep -v 'yyjson\.o\]' |
    awk '{ print $2, $1 }' >wanted
[ -s wanted ]
ok $? "nm reads libqwen.a"
for f in exit _exit _Exit abort quick_exit printf fprintf vprintf vfprintf \
    dprintf puts putchar fputs fputc putc fwrite perror stdout stderr stdin \
    getenv secure_getenv setenv putenv system signal sigaction setlocale; do
	sed -n "s/^${f}@*[^ ]* //p; s/^__${f}_chk //p" wanted >users
	[ ! -s users ]
	ok $? "the library does without $f"
	sed 's/^/# /' users >&2
done
nm -A -P -g --defined-only "$B/libqwen.a" | grep -v 'yyjson\.o\]' |
    awk '$2 !~ /^qwen_/' >other
[ ! -s other ]
ok $? "every external symbol begins with qwen_"
sed 's/^/# /' other >&2
nm -P -g --defined-only "$B/libqwen.a" | awk 'NF > 1 { print $1 }' |
    sort | uniq -d >twice
[ ! -s twice ]
ok $? "none is defined twice"
sed 's/^/# /' twice >&2

# -- the shared library
nm -D -P --defined-only "$B/libqwen.so" | sed 's/ .*//' | sort >exported
sed -n '/^[^ 	*\/#].*(/p' "$TOP"/lib/qwen/*.h |
    sed -n 's/.*\(qwen_[a-z0-9_]*\)(.*/\1/p' | sort >declared
diff declared exported >diff
ok $? "libqwen.so shows the $(grep -c . declared) functions of lib/qwen and nothing else"
cat diff >&2
nm -P -g --defined-only "$B/libcli.a" | awk 'NF > 1 && $1 !~ /^cli_/' >other
[ ! -s other ]
ok $? "every external symbol of the command layer begins with cli_"
sed 's/^/# /' other >&2

# -- the tools that are more than one file
for o in "$B"/cmd/*/*.o; do
	tool=${o%/*}; tool=${tool##*/}
	nm -P -g --defined-only "$o" | awk -v o="$o" -v t="^${tool}_" \
	    'NF > 1 && $1 !~ t { print o, $1 }'
done >other
[ ! -s other ]
ok $? "every external symbol of a tool's files begins with its name"
sed 's/^/# /' other >&2

# -- who includes what
grep -H '^#include "' "$TOP"/cmd/*.c "$TOP"/cmd/*/*.[ch] | sed "s|^$TOP/||" |
    grep -v -e '"qwen.h"' -e '"qwentext.h"' -e '"cli/cli.h"' \
    -e '"cli/batch.h"' -e '"cli/score.h"' -e '"gguf/write.h"' \
    -e '"synth/synth.h"' \
    -e '^cmd/\([a-z-]*\)\.c:#include "\1/\1\.h"' \
    -e '^cmd/\([a-z-]*\)/[a-z_]*\.[ch]:#include "\1\.h"' >other
[ ! -s other ]
ok $? "tools include the public headers, what writes files, cli, and their own alone"
cat other >&2
# a folder of lib/, and those below it
while read -r dir below; do
	for f in $(find "$TOP/lib/$dir" -type f); do
		sed -n 's|^#include "\(.*\)/[^/]*"|\1|p' "$f"
	done | sort -u | while read -r used; do
		case " $dir $dir/x86 $dir/arm qwen $below " in
		*" $used "*) ;;
		*) echo "# lib/$dir includes $used/" ;;
		esac
	done
done >other <<EOF
base
gguf base
engine/quant base
engine/kernel base engine/quant
text/token base gguf
text/yyjson
text/chat base text/token
text/grammar base
text/schema base text/grammar
engine/sample base engine/kernel text/grammar
wire base
engine/model base gguf engine/quant engine/kernel
engine/state base wire engine/model
engine/store base wire engine/model engine/state
engine/batch base engine/model engine/kernel engine/sample
synth base gguf
cli synth
EOF
[ ! -s other ]
ok $? "in lib/, dependencies point one way"
cat other >&2
done_testing
