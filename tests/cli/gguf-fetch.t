#!/bin/sh
# gguf-fetch: names, its requests to a hub, where it puts files, and its messages.
# hubs.py plays the hubs, here without faults.
. "$TOP/tests/cli/tap.sh"
. "$TOP/tests/cli/hubs.sh"
# another user comes here too
W=$(mktemp -d /tmp/qpipe-fetch-XXXXXX) || exit 1
chmod 755 "$W"
cd "$W" || exit 1
start_hubs
repo org/Tiny-GGUF
for f in Tiny-Q4_K_M:50000 Tiny-Q8_0:80000 Tiny-BF16:150000 Tiny-imatrix:9000 \
    mmproj-Tiny-BF16:21000 mmproj-Tiny-Q8_0:11000 \
    UD-Q4_K_XL/Tiny-UD-Q4_K_XL-00001-of-00003:30000 \
    UD-Q4_K_XL/Tiny-UD-Q4_K_XL-00002-of-00003:31000 \
    UD-Q4_K_XL/Tiny-UD-Q4_K_XL-00003-of-00003:12000; do
	mkdir -p "$(dirname "$R/$f")"
	gguf "$R/${f%:*}.gguf" "${f#*:}" "${f#*:}"
done
echo hello >"$R/README.md"
echo '{}' >"$R/config.json"
tiny=$R
cache=$HFCACHE/models--org--Tiny-GGUF
snapshot=$cache/snapshots/$C1

# -- into the cache
fetched "ORG/REPO:QUANT" "$tiny/Tiny-Q4_K_M.gguf" org/Tiny-GGUF:Q4_K_M
sum=$(sha256sum <"$tiny/Tiny-Q4_K_M.gguf" | cut -c1-64)
is "$(cat out) $(readlink "$(cat out)")" \
    "$snapshot/Tiny-Q4_K_M.gguf ../../blobs/$sum" "in the hub's layout"
is "$(cat "$cache/refs/main"; printf .)" "$C1." "refs/main is the commit alone"
is "$(find "$cache" -type f -o -type l | sed "s|$cache/||" | sort | xargs)" \
    "blobs/$sum refs/main snapshots/$C1/Tiny-Q4_K_M.gguf" \
    "nothing else is in the repository's folder"
is "$(head -c 43 "$HFCACHE/CACHEDIR.TAG")" \
    "Signature: 8a477f597d28d172789f06886806bc55" "backups skip the cache"
is "$(stat -c %a "$cache/blobs/$sum")" 644 "mode by the umask"
is "$(cat err)" "gguf-fetch: org/Tiny-GGUF:Q4_K_M: reads images with mmproj-Tiny-Q8_0.gguf (10.7 KiB), \
which --mmproj fetches, too" "one note, and no progress, as it took no time"
fetch -q org/Tiny-GGUF:Q4_K_M
is "$rc $(cat err)" "0 " "-q: no note"
: >hubs/log
fetched "once more" "$tiny/Tiny-Q4_K_M.gguf" org/Tiny-GGUF:Q4_K_M
is "$(asked cdn)" 0 "no byte of it comes twice"
: >hubs/log
fetched "--offline" "$tiny/Tiny-Q4_K_M.gguf" --offline org/Tiny-GGUF:Q4_K_M
refused 1 "--offline, and not there" gguf-fetch -q --offline org/Tiny-GGUF:Q8_0
HF_HUB_OFFLINE=1; export HF_HUB_OFFLINE
fetched "HF_HUB_OFFLINE" "$tiny/Tiny-Q4_K_M.gguf" org/Tiny-GGUF:Q4_K_M
refused 1 "HF_HUB_OFFLINE, and not there" gguf-fetch -q org/Tiny-GGUF:Q8_0
unset HF_HUB_OFFLINE
is "$(asked '')" 0 "ask nothing"
printf '%s\n' $C1 >"$cache/refs/main"
fetched "refs/main with a newline" "$tiny/Tiny-Q4_K_M.gguf" --offline \
    org/Tiny-GGUF:Q4_K_M
