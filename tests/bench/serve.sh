#!/bin/sh
# Measures servers with the same file, in turn, with several clients at a time.
#   BIN=bin sh tests/bench/serve.sh [-p TOKENS] [-n COUNT] [-c "CLIENTS..."]
#       [-r REQUESTS PER CLIENT] MODEL NAME=COMMAND...
# Each COMMAND is a shell command with MODEL and PORT in its environment; it must
# serve that model at that port of 127.0.0.1 with OpenAI's API, such as
#   'qpipe=bin/qserve --listen 127.0.0.1:$PORT -m $MODEL'
#   'llama=llama-server --port $PORT -m $MODEL'
# All servers run at the same time; one at a time is measured.
BIN=${BIN:-bin}
p=256 n=32 c="1 4 16 64" r=1
usage() {
	sed -n '3,4s/^# *//p' "$0" >&2
	exit 2
}
while getopts p:n:c:r: o; do
	case $o in
	p) p=$OPTARG ;; n) n=$OPTARG ;; c) c=$OPTARG ;; r) r=$OPTARG ;;
	*) usage ;;
	esac
done
shift $((OPTIND - 1))
[ $# -ge 2 ] || usage
MODEL=$1; export MODEL; shift
for tool in curl jq; do
	command -v $tool >/dev/null 2>&1 || {
		echo "serve.sh: needs $tool" >&2
		exit 1
	}
done
dir=$(mktemp -d) || exit 1
trap 'kill $pids 2>/dev/null; wait; rm -rf "$dir"' EXIT
trap 'exit 1' HUP INT TERM
pids=
port=${FIRST_PORT:-18080}
cat "$MODEL" >/dev/null || exit 1
for peer; do
	name=${peer%%=*}
	PORT=$port sh -c "exec ${peer#*=}" >"$dir/$name.log" 2>&1 &
	pid=$!
	pids="$pids $pid"
	until curl -sf -m 5 "http://127.0.0.1:$port/health" >/dev/null; do
		kill -0 $pid 2>/dev/null || {
			echo "serve.sh: $name: $(tail -n 1 "$dir/$name.log")" >&2
			exit 1
		}
		sleep 0.2
	done
	port=$((port + 1))
done
printf '%-10s %-7s %8s %8s %9s %9s %9s\n' server clients tok/s req/s \
    'ttft p50' p95 failed
for k in $c; do
	port=${FIRST_PORT:-18080}
	for peer; do
		"$BIN/qbench" -q --url "http://127.0.0.1:$port" --clients "$k" \
		    -p "$p" -n "$n" --requests $((k * r)) --json |
		    jq -r --arg name "${peer%%=*}" --arg k "$k" '
			def f: . * 10 | round / 10;
			[$name, $k, (.generated_tokens_per_s | f), .requests_per_s,
			(.ttft_ms.p50 | f), (.ttft_ms.p95 | f),
			.failed] | @tsv' |
		    awk -F'\t' '{ printf "%-10s %-7s %8s %8.3f %9s %9s %9s\n",
			$1, $2, $3, $4, $5, $6, $7 }'
		port=$((port + 1))
	done
done
