#!/bin/sh
# Importance matrices: qprefill --imatrix writes them, gguf-quantize uses them.
. "$TOP/tests/cli/tap.sh"
gguf-convert --type f32 -o moe.gguf "$TOP/tests/files/hub/qwen3_5_moe"
gguf-convert --type f32 -o dense.gguf "$TOP/tests/files/hub/qwen3"
ids 100 7 250 | tr '\n' ' ' >ids
tokens=100

values() { # FILE TENSOR
	gguf-inspect --values "$2" "$1" | tr -s ' ' '\n' | grep -E '^-?[0-9.]+(e[-+]?[0-9]+)?$'
}

for m in moe dense; do
	qprefill -m $m.gguf -o plain.state <ids >ready
	qprefill -m $m.gguf --imatrix $m.imatrix -o with.state <ids >ready
	cmp -s plain.state with.state
	ok $? "$m: the state is what it is without"
	for how in '-t 1' '-t 3 --batch 7' '--batch 1'; do
		qprefill -m $m.gguf $how --imatrix other -o /dev/null <ids >ready
		cmp -s $m.imatrix other
		ok $? "$m: the same with $how"
	done
	is "$(gguf-inspect --json $m.imatrix | jq -c '.metadata | [.["general.type"], .["imatrix.chunk_count"],
	    .["imatrix.chunk_size"], .["imatrix.datasets"]]')" '["imatrix",1,100,[]]' "$m: metadata"
done
is "$(gguf-inspect --json dense.imatrix | jq -c '[.tensors[].name | select(startswith("blk.0"))]')" \
    '["blk.0.attn_k.weight.in_sum2","blk.0.attn_k.weight.counts","blk.0.attn_output.weight.in_sum2","blk.0.attn_output.weight.counts","blk.0.attn_q.weight.in_sum2","blk.0.attn_q.weight.counts","blk.0.attn_v.weight.in_sum2","blk.0.attn_v.weight.counts","blk.0.ffn_down.weight.in_sum2","blk.0.ffn_down.weight.counts","blk.0.ffn_gate.weight.in_sum2","blk.0.ffn_gate.weight.counts","blk.0.ffn_up.weight.in_sum2","blk.0.ffn_up.weight.counts"]' \
    "two tensors for each matrix, by name"

# What a norm makes has squares that add up to its width for each token, once its
# weight is taken out; each of two experts has such inputs.
norm_adds_up() { # MODEL NORMS MATRIX HOW-OFTEN
	for norm in $2; do values $1.gguf "$norm"; done >w
	values $1.imatrix "$3.in_sum2" >s
	awk -v t="$((tokens * $4))" 'FILENAME == "w" { w[n++] = $1; next } { sum += $1 / w[m++ % n] ^ 2 }
	    END { d = sum / n / t - 1; exit !(n > 9 && m % n == 0 && d < 1e-3 && d > -1e-3) }' w s
	ok $? "$1: inputs of $3 add up"
}
norm_adds_up dense blk.0.attn_norm.weight blk.0.attn_q.weight 1
norm_adds_up dense blk.1.ffn_norm.weight blk.1.ffn_up.weight 1
norm_adds_up dense blk.1.ffn_norm.weight blk.1.ffn_gate.weight 1
norm_adds_up dense output_norm.weight token_embd.weight 1
used=$(gguf-inspect --json moe.gguf | jq '.metadata["qwen35moe.expert_used_count"]')
norm_adds_up moe blk.1.post_attention_norm.weight blk.1.ffn_gate_exps.weight "$used"
norm_adds_up moe blk.1.post_attention_norm.weight blk.1.ffn_up_exps.weight "$used"
norm_adds_up moe blk.1.post_attention_norm.weight blk.1.ffn_gate_shexp.weight 1
is "$(values moe.imatrix blk.1.ffn_down_exps.weight.counts | awk '{ s += $1 } END { print s }') $(
    values moe.imatrix blk.1.ffn_down_shexp.weight.counts)" "$((tokens * used)) $tokens" "counts of experts"
is "$(values moe.imatrix blk.1.ffn_down_exps.weight.counts | tr '\n' ' ')" \
    "$(values moe.imatrix blk.1.ffn_up_exps.weight.counts | tr '\n' ' ')" "in all three of their matrices"

