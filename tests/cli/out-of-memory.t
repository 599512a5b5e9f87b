#!/bin/sh
# Memory that runs out, anywhere in any tool: one line that says so, status 1,
# and nothing half-done.  tests/faults/inject.c does it, and prints the results.
. "$TOP/tests/cli/tap.sh"
inject=$B/tests/faults/inject preload=$B/tests/faults/preload.so
case $QPIPE_SAN in
asan | tsan)
	skip "out of memory" "the sanitizer has an allocator of its own"
	done_testing ;;
esac
if [ ! -e "$preload" ]; then
	skip "out of memory" "not glibc"
	done_testing
fi
set -e
model qwen35moe-ud
QWEN_MODEL=$MODEL; export QWEN_MODEL
G=$TOP/tests/golden/models/qwen35moe-ud
tr ' ' '\n' <"$G/tokens-n65.txt" >ids
head -n 9 ids >few

# --- what the commands read
printf 'In the beginning God created the heaven and the earth.' >text
qtok text >text.cbor
qtok few >few.cbor 2>/dev/null || :
cat >chat.json <<'EOF'
{"messages": [{"role": "system", "content": "Be brief."},
 {"role": "user", "content": "How many?"},
 {"role": "assistant", "content": "", "tool_calls": [{"type": "function",
  "function": {"name": "f", "arguments": {"n": 1, "s": "x"}}}]},
 {"role": "tool", "content": "2"}],
 "tools": [{"type": "function", "function": {"name": "f", "parameters":
  {"type": "object", "properties": {"n": {"type": "integer"},
  "s": {"type": "string"}}}}}]}
EOF
cat >tools.json <<'EOF'
[{"type": "function", "function": {"name": "f", "parameters": {"type": "object",
  "properties": {"n": {"type": "integer"}, "s": {"type": "string"}}}}}]
EOF
cat >reply <<'EOF'
Let me see.
</think>

I look.

<tool_call>
<function=f>
<parameter=n>
1
</parameter>
</function>
</tool_call>
EOF
cat >some.gbnf <<'EOF'
root ::= ("a" | [^b-d\n]{2,3} word)+
word ::= [a-z]* "." | "\n"
EOF
cat >schema.json <<'EOF'
{"type": "object", "properties": {"name": {"type": "string", "maxLength": 3},
 "kind": {"enum": ["a", "b", 1, null]},
 "at": {"type": "string", "pattern": "^[0-9]{2}-[a-f]$"},
 "n": {"type": "integer", "minimum": 3, "maximum": 17},
 "list": {"type": "array", "items": {"anyOf": [{"type": "boolean"},
  {"$ref": "#/$defs/x"}]}, "maxItems": 2}},
 "required": ["name", "n"], "additionalProperties": false,
 "$defs": {"x": {"type": "number"}}}
EOF
cat >batch.jsonl <<'EOF'
{"custom_id":"a","method":"POST","url":"/v1/completions","body":{"prompt":"In the","max_tokens":4,"stop":["x"],"n":2,"temperature":0.8,"seed":3}}
{"custom_id":"b","method":"POST","url":"/v1/completions","body":{"prompt":"And","max_tokens":3,"logprobs":2}}
{"custom_id":"c","method":"POST","url":"/v1/chat/completions","body":{"messages":[{"role":"user","content":"Who?"}],"max_tokens":3,"response_format":{"type":"json_schema","json_schema":{"name":"s","schema":{"type":"object","properties":{"a":{"type":"integer"}},"required":["a"]}}}}}
EOF
echo '{"id":"q","text":"In the beginning God created the heaven."}' >score.jsonl
qprefill -o state.cbor <ids >/dev/null
qprefill --checkpoint-at 4,6 --logits last -o small.cbor --no-compress <few >rows.cbor
qdecode -s small.cbor -n 2 -o other.cbor </dev/null >/dev/null
mkdir init init/pin
qprefill --store init/store --checkpoint-every 16 <ids >/dev/null
cp small.cbor init/S
cp "$TOP/tests/files/gguf/good-vocab.gguf" vocab.gguf
cp "$TOP/tests/files/gguf/good-types.gguf" types.gguf
qbatch -n 2 --shard 1/2 -o part.1 batch.jsonl
qbatch -n 2 --shard 2/2 -o part.2 batch.jsonl

