#!/bin/sh
# Models by name: the file that each tool opens for a name, in folders laid out
# as other programs write them, and errors for names that mean no file or
# several.  The tools use no network for that.
. "$TOP/tests/cli/tap.sh"
unset HF_HOME HF_HUB_CACHE HUGGINGFACE_HUB_CACHE LLAMA_CACHE MODELSCOPE_CACHE \
    OLLAMA_MODELS QWEN_MODELS XDG_CACHE_HOME XDG_CONFIG_HOME XDG_DATA_HOME
demo=$QWEN_MODEL
unset QWEN_MODEL
# another user comes here too
W=$(mktemp -d /tmp/qpipe-models-XXXXXX) || exit 1
trap 'chmod -R u+rwx "$W"; rm -rf "$W"' EXIT
chmod 755 "$W"
cd "$W" || exit 1
HOME=$PWD/home; export HOME
own=$HOME/.local/share/qpipe/models
hub=$HOME/.cache/huggingface/hub
ms=$HOME/.cache/modelscope
ollama=$HOME/.ollama/models
C1=1111111111111111111111111111111111111111
C2=2222222222222222222222222222222222222222

# model_at FILE...: a GGUF file there, with its folder
printf 'GGUF\3\0\0\0\0\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0\24\0\0\0\0\0\0\0general.architecture\10\0\0\0\5\0\0\0\0\0\0\0qwen3' >tiny
model_at() {
	for at; do
		mkdir -p "$(dirname "$at")"
		cp tiny "$at"
	done
}
# means NAME FILE WHAT: a tool opens this file by that name
means() {
	is "$(gguf-inspect "$1" 2>&1 | awk '$1 == "file" { sub(/.* \//, "/"); print; next }
	    /^gguf-inspect: / { print }')" "$2" "${3:-$1}"
}
# hf_at REPO COMMIT FILE...: in the layout of huggingface_hub; FILE is its own blob
hf_at() {
	r=$hub/models--$(echo "$1" | sed 's|/|--|')
	c=$2
	shift 2
	mkdir -p "$r/blobs" "$r/refs"
	for f; do
		b=$(printf %s "$c$f" | sha256sum | cut -c1-64)
		cp tiny "$r/blobs/$b"
		mkdir -p "$r/snapshots/$c/$(dirname "$f")"
		ln -s "$(printf %s "$f" | sed 's|[^/]*|..|g')/../blobs/$b" \
		    "$r/snapshots/$c/$f"
	done
}

# -- a path first
model_at here.gguf Stem "$own/Stem.gguf" "$own/here.gguf"
is "$(gguf-inspect Stem | sed -n 's/^file.* //p')" "Stem" "a file called so is before a name"
rm Stem
is "$(gguf-inspect here.gguf | sed -n 's/^file.* //p')" "here.gguf" "a file in this folder"

# -- the own folder
means Stem "$own/Stem.gguf" "the stem of a file in \$XDG_DATA_HOME/qpipe/models"
means stem "$own/Stem.gguf" "in another case"
means Stem.gguf "$own/Stem.gguf" "with .gguf"
model_at "$own/Split-00001-of-00002.gguf" "$own/Split-00002-of-00002.gguf"
means Split "$own/Split-00001-of-00002.gguf" "of a split file the first part"
(
	XDG_DATA_HOME=$PWD/data; export XDG_DATA_HOME
	model_at "$PWD/data/qpipe/models/Xdg.gguf"
	gguf-inspect Xdg
	unset XDG_DATA_HOME
	QWEN_MODELS=$PWD/a:$PWD/b; export QWEN_MODELS
	model_at "$PWD/b/Listed.gguf" "$PWD/b/org/Repo/Repo-Q8_0.gguf"
	gguf-inspect Listed
	gguf-inspect org/Repo:q8_0
	gguf-inspect Stem 2>&1
) | sed -n "s|^file.* $PWD/||p; s|^gguf-inspect: \(Stem: no such file\).*|\1|p" >got
is "$(xargs <got)" \
    "data/qpipe/models/Xdg.gguf b/Listed.gguf b/org/Repo/Repo-Q8_0.gguf Stem: no such file" \
    "\$XDG_DATA_HOME, and \$QWEN_MODELS in its place"