# -- the block for drafts: a row for each token but the first
tokens=99
norm_adds_up moe 'blk.2.nextn.enorm.weight blk.2.nextn.hnorm.weight' blk.2.nextn.eh_proj.weight 1
norm_adds_up moe blk.2.attn_norm.weight blk.2.attn_q.weight 1
norm_adds_up moe blk.2.attn_norm.weight blk.2.attn_v.weight 1
norm_adds_up moe blk.2.post_attention_norm.weight blk.2.ffn_gate_exps.weight "$used"
is "$(for part in attn_k attn_output nextn.eh_proj ffn_gate_inp ffn_down_shexp; do
	values moe.imatrix blk.2.$part.weight.counts; done | xargs)" "99 99 99 99 99" "and as many for all of its matrices"
gguf-convert --type f32 --no-mtp -o trunk.gguf "$TOP/tests/files/hub/qwen3_5_moe"
gguf-convert --type f32 --mtp-only -o side.gguf "$TOP/tests/files/hub/qwen3_5_moe"
qprefill -m trunk.gguf --draft ./side.gguf --imatrix other -o /dev/null <ids >ready
cmp -s moe.imatrix other
ok $? "the same of a block in a file of its own"
qprefill -m trunk.gguf --imatrix trunk.imatrix -o /dev/null <ids >ready
qprefill -m moe.gguf --draft none --imatrix other -o /dev/null <ids >ready
cmp -s trunk.imatrix other
ok $? "--draft none: as of a file without the block"
gguf-inspect --diff trunk.imatrix moe.imatrix | grep -v -e '^+ tensor blk.2' >out
is "$(cat out)" "" "which changes nothing of the others"
cut -d ' ' -f 1-30 ids >first
cut -d ' ' -f 31- ids >rest
qprefill -m moe.gguf -o first.state <first >ready
qprefill -m moe.gguf -s first.state --imatrix other -o /dev/null <rest >ready
is "$(values other blk.2.nextn.eh_proj.weight.counts) $(values other blk.2.attn_k.weight.counts)" "70 70" \
    "after a state, that of its last token goes in"

# -- what it is for
gguf-quantize --type Q4_0 -o plain.gguf dense.gguf
gguf-quantize --type Q4_0 --imatrix dense.imatrix -o weighted.gguf dense.gguf 2>err
is "$? $(cat err)" "0 " "gguf-quantize takes it"
cmp -s plain.gguf weighted.gguf
is $? 1 "and makes other codes"
is "$(gguf-inspect --json weighted.gguf | jq -c '.metadata | [.["quantize.imatrix.file"],
    .["quantize.imatrix.chunks_count"], .["quantize.imatrix.entries_count"] > 10]')" '["dense.imatrix",1,true]' "and says so"
model qwen3
qprefill -m "$MODEL" --imatrix qwen3.imatrix -o /dev/null <ids >ready
gguf-quantize --type Q4_0 --imatrix moe.imatrix -o whole.q moe.gguf 2>err
is "$? $(cat err)" "0 " "there is something for every matrix"
gguf-quantize --type Q4_0 --imatrix trunk.imatrix -o none.q moe.gguf 2>err
is "$? $(wc -l <err)" "0 1" "of a block that was not read there is nothing"
grep -q 'has nothing for 9 of 57' err
ok $? "and a note says so"
gguf-inspect --diff none.q whole.q | awk '$2 == "data" { print $3 }' | sort >out
is "$(grep -c '^blk\.2\.' out) $(grep -c -v '^blk\.2\.' out) $(grep -c nextn.eh_proj out)" "9 0 1" \
    "its matrices, and no others, are made by it"

