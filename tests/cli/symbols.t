#!/bin/sh
# The libraries must not exit, print, read the environment, or keep state in
# variables; and the names that they export.
. "$TOP/tests/cli/tap.sh"
if ! command -v nm >/dev/null 2>&1; then
	skip "symbols" "no nm"
	done_testing
fi
if [ -n "$QPIPE_SAN" ]; then
	skip "symbols" "a sanitizer adds its own"
	done_testing
fi

# -- the static libraries; of yyjson, which is not ours, only what is called counts
libs="$B/libqwen.a $B/libqwentext.a"
nm -A -P -u $libs | grep -v 'yyjson\.o\]' | awk '{ print $2, $1 }' >wanted
[ -s wanted ]
ok $? "nm reads both"
for f in exit _exit _Exit abort quick_exit printf fprintf vprintf vfprintf \
    dprintf puts putchar fputs fputc putc fwrite perror stdout stderr stdin \
    getenv secure_getenv setenv putenv system signal sigaction setlocale; do
	sed -n "s/^${f}@*[^ ]* //p; s/^__${f}_chk //p" wanted >users
	[ ! -s users ]
	ok $? "the libraries do without $f"
	sed 's/^/# /' users >&2
done
nm -A -P -g --defined-only $libs | grep -v 'yyjson\.o\]' |
    awk '$2 !~ /^qwen_/' >other
[ ! -s other ]
ok $? "every external symbol begins with qwen_"
sed 's/^/# /' other >&2
nm -P -g --defined-only $libs "$B/libsynth.a" | awk 'NF > 1 { print $1 }' |
    sort | uniq -d >twice
[ ! -s twice ]
ok $? "none is defined twice"
sed 's/^/# /' twice >&2

# -- memory of their own: what cpuid said, and a number for names of files
nm -A -f sysv $libs "$B/libsynth.a" | awk -F'|' '{ gsub(/ /, "") }
    $7 ~ /^(\.t?data|\.t?bss|\*COM\*)/ && $7 !~ /^\.data\.rel\.ro/ {
	sub(/.*\.a:/, ""); sub(/\|.*/, ""); print
    }' >state
is "$(sed 's/\.[0-9]*$//' state | sort | tr '\n' ' ')" \
    "$(echo cpu.o:answer cpu.o:answer name.o:count '')" "no static state but what processors were asked"

# -- the shared libraries: what the headers below qwen.h and qwentext.h declare
for l in qwen qwentext; do
	nm -D -P --defined-only "$B/lib$l.so" | sed 's/ .*//; s/@@*/ /' |
	    awk '$2 !~ /_PRIVATE$/ && $2 != "" { print $1 }' | grep '^qwen_' |
	    sort >exported
	sed -n 's|^#include "\(.*\)"|\1|p' "$TOP/lib/$l.h" | while read -r h; do
		sed -n '/^[^ 	*\/#].*(/p' "$TOP/lib/$h"
	done | sed -n 's/.*\(qwen_[a-z0-9_]*\)(.*/\1/p' | sort >declared
	diff declared exported >diff
	ok $? "lib$l.so shows the $(grep -c . declared) functions below $l.h"
	cat diff >&2
	nm -D -P --defined-only "$B/lib$l.so" | grep -v '^qwen_' |
	    grep -v '^LIBQWEN' >other
	[ ! -s other ]
	ok $? "and nothing else"
	sed 's/^/# /' other >&2
done
for h in "$TOP"/lib/qwen/*.h; do
	h=${h#"$TOP/lib/"}
	grep -l "^#include \"$h\"" "$TOP/lib/qwen.h" "$TOP/lib/qwentext.h" |
	    grep -c . | sed "s|^|$h |"
done | grep -v ' 1$' >other
[ ! -s other ]
ok $? "each header is below one of them"
sed 's/^/# /' other >&2
# the inner functions of one that the other calls, and no other ones
nm -D -P "$B/libqwentext.so" | sed -n 's/^\(qwen_[a-z0-9_]*\)@.* U.*/\1/p' |
    sort >borrowed
nm -D -P --defined-only "$B/libqwen.so" |
    sed -n 's/^\(qwen_[a-z0-9_]*\)@.*_PRIVATE .*/\1/p' | sort >lent
[ -s lent ] && [ -z "$(comm -13 borrowed lent)" ]
ok $? "libqwen.so lends libqwentext.so $(grep -c . lent) functions that it calls"
comm -13 borrowed lent | sed 's/^/# /' >&2
nm -P -g --defined-only "$B/libcli.a" | awk 'NF > 1 && $1 !~ /^(cli|tool)_/' >other
[ ! -s other ]
ok $? "every external symbol of the command layer begins with cli_ or tool_"
sed 's/^/# /' other >&2

# -- the tools that are more than one file
for o in "$B"/cmd/*/*.o; do
	tool=${o%/*}; tool=${tool##*/}; tool=${tool#gguf-}
	nm -P -g --defined-only "$o" | awk -v o="$o" -v t="^${tool}_" \
	    'NF > 1 && $1 !~ t { print o, $1 }'
done >other
[ ! -s other ]
ok $? "every external symbol of a tool's files begins with its name, without gguf-"
sed 's/^/# /' other >&2

# -- who includes what
grep -H '^#include "' "$TOP"/cmd/*.c "$TOP"/cmd/*/*.[ch] | sed "s|^$TOP/||" |
    grep -v -e '"qwen.h"' -e '"qwentext.h"' -e '"cli/[a-z_]*\.h"' -e '"tool/[a-z_]*\.h"' \
    -e '"vision/vision.h"' -e '"synth/synth.h"' -e '"models/models.h"' -e '"hub/hub.h"' -e '"quantize/quantize.h"' -e '"image/image.h"' -e '"base/\(mem\|text\|utf8\|err\|cursor\|half\|cgroup\|disk\|tmpfile\|what\)\.h"' \
    -e '"text/request/request.h"' -e '"text/json/json.h"' -e '"wire/\(engine\|put\)\.h"' -e '"gguf/\(recipe\|mmproj\)\.h"' \
    -e '^cmd/\([a-z-]*\)\.c:#include "\1/\1\.h"' \
    -e '^cmd/[a-z-]*/[a-z_]*\.[ch]:#include "[a-z_-]*\.\(h\|inc\)"' >other
[ ! -s other ]
ok $? "tools include the public headers, cli, synth, models, hub, quantize, images, recipes, requests, records, what grows, bytes, disks, drafts and kinds of files, and their own alone"
cat other >&2
grep -H '^#include "' "$TOP"/lib/qwen/*.h | grep -v '"qwen/[a-z]*\.h"' >other
[ ! -s other ]
ok $? "public headers include public headers alone"
cat other >&2
done_testing
