#!/bin/sh
# gguf-fetch with servers, networks and files that have one fault each (hubs.py
# makes them).  In every case the model's file is right or absent, no other file
# changes, the token goes to the endpoint alone, and an error is one line.  The
# cases run in parallel, each with its own home and repository.
. "$TOP/tests/cli/tap.sh"
. "$TOP/tests/cli/hubs.sh"
start_hubs
repo tiny/Tiny
gguf "$R/Tiny-Q8_0.gguf" 80000 1
for n in 1 2 3; do
	gguf "$R/Split-F16-0000$n-of-00003.gguf" 2000$n 2$n
done
tiny=$R
whole=$R/Tiny-Q8_0.gguf
sum=$(sha256sum <"$whole" | cut -c1-64)
mkdir -p hubs/repos/org outside
at=${HUB#https://}
echo secret >outside/file
HF_TOKEN=hf_secret MODELSCOPE_API_TOKEN=hf_secret
export HF_TOKEN MODELSCOPE_API_TOKEN
curl -s --cacert hubs/ca.pem "$HUB/api/models/tiny/Tiny/tree/$C1" >hubs/listing

n_runs=0
# danger NAME RULE...: a repository org/NAME with the files above, and its rules,
# in which @ is the name, and @cdn what is asked of the CDN for it
danger() {
	name=$1
	shift
	mkdir -p "$name/home/.cache" hubs/repos/org/"$name"
	cp -r "$tiny" hubs/repos/org/"$name"/$C1
	for r; do
		printf '%s\n' "$r" | sed "s|@cdn|cdn:GET:/org/$name/*|
		    s|@|$name|g" >>hubs/rules
	done
	cases="$cases $name"
}
# run NAME [ARG...]: gguf-fetch ARG..., there, and in the background; the
# environment has $settings too
run() {
	(
	cd "$1" || exit
	HOME=$PWD/home
	[ $# -gt 1 ] || set -- "$1" "org/$1:Q8_0"
	shift
	# shellcheck disable=SC2086
	timeout 60 env $settings gguf-fetch -q --retry-delay 0 --stall 2 "$@" >out 2>err </dev/null
	echo $? >rc
	) &
	runs="$runs$! " settings= n_runs=$((n_runs + 1))
	# 20 at a time
	if [ $n_runs -gt 20 ]; then
		wait "${runs%% *}"
		runs=${runs#* }
	fi
}
# right NAME: it has ended well, with the right bytes
right() {
	is "status $(cat "$1/rc"), $(wc -l <"$1/out") lines, $(
	    cmp "$whole" "$(cat "$1/out")" 2>&1) $(cat "$1/err" | grep -v '%')" \
	    "status 0, 1 lines,  " "$2"
}
# wrong NAME REGEX WHAT: it has ended with a line of this kind, and no file
wrong() {
	is "status $(cat "$1/rc"), $(wc -c <"$1/out") bytes, $(wc -l <"$1/err") line, $(
	    find "$1/home" -path '*/snapshots/*' ! -type d ! -name '*.incomplete' |
	    wc -l) files" \
	    "status 1, 0 bytes, 1 line, 0 files" \
	    "$3: $(head -n 1 "$1/err" | cut -c1-110)"
	grep -q "$2" "$1/err" || {
		is "$(cat "$1/err")" "/$2/" "$3: the line says it"
	}
}
# either NAME WHAT: one of these
either() {
	if [ "$(cat "$1/rc")" = 0 ]; then
		right "$@"
	else
		wrong "$1" . "$2"
	fi
}
H() {	# NAME: its repository in the cache
	echo "$1/home/.cache/huggingface/hub/models--org--$1"
}

# -- listings that name files elsewhere, or hashes that are none
evil() {	# NAME PATH: a listing with this path, as JSON has it
	sed "s|Tiny-Q8_0.gguf|$2|g" hubs/listing >"hubs/$1.json"
	danger "$1" "hub:*:/api/models/org/@/tree/* body @.json"
	run "$1"
}
evil up '../../../../../../outside/up-Q8_0.gguf'
evil inner 'a/../../../../../../../outside/inner-Q8_0.gguf'
evil absolute "$PWD/outside/absolute-Q8_0.gguf"
evil empty-part 'a//b-Q8_0.gguf'
evil dot './b-Q8_0.gguf'
evil nul 'b\\u0000-Q8_0.gguf'
evil line 'b\\n-Q8_0.gguf'
evil escape 'b\\u001b[2J-Q8_0.gguf'
evil surrogate 'b\\ud800-Q8_0.gguf'
evil long "$(printf '%0300d' 0)-Q8_0.gguf"
oid() {	# NAME OID: a listing with this hash
	sed "s|$sum|$2|g" hubs/listing >"hubs/$1.json"
	danger "$1" "hub:*:/api/models/org/@/tree/* body @.json" \
	    "hub:*:/org/@/resolve/* header X-Linked-Etag:\"$2\""
	run "$1"
}
oid oid-path '../../../../../../../outside/oid'
oid oid-short 0123456789abcdef
oid oid-letters "$(printf '%064d' 0 | tr 0 g)"
oid oid-empty ''
danger etag "hub:*:/org/@/resolve/* header X-Linked-Etag:\"../../../../../../outside/etag\""
run etag
danger commit "hub:*:/api/models/org/@/r* body @.json" \
    "hub:*:/org/@/resolve/* header X-Repo-Commit:../../../../../outside/commit"
echo '{"sha":"../../../../../outside/commit","siblings":[],"branches":[{"name":"main","ref":"refs/heads/main","targetCommit":"../../../../../outside/commit"}],"tags":[]}' \
    >hubs/commit.json
run commit
sed 's/80000/-1/g' hubs/listing >hubs/negative.json
danger negative "hub:*:/api/models/org/@/tree/* body @.json"
run negative
sed 's/80000/1e30/g' hubs/listing >hubs/float.json
danger float "hub:*:/api/models/org/@/tree/* body @.json"
run float
for what in 'no-json:<html>' 'cut-json:[{"path":' 'null:null' 'strings:["a"]' \
    "nested:$(printf '[%.0s' $(seq 20000))" 'nothing:' 'errors:{"error":"x"}'; do
	printf '%s' "${what#*:}" >"hubs/${what%%:*}.json"
	danger "${what%%:*}" "hub:*:/api/models/org/@/tree/* body @.json"
	run "${what%%:*}"
done
danger loop "hub:*:/api/models/org/@/tree/* header Link:<$HUB/api/models/org/@/tree/$C1?recursive=true&cursor=0>; rel=\"next\""
run loop
danger next "hub:*:/api/models/org/@/tree/* header Link:<$CDN/api/models/org/@/tree/x>; rel=\"next\""
run next
danger next-plain "hub:*:/api/models/org/@/tree/* header Link:<$PLAIN/api/models/org/@/tree/x>; rel=\"next\""
run next-plain

# -- other places
danger to-http "hub:*:/org/@/resolve/* redirect $PLAIN/@"
run to-http
danger to-http-api "hub:*:/api/models/org/@/* redirect $PLAIN/@"
run to-http-api
danger to-link-local "hub:*:/org/@/resolve/* redirect http://169.254.169.254/latest/meta-data/"
run to-link-local
danger to-file "hub:*:/org/@/resolve/* redirect file://$whole"
run to-file
danger to-file-api "hub:*:/api/models/org/@/* redirect file://$PWD/hubs/listing"
run to-file-api
danger to-ftp "hub:*:/org/@/resolve/* redirect ftp://127.0.0.1/x"
run to-ftp
danger in-circles "hub:*:/org/@/resolve/* redirect /org/@/resolve/main/Tiny-Q8_0.gguf"
run in-circles
danger to-cdn-api "hub:*:/api/models/org/@/* redirect $CDN/api/@"
run to-cdn-api
danger to-user
echo "hub:*:/org/to-user/resolve/* redirect https://$at@${CDN#https://}/org/to-user/$sum" \
    >>hubs/rules
run to-user
danger to-port "hub:*:/org/@/resolve/* redirect https://localhost:${CDN##*:}/org/@/$sum"
run to-port
danger to-slashes "hub:*:/org/@/resolve/* redirect //${CDN#https://}/org/@/$sum"
run to-slashes
danger to-untrusted "hub:*:/org/@/resolve/* redirect $UNTRUSTED/org/@/resolve/$C1/Tiny-Q8_0.gguf"
run to-untrusted
for e in UNTRUSTED MISNAMED PLAIN; do
	eval "url=\$$e"
	danger "at-$e"
	settings=HF_ENDPOINT=$url
	run "at-$e"
	danger "ms-$e"
	settings=MODELSCOPE_ENDPOINT=$url
	run "ms-$e" "ms:org/ms-$e:Q8_0"
done
danger no-server
settings=HF_ENDPOINT=https://127.0.0.1:9
run no-server
danger header
printf 'hf_a\r\nX-Evil: 1\n' >header/token
settings="HF_TOKEN= HF_TOKEN_PATH=$PWD/header/token"
run header
danger message "hub:*:/org/@/resolve/* status 403 X-Error-Message:a$(printf '\033')[2Jb"
run message

# -- bodies
danger flip "@cdn flip 70000"
run flip
danger short "@cdn size 79999"
run short
danger longer "@cdn size 80001"
run longer
danger zeros "@cdn size 0"
run zeros
danger html "@cdn body @.json"
echo '<html>log in' >hubs/html.json
run html
danger nolength "@cdn nolength"
run nolength
danger short-nolength "@cdn nolength" "@cdn size 79999"
run short-nolength
danger longer-nolength "@cdn nolength" "@cdn size 200000"
run longer-nolength
danger gzip "@cdn gzip"
run gzip
danger cut "1*@cdn cut 30000"
run cut
danger cut-again "@cdn cut 30000"
run cut-again
danger cut-at-0 "@cdn cut 0"
run cut-at-0
danger stall "1*@cdn stall 30000"
run stall
danger norange "1*@cdn cut 30000" "@cdn norange"
run norange
danger total "1*@cdn cut 30000" "1*@cdn norange" "@cdn header Content-Range:bytes 30000-79999/90000"
run total
danger part-unasked "@cdn header Content-Range:bytes 100-79999/80000" "@cdn shift 100"
run part-unasked
danger status-206 "1*@cdn cut 30000" "@cdn header Content-Range:bytes x"
run status-206
danger shift "1*@cdn cut 30000" "@cdn shift 100"
run shift
danger refused "1*@cdn status 403"
run refused
danger busy "1*@cdn status 503" "1*hub:*:/api/models/org/@/* status 503"
run busy
danger wait "1*hub:*:/api/models/org/@/* status 429 Retry-After:1"
run wait
danger down "hub:*:/api/models/org/@/* status 500"
run down
danger forever "hub:*:/api/models/org/@/* status 429 Retry-After:99999999"
run forever

# -- what changes meanwhile
danger renamed "1*@cdn sh mv repos/org/@ repos/org/@-2; mkdir repos/org/@; echo org/@-2 >repos/org/@/moved" \
    "1*@cdn cut 30000"
run renamed
danger moving "1*@cdn sh printf $C2 >repos/org/@/refs/main"
mkdir hubs/repos/org/moving/$C2 hubs/repos/org/moving/refs
printf $C1 >hubs/repos/org/moving/refs/main
for n in 1 2 3; do
	gguf "hubs/repos/org/moving/$C2/Split-F16-0000$n-of-00003.gguf" 2000$n 3$n
done
run moving org/moving:F16
danger gone "1*@cdn cut 30000" "1*@cdn sh rm -r repos/org/@/$C1"
run gone

# -- what is on the disk
partial() {	# NAME FILE: a partial file that was left
	mkdir -p "$(H "$1")/blobs"
	cp "$2" "$(H "$1")/blobs/$sum.incomplete"
}
danger part-right
head -c 50000 "$whole" >half
partial part-right half
run part-right
danger part-wrong
tr 'A-M' 'N-Z' <half >half-wrong
partial part-wrong half-wrong
run part-wrong
danger part-whole
partial part-whole "$whole"
run part-whole
danger part-longer
cat "$whole" half >longer-half
partial part-longer longer-half
run part-longer
danger part-link
mkdir -p "$(H part-link)/blobs"
ln -s "$PWD/outside/file" "$(H part-link)/blobs/$sum.incomplete"
run part-link
danger part-fifo
mkdir -p "$(H part-fifo)/blobs"
mkfifo "$(H part-fifo)/blobs/$sum.incomplete"
run part-fifo
danger part-folder
mkdir -p "$(H part-folder)/blobs/$sum.incomplete"
run part-folder
danger blob-link
mkdir -p "$(H blob-link)/blobs"
ln -s "$PWD/outside/blob-link" "$(H blob-link)/blobs/$sum"
run blob-link
danger blob-size
mkdir -p "$(H blob-size)/blobs"
cp half "$(H blob-size)/blobs/$sum"
run blob-size
danger shared	# as huggingface_hub 2.4 stores blobs
hf=shared/home/.cache/huggingface/hub
mkdir -p "$(H shared)/blobs" "$hf/blobs/ab"
: >"$hf/blobs/.huggingface-shared-blobs"
cp "$whole" "$hf/blobs/ab/$sum"
ln -s "../../blobs/ab/$sum" "$(H shared)/blobs/$sum"
run shared
danger path-link	# a link in place of the model's
mkdir -p "$(H path-link)/snapshots/$C1"
ln -s "$PWD/outside/file" "$(H path-link)/snapshots/$C1/Tiny-Q8_0.gguf"
run path-link
danger no-link	# the blob of a run that was killed before the link
mkdir -p "$(H no-link)/blobs"
cp "$whole" "$(H no-link)/blobs/$sum"
run no-link
danger to-there
mkdir to-there/to
cp half to-there/to/Tiny-Q8_0.gguf
run to-there --to to org/to-there:Q8_0
danger to-out
mkdir to-out/to
ln -s "$PWD/outside/file" to-out/to/Tiny-Q8_0.gguf
run to-out --to to org/to-out:Q8_0
danger to-link
mkdir to-link/to
ln -s "$PWD/outside/file" to-link/to/Tiny-Q8_0.gguf.incomplete
run to-link --to to org/to-link:Q8_0
danger cache-file
echo >cache-file/home/.cache/huggingface
run cache-file

# -- ModelScope and Ollama
ms() {	# NAME RULE...
	danger "$@"
	run "$1" "ms:org/$1:Q8_0"
}
ms_listing='hub:*:/api/v1/models/org/@/repo/files*'
curl -s --cacert hubs/ca.pem "$HUB/api/v1/models/tiny/Tiny/repo/files" >hubs/ms
sed 's|"Path": "Tiny|"Path": "../../../../../../../outside/Tiny|' hubs/ms >hubs/ms-up.json
ms ms-up "$ms_listing body @.json"
sed "s|$sum|$(printf '%064d' 1)|" hubs/ms >hubs/ms-sum.json
ms ms-sum "$ms_listing body @.json"
echo '{"Code":10010205001,"Success":false,"Message":"no","Data":null}' >hubs/ms-no.json
ms ms-no "$ms_listing body @.json"
ms ms-flip "@cdn flip 70000"
ms ms-norange "1*@cdn cut 30000" "@cdn norange"
ms ms-shift "1*@cdn cut 30000" "@cdn shift 100"
ms ms-http "hub:*:/api/v1/models/org/@/repo[?]* redirect $PLAIN/@" \
    "hub:*:/models/org/@/resolve/* redirect $PLAIN/@"
mkdir -p hubs/ollama/org
ollama() {	# NAME RULE...
	mkdir -p "hubs/ollama/org/$1/1b"
	cp "$whole" "hubs/ollama/org/$1/1b/model"
	danger "$@"
	run "$1" "ollama:$at/org/$1:1b"
}
manifest() {	# NAME DIGEST SIZE TYPE
	printf '{"schemaVersion":2,"config":{"mediaType":"x","digest":"sha256:%s","size":23},"layers":[{"mediaType":"application/vnd.ollama.image.%s","digest":"%s","size":%s}]}' \
	    "$(sha256sum <hubs/config.json | cut -c1-64)" "$4" "$2" "$3" >"hubs/$1.json"
	ollama "$1" "hub:*:/v2/org/@/manifests/* body @.json"
}
manifest ol-path "sha256:../../../../../outside/ol" 80000 model
manifest ol-md5 "md5:0123" 80000 model
manifest ol-size "sha256:$sum" 80001 model
manifest ol-mlx "sha256:$sum" 80000 image.tensor
ollama ol-flip "@cdn flip 70000" "cdn:GET:/org/@/$sum* flip 70000"
ollama ol-http "hub:*:/v2/org/@/blobs/* redirect $PLAIN/@"

# -- any of these, at any request
echo '{"some":"thing"}' >hubs/chaos.json
chaos() {	# I: from ModelScope every third time
	if [ $(($1 % 3)) = 0 ]; then
		run "chaos-$1" "ms:org/chaos-$1:F16"
	else
		run "chaos-$1" "org/chaos-$1:F16"
	fi
}
n_chaos=${QPIPE_LONG:+200}
n_chaos=${n_chaos:-25}
for i in $(seq "$n_chaos"); do
	danger chaos-$i "*:*:*/@/* chaos $SEED-$i"
	chaos $i
done

# -- how they ended
# shellcheck disable=SC2086
for p in $runs; do
	wait "$p"
done
for c in up inner absolute empty-part dot nul line escape; do
	wrong $c . "a path in a listing: $c"
done
either surrogate "a path in a listing: half a character"
wrong long . "a path in a listing: 300 letters"
for c in oid-path oid-short oid-letters oid-empty; do
	wrong $c . "a hash in a listing: $c"
done
either etag "a hash in a header is a path"
wrong commit . "a commit is a path"
for c in negative float no-json cut-json null strings nested nothing errors; do
	wrong $c . "a listing: $c"
done
either loop "a listing whose next page is the first one"
[ "$(asked 'hub GET /api/models/org/loop/tree')" -lt 1200 ]
ok $? "which is not asked for ever"
either next "a listing whose next page is on another host"
either next-plain "a listing whose next page is without TLS"
for c in to-http to-http-api to-link-local to-file to-file-api to-ftp to-untrusted; do
	wrong $c . "sent to another place: $c"
done
either to-user "sent to another host, by an address that begins as the hub's"
for c in to-port to-slashes; do
	right $c "sent to another server: $c"
done
wrong in-circles . "sent in circles"
[ "$(asked 'hub GET /org/in-circles')" -lt 60 ]
ok $? "not for ever"
either to-cdn-api "a listing on another host"
for c in at-UNTRUSTED at-MISNAMED ms-UNTRUSTED ms-MISNAMED; do
	wrong $c '[Cc]ertificate\|SSL' "a certificate: $c"
done
for c in at-PLAIN ms-PLAIN; do
	wrong $c 'https' "an endpoint without TLS: $c"
done
wrong no-server . "no server listens"
is "$(asked plain)" 0 "nothing is asked without TLS"
is "$(grep -v '^hub' hubs/log | grep -c 'hf_secret')" 0 "the token goes to the endpoint alone"
is "$(grep -c 'X-Evil' hubs/log)" 0 "a token with two lines adds no header"
wrong message . "a message from the server"
is "$(cat ./*/err | tr -d '\n\t -~' | LC_ALL=C tr -d '\200-\377' | wc -c | tr -d ' ')" 0 \
    "no control character reaches the terminal"
is "$(cat ./*/err ./*/out | grep -c hf_secret)" 0 "the token is not shown"
wrong flip 'sha256\|hash\|checksum' "a bit is wrong"
right nolength "the body: its length is not told"
for c in flip short longer zeros html short-nolength longer-nolength; do
	[ $c = flip ] || wrong $c . "the body: $c"
	is "$(find $c/home -name "$sum" | wc -l)" 0 "no blob: $c"
done
is "$(find flip/home -name '*.incomplete')" "" "what is wrong is removed"
either gzip "the body is compressed, though the request forbids it"
right cut "a connection that ends early is resumed"
is "$(grep '^cdn.*/org/cut/' hubs/log | grep -c Range:bytes=30000-)" 1 "where it was"
is "$(grep '^cdn.*/org/cut/' hubs/log | sed 's/.*Signature=//; s/ .*//' | sort -u | wc -l | tr -d ' ')" 2 \
    "by an address of its own"
right cut-again "two of them"
wrong cut-at-0 . "all of them, at once"
right stall "a server that is silent is asked again"
right norange "the whole file for a range"
for c in total part-unasked status-206; do
	either $c "a Content-Range that is wrong: $c"
done
either shift "another range"
right refused "an address that is too old"
right busy "503, once"
right wait "429 with Retry-After"
wrong down 500 "500, always"
wrong forever 429 "429, for three years"
either renamed "a repository renamed meanwhile"
is "$(cat moving/rc) $(cd moving/home/.cache/huggingface/hub/*/snapshots/$C1 &&
    for n in 1 2 3; do
	f=Split-F16-0000$n-of-00003.gguf
	cmp "$f" "$tiny/$f" && printf 'right '
    done)" "0 right right right " "a branch that moves: all parts are of one commit"