rm -r "$cache/refs"
fetched "no refs, one snapshot" "$tiny/Tiny-Q4_K_M.gguf" --offline \
    org/Tiny-GGUF:Q4_K_M

# -- what is there is used if it cannot be written
: >hubs/log
if [ "$(id -u)" = 0 ]; then
	other="setpriv --reuid=65534 --regid=65534 --clear-groups"
else
	other=
	chmod -R a-w home
fi
if ! command -v setpriv >/dev/null || ! $other ls hubs/ca.pem >/dev/null 2>&1; then
	skip "a cache that is only read" "no other user may read this folder"
else
	$other "$(command -v gguf-fetch)" -q org/Tiny-GGUF:Q4_K_M >out 2>err
	is "$? $(cat out err)" "0 $snapshot/Tiny-Q4_K_M.gguf" \
	    "a cache that is only read"
fi
chmod -R u+w home

# -- what would be fetched
forget
fetch --list org/Tiny-GGUF
is "$rc $(awk '$NF ~ /Q4_K_M.gguf|Q8_0.gguf|BF16.gguf/ || /UD-.*3 parts/ { n++ }
    END { print n }' out)" "0 6" "--list: four models, two projectors"
is "$(grep -c '0000[23]-of\|README\|imatrix' out)" 0 "and nothing else"
is "$(grep -c '^ *48.8 KiB  .*  yes  *Tiny-Q4_K_M.gguf$' out)" 1 "with their sizes"
is "$(grep '^cdn' hubs/log | grep -vc 'Range:bytes=0-') $(ls home 2>/dev/null)" \
    "0 " "it reads the head of one, and writes nothing"
forget
fetch --dry-run org/Tiny-GGUF:UD-Q4_K_XL
is "$rc $(asked cdn) $(ls home 2>/dev/null)" "0 0 " \
    "--dry-run fetches and writes nothing"
is "$(grep -o '[0-9]* bytes' out | xargs)" "30000 bytes 31000 bytes 12000 bytes" \
    "and says the bytes of all parts"

# -- which file
: >hubs/log
fetched "no QUANT: the largest that fits" "$tiny/Tiny-BF16.gguf" org/Tiny-GGUF
is "$(grep -c Tiny-BF16.*largest err)" 1 "and says which"
curl -s --cacert hubs/ca.pem \
    "$HUB/api/models/org/Tiny-GGUF/tree/$C1?recursive=true" |
    sed 's/150000/15000000000000/g' >hubs/huge
forget
rules "hub:GET:/api/models/org/Tiny-GGUF/tree/* body huge"
fetched "no QUANT, and one that is too large" "$tiny/Tiny-Q8_0.gguf" org/Tiny-GGUF
forget
fetched "a split file" \
    "$tiny/UD-Q4_K_XL/Tiny-UD-Q4_K_XL-00001-of-00003.gguf" \
    org/Tiny-GGUF:UD-Q4_K_XL
is "$(find "$snapshot" -name '*.gguf' | sed 's|.*/||' | sort | xargs)" \
    "Tiny-UD-Q4_K_XL-00001-of-00003.gguf Tiny-UD-Q4_K_XL-00002-of-00003.gguf Tiny-UD-Q4_K_XL-00003-of-00003.gguf" \
    "all its parts"
for n in 1 2 3; do
	f=UD-Q4_K_XL/Tiny-UD-Q4_K_XL-0000$n-of-00003.gguf
	cmp -s "$tiny/$f" "$snapshot/$f"
	is "$? $(readlink "$snapshot/$f" | cut -c1-15)" "0 ../../../blobs/" \
	    "part $n, by a link from its folder"
done
is "$(grep -c "/resolve/" hubs/log) $(grep -c "/resolve/$C1/" hubs/log)" "3 3" \
    "each by the commit, not the branch"
