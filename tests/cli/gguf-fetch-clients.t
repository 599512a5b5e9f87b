#!/bin/sh
# gguf-fetch and the clients huggingface_hub and modelscope from PyPI, in make
# check-long: each uses the files that the other fetched, complete or partial.  Both
# fetch from hubs.py, so that this also tests hubs.py.
#   QPIPE_WHEELS=FOLDER    install from a folder of wheels, without the network
. "$TOP/tests/cli/tap.sh"
[ -n "$QPIPE_LONG" ] || done_testing	# in make check-long
. "$TOP/tests/cli/hubs.sh"
venv=$B/clients/hubs
list=$TOP/tests/clients/hubs.txt
if ! cmp -s "$list" "$venv/made"; then
	rm -rf "$venv"
	mkdir -p "$B/clients"
	if python3 -m venv "$venv" && "$venv/bin/pip" install -q \
	    --disable-pip-version-check \
	    ${QPIPE_WHEELS:+--no-index --find-links "$QPIPE_WHEELS"} -r "$list"
	then
		cp "$list" "$venv/made"
	fi >pip.out 2>&1
fi
if [ ! -e "$venv/made" ]; then
	skip "clients of hubs" "pip: $(tail -n 1 pip.out | cut -c1-80)"
	done_testing
fi
start_hubs
SSL_CERT_FILE=$CURL_CA_BUNDLE REQUESTS_CA_BUNDLE=$CURL_CA_BUNDLE
HF_HUB_DISABLE_TELEMETRY=1 HF_HUB_DISABLE_XET=1 PYTHONDONTWRITEBYTECODE=1
export SSL_CERT_FILE REQUESTS_CA_BUNDLE HF_HUB_DISABLE_TELEMETRY HF_HUB_DISABLE_XET \
    PYTHONDONTWRITEBYTECODE
repo org/Tiny-GGUF
gguf "$R/Tiny-Q4_K_M.gguf" 50000 1
gguf "$R/Tiny-Q8_0.gguf" 80000 2
mkdir "$R/F16"
for n in 1 2 3; do
	gguf "$R/F16/Tiny-F16-0000$n-of-00003.gguf" 3000$n 3$n
done
gguf "$R/small-Q2_K.gguf" 500 4
echo hello >"$R/README.md"
tiny=$R
cache=$HFCACHE/models--org--Tiny-GGUF

