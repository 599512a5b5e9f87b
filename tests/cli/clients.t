#!/bin/sh
# The Python clients of OpenAI and Anthropic, from PyPI, against qserve: every
# documented call of theirs that applies.  In make check-long.
. "$TOP/tests/cli/tap.sh"
[ -n "$QPIPE_LONG" ] || done_testing	# in make check-long
python=
for p in python3 /usr/bin/python3; do
	$p -c 'import ensurepip' 2>/dev/null && python=$p && break
done
if [ -z "$python" ]; then
	skip "clients" "no python3 with venv"
	done_testing
fi
# QPIPE_WHEELS: a folder of wheels, in place of the net
if ! { "$python" -m venv venv && venv/bin/pip install -q \
    ${QPIPE_WHEELS:+--no-index --find-links "$QPIPE_WHEELS"} \
    openai anthropic; } >pip.out 2>&1; then
	skip "clients" "pip: $(tail -n 1 pip.out | cut -c1-80)"
	done_testing
fi

# told API KEY: the tests that it reports
told() {
	where=$URL
	[ "$1" != types ] || where=$TOP/tests/unit/request_events.test
	timeout 300 venv/bin/python "$TOP/tests/cli/clients.py" "$1" "$where" "$2" \
	    >told.out 2>told.err || echo "1 clients.py $1 ends well" >>told.out
	while read -r status name; do
		ok "$status" "$1: $name"
	done <told.out
	tail -n 60 told.err >&2
}

. "$TOP/tests/cli/qserve.sh"
which=$(venv/bin/pip list --format=freeze 2>/dev/null |
    grep -E '^(openai|anthropic)=' | xargs)
ok $? "clients: $which"
told types
QSERVE_API_KEY=secret; export QSERVE_API_KEY
serve --template qwen3.6 --max-body 1M
told openai secret
told anthropic secret
end_server
serve --template qwen3.6 --max-sequences 1 --max-waiting 1
told busy secret
end_server
done_testing