rm "$snapshot/UD-Q4_K_XL/Tiny-UD-Q4_K_XL-00003-of-00003.gguf"
refused 1 "--offline, and a part is not there" gguf-fetch --offline \
    org/Tiny-GGUF:UD-Q4_K_XL
refused 1 "--verify, and a part is not there" gguf-fetch --verify --offline \
    org/Tiny-GGUF:UD-Q4_K_XL
is "$(grep -c '2 of.* 3 parts' err)" 1 "says that"
fetched "a part is not there" \
    "$tiny/UD-Q4_K_XL/Tiny-UD-Q4_K_XL-00001-of-00003.gguf" \
    org/Tiny-GGUF:UD-Q4_K_XL
f=UD-Q4_K_XL/Tiny-UD-Q4_K_XL-00003-of-00003.gguf
cmp -s "$tiny/$f" "$snapshot/$f"
ok $? "then it is"
fetched "another case" "$tiny/Tiny-Q8_0.gguf" hf:org/Tiny-GGUF:q8_0
fetched "a path in the repository" \
    "$tiny/UD-Q4_K_XL/Tiny-UD-Q4_K_XL-00001-of-00003.gguf" \
    hf:org/Tiny-GGUF/UD-Q4_K_XL/Tiny-UD-Q4_K_XL-00001-of-00003.gguf
fetched "an address, as a browser shows it" "$tiny/Tiny-Q8_0.gguf" \
    https://huggingface.co/org/Tiny-GGUF/blob/main/Tiny-Q8_0.gguf
fetch org/Tiny-GGUF:Q4_K_M org/Tiny-GGUF:Q8_0
is "$rc $(xargs <out)" \
    "0 $snapshot/Tiny-Q4_K_M.gguf $snapshot/Tiny-Q8_0.gguf" "two names, two paths"
fetch --mmproj org/Tiny-GGUF:Q8_0
is "$rc $(sed 1d out | sed 's|.*/||')" "0 mmproj-Tiny-Q8_0.gguf" \
    "--mmproj: the projector with as many bits, as a second line"
cmp -s "$tiny/mmproj-Tiny-Q8_0.gguf" "$snapshot/mmproj-Tiny-Q8_0.gguf"
ok $? "with its bytes"
fetch org/Tiny-GGUF:Q8_0
is "$rc $(wc -l <out) $(cat err)" "0 1 " "no note of a projector that is there"

# -- revisions
repo org/Revs
gguf "$R/Revs-Q8_0.gguf" 5000 1
old=$R
repo org/Revs 2
gguf "$R/Revs-Q8_0.gguf" 6000 2
mkdir "$R/../refs"
printf %s $C1 >"$R/../refs/main"
printf %s $C2 >"$R/../refs/dev"
fetched "@BRANCH" "$R/Revs-Q8_0.gguf" hf:org/Revs:Q8_0@dev
fetched "the branch main" "$old/Revs-Q8_0.gguf" org/Revs:Q8_0
fetched "@COMMIT" "$R/Revs-Q8_0.gguf" hf:org/Revs:Q8_0@$C2
is "$(cat "$HFCACHE/models--org--Revs/refs/main" \
    "$HFCACHE/models--org--Revs/refs/dev")" "$C1$C2" "each branch has its commit"
printf %s $C2 >"$R/../refs/main"
fetched "a branch that has moved" "$R/Revs-Q8_0.gguf" org/Revs:Q8_0
mkdir "$R/../refs/feature"
printf %s $C1 >"$R/../refs/feature/x"
fetched "a branch with a slash" "$old/Revs-Q8_0.gguf" hf:org/Revs:Q8_0@feature/x
is "$(cat "$HFCACHE/models--org--Revs/refs/feature/x")" "$C1" "as a file in a folder"
refused 1 "no such revision" gguf-fetch -q hf:org/Revs:Q8_0@nope

