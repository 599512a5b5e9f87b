#!/bin/sh
# Aliases in $XDG_CONFIG_HOME/qpipe/models: the models that they name, their
# default options, and errors in the file.
. "$TOP/tests/cli/tap.sh"
unset XDG_CONFIG_HOME XDG_DATA_HOME QWEN_MODELS HF_HOME HF_HUB_CACHE
demo=$QWEN_MODEL
unset QWEN_MODEL
HOME=$PWD/home; export HOME
conf=$HOME/.config/qpipe/models
mkdir -p "$HOME/.config/qpipe" "$HOME/.local/share/qpipe/models" 'with blanks'
ln -s "$demo" "$HOME/.local/share/qpipe/models/Demo.gguf"
ln -s "$demo" 'with blanks/a # b.gguf'
ln -s "$demo" "$HOME/mine.gguf"
echo "In the beginning" >text
qtok -m "$demo" <text >ids

# -- what they mean
cat >"$conf" <<END
# my models

plain = $demo
  tight=$demo
named	=	Demo   # a name
quoted = "$PWD/with blanks/a # b.gguf"
'two words' = $demo
mine = ~/mine.gguf
hf:org/x:Q8_0 = $demo
gone = /nope/x.gguf
nowhere = org/Nope-GGUF:Q8_0
END
printf 'crlf = %s\r\nlast = %s' "$demo" "$demo" >>"$conf"
for name in plain tight named quoted 'two words' mine hf:org/x:Q8_0 crlf last; do
	qtok -m "$name" <text >out 2>err
	is "$? $(cat err) $(cmp out ids 2>&1)" "0  " "an alias: $name"
done
QWEN_MODEL=named qtok <text 2>err | cmp -s - ids
is "$? $(cat err)" "0 " "QWEN_MODEL is an alias"
refused 1 "a path that is gone" qtok -m gone
refused 1 "a name that is not there" qtok -m nowhere
is "$(grep -c '"gguf-fetch org/Nope-GGUF:Q8_0"' err)" 1 "says what fetches it"
refused 1 "another case is another name" qtok -m Plain
mkdir xdg xdg/qpipe
echo "other = $demo" >xdg/qpipe/models
XDG_CONFIG_HOME=$PWD/xdg qtok -m other <text | cmp -s - ids
ok $? "XDG_CONFIG_HOME"
cp "$demo" nowhere
qtok -m nowhere <text | cmp -s - ids
ok $? "a file called so comes first"
rm nowhere

# -- options
same() {	# NAME OPTIONS: qdecode with the alias is qdecode with these options
	name=$1
	shift
	qdecode -m "$demo" -n 24 -f text "$@" <ids >want 2>&1
	qdecode -m x -n 24 -f text <ids >out 2>err
	is "$? $(cat err) $(cmp out want 2>&1)" "0  " "options of an alias: $name"
}
echo "x = $demo --temp 0.9 --seed 7" >"$conf"
same "--temp and --seed" --temp 0.9 --seed 7
cp out hot
echo "x = $demo --temp=0.9 --seed=7" >"$conf"
same "with =" --temp 0.9 --seed 7
echo "x = Demo --temp 0.9 --top-k '3' --seed 7 # as I like it" >"$conf"
same "of a name, with quotes and a comment" --temp 0.9 --top-k 3 --seed 7
echo "x = $demo --temp 0.9 --seed 7" >"$conf"
qdecode -m x -n 24 -f text --temp 0 <ids >out 2>err
qdecode -m "$demo" -n 24 -f text --temp 0 <ids >want
is "$(cat err) $(cmp out want 2>&1)" " " "the command line counts more"
cmp -s out hot
is "$?" 1 "which is another text"
qdecode --temp 0 -n 24 -f text -m x <ids | cmp -s - want
ok $? "before -m too"
QWEN_MODEL=x qdecode -n 24 -f text <ids | cmp -s - hot
ok $? "by QWEN_MODEL too"
qdecode -m "$demo" -n 24 -f text --seed 7 <ids >out
cmp -s out hot
is "$?" 1 "not with the path"
qtok -m x <text | cmp -s - ids
ok $? "a tool without the option does without"
echo "x = $demo --kv q8_0" >"$conf"
qprefill -m x -o alias.cbor <ids >/dev/null
qprefill -m "$demo" --kv q8_0 -o option.cbor <ids >/dev/null
qprefill -m "$demo" -o none.cbor <ids >/dev/null
qstate diff alias.cbor option.cbor >/dev/null
ok $? "--kv: the state is the same"
cmp -s alias.cbor none.cbor
is "$?" 1 "and not as without"
for kv in "--kv f16" "--kv-k f16" "--kv-k q8_0 --kv f16"; do
	for line in "--kv q8_0" "--kv-k q8_0"; do
		echo "x = $demo $line" >"$conf"
		qprefill -m x $kv -o alias.cbor <ids >/dev/null
		qprefill -m "$demo" $line $kv -o option.cbor <ids >/dev/null
		qstate diff alias.cbor option.cbor >/dev/null
		ok $? "$kv of the command line counts more than $line"
	done
