#!/bin/sh
# The chat page of qserve: the page served, and the text visible in it; in make
# check-long its behaviour in Chromium, against a server that misbehaves and
# against qserve.
. "$TOP/tests/cli/tap.sh"
for need in python3 curl; do
	if ! command -v $need >/dev/null 2>&1; then
		skip "the page" "no $need"
		done_testing
	fi
done
. "$TOP/tests/cli/qserve.sh"

# told COMMAND...: the tests that it reports
told() {
	PYTHONDONTWRITEBYTECODE=1 python3 "$TOP/tests/cli/page.py" "$@" \
	    >told.out 2>told.err || echo "1 page.py $1 ends well" >>told.out
	while read -r status name; do
		ok "$status" "$name"
	done <told.out
	tail -n 20 told.err >&2
}

# what an answer costs the page: twice as long, about twice the time
if command -v node >/dev/null 2>&1; then
	cat >cost.js <<'EOF'
const s = require("fs").readFileSync(process.argv[2], "utf8");
const mk = (name) => ({ name, append() {}, replaceWith() {}, remove() {} });
const code = s.slice(s.indexOf("const DEEP = 8;"),
    s.indexOf("/* --------------------------------------------------------------------- showing"));
const render = new Function("el", "button", "copy", code + "; return render;")(
    (n, p) => Object.assign(mk(n), p), () => mk("button"), () => {});
for (const [part, end] of [["___a ", "__w"], ["_a ", "_w"], ["**a ", ""], ["*a _b ", "_w"],
    ["`a ``b ", ""], ["[a](b ", ""], ["***a ", "**"]]) {
	const t0 = Date.now();
	render(mk("div"), part.repeat(65536 / part.length) + end);
	if (Date.now() - t0 > 3000)
		console.log(part, Date.now() - t0);
}
EOF
	is "$(timeout 100 node cost.js "$TOP/cmd/qserve/page/page.html" 2>&1)" "" \
	    "marks without an end, in 64 KiB of an answer: no time that grows as its square"
else
	skip "what an answer costs the page" "no node"
fi
serve
told text "$URL/"
if [ -z "$QPIPE_LONG" ]; then	# the browser is for make check-long
	end_server
	done_testing
fi
chromium=$(command -v chromium || command -v chromium-browser)
if [ -n "$chromium" ]; then
	told browser "$chromium" "$URL/"
	rm -rf profile
	end_server
	QSERVE_API_KEY=secret; export QSERVE_API_KEY
	serve
	told serve "$chromium" "$URL/" secret
else
	skip "the page in a browser" "no chromium"
fi
end_server
done_testing