# -- what is not there, and what is not clear
repo org/Two
gguf "$R/One-Q4_K_M.gguf" 5000 3
gguf "$R/Other-Q4_K_M.gguf" 6000 4
fetch org/Two:Q4_K_M
is "$rc $(wc -c <out) $(grep -c 'One-Q4_K_M' err)$(grep -c 'Other-Q4_K_M' err)" \
    "1 0 11" "two that match: a list, and status 1"
grep -q '[56]\.[09] [kK]i\?B\|[56] kB\|[56]000' err
ok $? "with their sizes"
refused 1 "no such repository" gguf-fetch -q org/Nope:Q8_0
refused 1 "no such quant" gguf-fetch -q org/Tiny-GGUF:Q3_K_S
repo org/Empty
echo x >"$R/README.md"
refused 1 "no GGUF file" gguf-fetch -q org/Empty
refused 2 "no name" gguf-fetch -q
refused 2 "no such option" gguf-fetch -q --nope org/Tiny-GGUF
for name in 'hf:../../x:Q8_0' 'hf:org/..:Q8_0' 'hf:org' 'hf:org/a b' \
    'hf:org/Tiny-GGUF/../../x.gguf' 'ms:/etc/passwd' 'ollama:../../x:1' 'hf:'; do
	fetch "$name"
	is "$((rc == 1 || rc == 2)) $(wc -c <out) $(wc -l <err)" "1 0 1" \
	    "no name of a repository: $name"
done

# -- odd names, small files
repo org/Odd
gguf "$R/Ünï côde 100%25 &?#+=-Q8_0.gguf" 7000 5
gguf "$R/small-Q4_0.gguf" 300 6
: >"$R/none-Q2_K.gguf"
fetched "a name with blanks, signs and letters" \
    "$R/Ünï côde 100%25 &?#+=-Q8_0.gguf" org/Odd:Q8_0
fetched "its address, as a browser copies it" "$R/Ünï côde 100%25 &?#+=-Q8_0.gguf" \
    "https://huggingface.co/org/Odd/blob/main/%C3%9Cn%C3%AF%20c%C3%B4de%20100%2525%20%26%3F%23%2b%3D-Q8_0.gguf?x=1"
refused 1 "which leads out of its folder" gguf-fetch -q \
    "https://huggingface.co/org/Odd/blob/main/%2e%2e/x.gguf"
fetched "a small file, which git has itself" "$R/small-Q4_0.gguf" org/Odd:Q4_0
is "$(readlink "$(cat out)" | sed 's|.*/||' | tr -d '\n' | wc -c | tr -d ' ')" 40 \
    "by the hash that git has of it"
fetch org/Odd:Q2_K
is "$rc $(wc -c <out) $(wc -l <err)" "1 0 1" "a file of 0 bytes is no model"

# -- a repository with another name now
mkdir -p hubs/repos/org/Old
echo org/Tiny-GGUF >hubs/repos/org/Old/moved
fetched "a renamed repository" "$tiny/Tiny-Q8_0.gguf" org/Old:Q8_0

fetched "by that name, offline" "$tiny/Tiny-Q8_0.gguf" --offline org/Old:Q8_0

# -- where the cache is
forget
for v in HF_HUB_CACHE="$PWD/elsewhere" HF_HOME="$PWD/elsewhere" \
    XDG_CACHE_HOME="$PWD/elsewhere"; do
	env "$v" gguf-fetch org/Tiny-GGUF:Q8_0 >out 2>err
	is "$? $(cmp "$tiny/Tiny-Q8_0.gguf" "$(cat out)" 2>&1) $(ls home 2>/dev/null)" "0  " \
	    "${v%%=*}"
	env "$v" gguf-inspect org/Tiny-GGUF:Q8_0 | grep -q "$(cat out)"
	ok $? "a tool has it by its name"
	rm -rf elsewhere
