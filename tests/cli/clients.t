#!/bin/sh
# Client programs and libraries from PyPI against qserve, in make check-long:
# tests/clients/*.py, one file each.  Once with the demo model, and once with a
# real one if QPIPE_REAL_MODEL names it or ../real-model has one.
#   QPIPE_WHEELS=FOLDER    install from a folder of wheels, without the network
#   CLIENTS="litellm llm"  only these
. "$TOP/tests/cli/tap.sh"
[ -n "$QPIPE_LONG" ] || done_testing	# in make check-long
here=$TOP/tests/clients
python=
for p in python3 /usr/bin/python3; do
	$p -c 'import ensurepip' 2>/dev/null && python=$p && break
done
if [ -z "$python" ]; then
	skip "clients" "no python3 with venv"
	done_testing
fi
# QPIPE_REAL_MODEL=none: without
[ -n "$QPIPE_REAL_MODEL" ] || for f in "$TOP"/../real-model/*.gguf; do
	[ ! -e "$f" ] || QPIPE_REAL_MODEL=$f
done

# with LIST: venv is a folder with what tests/clients/LIST.txt names; made once
with() {
	venv=$B/clients/$1
	cmp -s "$here/$1.txt" "$venv/made" && return
	rm -rf "$venv"
	mkdir -p "$B/clients"
	if "$python" -m venv "$venv" && "$venv/bin/pip" install -q \
	    --disable-pip-version-check \
	    ${QPIPE_WHEELS:+--no-index --find-links "$QPIPE_WHEELS"} \
	    -r "$here/$1.txt"; then
		cp "$here/$1.txt" "$venv/made"
	fi >pip.out 2>&1
	[ -e "$venv/made" ] && return
	skip "clients of $1.txt" "pip: $(tail -n 1 pip.out | cut -c1-80)"
	return 1
}

# run SECONDS FILE ARGUMENT...: the tests that it reports
run() {
	seconds=$1
	name=$(basename "$2" .py)
	shift
	PYTHONDONTWRITEBYTECODE=1 timeout "$seconds" "$venv/bin/python" "$@" \
	    >told.out 2>told.err </dev/null ||
	    echo "1 $name comes to its end" >>told.out
	while read -r status what; do
		ok "$status" "$how: $what"
	done <told.out
	grep -q '^1' told.out && tail -n 80 told.err | cut -c1-400 >&2
}

# uses LIST CLIENT...: each against the server
uses() {
	list=$1
	shift
	for c; do
		case " ${CLIENTS:-$c} " in *" $c "*) ;; *) continue ;; esac
		with "$list" || return
		run 600 "$here/use_$c.py" "$URL" secret "$how"
	done
}

. "$TOP/tests/cli/qserve.sh"
serve_key() {
	serve --seed 1 "$@"
	i=0
	until curl -sf -m 5 "$URL/health" >/dev/null || [ $i -ge 600 ]; do
		sleep 0.1
		i=$((i + 1))
	done
}
how=demo
if [ -z "$CLIENTS" ] && with main; then
	run 300 "$here/sdk.py" types "$TOP/tests/unit/request_events.test" none
	serve --template qwen3.5 --seed 0
	run 300 "$here/sdk_ollama.py" "$URL"
	end_server
	QSERVE_API_KEY=secret; export QSERVE_API_KEY
	serve --template qwen3.6 --max-body 1M --seed 0
	run 300 "$here/sdk.py" openai "$URL" secret
	run 300 "$here/sdk.py" anthropic "$URL" secret
	end_server
	serve --template qwen3.6 --max-sequences 1 --max-waiting 1 --seed 0
	run 300 "$here/sdk.py" busy "$URL" secret
	end_server
fi
QSERVE_API_KEY=secret; export QSERVE_API_KEY
all="litellm langchain llama_index instructor agents outlines ollama llm"
serve_key --template qwen3-coder --no-store
# shellcheck disable=SC2086
uses main $all
uses pydantic_ai pydantic_ai
uses lm_eval lm_eval
uses aider aider
end_server
if [ "${QPIPE_REAL_MODEL:-none}" != none ]; then
	how=real
	serve_key -m "$QPIPE_REAL_MODEL" --no-store
	# shellcheck disable=SC2086
	uses main $all loop
	uses pydantic_ai pydantic_ai
	uses lm_eval lm_eval
	uses aider aider
	end_server
else
	skip "clients with a real model" "QPIPE_REAL_MODEL names none"
fi
done_testing
