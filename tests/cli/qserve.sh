# qserve.sh - runs a server for a test: . "$TOP/tests/cli/qserve.sh"
#   serve OPTIONS...     starts qserve; sets URL and pid; its stderr goes to log
#   post PATH [JSON]     posts JSON (default: stdin) and prints the answer; writes
#                        the HTTP status to the file code
#   get PATH             the same for a GET request
#   end_server           sends SIGTERM; sets gone to the exit status
#   engine_pid           prints the pid of the (first) engine
#   stat KEY             prints a metric, summed over all engines
#   until_stat KEY N     waits until the metric is N, ten seconds at most
QWEN_MODEL=$TOP/demo/demo.gguf; export QWEN_MODEL
pid=
trap '[ -z "$pid" ] || kill -9 "$pid" 2>/dev/null' EXIT

serve() {
	: >log
	qserve --listen 127.0.0.1:0 "$@" 2>log &
	pid=$!
	i=0
	while [ $i -lt 200 ]; do
		URL=$(sed -n 's/^qserve: listening at \(http.*\)/\1/p' log)
		[ -z "$URL" ] || break
		kill -0 $pid 2>/dev/null || break
		sleep 0.05
		i=$((i + 1))
	done
	until curl -sf -m 5 "$URL/health" >/dev/null || [ $i -ge 400 ]; do
		sleep 0.05
		i=$((i + 1))
	done
}

post() {
	if [ $# = 2 ]; then
		printf '%s' "$2" | post "$1"
		return
	fi
	curl -sN -m 100 -o answer -w '%{http_code}' --data-binary @- \
	    -H 'Content-Type: application/json' "$URL$1" >code
	cat answer
}

get() {
	curl -s -m 100 -o answer -w '%{http_code}' "$URL$1" >code
	cat answer
}

end_server() {
	kill -TERM $pid
	wait $pid
	gone=$?
	pid=
}

engine_pid() {
	ps -o pid=,ppid= -A | awk -v p=$pid '$2 == p { print $1; exit }'
}

stat() {
	curl -s -m 20 "$URL/metrics" | awk -v k="qserve_$1" '
	    $1 == k || index($1, k "{") == 1 { n += $2 } END { print n + 0 }'
}

until_stat() {
	i=0
	while [ "$(stat "$1")" != "$2" ] && [ $i -lt 100 ]; do
		sleep 0.1
		i=$((i + 1))
	done
}
