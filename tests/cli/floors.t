#!/bin/sh
# Dependencies between the folders of lib/, as the linker sees them: each folder
# uses only those below it, and a tool links no more folders than it needs.
. "$TOP/tests/cli/tap.sh"
if ! command -v nm >/dev/null 2>&1; then
	skip "floors" "no nm"
	done_testing
fi
if [ -n "$QPIPE_SAN" ]; then
	skip "floors" "a sanitizer adds its own"
	done_testing
fi

# -- a folder, and those that its files may call
cat >floors <<'EOT'
base
gguf base
wire base gguf
engine/quant base gguf
engine/cpu/kernel base engine/quant
engine/net base gguf engine/quant
engine base engine/net
engine/cpu base gguf engine/quant engine/cpu/kernel engine/net engine
engine/plain base engine/quant engine/net engine
engine/cuda base engine/quant engine/net engine
engine/mpi base gguf engine/net engine
engine/watch base gguf engine/quant engine/net
engine/timeline base engine/quant engine/net engine engine/watch
engine/pass base gguf wire engine/quant engine/net engine engine/cpu engine/plain engine/cuda engine/mpi engine/watch engine/timeline
engine/sample base gguf wire engine/quant engine/cpu/kernel
engine/state base wire engine/quant engine/cpu engine/timeline engine/pass engine/sample
engine/store base wire engine/timeline engine/pass engine/state
engine/draft base engine/timeline engine/pass
engine/batch base wire engine/quant engine/cpu/kernel engine/timeline engine/pass engine/sample engine/draft engine/store
text/yyjson
text/token base gguf
text/json base text/yyjson
text/chat base gguf text/token text/json text/yyjson
text/grammar base
text/schema base text/token text/grammar text/json text/yyjson
text/embed base gguf text/token
text/request base text/token text/embed text/chat text/grammar text/schema text/json text/yyjson
synth base gguf
hub base gguf text/json text/yyjson
models base text/json text/yyjson
quantize base gguf engine/quant engine/cpu/kernel engine/net engine/watch engine/timeline engine/pass
image base
vision base gguf wire engine/quant engine/cpu/kernel engine/pass
cli base
EOT
# folder, name, and whether it is defined (T) or called (U)
(cd "$TOP" && find lib -name '*.c') | sed 's/\.c$//' | sort | while read -r f; do
	case $f in
	lib/tool/*) continue ;;
	lib/quantize/*) d=quantize/ ;;
	lib/image/*) d=image/ ;;
	lib/engine/cpu/kernel/*) d=engine/cpu/kernel/ ;;
	lib/engine/*/*|lib/text/*) d=${f#lib/}; d=${d%"${d#*/*/}"} ;;
	*) d=${f#lib/}; d=${d%/*}/ ;;
	esac
	[ -e "$B/$f.o" ] && nm -P -g "$B/$f.o" |
	    awk -v d="${d%/}" -v f="$f" '{ print d, $1, $2 == "U" ? "U" : "T", f }'
done >graph
[ "$(grep -c . graph)" -gt 1000 ]
ok $? "nm reads $(cut -d' ' -f4 graph | uniq | grep -c .) files"
awk 'FILENAME == "floors" {
	row[$1]
	for (i = 2; i <= NF; i++) {
		if (!($i in row))
			print $1 " stands below " $i
		may[$1, $i]
	}
	next
}
$3 == "T" { home[$2] = $1 }
$3 == "U" { from[NR] = $1; what[NR] = $2; file[NR] = $4 }
!($1 in row) && !($1 in told) { told[$1]; print "lib/" $1 " has no row" }
END {
	for (n in what) {
		to = what[n] in home ? home[what[n]] : from[n]
		if (to != from[n] && !((from[n], to) in may))
			print file[n] ".c calls " what[n] " of lib/" to
	}
}' floors graph | sort >other
[ ! -s other ]
ok $? "calls go down, as the table has it"
sed 's/^/# /' other >&2

# -- the tools, and what they share, use what the headers show, requests, and
# what grows
{
	nm -P -g "$B/libsynth.a" "$B/libhub.a" "$B/libquantize.a" \
	    "$B/libmodels.a" "$B/libimage.a" "$B/libvision.a"
	cat "$B/qwen.map.public" "$B/qwentext.map.public"
	sed -n 's/^[^[:space:]*/].*\(qwen_[a-z0-9_]*\)(.*/\1/p' \
	    "$TOP/lib/base/cgroup.h" "$TOP/lib/base/disk.h" \
	    "$TOP/lib/base/tmpfile.h" "$TOP/lib/base/mem.h" "$TOP/lib/base/text.h" "$TOP/lib/base/utf8.h" \
	    "$TOP/lib/base/err.h" "$TOP/lib/base/what.h" "$TOP/lib/base/near.h" \
	    "$TOP/lib/text/request/refusal.h" "$TOP/lib/text/request/service.h" \
	    "$TOP/lib/text/request/answer.h" "$TOP/lib/text/request/messages.h" \
	    "$TOP/lib/text/request/images.h" \
	    "$TOP/lib/text/request/lists.h" "$TOP/lib/text/json/json.h" \
	    "$TOP/lib/wire/engine.h" "$TOP/lib/wire/put.h" "$TOP/lib/gguf/write.h" \
	    "$TOP/lib/gguf/recipe.h" "$TOP/lib/gguf/mmproj.h"
} | awk '$2 != "U" { print $1 }' | sort -u >shown
nm -P -g "$B/libqwen.a" "$B/libqwentext.a" |
    awk '$2 ~ /[A-TV-Z]/ && /^qwen_/ { print $1 }' | sort -u >inner
for t in "$TOP"/cmd/*.c "$TOP"/cmd/*/*.c "$TOP"/lib/cli/*.c "$TOP"/lib/tool/*.c; do
	t=${t#"$TOP"/}
	nm -P -u "$B/${t%.c}.o" | awk -v t="$t" '{ print $1, t }'
done | sort >called
join called inner | sort | join -v 1 - shown >other
[ ! -s other ]
ok $? "tools call what these headers declare"
sed 's/^/# /' other >&2

# -- no tool is larger than it must be
nm -P "$BIN/qtok" | grep -c '_scalar \|_kernel' >kernels
is "$(cat kernels)" 0 "qtok computes nothing, and has no kernels"
if command -v size >/dev/null 2>&1; then
	n=$(size "$BIN/qtok" | awk 'NR == 2 { print $1 }')
	[ "$n" -lt 800000 ]
	ok $? "it is less than 800,000 bytes of text: $n"
fi
for t in gguf-pin gguf-synth gguf-convert gguf-quantize gguf-merge; do
	what="^qwen_kernel ^qwen_tok_encode"
	# what quantises can measure by the model, what converts asks whether
	# it would open
	case $t in gguf-quantize | gguf-merge | gguf-convert)
		what=^qwen_tok_encode ;;
	esac
	for w in $what; do
		nm -P "$BIN/$t" | grep -e "$w"
	done >other
	[ ! -s other ]
	ok $? "$t has nothing like $what"
	sed 's/^/# /' other >&2
done
done_testing