model_at "$own/rev/Own/Own-Q8_0.gguf" "$HOME/.lmstudio/models/rev/Lm/Lm-Q8_0.gguf"
for name in rev/Own:Q8_0@v2 rev/Lm@v2; do
	refused 1 "no folder knows the revision of a file: $name" gguf-inspect "$name"
done
rm -r "$HOME/.lmstudio"
mkdir "$own/links"
ln -s .. "$own/links/up"
ln -s ../here.gguf "$own/links/here.gguf"
means here "$own/here.gguf" "a file with several paths, by links, is one"
rm -r "$own/links"
model_at "$own/Q-27B-MTP-Q8_0.gguf" "$own/mtp-Q-27B.gguf"
means Q-27B-MTP-Q8_0 "$own/Q-27B-MTP-Q8_0.gguf" "a model that has MTP"
refused 1 "but no side file for it" gguf-inspect mtp-Q-27B
cp tiny "$own/Diff-A.gguf"
sed 's/qwen3/qwen2/' tiny >"$own/Diff-B.gguf"
gguf-inspect --diff Diff-A Diff-B >out 2>err
is "$? $(wc -l <out | tr -d ' ') $(cat err)" "1 2 " "two names at once"
rm "$own"/Diff-* "$own"/*Q-27B*
mkdir -p "$own/Folder"
echo '{"architectures":["Qwen3ForCausalLM"]}' >"$own/Folder/config.json"
: >"$own/Folder/model.safetensors"
gguf-inspect Folder 2>err >out
grep -q "^gguf-inspect: $own/Folder" err
ok $? "a folder of safetensors: $(cut -c1-100 err)"

# -- Hugging Face's cache
hf_at org/Tiny-GGUF $C1 README.md Tiny-Q4_K_M.gguf Tiny-UD-Q4_K_M.gguf Tiny-Q8_0.gguf \
    mmproj-Tiny-F16.gguf Q3/Tiny-Q3_K_L-00001-of-00002.gguf \
    Q3/Tiny-Q3_K_L-00002-of-00002.gguf
t=$hub/models--org--Tiny-GGUF
s=$t/snapshots/$C1
means org/Tiny-GGUF:Q8_0 "$s/Tiny-Q8_0.gguf" "no refs, one snapshot"
printf $C1 >"$t/refs/main"
for name in org/Tiny-GGUF:Q8_0 hf:org/Tiny-GGUF:Q8_0 org/Tiny-GGUF:q8_0 \
    hf:org/Tiny-GGUF/Tiny-Q8_0.gguf hf:org/Tiny-GGUF:Q8_0@main \
    hf:org/Tiny-GGUF:Q8_0@$C1 ORG/tiny-gguf:Q8_0 \
    https://huggingface.co/org/Tiny-GGUF/blob/main/Tiny-Q8_0.gguf \
    https://huggingface.co/org/Tiny-GGUF/resolve/main/Tiny-Q8_0.gguf; do
	means "$name" "$s/Tiny-Q8_0.gguf"
done
printf '%s\n' $C1 >"$t/refs/main"
means org/Tiny-GGUF:Q8_0 "$s/Tiny-Q8_0.gguf" "refs/main with a newline"
means org/Tiny-GGUF:Q4_K_M "$s/Tiny-Q4_K_M.gguf" "Q4_K_M is not UD-Q4_K_M"
means org/Tiny-GGUF:UD-Q4_K_M "$s/Tiny-UD-Q4_K_M.gguf"
hf_at org/Ud-GGUF $C1 Ud-UD-Q4_K_M.gguf
ud=$hub/models--org--Ud-GGUF/snapshots/$C1/Ud-UD-Q4_K_M.gguf
means org/Ud-GGUF:UD-Q4_K_M "$ud"
means org/Ud-GGUF:ud-q4_k_m "$ud"
means org/Ud-GGUF:Q4_K_M "gguf-inspect: org/Ud-GGUF:Q4_K_M: this machine has only org/Ud-GGUF:UD-Q4_K_M, which is used
$ud" "another mix is used, and the tool says so"
rm -r "$hub/models--org--Ud-GGUF"
means org/Tiny-GGUF:Q3_K_L "$s/Q3/Tiny-Q3_K_L-00001-of-00002.gguf" \
    "a split file, by its link and not its blob"
means org/Tiny-GGUF/Q3 "$s/Q3/Tiny-Q3_K_L-00001-of-00002.gguf" \
    "by its folder in the repository, as gguf-fetch has it"
hf_at org/Half $C1 Half-Q8_0-00001-of-00003.gguf Half-Q8_0-00002-of-00003.gguf
printf %s $C1 >"$hub/models--org--Half/refs/main"
refused 1 "a part is missing" gguf-inspect org/Half
is "$(cat err)" "gguf-inspect: org/Half: only 2 of 3 parts are on this machine; \"gguf-fetch org/Half\" fetches the rest" \
    "which says how to get it"
hf_at org/Half $C2 Half-Q8_0-00001-of-00002.gguf Half-Q8_0-00002-of-00002.gguf
touch -d 2020-01-01 "$hub/models--org--Half/snapshots/$C2"
means org/Half "$hub/models--org--Half/snapshots/$C2/Half-Q8_0-00001-of-00002.gguf" \
    "an older snapshot with all parts is before a newer one without"
refused 1 "Q4_K is none of them" gguf-inspect org/Tiny-GGUF:Q4_K
hf_at org/Fifo $C1 Fifo-Q8_0.gguf
mkfifo "$hub/models--org--Fifo/refs/main"
is "$(timeout 20 gguf-inspect org/Fifo | grep -c "^file.*/Fifo-Q8_0.gguf")" 1 "refs/main is a FIFO"
rm -r "$hub/models--org--Fifo"
hf_at org/Tiny-GGUF $C2 Tiny-Q8_0.gguf
means org/Tiny-GGUF:Q8_0 "$s/Tiny-Q8_0.gguf" "the snapshot that refs/main names"
means hf:org/Tiny-GGUF:Q8_0@$C2 "$t/snapshots/$C2/Tiny-Q8_0.gguf" "another, by its commit"
printf $C2 >"$t/refs/main"
means org/Tiny-GGUF:Q8_0 "$t/snapshots/$C2/Tiny-Q8_0.gguf" "refs/main has moved"
means org/Tiny-GGUF:UD-Q4_K_M "$s/Tiny-UD-Q4_K_M.gguf" "an older snapshot has what it lacks"
printf $C1 >"$t/refs/dev"
means hf:org/Tiny-GGUF:Q8_0@dev "$s/Tiny-Q8_0.gguf" "a branch"
ln -s ../../blobs/nope "$s/Tiny-Q2_K.gguf"
refused 1 "a link to a blob that is gone" gguf-inspect org/Tiny-GGUF:Q2_K
: >"$t/blobs/0123.incomplete"
hub=$PWD/other-hub
hf_at org/Moved $C1 Moved-Q8_0.gguf
for v in HF_HUB_CACHE="$hub" HUGGINGFACE_HUB_CACHE="$hub" LLAMA_CACHE="$hub"; do
	is "$(env "$v" gguf-inspect org/Moved:Q8_0 2>&1 | sed -n 's/^file.*snapshots//p')" \
	    "/$C1/Moved-Q8_0.gguf" "${v%%=*}"