# -- the older form, written as llama-imatrix does: sum / count * calls, and ones
# where nothing was counted.  With counts that are powers of 2 no digit is lost.
older() { # FROM TO.dat [WHAT-ELSE]: sets the counts of FROM too
	gguf-inspect --json "$1" | python3 -c '
import json, struct, sys
path, to, how = sys.argv[1:]
d = open(path, "r+b")
tensors = {t["name"]: t for t in json.load(sys.stdin)["tensors"]}
out, entries = b"", 0
for name, s in tensors.items():
	if not name.endswith(".in_sum2"):
		continue
	c = tensors[name[:-8] + ".counts"]
	n = c["bytes"] // 4
	counts = [(128, 0, 4, 1)[(i + entries) % 4] if n > 1 else 64 for i in range(n)]
	d.seek(c["offset"])
	d.write(struct.pack("<%df" % n, *counts))
	d.seek(s["offset"])
	sums = struct.unpack("<%df" % (s["bytes"] // 4), d.read(s["bytes"]))
	width = len(sums) // n
	v = [x / counts[i // width] * 16 if counts[i // width] else 1 for i, x in enumerate(sums)]
	if how == "wide":
		v.append(1)
	if how == "nan":
		v[0] = float("nan")
	name = name[:-8].encode()
	out += struct.pack("<i", len(name)) + name + struct.pack("<ii%df" % len(v), 16, len(v), *v)
	entries += 1
	if how == "twice":
		out, entries = out * 2, entries * 2
		how = ""
out = struct.pack("<i", entries) + out
if how != "short":
	out += struct.pack("<ii", 7, 9) + b"calib.txt"
if how == "more":
	out += b"\0"
open(to, "wb").write(out)
' "$1" "$2" "$3"
}
if command -v python3 >/dev/null 2>&1; then
	for m in dense moe; do
		cp $m.imatrix new.$m
		older new.$m $m.dat ''
		gguf-quantize --type Q4_0 --imatrix new.$m -o new.q $m.gguf
		gguf-quantize --type Q4_0 --imatrix $m.dat -o old.q $m.gguf 2>err
		is "$? $(cat err)" "0 " "$m: imatrix.dat"
		gguf-inspect --diff new.q old.q | grep -v ' meta quantize\.imatrix' >out
		is "$(cat out)" "" "$m: the same bytes as by the newer form"
		gguf-quantize --type Q4_0 -o plain.q $m.gguf
		gguf-inspect --diff plain.q old.q | grep -q '^! data'
		ok $? "$m: and others than without"
	done
	is "$(gguf-inspect --json old.q | jq -c '.metadata | [.["quantize.imatrix.file"], .["quantize.imatrix.dataset"],
	    .["quantize.imatrix.chunks_count"], .["quantize.imatrix.entries_count"]]')" \
	    "[\"moe.dat\",\"calib.txt\",7,$(($(gguf-inspect --json moe.imatrix | jq '.tensors | length') / 2))]" \
	    "where it came from"
	cp dense.imatrix c
	older c short.dat short
	gguf-quantize --type Q4_0 --imatrix short.dat -o old.q dense.gguf 2>err
	is "$? $(cat err)" "0 " "without the name of the text at its end"
	for how in wide nan twice more; do
		older c $how.dat $how
		refused 1 "imatrix.dat, $how" gguf-quantize --type Q4_0 --imatrix $how.dat -o no.gguf dense.gguf
	done
	n=$(wc -c <dense.dat)
	for at in 1 3 4 7 20 40 100 $((n / 2)) $((n - 9)) $((n - 1)); do
		head -c "$at" dense.dat >bad
		refused 1 "the first $at bytes" gguf-quantize --type Q4_0 --imatrix bad -o no.gguf dense.gguf
	done
	refused 1 "imatrix.dat of another model" gguf-quantize --type Q4_0 --imatrix moe.dat -o no.gguf qwen3.gguf
else
	skip "imatrix.dat" "no python3"
fi
printf '\377\377\377\177\377\377\377\177%40s' x >old.dat
refused 1 "lengths beyond the file" gguf-quantize --type Q4_0 --imatrix old.dat -o no.gguf dense.gguf
refused 1 "of another model" gguf-quantize --type Q4_0 --imatrix qwen3.imatrix -o no.gguf dense.gguf
grep -q 'another shape' err
ok $? "says why"
at=$(gguf-inspect --json dense.imatrix | jq '.tensors[0].offset')
cp dense.imatrix bad
printf '\377\377\377\377' | dd of=bad bs=1 seek="$at" conv=notrunc 2>/dev/null
refused 1 "a number that is none" gguf-quantize --type Q4_0 --imatrix bad -o no.gguf dense.gguf
head -c 2000 dense.imatrix >bad
refused 1 "cut short" gguf-quantize --type Q4_0 --imatrix bad -o no.gguf dense.gguf
refused 1 "a matrix as a model" gguf-quantize --type Q4_0 -o no.gguf dense.imatrix
refused 2 "not with --reuse" qprefill -m dense.gguf --imatrix no --reuse plain.state -o /dev/null
if [ -e /dev/full ]; then
	qprefill -m dense.gguf --imatrix /dev/full -o /dev/null <ids >ready 2>err
	is "$? $(grep -c . err)" "1 1" "a full disk"
fi
done_testing
