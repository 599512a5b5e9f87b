#!/bin/sh
# --rope-scaling: a longer context than the model's, recorded in states, and
# never mixed with other scalings.
. "$TOP/tests/cli/tap.sh"
QWEN_MODEL=$TOP/demo/demo.gguf; export QWEN_MODEL
ids 60 7 400 | tr '\n' ' ' >ids
cut -d ' ' -f 1-40 ids >first
trained=$(gguf-inspect --json "$QWEN_MODEL" | grep -o 'context_length[^,}]*' | grep -o '[0-9]*$' | head -n 1)
four=$((4 * trained))
refused() { # STATUS WHAT COMMAND...: one line says why
	want=$1 what=$2
	shift 2
	"$@" >out 2>err
	is "$? $(wc -l <err | tr -d ' ') $(wc -c <out | tr -d ' ')" "$want 1 0" "$what: $(cut -c1-70 err)"
}

qprefill -o plain.cbor <ids >/dev/null
qprefill --rope-scaling yarn=4 -o yarn.cbor <ids >/dev/null 2>err
is "$?$(cat err)" "0qprefill: RoPE scaled by yarn=4,orig=$trained: $four tokens of context, trained with $trained; results for short texts change as well" \
    "a line says so"
qprefill -q --rope-scaling yarn=4 -o again.cbor <ids >/dev/null 2>err
is "$?$(cat err)$(cmp again.cbor yarn.cbor)" 0 "or not, with -q"
qprefill --rope-scaling none -o none.cbor <ids >/dev/null 2>err
is "$?$(cat err)$(cmp none.cbor plain.cbor)" 0 "none is what the model says itself"
for how in linear=1 yarn=1.0; do
	qprefill --rope-scaling $how -o one.cbor <ids >/dev/null 2>err
	is "$?$(cat err)$(cmp one.cbor plain.cbor)" 0 "and so is $how"
done
qprefill -q --rope-scaling linear=4 -o linear.cbor <ids >/dev/null
qstate diff yarn.cbor linear.cbor >out
is "$?$(grep '^rope' out)" "1rope yarn=4,orig=$trained linear=4,orig=$trained" "linear is another one"
qstate diff plain.cbor yarn.cbor >out
is "$?$(grep '^rope' out)" "1rope as the model says yarn=4,orig=$trained" "as is none"
is "$(qstate show yarn.cbor | grep '^rope' | xargs)" "rope yarn=4,orig=$trained" "a state shows it"
is "$(qstate show --json plain.cbor | grep -c rope)" 0 "if there is something to show"
qstate verify yarn.cbor plain.cbor
is "$?" 0 "such a state is whole"

qprefill -q --rope-scaling yarn=4 -o short.cbor <first >/dev/null
qstate slice -q -n 40 -o slice.cbor yarn.cbor 2>err
is "$?$(cat err)$(qstate diff short.cbor slice.cbor)" 0 "a slice of it is read again as it was made"

# --- apart
for s in plain:yarn=4 yarn: linear:yarn=4 yarn:yarn=2 yarn:yarn=4,orig=1000; do
	set -- "${s%%:*}" ${s#*:}
	refused 1 "a state that is $1, by ${2:-none}" qdecode -q ${2:+--rope-scaling $2} -s $1.cbor -n 3 </dev/null
	is "$(grep -c 'see --rope-scaling' err)" 1 "and which option it is about"
	case $2 in '') want='this run is scaled as the model says;' ;; *) want="this run is scaled by $2" ;; esac
	is "$(grep -c "$want" err)" 1 "and what this run does"
done
refused 1 "and where states are to be used again" \
    qprefill -q --rope-scaling yarn=4 --reuse plain.cbor -o x.cbor <ids
qdecode -q --rope-scaling yarn=4 -s yarn.cbor -n 20 --ignore-eos -f text </dev/null >a
qdecode -q --rope-scaling yarn=4,orig=$trained -s yarn.cbor -n 20 --ignore-eos \
    --draft none -f text </dev/null >b
is "$?$(wc -l <a | tr -d ' ')$(cmp a b)" 020 "its own goes on, with drafts and without"
qprefill -q --rope-scaling yarn=4 --logits=last <ids >row 2>/dev/null
qsample --temp 0 <row >/dev/null
is "$?$(qprefill -q --rope-scaling yarn=4 --logits=last -f json <ids | grep -o '"rope":"[^"]*"')" \
    "0\"rope\":\"yarn=4,orig=$trained\"" "a stream of logits says it, too"
for how in yarn=4 none yarn=4 linear=2; do
	qprefill -q --rope-scaling $how --store S -o $how.s <ids >/dev/null
done
cmp yarn=4.s yarn.cbor && cmp none.s plain.cbor
ok $? "of a store each takes its own"
is "$(ls S/v1 | sed 's/.*-[0-9]*-*//' | sort | xargs)" "linear=2,orig=$trained yarn=4,orig=$trained" \
    "which has a folder for each"
is "$(qstate ls --store S | sed -n 's/^model.* rope //p' | sort | xargs)" \
    "linear=2,orig=$trained yarn=4,orig=$trained" "of which qstate ls tells"
is "$(qstate du --json --store S | jq -r '.rope // empty' | sort | xargs)" \
    "linear=2,orig=$trained yarn=4,orig=$trained" "and du"

# --- longer than the training
n=$((trained + 100))
ids $n 5 400 | tr '\n' ' ' >long
refused 1 "a text that is too long" qprefill -q -o x.cbor <long
qprefill -q --rope-scaling yarn=2 -o long.cbor <long >/dev/null &&
    qdecode -q --rope-scaling yarn=2 -s long.cbor -n 5 --ignore-eos -f text </dev/null >out
is "$?$(wc -l <out | tr -d ' ')" 05 "is read by a scaled one"
is "$(gguf-inspect --plan -c $four --rope-scaling yarn=4 "$QWEN_MODEL" >/dev/null 2>&1; echo $?)" 0 "a plan of it"

# --- what is none
for how in '' yarn yarn=0.5 yarn=4097 yarn=x ntk=4 yarn=4,orig=0 yarn=4,orig= linear none=1; do
	refused 2 "'$how'" qprefill --rope-scaling "$how" <ids
done
refused 1 "more than a million" qprefill -q --rope-scaling yarn=4096 <ids
is "$(grep -c 1048576 err)" 1 "tells the limit"
done_testing