done
mkdir hf-home cache
ln -s "$hub" hf-home/hub
is "$(HF_HOME=$PWD/hf-home gguf-inspect org/Moved:Q8_0 2>&1 | sed -n 's/^file.*snapshots//p')" \
    "/$C1/Moved-Q8_0.gguf" "HF_HOME"
ln -s "$PWD/hf-home" cache/huggingface
is "$(XDG_CACHE_HOME=$PWD/cache gguf-inspect org/Moved:Q8_0 2>&1 | sed -n 's/^file.*snapshots//p')" \
    "/$C1/Moved-Q8_0.gguf" "XDG_CACHE_HOME"
hub=$HOME/.cache/huggingface/hub
# blobs that repositories share, as huggingface_hub 2.4 keeps them
mkdir -p "$hub/blobs/ab" "$hub/models--org--Shared/blobs" "$hub/models--org--Shared/snapshots/$C1"
: >"$hub/blobs/.huggingface-shared-blobs"
cp tiny "$hub/blobs/ab/abcd"
ln -s ../../blobs/ab/abcd "$hub/models--org--Shared/blobs/abcd"
ln -s ../../blobs/abcd "$hub/models--org--Shared/snapshots/$C1/Shared-Q8_0.gguf"
means org/Shared "$hub/models--org--Shared/snapshots/$C1/Shared-Q8_0.gguf" "a shared blob"