done
env -u HOME gguf-fetch -q org/Tiny-GGUF:Q8_0 >out 2>err
is "$((0 < $?)) $(wc -c <out) $(wc -l <err)" "1 0 1" "no HOME: $(cat err)"
for t in "gguf-fetch --list" "gguf-fetch --dry-run" gguf-fetch; do
	$t -q org/Tiny-GGUF:Q8_0 >/dev/full 2>err
	is "$? $(wc -l <err)" "1 1" "a full device: $t"
done
if command -v setpriv >/dev/null && [ "$(id -u)" = 0 ]; then
	mkdir -p home
	refused 1 "a home that may not be written" setpriv --reuid=65534 \
	    --regid=65534 --clear-groups "$(command -v gguf-fetch)" -q \
	    org/Tiny-GGUF:Q4_K_M
fi

# -- --to
forget
mkdir models
fetched "--to" "$tiny/Tiny-Q8_0.gguf" --to models org/Tiny-GGUF:Q8_0
is "$(cat out) $(find models home -type f 2>/dev/null | sort | xargs)" \
    "models/Tiny-Q8_0.gguf models/Tiny-Q8_0.gguf" "a plain file, and no cache"
: >hubs/log
fetched "--to, once more" "$tiny/Tiny-Q8_0.gguf" --to models org/Tiny-GGUF:Q8_0
is "$(asked cdn)" 0 "no byte of it comes twice"
fetch --to models org/Tiny-GGUF:UD-Q4_K_XL
is "$rc $(find models -name '*-of-00003.gguf' | wc -l)" "0 3" "--to: all parts"
mkfifo models/Tiny-Q4_K_M.gguf
fetch --to models org/Tiny-GGUF:Q4_K_M
is "$rc $(wc -l <err)" "1 1" "--to: a FIFO is another file"
rm models/Tiny-Q4_K_M.gguf
refused 1 "--to, no such folder" gguf-fetch -q --to /proc/nope org/Tiny-GGUF:Q8_0

# -- --verify
forget
refused 1 "--verify of what is not there" gguf-fetch -q --verify org/Tiny-GGUF:Q8_0
fetched "a file to verify" "$tiny/Tiny-Q8_0.gguf" org/Tiny-GGUF:Q8_0
blob=$(readlink -f "$(cat out)")
: >hubs/log
fetched "--verify of a right one" "$tiny/Tiny-Q8_0.gguf" --verify org/Tiny-GGUF:Q8_0
is "$(asked cdn)" 0 "fetches nothing"
: >hubs/log
fetched "--verify --offline" "$tiny/Tiny-Q8_0.gguf" --verify --offline \
    org/Tiny-GGUF:Q8_0
is "$(asked '')" 0 "asks nothing"
printf X | dd of="$blob" bs=1 seek=70000 conv=notrunc 2>/dev/null
gguf-fetch org/Tiny-GGUF:Q8_0 >out 2>err
is "$?" 0 "without it, name and size are believed"
for o in "--verify --offline" --verify; do
	# shellcheck disable=SC2086
	refused 1 "$o of a wrong one" gguf-fetch $o org/Tiny-GGUF:Q8_0
	is "$(grep -c Q8_0 err)" 1 "names the file"
done
fetch --to models org/Tiny-GGUF:Q8_0
fetched "--verify --to" "$tiny/Tiny-Q8_0.gguf" --verify --to models org/Tiny-GGUF:Q8_0
printf X | dd of=models/Tiny-Q8_0.gguf bs=1 seek=70000 conv=notrunc 2>/dev/null
refused 1 "--verify --to of a wrong one" gguf-fetch --verify --to models \
    org/Tiny-GGUF:Q8_0

