#!/bin/sh
# gguf-inspect --plan against what a run takes, as qbench counts it.
. "$TOP/tests/cli/tap.sh"
if ! command -v jq >/dev/null 2>&1; then
	skip "plan" "no jq"
	done_testing
fi
# within GOT WANT PERCENT MORE: GOT is WANT, but for so many percent and MORE
within() {
	awk -v g="$1" -v w="$2" -v p="$3" -v m="$4" 'BEGIN {
		d = g > w ? g - w : w - g
		if (d <= w * p / 100 + m)
			exit 0
		print "# got " g ", planned " w
		exit 1
	}' >&2
}

gguf-synth -q --layers 4 --no-mtp --experts 16 --vocab-size 4096 -o moe.gguf Qwen3.6-35B
gguf-synth -q --layers 3 --vocab-size 4096 -o dense.gguf qwen3-0.6b
for m in moe dense; do
	qbench -q -m $m.gguf -p 1024 -n 4 --depth 1024 -r 1 -t 2 --json >run
	gguf-inspect --plan -c 1026 -t 2 --json $m.gguf >plan
	jq -e . plan >/dev/null
	ok $? "$m: it is JSON"
	within "$(jq '[.kernels[] | select(.phase == "decode") | .bytes] | add / 4' run)" \
	    "$(jq '.parts[-1].read' plan)" 0.1 0
	ok $? "$m: bytes of a token are those that the kernels read"
	within "$(jq '[.kernels[] | select(.phase == "decode") | .macs] | add / 4' run)" \
	    "$(jq '.parts[-1].macs' plan)" 0.5 0
	ok $? "$m: so are multiply-adds"
	# the process has some of its own, as each thread; on a machine that
	# makes huge pages of small ones meanwhile, now and then more
	for try in 1 2 3; do
		[ -n "$QPIPE_SAN" ] || within \
		    "$(jq '.memory.private * 1048576' run)" \
		    "$(jq '.memory.total - .memory.weights' plan)" 5 16777216 &&
		    break
		[ "$try" = 3 ] || qbench -q -m $m.gguf -p 1024 -n 4 --depth 1024 \
		    -r 1 -t 2 --json >run
	done
	[ -n "$QPIPE_SAN" ] || within "$(jq '.memory.private * 1048576' run)" \
	    "$(jq '.memory.total - .memory.weights' plan)" 5 16777216
	ok $? "$m: private memory"
	is "$(jq -c '.parts[-1].bytes == .memory.weights, .memory.weights <= '"$(wc -c <$m.gguf)" plan | tr '\n' ' ')" \
	    "true true " "$m: weights are those of the file"
	near=$(jq '.machine.read / (.token.read * .speed.decode)' plan)
	within "$near" 1 1 0
	ok $? "$m: decoding is as fast as memory is read"
	gguf-inspect --plan -c 1026 -t 2 $m.gguf >text
	is "$(awk '$1 == "memory" && $2 != "total" { s += $3 } $1 == "memory" && $2 == "total" { print s == $3 }' text)" \
	    1 "$m: as text, the parts are the total"
	is "$(tail -n 1 text | awk '{ print $1, $2, $4 }')" "speed prefill tok/s" \
	    "$m: the speed comes last"
done
is "$(jq '.plan.batch' plan) $(gguf-inspect --plan --json -c 5000 --sequences 3 dense.gguf |
    jq '.plan.sequences')" "512 3" "what it is for"
kv() {
	gguf-inspect --plan --json "$@" dense.gguf | jq '.memory["kv-cache"]'
}
is "$(kv -c 3200 --sequences 2)" $(($(kv -c 1600) * 4)) "cache by length and number"
refused 2 "more than the context" gguf-inspect --plan -c 1000000 dense.gguf
refused 2 "-c alone" gguf-inspect -c 10 dense.gguf
refused 2 "--plan --check" gguf-inspect --plan --check dense.gguf
refused 1 "a file that is not usable" gguf-inspect --plan "$TOP/tests/files/gguf/good-vocab.gguf"
done_testing