# -- ModelScope's
for f in models/org--New-GGUF/snapshots/master/New-Q8_0.gguf \
    hub/models/org/Old-2___5-GGUF/Old-2.5-Q8_0.gguf \
    hub/org/Older-GGUF/Older-Q8_0.gguf; do
	model_at "$ms/$f"
	name=$(basename "$f" | sed 's/-Q8_0.gguf//')
	means "org/$name-GGUF:Q8_0" "$ms/$f"
	means "ms:org/$name-GGUF:Q8_0" "$ms/$f"
	means "ms:org/$name-GGUF/$name-Q8_0.gguf" "$ms/$f"
	refused 1 "hf: is not ModelScope" gguf-inspect "hf:org/$name-GGUF:Q8_0"
done
means ms:org/New-GGUF:Q8_0@master "$ms/models/org--New-GGUF/snapshots/master/New-Q8_0.gguf"
model_at "$ms/models/org--Tiny-GGUF/snapshots/master/Tiny-Q8_0.gguf"
means org/Tiny-GGUF:Q8_0 "$t/snapshots/$C2/Tiny-Q8_0.gguf" \
    "in both caches: Hugging Face's is asked first"
means ms:org/Tiny-GGUF:Q8_0 "$ms/models/org--Tiny-GGUF/snapshots/master/Tiny-Q8_0.gguf" \
    "ms: asks the other"
mv "$ms" other-ms
is "$(MODELSCOPE_CACHE=$PWD/other-ms gguf-inspect ms:org/New-GGUF | sed -n 's/^file.*master//p')" \
    "/New-Q8_0.gguf" "MODELSCOPE_CACHE"
mv other-ms "$ms"

# -- Ollama's
# ollama_at PATH TYPE: the manifest PATH, of a model whose layer is of that type
ollama_at() {
	b=$(printf %s "$1" | sha256sum | cut -c1-64)
	model_at "$ollama/blobs/sha256-$b"
	mkdir -p "$(dirname "$ollama/manifests/$1")"
	printf '{"schemaVersion":2,"layers":[{"mediaType":"application/vnd.ollama.image.license","digest":"sha256:%064d","size":3},{"mediaType":"application/vnd.ollama.image.%s","digest":"sha256:%s","size":69}]}' \
	    0 "${2:-model}" "$b" >"$ollama/manifests/$1"
	blob=$ollama/blobs/sha256-$b
}
ollama_at registry.ollama.ai/library/qwen3/8b
means qwen3:8b "$blob"
means ollama:qwen3:8b "$blob"
means ollama:QWEN3:8B "$blob" "ollama: in another case"
refused 1 "no latest" gguf-inspect ollama:qwen3
ollama_at registry.ollama.ai/library/qwen3/latest
means ollama:qwen3 "$blob" "latest"
means qwen3 "$blob" "latest, without ollama:"
ollama_at registry.ollama.ai/someone/mine/1b
means ollama:someone/mine:1b "$blob"
ollama_at hf.co/org/Far-GGUF/Q8_0
means ollama:hf.co/org/Far-GGUF:Q8_0 "$blob"
ollama_at localhost:5000/library/near/1b
means ollama:localhost:5000/library/near:1b "$blob" "a host with a port"
ollama_at registry.ollama.ai/library/mlx/1b image.tensor
sed -i 's/image.image/image/' "$ollama/manifests/registry.ollama.ai/library/mlx/1b"
refused 1 "a model that is no GGUF file" gguf-inspect ollama:mlx:1b
grep -q safetensors err
ok $? "says what it is"
for bad in '{' '{"layers":[{"mediaType":"application/vnd.ollama.image.model","digest":"sha256:../../../../../etc/passwd"}]}' \
    '{"layers":1}' ''; do
	mkdir -p "$ollama/manifests/registry.ollama.ai/library/bad"
	printf %s "$bad" >"$ollama/manifests/registry.ollama.ai/library/bad/1b"
	refused 1 "a manifest that is wrong" gguf-inspect ollama:bad:1b
done
mv "$ollama" other-ollama
is "$(OLLAMA_MODELS=$PWD/other-ollama gguf-inspect qwen3:8b | grep -c '^file.*other-ollama/blobs')" 1 OLLAMA_MODELS
mv other-ollama "$ollama"

# Ollama's as a service, in a /usr/share that only this process sees
if [ "$(id -u)" != 0 ] || ! unshare -m mount -t tmpfs none /usr/share 2>/dev/null; then
	skip "Ollama as a service" "not root, or no mount"