# -- the token
hub_token() {	# NAME WANT: what the hub was sent, and that the CDN was not
	is "$rc $(sed -n 's/^hub .* Authorization:\([^ ]*\).*/\1/p' hubs/log |
	    sort -u) $(grep -c '^cdn .*Authorization' hubs/log) $(
	    grep -c hf_ out err | xargs)" "0 $2 0 out:0 err:0" "$1"
	forget
	unset HF_TOKEN HUGGING_FACE_HUB_TOKEN HF_TOKEN_PATH
}
forget
fetch org/Tiny-GGUF:Q4_K_M
hub_token "no token" ""
HF_TOKEN=hf_one HUGGING_FACE_HUB_TOKEN=hf_two; export HF_TOKEN HUGGING_FACE_HUB_TOKEN
fetch org/Tiny-GGUF:Q4_K_M
hub_token "HF_TOKEN" Bearer_hf_one
HUGGING_FACE_HUB_TOKEN=hf_two; export HUGGING_FACE_HUB_TOKEN
fetch org/Tiny-GGUF:Q4_K_M
hub_token "HUGGING_FACE_HUB_TOKEN" Bearer_hf_two
printf ' hf_three\n\n' >token
HF_TOKEN_PATH=$PWD/token; export HF_TOKEN_PATH
fetch org/Tiny-GGUF:Q4_K_M
hub_token "the file HF_TOKEN_PATH, trimmed" Bearer_hf_three
mkdir -p home/.cache/huggingface
echo hf_four >home/.cache/huggingface/token
fetch org/Tiny-GGUF:Q4_K_M
hub_token "the file of huggingface_hub" Bearer_hf_four
repo org/Gated
gguf "$R/Gated-Q8_0.gguf" 4000 7
printf hf_good >"$R/../gated"
refused 1 "terms to accept" gguf-fetch -q org/Gated:Q8_0
is "$(grep -c "$HUB/org/Gated.*HF_TOKEN\|HF_TOKEN.*$HUB/org/Gated" err)" 1 \
    "with the address, and what to set"
fetch --list org/Gated
is "$rc $(grep -c Gated-Q8_0 out)" "0 1" "--list: the files, which all may see"
HF_TOKEN=hf_other; export HF_TOKEN
refused 1 "terms that this token has not accepted" gguf-fetch -q org/Gated:Q8_0
HF_TOKEN=hf_good
fetched "terms that are accepted" "$R/Gated-Q8_0.gguf" org/Gated:Q8_0
unset HF_TOKEN
refused 1 "a private repository" sh -c 'printf hf_good >hubs/repos/org/Gated/private
    gguf-fetch -q org/Gated:Q8_0'

# -- other endpoints
for e in "$HUB/" "$HUB/mirror" "$HUB/mirror/"; do
	forget
	HF_ENDPOINT=$e
	fetched "HF_ENDPOINT=https://localhost:PORT${e#"$HUB"}" \
	    "$tiny/Tiny-Q8_0.gguf" org/Tiny-GGUF:Q8_0
	[ "$e" = "$HUB/" ] ||
		is "$(asked "hub GET /api")" 0 "nothing outside of its path"
done
HF_ENDPOINT=https://me:secret@localhost
fetch org/Tiny-GGUF:Q8_0
is "$rc $(wc -l <err) $(grep -c secret err)" "1 1 0" "a password in HF_ENDPOINT is not printed"
HF_ENDPOINT=$HUB
forget
mkdir tmpdir
rules "*cdn:GET* stall 1000"
TMPDIR=$PWD/tmpdir gguf-fetch --list org/Tiny-GGUF >out 2>err &
tap_pid=$!
until [ "$(asked "cdn GET")" != 0 ] || ! kill -0 $tap_pid; do
	sleep 0.05
