# inputs.sh - makes all files that tests/faults/commands reads, in an empty
# folder, and sets QWEN_MODEL.  Needs tests/cli/tap.sh.
set -e
model qwen3-rerank
model qwen35moe-ud
QWEN_MODEL=$MODEL; export QWEN_MODEL
ln -s "$TOP/demo/demo.gguf" demo.gguf
zstd -dqf "$TOP/tests/golden/drafts/qwen35moe-spec/model.gguf.zst" -o mtp.gguf
gguf-synth --lora "$MODEL" --rank 3 -o adapter.gguf
G=$TOP/tests/golden/models/qwen35moe-ud
tr ' ' '\n' <"$G/tokens-n65.txt" >ids
head -n 9 ids >few
qprefill -q --imatrix imatrix.gguf -o imatrix.state <few >/dev/null
cp -R "$TOP/tests/files/hub/qwen3-fp8" hub
cp -R "$TOP/tests/files/hub/qwen3_5" linear
cp -R "$TOP/tests/files/hub/qwen3_5-lora" peft
cp -R "$TOP/tests/files/hub/image" image
gguf-convert -q --mmproj -o image.gguf image
printf 'In the beginning God created the heaven and the earth.' >text
printf '%s\n' '"""' One 'two"""' 'And \' more /retry '/set top-k 3' /undo '/save said.json' >said
qtok text >text.cbor
qtok few >few.cbor 2>/dev/null || :
cp "$TOP/tests/files/image/good-rgba.png" image.png
cp "$TOP/tests/files/image/good-progressive.jpg" image.jpg
cp "$TOP/tests/files/image/good-lossy-alpha.webp" image.webp
cp "$TOP/tests/files/image/good-interlaced.gif" image.gif
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
cp "$TOP/lib/text/chat/templates/qwen3.5.jinja" template.jinja
cat >some.gbnf <<'EOF'
root ::= ("a" | [^b-d\n]{2,3} word)+
word ::= [a-z]* "." | "\n"
EOF
echo 'root ::= "a" | [b-z] "."' >short.gbnf
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
{"custom_id":"c","method":"POST","url":"/v1/chat/completions","body":{"messages":[{"role":"user","content":"Who?"}],"max_tokens":40,"reasoning_effort":"none","response_format":{"type":"json_schema","json_schema":{"name":"s","schema":{"type":"object","properties":{"a":{"enum":[1]}},"required":["a"],"additionalProperties":false}}}}}
{"custom_id":"d","method":"POST","url":"/v1/completions","body":{"prompt":"And","n_predict":3,"temperature":0.7,"seed":4,"samplers":["penalties","dry","top_k","temperature"],"dry_multiplier":1,"dry_sequence_breakers":["x","y"],"dynatemp_range":0.2,"stop_token_ids":[5],"include_stop_str_in_output":true}}
EOF
echo '{"id":"q","text":"In the beginning God created the heaven."}' >score.jsonl
qprefill -o state.cbor <ids >/dev/null
qprefill --checkpoint-at 4,6 --logits last -o small.cbor --no-compress <few >rows.cbor
qtok <text | qprefill --logits all >all.cbor
qprefill --trace '*.ffn,*.experts,*.h2' <few >trace.cbor
qprefill --numerics 4 --trace '*.ffn,*.experts,*.h2' <few >trace2.cbor
qdecode -s small.cbor -n 2 -o other.cbor </dev/null >/dev/null
cat >vector.jsonl <<'EOF'
{"id":"a","text":"In the beginning","instruct":"Find it","odd":1}
{"tokens":[1,2,3]}
EOF
cat >rank.jsonl <<'EOF'
{"id":1,"query":"What?","documents":["It is.","Not"]}
{"query":"What?","document":"It is."}
EOF
cat >asked.jsonl <<'EOF'
{"qwen":1,"kind":"requests"}
{"id":"a","tokens":[1,2,3,4],"max":3,"sampling":"temp=0.8 seed=3","logprobs":2,"keep":[2]}
{"id":"b","tokens":[1,2,3,5],"max":3,"grammar":"root ::= [a-z]+","bias_ids":[7],"bias":[1.5],"mask":[9]}
{"id":"c","tokens":[1,2,3],"score":1}
{"id":"d","tokens":[1,2,3],"hidden":2,"deadline_ms":60000}
{"id":"e","cached":[1,2]}
{"cancel":"c"}
{"stats":"s"}
EOF
tail -c +50 "$TOP/tests/fuzz/seeds/engine/requests" >asked.part
printf '\242dqwen\001dkindhrequests' | cat - asked.part >asked.cbor
mkdir init init/pin
qprefill --store init/store --checkpoint-every 16 <ids >/dev/null
cp small.cbor init/S
cp "$TOP/tests/files/gguf/good-vocab.gguf" vocab.gguf
cp -r "$TOP/tests/files/hub/qwen3_moe" folder
gguf-convert -q --type bf16 -o plain.gguf folder
cp "$TOP/tests/files/gguf/good-types.gguf" types.gguf
qbatch -q -n 2 --shard 1/2 -o part.1 batch.jsonl
qbatch -q -n 2 --shard 2/2 -o part.2 batch.jsonl
qbatch -q -n 2 -o init/old.results batch.jsonl
set +e