cat >commands <<'EOF'
../text qtok
../text qtok -c --special
../text qtok --mark m -f json
../text.cbor qtok -d
../text.cbor qtok -d --bytes --stop d
../chat.json qtok --chat
/dev/null qtok --chat --template qwen3 --system Brief --user Hello --assistant Yes --data ../text
../reply qtok --parse --tools ../tools.json
../reply qtok --parse --stream --template qwen3.6
../few qprefill -o S
../few qprefill -t 2 --logits all --top 3 -f json
+ ../few qprefill -s S -o S
+ ../ids qprefill --store store --checkpoint-every 16 -o S
../few qprefill --store store --checkpoint-every 4
../ids qprefill --reuse ../state.cbor --reuse ../small.cbor -o S
/dev/null qdecode -s ../small.cbor -n 3 -o S
~ ../few qdecode -n 3 --save-every 0.001 -o S
/dev/null qdecode -s ../small.cbor -n 3 --logits
/dev/null qdecode -s ../small.cbor -n 6 --temp 0.9 --top-k 40 --top-p 0.9 --min-p 0.01 --typical 0.9 --repeat-penalty 1.1 --dry-multiplier 0.8 --dry-breaker x --xtc-probability 0.1 --logit-bias 3=1.5 --stop abc --seed 7
/dev/null qdecode -s ../small.cbor -n 3 --mirostat 5 --penalty-prompt
/dev/null qdecode -s ../small.cbor -n 4 --grammar ../some.gbnf
/dev/null qdecode -s ../small.cbor -n 4 --json-schema ../schema.json
../rows.cbor qsample --temp 0.8 -n 2 --mask-unused
../rows.cbor qsample --grammar ../some.gbnf -s ../small.cbor
../rows.cbor qsample --top 3
~ ../batch.jsonl qbatch -t 2
~ ../batch.jsonl qbatch --max-sequences 1 -t 1 -o results --grammar ../some.gbnf
+~ ../batch.jsonl qbatch -t 1 --store store -o results
~ ../batch.jsonl qbatch -n 2 --report report --report-json report.json -o results
/dev/null qbatch --merge -o results ../part.1 ../part.2
../text qscore --each --top 2
../text qscore --context 8 --stride 4 -o scores
~ ../score.jsonl qscore --requests
/dev/null qstate show ../state.cbor ../small.cbor
/dev/null qstate show --json ../small.cbor
/dev/null qstate show --tokens ../small.cbor
/dev/null qstate verify -t 2 --json ../state.cbor
/dev/null qstate diff --all ../small.cbor ../small.cbor
/dev/null qstate slice -n 5 -o S ../small.cbor
/dev/null qstate pack -o S ../small.cbor
/dev/null qstate cat ../small.cbor
+~ /dev/null qstate ls --store store
+~ /dev/null qstate du --store store --json
+ /dev/null qstate verify --store store
+~ /dev/null qstate gc --store store --store-max 20k
+ /dev/null qstate rm --store store --all
/dev/null gguf-inspect ../vocab.gguf
/dev/null gguf-inspect --json ../types.gguf
/dev/null gguf-inspect --check
/dev/null gguf-inspect --values output_norm.weight
/dev/null gguf-inspect --diff --full ../types.gguf ../types.gguf
/dev/null gguf-synth -o model --layers 1 --vocab-size 300 --vocab ../vocab.gguf qwen3-0.6b
+~ /dev/null gguf-pin -o pin ../types.gguf
~ /dev/null qbench -p 4 -n 2 -r 1 -t 1 --json
~ /dev/null qbench --sampling -r 1 --vocab-size 1000
../text qchat -n 3 --template qwen3 --system Brief
EOF
FAULTS=${QPIPE_LONG:+8192}
FAULTS=${FAULTS:-12}; export FAULTS
set +e
exec "$inject" "$preload" commands
