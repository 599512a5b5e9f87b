#!/bin/sh
# Before most of a long text is read, within the first pass, a note says how
# long reading takes and how large the state will be.
. "$TOP/tests/cli/tap.sh"
gguf-synth -q --sparse -o m.gguf Qwen3-Embedding-0.6B-Q8_0
ids 2000 1 15000 >ids

# said OPTION...: its stderr once there is something, or after two minutes
said() {
	: >err
	QWEN_CPU=scalar qprefill -t 1 -m m.gguf --batch 64 "$@" <ids \
	    >/dev/null 2>err &
	pid=$!
	i=0
	while [ ! -s err ] && [ $i -lt "$most" ] && kill -0 $pid 2>/dev/null; do
		sleep 1
		i=$((i + 1))
	done
	kill $pid 2>/dev/null
	wait $pid 2>/dev/null
	cat err
}
most=120
line=$(said -o s.state)
is "$(echo "$line" | sed 's/about [0-9]*:[0-9][0-9]/about M:SS/')" \
    "qprefill: reading 2000 tokens takes about M:SS; the state will take about 230 MB (--kv q8_0: half)" \
    "time and size: $line"
n=$(echo "$line" | sed -n 's/.*takes about \([0-9]*\):0*\([0-9]*\);.*/\1 * 60 + \2/p')
[ $((${n:-0})) -ge 30 ]
ok $? "of what takes half a minute or more"
is "$(said --logits=last -f raw | sed 's/about [0-9]*:[0-9][0-9]$/about M:SS/')" \
    "qprefill: reading 2000 tokens takes about M:SS" "without a state, the time alone"
most=8
is "$(said -q -o s.state)" "" "-q: nothing"
# what is short has no line
ids 20 1 4000 >ids
QWEN_CPU=scalar qprefill -m "$TOP/demo/demo.gguf" -o s.state <ids >/dev/null 2>err
is "$?$(cat err)" 0 "short work has none"
done_testing