either gone "a file that is gone meanwhile"
right part-right "half a file is there"
is "$(grep '^cdn.*/org/part-right/' hubs/log | grep -c Range:bytes=50000-)" 1 "the rest is asked for"
either part-wrong "half a file is there, and wrong"
right part-whole "a partial file that is whole"
is "$(asked 'cdn GET /org/part-whole')" 0 "nothing is asked for"
right part-longer "a partial file that is too long"
for c in part-link part-fifo part-folder; do
	either $c "in place of a partial file: $c"
done
either blob-link "a blob that is a link to elsewhere"
right blob-size "a blob of another size"
right shared "a blob that is a link to the shared ones"
is "$(asked 'cdn GET /org/shared')" 0 "is used"
right path-link "a link to elsewhere in place of the model's"
right no-link "a blob without a link to it"
is "$(asked 'cdn GET /org/no-link')" 0 "nothing comes twice"
is "$(cat to-there/rc) $(wc -c <to-there/out) $(wc -l <to-there/err) $(
    cmp half to-there/to/Tiny-Q8_0.gguf)" "1 0 1 " "--to: another file of this name stays"
is "$(cat to-out/rc) $(wc -c <to-out/out) $(wc -l <to-out/err)" "1 0 1" \
    "--to: a link to another file of this name"