# python NAME WANT CODE: what it prints, the last line
python() {
	"$venv/bin/python" -c "$3" >py.out 2>py.err </dev/null
	rc=$?
	is "$rc $(tail -n 1 py.out)" "0 $2" "$1"
	[ $rc = 0 ] || tail -n 5 py.err >&2
}
download='from huggingface_hub import hf_hub_download as get
print(get("org/Tiny-GGUF"'
snapshot=$cache/snapshots/$C1

# -- huggingface_hub, then gguf-fetch
python "huggingface_hub fetches" "$snapshot/Tiny-Q8_0.gguf" "$download, 'Tiny-Q8_0.gguf'))"
python "and parts" "$snapshot" "from huggingface_hub import snapshot_download
print(snapshot_download('org/Tiny-GGUF', allow_patterns=['F16/*', 'small*']))"
: >hubs/log
fetched "gguf-fetch has its file" "$tiny/Tiny-Q8_0.gguf" org/Tiny-GGUF:Q8_0
is "$(cat out)" "$snapshot/Tiny-Q8_0.gguf" "by the same path"
fetched "its parts" "$tiny/F16/Tiny-F16-00001-of-00003.gguf" org/Tiny-GGUF:F16
fetched "its small file" "$tiny/small-Q2_K.gguf" org/Tiny-GGUF:Q2_K
is "$(asked cdn) $(asked 'hub GET /api/resolve-cache')" "0 0" "nothing comes twice"
fetched "--verify finds it right" "$tiny/Tiny-Q8_0.gguf" --verify org/Tiny-GGUF:Q8_0
is "$(gguf-inspect org/Tiny-GGUF:Q8_0 | sed -n 's/^file.* //p')" \
    "$snapshot/Tiny-Q8_0.gguf" "a tool has it by its name"
fetched "gguf-fetch adds one" "$tiny/Tiny-Q4_K_M.gguf" org/Tiny-GGUF:Q4_K_M
: >hubs/log
python "which huggingface_hub has then" "$snapshot/Tiny-Q4_K_M.gguf" \
    "$download, 'Tiny-Q4_K_M.gguf'))"
is "$(asked cdn)" 0 "nothing comes twice"

# -- gguf-fetch, then huggingface_hub
forget
fetched "gguf-fetch fetches" "$tiny/Tiny-Q8_0.gguf" org/Tiny-GGUF:Q8_0
fetched "and parts" "$tiny/F16/Tiny-F16-00001-of-00003.gguf" org/Tiny-GGUF:F16
fetched "and a small file" "$tiny/small-Q2_K.gguf" org/Tiny-GGUF:Q2_K
: >hubs/log
python "huggingface_hub has its file" "$snapshot/Tiny-Q8_0.gguf" \
    "$download, 'Tiny-Q8_0.gguf'))"
python "its parts, its small file" "$snapshot" "from huggingface_hub import snapshot_download
print(snapshot_download('org/Tiny-GGUF', allow_patterns=['F16/*', 'small*']))"
is "$(asked cdn) $(asked 'hub GET /api/resolve-cache')" "0 0" "nothing comes twice"
python "offline too" "$snapshot/F16/Tiny-F16-00002-of-00003.gguf" \
    "$download, 'F16/Tiny-F16-00002-of-00003.gguf', local_files_only=True))"
python "it counts them" "5 1 170506" "from huggingface_hub import scan_cache_dir
i = scan_cache_dir()
assert not i.warnings, i.warnings
r = list(i.repos)[0]
print(sum(len(v.files) for v in r.revisions), len(r.revisions), r.size_on_disk)"
python "and takes them for right" 0 "import subprocess, sys
print(subprocess.run([sys.executable[:-6] + 'hf', 'cache', 'verify',
    'org/Tiny-GGUF']).returncode)"

# -- a partial file of the one is gone on with by the other
gguf "$tiny/Tiny-BF16.gguf" 4000000 6
sum=$(sha256sum <"$tiny/Tiny-BF16.gguf" | cut -c1-64)
forget
rules "1*cdn:GET:* stall 2500000"
gguf-fetch org/Tiny-GGUF:BF16 >out 2>err &
p=$!
i=0
until [ "$(cat "$cache/blobs/$sum.incomplete" 2>/dev/null | wc -c)" -ge 2000000 ] ||
    [ $i -ge 100 ]; do
	sleep 0.05
	i=$((i + 1))
done
kill -9 $p
wait $p 2>/dev/null
python "huggingface_hub after half a file" "$snapshot/Tiny-BF16.gguf" \
    "$download, 'Tiny-BF16.gguf'))"
cmp -s "$tiny/Tiny-BF16.gguf" "$snapshot/Tiny-BF16.gguf"
ok $? "makes it whole"
fetched "gguf-fetch then" "$tiny/Tiny-BF16.gguf" org/Tiny-GGUF:BF16
forget
rules "cdn:GET:* slow 4000000"
gguf-fetch org/Tiny-GGUF:BF16 >out 2>err &
p=$!
python "both at once" "$snapshot/Tiny-BF16.gguf" "$download, 'Tiny-BF16.gguf'))"
wait $p
is "$? $(cmp "$tiny/Tiny-BF16.gguf" "$(cat out)" 2>&1)" "0 " "gguf-fetch has it too"
cmp -s "$tiny/Tiny-BF16.gguf" "$snapshot/Tiny-BF16.gguf"
ok $? "and it is right"

rm "$tiny/Tiny-BF16.gguf"

# -- a branch that moves, a commit that is older
forget
python "huggingface_hub fetches" "$snapshot/Tiny-Q8_0.gguf" "$download, 'Tiny-Q8_0.gguf'))"
repo org/Tiny-GGUF 2
gguf "$R/Tiny-Q8_0.gguf" 81000 5
cp "$tiny/Tiny-Q4_K_M.gguf" "$R"
mkdir "$R/../refs"
printf $C2 >"$R/../refs/main"
fetched "gguf-fetch gets the new one" "$R/Tiny-Q8_0.gguf" org/Tiny-GGUF:Q8_0
python "huggingface_hub has it" "$cache/snapshots/$C2/Tiny-Q8_0.gguf" \
    "$download, 'Tiny-Q8_0.gguf', local_files_only=True))"
python "and the old one" "$snapshot/Tiny-Q8_0.gguf" \
    "$download, 'Tiny-Q8_0.gguf', revision='$C1', local_files_only=True))"
rm -r hubs/repos/org/Tiny-GGUF/refs hubs/repos/org/Tiny-GGUF/$C2

# -- modelscope
forget
download='from modelscope.hub.file_download import model_file_download as get
print(get("org/Tiny-GGUF"'
snapshot=$HOME/.cache/modelscope/models/org--Tiny-GGUF/snapshots/master
python "modelscope fetches" "$snapshot/Tiny-Q8_0.gguf" "$download, 'Tiny-Q8_0.gguf'))"
: >hubs/log
fetched "gguf-fetch has its file" "$tiny/Tiny-Q8_0.gguf" ms:org/Tiny-GGUF:Q8_0
is "$(cat out) $(asked cdn)" "$snapshot/Tiny-Q8_0.gguf 0" "nothing comes twice"
fetched "gguf-fetch adds parts" "$tiny/F16/Tiny-F16-00001-of-00003.gguf" ms:org/Tiny-GGUF:F16
: >hubs/log
python "which modelscope has then" "$snapshot/F16/Tiny-F16-00002-of-00003.gguf" \
    "$download, 'F16/Tiny-F16-00002-of-00003.gguf'))"
is "$(asked cdn)" 0 "nothing comes twice"
forget
fetched "gguf-fetch fetches" "$tiny/Tiny-Q8_0.gguf" ms:org/Tiny-GGUF:Q8_0
: >hubs/log
python "modelscope has it" "$snapshot/Tiny-Q8_0.gguf" "$download, 'Tiny-Q8_0.gguf'))"
is "$(asked cdn)" 0 "nothing comes twice"
python "offline too" "$snapshot/Tiny-Q8_0.gguf" \
    "$download, 'Tiny-Q8_0.gguf', local_files_only=True))"
done_testing