else
	cat >service.sh <<'END'
mount -t tmpfs none /usr/share || exit 1
mkdir -p /usr/share/ollama/.ollama
cp -R "$1" /usr/share/ollama/.ollama/models
HOME=$PWD/none gguf-inspect ollama:qwen3:8b
chmod 700 /usr/share/ollama
HOME=$PWD/none setpriv --reuid=65534 --regid=65534 --clear-groups \
    gguf-inspect ollama:qwen3:8b 2>&1
END
	unshare -m --propagation private sh service.sh "$ollama" >out 2>err
	is "$(grep -c '^file.* /usr/share/ollama/.ollama/models/blobs/sha256-' out)" 1 \
	    "Ollama as a service"
	is "$(grep -c '^gguf-inspect: .* may not read /usr/share/ollama' out)" 1 \
	    "which this user may not read: $(tail -n 1 out | cut -c1-100)"
fi

# -- LM Studio's, and older llama.cpp's
model_at "$HOME/.lmstudio/models/pub/Studio-GGUF/Studio-Q8_0.gguf" \
    "$HOME/.lmstudio/models/pub/Studio-GGUF/mmproj-Studio-F16.gguf" \
    "$HOME/.cache/lm-studio/models/pub/Older-GGUF/Older-Q6_K.gguf" \
    "$HOME/.cache/llama.cpp/pub_Cpp-GGUF_Cpp-Q5_K_M.gguf"
means pub/Studio-GGUF:Q8_0 "$HOME/.lmstudio/models/pub/Studio-GGUF/Studio-Q8_0.gguf"
means pub/Studio-GGUF "$HOME/.lmstudio/models/pub/Studio-GGUF/Studio-Q8_0.gguf" \
    "a projector is no model"
means pub/Older-GGUF:Q6_K "$HOME/.cache/lm-studio/models/pub/Older-GGUF/Older-Q6_K.gguf"
means pub/Cpp-GGUF:Q5_K_M "$HOME/.cache/llama.cpp/pub_Cpp-GGUF_Cpp-Q5_K_M.gguf"

# -- more than one, and none
gguf-inspect org/Tiny-GGUF@$C1 >out 2>err
is "$? $(wc -c <out) $(grep -c 'Tiny-.*GiB\|:Q.*GiB' err)" "1 0 4" \
    "without a format, a list of four"
awk 'NR > 1 { print $2 }' err >names
while read -r name; do
	gguf-inspect "$name" >out 2>&1 || cat out
done <names >bad
is "$(cat bad)" "" "and each name in it means one"
echo hello | qtok -m "$demo" | qprefill -m "$demo" --logits last -o state >rows
for t in gguf-inspect qbatch qbench qchat qdecode qembed qengine qprefill qscore \
    qserve qtok "qrerank query" "qsample --top 1" "qstate slice -n 1 -o cut state" \
    "gguf-merge --lora x -o merged"; do
	in=/dev/null
	[ "$t" != "qsample --top 1" ] || in=rows
	# shellcheck disable=SC2086
	refused 1 "not there" timeout 60 $t -m org/Nope-GGUF:Q8_0 <$in
	is "$(grep -c '"gguf-fetch org/Nope-GGUF:Q8_0"' err)" 1 "says what fetches it"
done
for t in "gguf-quantize --type Q8_0 -o out" gguf-pin; do
	# shellcheck disable=SC2086
	refused 1 "not there, an operand" timeout 60 $t org/Nope-GGUF:Q8_0
done
QWEN_MODEL=org/Nope-GGUF:Q8_0 refused 1 "QWEN_MODEL" qtok </dev/null
is "$(QWEN_MODEL=ollama:nope:1b qtok 2>&1 </dev/null | grep -c '"gguf-fetch ollama:nope:1b"')" \
    1 "says what fetches it"
cp "$demo" "$own/Demo.gguf"
echo hello >text
qtok -m "$demo" <text >ids
for t in "qtok <text" "qprefill -o state2 <ids" "qdecode -n 2 <ids" \
    "qsample --top 2 <rows" "qscore <text" "qstate slice -n 1 -o cut state" \
    "gguf-inspect"; do
	eval "$t -m Demo" >out 2>err
	is "$? $(cat err)" "0 " "-m is a name: $t"
	eval "$t -m $demo" >want 2>&1
	[ "$t" = gguf-inspect ] || cmp -s out want
	ok $? "as with the path"
	eval "QWEN_MODEL=Demo $t" >out 2>err
	is "$? $(cat err)" "0 " "QWEN_MODEL is a name: $t"