either to-link "in place of a partial file in --to: a link"
wrong cache-file . "a file where the cache would be"
for c in ms-up ms-sum ms-no ms-flip ms-http; do
	wrong $c . "ModelScope: $c"
done
right ms-norange "ModelScope: the whole file for a range"
either ms-shift "ModelScope: another range"
for c in ol-path ol-md5 ol-size ol-flip ol-http; do
	wrong $c . "Ollama: $c"
done
wrong ol-mlx 'GGUF' "Ollama: a model of another kind"
# parts NAME: how it ended; of parts that are there, those that are wrong
parts() {
	echo "$1: $(cat "$1/rc")" "$(wc -l <"$1/out")" "$(wc -l <"$1/err")" \
	    "$(find "$1/home" -path '*/snapshots/*.gguf' | wc -l)" \
	    "$(find "$1/home" -path '*/snapshots/*.gguf' | while read -r f; do
		cmp "$f" "$tiny/${f##*/}" 2>&1
	    done)"
}
for i in $(seq "$n_chaos"); do
	parts chaos-$i
done >ended
is "$(grep -v ': 0 1 0 3 $\|: 1 0 1 [0-3] $' ended)" "" \
    "at random: $(grep -c ': 0 1' ended) have all parts, $(grep -c ': 1 0' ended) end with a line"

