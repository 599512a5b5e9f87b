# hubs.sh - hubs for a test: . "$TOP/tests/cli/hubs.sh", after tap.sh
#   start_hubs        starts hubs.py, which serves the folder hubs until the test
#                     ends; sets HUB, CDN, PLAIN, UNTRUSTED, MISNAMED and the
#                     environment of gguf-fetch, with the folder home as HOME; at
#                     the end of the test, removes the folder W if that is set
#   repo NAME [DIGIT] makes a repository with one commit, 40 times DIGIT (1); R is
#                     the commit's folder
#   gguf FILE N SEED  writes a GGUF file of N bytes without tensors
#   rules LINE...     replaces the rules of hubs.py
#   forget            empties the home, the log and the rules
#   asked TEXT        prints how many lines of the log begin with TEXT, as in
#                     "cdn GET /org"
#   fetch ARG...      runs gguf-fetch: stdout in out, stderr in err, status in rc
#   fetched NAME WANT ARG...
#                     runs gguf-fetch; passes if it prints one path, of a file with
#                     the bytes of WANT
needs "gguf-fetch" openssl python3 curl
if HF_ENDPOINT=https://127.0.0.1:9 gguf-fetch --retries 0 x/y 2>&1 |
    grep -q 'without libcurl'; then
	skip "gguf-fetch" "no libcurl"
	done_testing
fi
unset HF_HOME HF_HUB_CACHE HUGGINGFACE_HUB_CACHE HF_TOKEN HF_TOKEN_PATH \
    HUGGING_FACE_HUB_TOKEN HF_HUB_OFFLINE MODEL_ENDPOINT LLAMA_CACHE \
    MODELSCOPE_CACHE MODELSCOPE_API_TOKEN OLLAMA_MODELS OLLAMA_HOST \
    QWEN_MODELS XDG_CACHE_HOME XDG_CONFIG_HOME XDG_DATA_HOME SSL_CERT_DIR \
    http_proxy https_proxy all_proxy no_proxy HTTPS_PROXY ALL_PROXY NO_PROXY
W=
C1=1111111111111111111111111111111111111111
C2=2222222222222222222222222222222222222222

start_hubs() {
	HOME=$PWD/home; export HOME
	HFCACHE=$HOME/.cache/huggingface/hub
	mkdir -p hubs/repos "$HOME"
	PYTHONDONTWRITEBYTECODE=1 python3 "$TOP/tests/cli/hubs.py" hubs \
	    2>hubs.err &
	hubs=$!
	trap 'kill $hubs; [ -z "$W" ] || rm -rf "$W"' EXIT
	until [ -e hubs/addresses ]; do
		if ! kill -0 $hubs; then
			cat hubs.err >&2
			exit 1
		fi
		sleep 0.05
	done
	. ./hubs/addresses
	HF_ENDPOINT=$HUB MODELSCOPE_ENDPOINT=$HUB
	CURL_CA_BUNDLE=$PWD/hubs/ca.pem
	export HF_ENDPOINT MODELSCOPE_ENDPOINT CURL_CA_BUNDLE
}

repo() {
	R=$PWD/hubs/repos/$1/$(printf "${2:-1}%.0s" 0 1 2 3 4 5 6 7 8 9 \
	    0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9)
	mkdir -p "$R"
}

gguf() {
	{
		printf 'GGUF\3\0\0\0\0\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0'
		printf '\24\0\0\0\0\0\0\0general.architecture\10\0\0\0'
		printf '\5\0\0\0\0\0\0\0qwen3'
		head -c "$2" /dev/zero | openssl enc -aes-128-ctr \
		    -K "$(printf %032x "$3")" -iv 0 2>/dev/null
	} | head -c "$2" >"$1"
}

rules() {
	printf '%s\n' "$@" >hubs/rules
}

forget() {
	rm -rf home hubs/rules
	: >hubs/log
}

asked() {
	awk -v text="$1" 'index($0, text) == 1 { n++ } END { print n + 0 }' \
	    hubs/log
}

fetch() {
	timeout 60 gguf-fetch "$@" >out 2>err
	rc=$?
}

fetched() {
	tap_name=$1 tap_want=$2
	shift 2
	fetch "$@"
	tap_got="status $rc, $(wc -l <out) lines"
	[ "$rc" = 0 ] || tap_got="$tap_got, $(head -n 1 err)"
	f=$(head -n 1 out)
	cmp -s "$tap_want" "$f" || tap_got="$tap_got, other bytes in $f"
	is "$tap_got" "status 0, 1 lines" "$tap_name"
}