done
kill $tap_pid
wait $tap_pid
is "$? $(ls tmpdir)" "143 " "a signal while a head is fetched leaves nothing in TMPDIR"
forget
https_proxy=$PLAIN HF_TOKEN=hf_one; export https_proxy HF_TOKEN
fetched "a proxy" "$tiny/Tiny-Q8_0.gguf" org/Tiny-GGUF:Q8_0
[ "$(asked "plain CONNECT ${HUB#https://}")" != 0 ]
ok $? "is used"
is "$(grep '^plain' hubs/log | grep -c hf_one)" 0 "and is not sent the token"
unset https_proxy HF_TOKEN

# -- ModelScope
forget
MODELSCOPE_API_TOKEN=ms_one; export MODELSCOPE_API_TOKEN
fetched "ms:" "$tiny/Tiny-Q8_0.gguf" ms:org/Tiny-GGUF:Q8_0
unset MODELSCOPE_API_TOKEN
is "$(cat out)" \
    "$HOME/.cache/modelscope/models/org--Tiny-GGUF/snapshots/master/Tiny-Q8_0.gguf" \
    "in ModelScope's layout"
is "$(grep '^hub' hubs/log | grep -c 'Authorization:Bearer_ms_one') $(
    grep '^hub' hubs/log | grep -c 'Cookie:m_session_id=ms_one') $(
    grep '^cdn' hubs/log | grep -c ms_one)" \
    "$(asked hub) $(asked hub) 0" "its token goes to it alone, both ways"
: >hubs/log
fetched "ms:, once more" "$tiny/Tiny-Q8_0.gguf" --offline ms:org/Tiny-GGUF:Q8_0
is "$(asked '')" 0 "asks nothing"
fetched "ms:, a path" "$tiny/Tiny-Q4_K_M.gguf" ms:org/Tiny-GGUF/Tiny-Q4_K_M.gguf
refused 1 "ms:, no such repository" gguf-fetch -q ms:org/Nope:Q8_0
# a listing that ends at 3000 entries, and more in the folders
repo org/Many
mkdir "$R/a" "$R/z"
echo x >"$R/a/x"
gguf "$R/z/Many-Q8_0.gguf" 4000 8
{
	printf '{"Code":200,"Success":true,"Data":{"Files":['
	printf '{"Type":"tree","Path":"%s","Size":0},' a z
	seq 2998 | sed 's|.*|{"Type":"blob","Path":"a/&","Size":0,"Sha256":""},|
	    $s|,$|]}}|'
} >hubs/many
rules "hub:GET:/api/v1/models/org/Many/repo/files[?]Revision=master&Recursive=True body many"
fetched "ms:, more files than its listing holds" "$R/z/Many-Q8_0.gguf" \
    ms:org/Many:Q8_0
forget
fetched "ms:, the same with all of them" "$R/z/Many-Q8_0.gguf" ms:org/Many:Q8_0

# -- Ollama
forget
O=hubs/ollama/library/tiny/1b
mkdir -p $O
cp "$tiny/Tiny-Q8_0.gguf" $O/model
echo '{"stop":["x"]}' >$O/params
at=${HUB#https://}
fetched "ollama:" $O/model "ollama:$at/library/tiny:1b"
blobs=$HOME/.ollama/models/blobs
is "$(cat out)" "$blobs/sha256-$(sha256sum <$O/model | cut -c1-64)" \
    "in Ollama's layout"
curl -s --cacert hubs/ca.pem "$HUB/v2/library/tiny/manifests/1b" |
    cmp -s - "$HOME/.ollama/models/manifests/$at/library/tiny/1b"
ok $? "the manifest as it is there"
bad=0
for d in $(grep -o 'sha256:[0-9a-f]*' \
    "$HOME/.ollama/models/manifests/$at/library/tiny/1b"); do
	[ "$(sha256sum <"$blobs/sha256-${d#*:}" | cut -c1-64)" = "${d#*:}" ] || bad=1
done
is "$bad $(find "$blobs" -type f | wc -l)" "0 3" "every layer, as Ollama needs them"
: >hubs/log
fetched "ollama:, once more" $O/model --offline "ollama:$at/library/tiny:1b"
is "$(asked '')" 0 "asks nothing"
refused 1 "ollama:, no such tag" gguf-fetch -q "ollama:$at/library/tiny:2b"

# -- what is on this machine
fetch --local
is "$rc $(grep -c tiny out)" "0 1" "--local: what Ollama has"
done_testing