# -- without rules, what failed is got by the same command
: >hubs/rules
runs='' n_runs=0
again="flip short longer zeros html gzip cut-at-0 shift down forever no-json to-http
    in-circles etag up message ms-flip ms-shift ms-http ms-up"
for c in $again; do
	case $c in
	ms-*) run $c "ms:org/$c:Q8_0" ;;
	*) run $c ;;
	esac
done
for i in $(seq "$n_chaos"); do
	chaos $i
done
# shellcheck disable=SC2086
for p in $runs; do
	wait "$p"
done
for c in $again; do
	right $c "and then: $c"
done
for i in $(seq "$n_chaos"); do
	parts chaos-$i
done >ended
is "$(grep -v ': 0 1 0 3 $' ended)" "" "and then: what failed at random"
is "$(find outside | sort | xargs) $(cat outside/file)" "outside outside/file secret" \
    "nothing is written elsewhere"
is "$(find . -path ./hubs -prune -o -path './to-[to][hu]*' -prune -o -name '*-Q8_0.gguf' -print | while read -r f; do
	cmp -s "$whole" "$f" || echo "$f"
    done)" "" "every file that is there is right"
is "$(for c in $cases; do
	[ "$(cat "$c/rc")" != 124 ] || echo "$c"
    done)" "" "all have ended"
done_testing