done
gguf-quantize --type Q8_0 -o out.gguf Demo 2>err
is "$?" 0 "an operand is a name: gguf-quantize $(tail -n 1 err)"
for bad in org/../x hf:../x/y hf:org/x/../../y ollama:../x:1 ollama:a/../../b:1 \
    'hf:' 'ms:x' "hf:org/x:$(printf 'a\nb')" "hf:org/$(printf '%05000d' 0)"; do
	refused 1 "no name" gguf-inspect "$bad"
done

# -- what may not be read
user=
if [ "$(id -u)" = 0 ]; then
	user="setpriv --reuid=65534 --regid=65534 --clear-groups"
	$user gguf-inspect "$own/Stem.gguf" >/dev/null 2>&1 || user=none
fi
if [ "$user" = none ]; then
	skip "folders that may not be read" "root may read all"
else
	chmod 0 "$ollama/manifests"
	refused 1 "a folder that may not be read" $user gguf-inspect ollama:qwen3:8b
	is "$(grep -c "may not read $ollama/manifests" err)" 1 "is named"
	chmod 755 "$ollama/manifests"
fi

# -- a name costs no time and no network
if [ -n "$QPIPE_SAN" ] || ! command -v python3 >/dev/null; then
	skip "a name among 200 models" "a sanitizer, or no python3"
else
	cat >times.py <<'END'
import json, os, subprocess, sys
home, own, demo, commit = sys.argv[1:]
def put(path, text=None):
	os.makedirs(os.path.dirname(path), exist_ok=True)
	if text is None:
		os.symlink(demo, path)
	else:
		open(path, "w").write(text)
for i in range(50):
	put("%s/Many-%d.gguf" % (own, i))
	put("%s/.lmstudio/models/p/M-%d/M-%d-Q8_0.gguf" % (home, i, i))
	hub = "%s/.cache/huggingface/hub/models--org--Many-%d-GGUF" % (home, i)
	put(hub + "/blobs/abcd")
	put(hub + "/refs/main", commit)
	os.makedirs("%s/snapshots/%s" % (hub, commit))
	os.symlink("../../blobs/abcd", "%s/snapshots/%s/Many-%d-Q8_0.gguf" %
	    (hub, commit, i))
	ollama = home + "/.ollama/models"
	put("%s/blobs/sha256-%064x" % (ollama, i))
	put("%s/manifests/registry.ollama.ai/library/many/%d" % (ollama, i),
	    json.dumps({"layers": [{"digest": "sha256:%064x" % i, "mediaType":
	    "application/vnd.ollama.image.model", "size": 69}]}))
def best(model, status):
	least = 9	# seconds of the processor: what else runs only adds
	for i in range(15):
		p = subprocess.Popen(["qtok", "-m", model], stdin=subprocess.DEVNULL,
		    stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
		_, got, used = os.wait4(p.pid, 0)
		p.returncode = got
		assert got >> 8 == status, (model, got)
		least = min(least, used.ru_utime + used.ru_stime)
	return least
path = best(demo, 0)
for name in ("Many-49", "org/Many-49-GGUF:Q8_0", "many:49", "p/M-49:Q8_0"):
	print(name, best(name, 0) - path)
print("nowhere", best("org/Nope-GGUF", 1))
END
	python3 times.py "$HOME" "$own" "$demo" $C1 >took 2>err
	is "$(wc -l <took | tr -d ' ') $(awk '$2 > 0.005' took err)" "5 " \
	    "a name among 200 models takes no 5 ms"
fi
if ! command -v strace >/dev/null || ! strace -o /dev/null true 2>/dev/null; then
	skip "no network" "no strace"
else
	for name in org/Nope-GGUF:Q8_0 ollama:nope:1b ms:org/x Nope Many-49 \
	    org/Many-49-GGUF; do
		ASAN_OPTIONS=$ASAN_OPTIONS:detect_leaks=0 \
		    strace -f -e trace=network,execve -o trace qtok -m "$name" </dev/null >out 2>&1
		grep -v '+++\|---\|execve(' trace
	done >sockets
	is "$(cat sockets) $(grep -c execve trace)" " 1" "no socket, and no other program"
fi
done_testing