done
echo "x = $demo --greedy --temp 0.9 --seed 7" >"$conf"
same "--greedy takes no argument" --greedy --temp 0.9 --seed 7
qprefill -m x -o alias.cbor <ids >/dev/null 2>err
is "$? $(cat err)" "0 " "nor in a tool without the option"
echo "x = $demo --temp 0.9 --greedy" >"$conf"
same "which may be the last word" --temp 0.9 --greedy
echo "x = $demo -c 64" >"$conf"
qtok -m x <text | cmp -s - ids
ok $? "-c is not the -c of qtok, which counts"

for line in "--template qwen3" "--think off" "--effort low"; do
	echo "x = $demo $line" >"$conf"
	qtok -m x <text 2>err | cmp -s - ids
	is "$? $(cat err)" "0 " "$line without a chat: qtok takes it for none"
done
refused 2 "but not from the command line" qtok -m x --think off
echo "x = $demo --draft lookup" >"$conf"
qprefill -m x -o alias.cbor <ids >/dev/null 2>err
is "$? $(cat err)" "0 " "--draft lookup: qprefill has no use for it"
echo "x = $demo --lora ~/x.gguf" >"$conf"
qprefill -m x -o alias.cbor <ids >/dev/null 2>err
is "$? $(grep -c "adapter $HOME/x.gguf" err)" "1 1" "~/ in an option"

# -- what is wrong
bad() {	# WHAT LINE...
	what=$1
	shift
	printf '%s\n' "$@" >"$conf"
	refused 1 "$what" qdecode -m x -n 1
	is "$(grep -c "^qdecode: $conf: line $#: " err)" 1 "says the file and the line"
}
bad "no =" "x $demo"
bad "no model" "x ="
bad "no name" "# y" "= $demo"
bad "missing closing quote" "x = 'a"
bad "a name twice" "x = $demo" "" "x = $demo"
bad "an option that writes" "x = $demo -o /tmp/x"
bad "no such option" "x = $demo --nope 1"
bad "no option" "y = a" "x = $demo word"
bad "an option without its argument" "x = $demo --temp"
bad "an argument for an option without one" "x = $demo --greedy=1"
printf 'x = %s --temp hot\n' "$demo" >"$conf"
qdecode -m x -n 1 >out 2>err <ids
is "$((($? + 1) / 2)) $(wc -c <out) $(wc -l <err)" "1 0 1" "a value that is none: $(cat err)"
printf 'x = y\ny = x\n' >"$conf"
refused 1 "in circles" timeout 20 qdecode -m x -n 1
head -c 2000000 /dev/zero | tr '\0' '#' >"$conf"
refused 1 "a file that is too large" qdecode -m x -n 1
printf 'x = a\0b\n' >"$conf"
refused 1 "a NUL" qdecode -m x -n 1
rm "$conf"
mkdir "$conf"
refused 1 "a folder" qdecode -m x -n 1
qtok -m "$demo" <text | cmp -s - ids
ok $? "a path asks for no alias"

# -- what lists them
rm -rf "$conf"
printf 'a = Demo --temp 0.5 -c 64\nlonger = %s\n' "$HOME/mine.gguf" >"$conf"
is "$(gguf-fetch --local | sed -n '/^alias/,$p')" "alias   model and options
a       Demo --temp 0.5 -c 64
longer  $HOME/mine.gguf" "gguf-fetch --local lists aliases after the models"
if command -v jq >/dev/null 2>&1; then
	is "$(gguf-fetch --local --json | jq -c '.[] | select(.alias_of) | [.name, .alias_of, .options]' | xargs)" \
	    "[a,Demo,[--temp,0.5,-c,64]] [longer,$HOME/mine.gguf,[]]" "as JSON, too"
else
	skip "aliases as JSON" "no jq"
fi
done_testing
