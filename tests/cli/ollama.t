#!/bin/sh
# The Python client of Ollama, from PyPI, against qserve.  In make check-long.
. "$TOP/tests/cli/tap.sh"
[ -n "$QPIPE_LONG" ] || done_testing	# in make check-long
python=
for p in python3 /usr/bin/python3; do
	$p -c 'import ensurepip' 2>/dev/null && python=$p && break
done
if [ -z "$python" ]; then
	skip "the client of Ollama" "no python3 with venv"
	done_testing
fi
# QPIPE_WHEELS: a folder of wheels, in place of the net
if ! { "$python" -m venv venv && venv/bin/pip install -q \
    ${QPIPE_WHEELS:+--no-index --find-links "$QPIPE_WHEELS"} \
    ollama; } >pip.out 2>&1; then
	skip "the client of Ollama" "pip: $(tail -n 1 pip.out | cut -c1-80)"
	done_testing
fi
. "$TOP/tests/cli/qserve.sh"
which=$(venv/bin/pip list --format=freeze 2>/dev/null | grep '^ollama=')
ok $? "client: $which"
serve --template qwen3.5
timeout 300 venv/bin/python "$TOP/tests/cli/ollama_client.py" "$URL" >told.out \
    2>told.err || echo "1 ollama_client.py ends well" >>told.out
while read -r status name; do
	ok "$status" "$name"
done <told.out
tail -n 60 told.err >&2
end_server
is "$gone" 0 "the server ends"
done_testing
