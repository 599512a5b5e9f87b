#!/bin/sh
# --json-schema: generated text is valid, in qdecode, in the loop, and after a
# thinking block; a bad schema gives one line.
. "$TOP/tests/cli/tap.sh"
model qwen35moe-ud
QWEN_MODEL=$MODEL; export QWEN_MODEL
G=$TOP/tests/golden/models/qwen35moe-ud
qprefill -o p.cbor <"$G/tokens-n65.txt" >/dev/null
mkfifo loop
# this model knows nothing of thoughts, and would begin one now and then
NO=--logit-bias=$(printf '<think>' | qtok --special -f text)=-1000
cat >person.json <<'E'
{"type": "object", "title": "a person",
 "properties": {
  "name": {"type": "string", "minLength": 1, "maxLength": 12},
  "age": {"type": "integer", "minimum": 0, "maximum": 130},
  "tags": {"type": "array", "maxItems": 3, "items": {"enum": ["a", "bb"]}},
  "boss": {"anyOf": [{"$ref": "#"}, {"type": "null"}]},
  "since": {"type": "string", "format": "date"}
 },
 "required": ["name", "age", "since"]}
E
cat >check.jq <<'E'
def person: (keys - ["name","age","tags","boss","since"] == [])
    and (.name | length >= 1 and length <= 12)
    and (.age | . >= 0 and . <= 130 and . == floor)
    and ((.tags // []) | length <= 3 and all(. == "a" or . == "bb"))
    and (.since | test("^[0-9]{4}-[0-9]{2}-[0-9]{2}$"))
    and (.boss == null or (.boss | person));
person
E

for how in "" "--temp 1 --seed 1" "--temp 3 --seed 2" "--temp 9 --seed 5" \
    "--temp 1.5 --seed 4 --top-p 0.9"; do
	# shellcheck disable=SC2086
	qdecode -s p.cbor -n 200 --json-schema person.json "$NO" $how \
	    </dev/null >want
	is "$(qtok -d want | jq -f check.jq)" true \
	    "${how:-greedy}: $(qtok -d want | tr -d '\n' | cut -c1-100)"
	is "$(qtok -d want | wc -l)" 0 "${how:-greedy}: no white space"
	# shellcheck disable=SC2086
	NO=$NO timeout 60 sh -c 'qdecode --logits -s p.cbor <loop |
	    qsample -s p.cbor -n 200 --json-schema person.json $NO $1 |
	    tee loop >got' sh "$how"
	cmp -s want got
	ok $? "${how:-greedy}: the loop's are the same"
done

# the same run has the same schema
for i in a b; do
	qdecode -s p.cbor -n 9 --json-schema person.json --save-every 0 \
	    -o r.cbor </dev/null >$i
done
cmp -s a b
ok $? "the same run again"
printf '{"const":"x"}' >x.json
printf 'root ::= "\\"x\\""' >x.gbnf
is "$(qdecode -s p.cbor -n 5 --json-schema x.json "$NO" </dev/null | qtok -d)" '"x"' \
    "it ends where the value does"
is "$(qdecode -s p.cbor -n 5 --grammar x.gbnf "$NO" </dev/null | qtok -d)" '"x"' \
    "as with the grammar"
# what cannot be held is told, once, and the rest holds
echo '{"type":"array","items":{"type":"integer"},"uniqueItems":true,"maxItems":2}' >note.json
qdecode -s p.cbor -n 60 --json-schema note.json "$NO" </dev/null 2>err |
    qtok -d >out
is "$(jq -c 'length <= 2 and all(type == "number")' out), $(cat err)" \
    "true, qdecode: of a schema, not all is kept: #: uniqueItems is not kept" \
    "a note of uniqueItems"
# on the demo model, after a thought
QWEN_MODEL=$TOP/demo/demo.gguf
qtok --chat --template qwen3 --user "Who?" >chat
qdecode -n 400 --think-max 5 --temp 1 --json-schema person.json <chat |
    qtok -d >out
is "$(tr '\n' ' ' <out | sed 's/.*<\/think>//' | jq -f check.jq)" true \
    "demo: $(tr '\n' ' ' <out | cut -c1-100)"

for bad in '{"type":"strin"}' '{"not":{}}' '{"contains":true}' '{' '7' \
    'false' '{"pattern":"(?=a)"}' '{"maxItems":1000000000}' \
    '{"items":{"$ref":"#"},"minItems":1}'; do
	echo "$bad" >bad.json
	refused 1 "$bad" qdecode -f text -s p.cbor --json-schema bad.json
	refused 1 "$bad" qsample -f text --json-schema bad.json
done
refused 1 "no such file" qdecode -f text -s p.cbor --json-schema none.json
refused 2 "with --logits" qdecode --logits -s p.cbor --json-schema x.json
refused 2 "which one?" qdecode -s p.cbor --json-schema x.json --grammar x.gbnf
head -c 1100000 /dev/zero >bad.json
refused 1 "too large" qdecode -f text -s p.cbor --json-schema bad.json

# what grammars make, Python finds valid
if [ -n "$QPIPE_LONG" ]; then
	for python in python3 /usr/bin/python3 ''; do
		[ -n "$python" ] && $python -c 'import jsonschema' 2>/dev/null &&
		    break
	done
	if [ -n "$python" ]; then
		$python "$TOP/tests/cli/schema_fuzz.py" "$B/tests/unit/schema" \
		    "$SEED" 4000 >out
		ok $? "$(tail -n 1 out)"
		head -c 4000 out >&2
	else
		skip "texts are valid" "needs python3 with jsonschema"
	fi
fi
done_testing
