#!/bin/sh
# gguf-inspect --plan against the memory of a run, which qbench counts.
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
	qbench -q -m $m.gguf -p 512 -n 4 --depth 512 -r 1 -t 2 --json >run
	gguf-inspect --plan --checkpoint-every 0 -c 514 -t 2 --json $m.gguf >plan
	jq -e . plan >/dev/null
	ok $? "$m: it is JSON"
	# weights, keys and values, and delta's state: what memory is read for; the
	# others go through activations, in cache
	within "$(jq '[.kernels[] | select(.phase == "decode" and
	    (.name | test("^(matmul[.].*|attn|delta)$"))) | .bytes] | add / 4' run)" \
	    "$(jq '.parts[-1].read' plan)" 0.1 0
	ok $? "$m: bytes of a token are those that the kernels read"
	within "$(jq '[.kernels[] | select(.phase == "decode") | .bytes] | add / 4' run)" \
	    "$(jq '.parts[-1].read' plan)" 3 0
	ok $? "$m: and nearly all that any goes through"
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
		[ "$try" = 3 ] || qbench -q -m $m.gguf -p 512 -n 4 --depth 512 \
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
	gguf-inspect --plan -c 514 -t 2 $m.gguf >text
	is "$(awk '$1 == "part" && NF != 8' text)$(awk 'NR == 1 { print $1, $2, $3, $8 }' text)" "part name params of_read" \
	    "$m: the columns have names"
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
# memory OPTION...: bytes that the plan has, beside the weights
memory() {
	gguf-inspect --plan --json -c 2048 -t 2 "$@" moe.gguf |
	    jq ".memory$of"
}
of=.checkpoints
one=$(memory --checkpoint-every 1024)
is "$(memory --checkpoint-every 512) $(memory --checkpoint-every 0) $(memory --checkpoint-every 2048)" \
    "$((3 * one)) 0 0" "checkpoints before the end, all of few"
[ "$(memory --checkpoint-every 64)" -lt $((16 * one)) ] &&
    [ "$(memory --checkpoint-every 64)" -gt $((8 * one)) ]
ok $? "many are thinned"
is "$(of=; memory | jq -c '.checkpoints, .total == .weights + .["kv-cache"] + .state + .checkpoints + .guesses + .scratch + .other' | tr '\n' ' ')" \
    "0 true " "by default those of qprefill, here none so soon"
is "$(memory --sequences 2 --checkpoint-every 1024)" $((2 * one)) "of each text"
# of each guess at least logits, and what the convolutions of three layers take
of=.guesses
one=$(memory)
[ "$one" -ge $((16 * 4 * (4096 + 3 * 8192))) ] && [ "$one" -lt 4000000 ]
ok $? "guesses"
is "$(memory --sequences 2)" $((2 * one)) "for each text"

# private ARG...: bytes of its own that qprefill has when it begins to write; the
# pipe takes less than a state
private() {
	rm -f fifo && mkfifo fifo
	qprefill -q -t 2 -m moe.gguf --no-compress "$@" <tokens >fifo &
	private_pid=$!
	exec 3<fifo
	dd bs=1 count=1 <&3 >/dev/null 2>&1
	awk '$1 == "RssAnon:" { print $2 * 1024 }' /proc/$private_pid/status
	cat <&3 >/dev/null
	exec 3<&-
	wait $private_pid
}
if [ -z "$QPIPE_SAN" ] && grep -q RssAnon /proc/self/status 2>/dev/null; then
	ids 2048 1 4096 >tokens
	of=.checkpoints
	one=$(memory --checkpoint-every 1024)
	of='| .total - .weights - .guesses'
	none=$(private --batch 64 --checkpoint-every 0)
	many=$(private --checkpoint-every 64)
	within "$none" "$(memory --batch 64 --checkpoint-every 0)" 5 16777216
	ok $? "qprefill: private memory without checkpoints"
	within "$many" "$(memory --checkpoint-every 64)" 5 16777216
	ok $? "with those that it keeps"
	[ "$((many - none))" -gt $((7 * one)) ]
	ok $? "which are a good part of it"
else
	skip "private memory with checkpoints" "a sanitizer, or no RssAnon"
fi
refused 2 "more than the context" gguf-inspect --plan -c 1000000 dense.gguf
refused 2 "-c alone" gguf-inspect -c 10 dense.gguf
refused 2 "--checkpoint-every alone" gguf-inspect --checkpoint-every 10 dense.gguf
refused 2 "--plan --check" gguf-inspect --plan --check dense.gguf
refused 1 "a file that is not usable" gguf-inspect --plan "$TOP/tests/files/gguf/good-vocab.gguf"
done_testing
