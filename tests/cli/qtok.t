#!/bin/sh
# qtok: text to tokens and back, as a filter, and errors.
. "$TOP/tests/cli/tap.sh"
G=$TOP/tests/golden/models
zstd -qd "$G/qwen3/model.gguf.zst" -o m.gguf
zstd -qd "$G/qwen35-tied/model.gguf.zst" -o other.gguf
QWEN_MODEL=$PWD/m.gguf
export QWEN_MODEL

# fails STATUS WORDS NAME CMD...: exits so, with one line that has WORDS, and
# nothing on stdout
fails() {
	want=$1 words=$2 name=$3
	shift 3
	"$@" >out 2>err </dev/null
	is "$?" "$want" "$name: status"
	is "$(wc -c <out | tr -d ' ')" 0 "$name: nothing on stdout"
	is "$(wc -l <err | tr -d ' ')" 1 "$name: one line"
	grep -q -e "$words" err
	ok $? "$name: says what" || cat err >&2
}

# -- a file that does not say how text is cut
LC_ALL=C sed 's/tokenizer[.]ggml[.]pre/tokenizer.ggml.prx/' m.gguf >old.gguf
printf 'Et tu, 12 a\314\201b\n\n x' >text
qtok text >want
qtok -m old.gguf text >got 2>err
is "$? $(cat err)" "0 qtok: old.gguf: has no tokenizer.ggml.pre: text is split as by qwen2" "a note"
is "$(qtok -f text -m old.gguf text 2>&1 | grep -v '^qtok' | xargs)" "$(qtok -f text text | xargs)" "as by qwen2"
is "$(qtok -q -m old.gguf -f text text 2>&1 | xargs)" "$(qtok -f text text | xargs)" "-q: no note"
is "$(qtok -d -m old.gguf got 2>&1)" "$(cat text)" "none for tokens"
is "$(gguf-inspect old.gguf | grep ^usable)" "usable yes" "it can be used"
LC_ALL=C sed 's/tokenizer[.]ggml[.]pre/tokenizer.ggml.prx/' other.gguf >old.gguf
fails 1 "no tokenizer.ggml.pre" "none, and the architecture has another" qtok -m old.gguf

# -- text up to a text
echo 'one two three two' >text
is "$(qtok text | qtok -d --stop wo)" "one t" "--stop: what is before it"
is "$(qtok text | qtok -d --stop xyz --stop 'e t')" "on" "the first of several, across borders"
is "$(qtok text | qtok -d --stop 'two four' --stop 'two
x')" "$(cat text)" "what only begins like it is text"
is "$(qtok text | qtok -d --stop one)" "" "at the very beginning"
is "$(printf 'a stop b\0c\0stop\0d st' | qtok -0 | qtok -0d --stop stop | tr '\0' '|')" "a |c||d st|" \
    "with -0 in each document"
mkfifo held
(qtok text; exec sleep 60) >held &
pid=$!
is "$(qtok -d --stop two <held)" "one " "nothing is waited for after it"
kill $pid
wait $pid 2>/dev/null
fails 2 'needs -d' "--stop without -d" qtok --stop x
fails 2 'text is empty' "--stop ''" qtok -d --stop ''

# -- round trip
printf 'caf\303\251 \344\270\255\346\226\207 \360\237\246\231\n\n  if (x != 1)\r\n\treturn "<think>";\n' >text
qtok <text | qtok -d | cmp -s - text
ok $? "text comes back through CBOR"
qtok -f text <text | qtok -d | cmp -s - text
ok $? "and through decimal ids"
i=0
while [ $i -lt 256 ]; do
	# shellcheck disable=SC2059
	printf "\\$(printf %03o $i)"
	i=$((i + 1))
done >bytes
qtok <bytes | qtok -d --bytes | cmp -s - bytes
ok $? "any bytes come back with --bytes"
qtok <bytes | qtok -d >out
is "$(iconv -f UTF-8 -t UTF-8 <out | wc -c)" "$(wc -c <out)" "without it, text is UTF-8"
qtok text >a
qtok - <text >b
cmp -s a b
ok $? "a file, and stdin as -"
head -c 9 text >t1
tail -c +10 text >t2
qtok t1 - <t2 | qtok -d | cmp -s - text
ok $? "operands are one text, also where they meet inside a character"
(qtok t1; qtok t2) >two
qtok -d two | cmp -s - text
ok $? "streams can be concatenated, characters cut in two come together"
qtok -d a two >out
cat text text | cmp -s - out
ok $? "-d with operands"

# -- forms
is "$(printf 'a! 1' | qtok -f text | tr '\n' ' ')" "64 0 220 16 " "-f text: an id a line"
is "$(printf 'a! 1' | qtok -f json | jq -r 'select(.tokens) | .tokens[]' | tr '\n' ' ')" \
    "64 0 220 16 " "-f json, for jq"
is "$(printf 'a! 1' | qtok -f json | jq -r 'select(.kind) | "\(.kind) \(.n_vocab)"')" \
    "tokens $(gguf-inspect --json m.gguf | jq '.metadata["tokenizer.ggml.tokens"] | length')" "the header says whose ids"
is "$(printf 'a! 1' | qtok -c)" 4 "-c counts"
printf 'a! 1' >four
printf 'a!' >'a b'
is "$(qtok -c four 'a b' | tr '\n' ,)" "4 four,2 a b,6 total," "-c of several: each, and all"
is "$(qtok -c four) $(qtok -c four - <'a b' | tr '\n' ,)" "4 4 four,2 stdin,6 total," \
    "-c of one, and with stdin"
if script -qec true /dev/null </dev/null >/dev/null 2>&1; then
	is "$(script -qec 'printf a | qtok | qtok -d; printf "a\n" | qtok | qtok -d' \
	    /dev/null </dev/null | tr -d '\r' | tr '\n' ,)" "a,a," "-d: a terminal gets its line feed"
else
	skip "-d: a terminal gets its line feed" "no script(1)"
fi
is "$(printf '  64\n0\t220 16' | qtok -d)" "a! 1" "decimal ids among any white space"

# -- documents
is "$(printf 'a\0\0a!\0' | qtok -0 -f text | tr '\n' '|')" "64||64 0|" "-0: a line a document, empty ones too"
is "$(printf 'a\0\0a!' | qtok -0 -f text | tr '\n' '|')" "64||64 0|" "the last document may end without a NUL"
is "$(printf '' | qtok -0 -f text | wc -l | tr -d ' ')" 0 "no text, no document"
is "$(printf '\0' | qtok -0 -f text | wc -l | tr -d ' ')" 1 "one NUL, one empty document"
is "$(printf 'a\0\0a!' | qtok -0c | tr '\n' ' ')" "1 0 2 " "-0c counts each"
# of tokens that are there: of a stream, of decimal ids, of several, of documents
qtok four >four.cbor
qtok -f text 'a b' >two.txt
is "$(qtok -dc four.cbor) $(qtok -dc <two.txt) $(qtok -dc </dev/null)" "4 2 0" \
    "-d -c counts tokens"
is "$(qtok -dc four.cbor two.txt | tr '\n' ,)" "4 four.cbor,2 two.txt,6 total," \
    "of several: each, and all"
is "$(printf 'a\0\0a!' | qtok -0 | qtok -0dc | tr '\n' ' ')" "1 0 2 " \
    "and of documents"
qtok -c four.cbor >out 2>err
is "$? $(wc -c <out) $(grep -c 'and -d counts tokens$' err)" "1 0 1" \
    "a stream is no text that is counted: $(cat err)"
echo 1 99999999 | qtok -dc >out 2>err
is "$? $(wc -c <out) $(wc -l <err)" "1 0 1" "nor is what is not in the vocabulary"
is "$(printf 'a\0\0a!' | qtok -0 | qtok -0d | od -An -c | tr -d ' ')" 'a\0\0a!\0' "-0d ends each with a NUL"
is "$(printf 'a\0\0a!' | qtok -0 -f text | qtok -0d | od -An -c | tr -d ' ')" 'a\0\0a!\0' "also from decimal ids"
is "$(printf 'a\0\0a!' | qtok -0 | qtok -d)" "aa!" "-d alone runs them together"
is "$(printf 'a\0b' | qtok | qtok -d | od -An -c | tr -d ' ')" 'a\0b' "without -0 a NUL is text"
is "$(printf "can't\0 can\0't" | qtok -0 -f text)" \
    "$(for t in "can't" " can" "'t"; do printf '%s' "$t" | qtok -f text | tr '\n' ' ' | sed 's/ $//'; echo; done)" \
    "documents know nothing of each other"
printf '\344\0\270\255' | qtok -0 | qtok -0d | od -An -tx1 | tr -d ' \n' >out
is "$(cat out)" "efbfbd00efbfbdefbfbd00" "nor do halves of characters"

# -- empty
is "$(qtok -c </dev/null)" 0 "no text, no token"
is "$(qtok -f text </dev/null | wc -c | tr -d ' ')" 0 "no text in, none out"
qtok </dev/null | qtok -d >out
is "$?$(wc -c <out | tr -d ' ')" 00 "a header alone decodes to nothing"
qtok -d </dev/null >out
is "$?$(wc -c <out | tr -d ' ')" 00 "nothing decodes to nothing"

# -- control tokens
end=$(printf '<|im_end|>' | qtok --special -f text)
is "$(echo "$end" | wc -l | tr -d ' ')" 1 "--special: a control token in the text is one id"
is "$(printf '<|im_end|>' | qtok -c)" "$(printf '<|im_end|>' | qtok -f text | wc -l | tr -d ' ')" "never by default"
printf '<|im_end|>' | qtok -f text | grep -q "^$end\$"
is "$?" 1 "then it is plain text"
is "$(echo "$end" | qtok -d)" "" "-d passes over control tokens"
is "$(echo "$end" | qtok -d --show-special)" "<|im_end|>" "--show-special shows them"
is "$(printf '<think>' | qtok -c)" 1 "<think> is always a token"
is "$(printf '<think>' | qtok | qtok -d)" "<think>" "and always text"

# -- as it comes
mkfifo in
qtok -f text <in >ids &
pid=$!
exec 3>in
printf '1 ' >&3
n=0
while [ ! -s ids ] && [ $n -lt 3000 ]; do sleep 0.1; n=$((n + 1)); done
is "$(cat ids)" 16 "a token leaves before the text ends"
exec 3>&-
wait $pid
is "$?$(tr '\n' ' ' <ids)" "016 220 " "the rest at the end"
qtok -d <in >out &
pid=$!
exec 3>in
printf '64 65 ' >&3
n=0
while [ ! -s out ] && [ $n -lt 3000 ]; do sleep 0.1; n=$((n + 1)); done
is "$(cat out | cut -c 1)" a "text leaves before the tokens end"
exec 3>&-
wait $pid
is "$?$(cat out)" 0ab "the rest at the end"
(printf '\360\237'; sleep 0.2; printf '\246\231') | qtok | qtok -d >out
is "$(cat out)" "$(printf '\360\237\246\231')" "a character that comes in two halves"

# -- the other end goes away
i=0
while [ $i -lt 2000 ]; do echo "line $i of some text, more than a pipe holds"; i=$((i + 1)); done >long
cat long long long long long long long long >longer
cat longer longer longer longer >longest
(qtok -f text longest; echo $? >status) 2>err | head -n 1 >/dev/null
st=$(cat status)
[ "$st" = 141 ] || [ "$st" = 1 ]
ok $? "head closes the pipe (status $st)"
is "$(wc -c <err | tr -d ' ')" 0 "and nothing is said"
qtok longest >longest.cbor
(qtok -d longest.cbor; echo $? >status) 2>err | head -n 1 >/dev/null
st=$(cat status)
[ "$st" = 141 ] || [ "$st" = 1 ]
ok $? "also with -d (status $st)"
is "$(wc -c <err | tr -d ' ')" 0 "and nothing is said then"
qtok -d longest.cbor | cmp -s - longest
ok $? "a long text comes back"
if [ -c /dev/full ]; then
	for o in "text" "-f text text" "-f json text" "-c text" "-0 text" "-d a" "-0d a"; do
		# shellcheck disable=SC2086
		qtok $o >/dev/full 2>err
		is "$?$(wc -l <err | tr -d ' ')$(grep -c 'No space' err)" 111 "full disk: qtok $o"
	done
else
	skip "full disk" "no /dev/full"
fi
qtok text >&- 2>err
is "$?" 1 "stdout closed"

# -- tokens that are none
for t in "64 x" "64 -1" "64 99999999" "64 99999999999999999999" "1.5" "64,65" "0x40" "+64"; do
	printf '%s\n' "$t" | qtok -d >out 2>err
	is "$?$(wc -l <err | tr -d ' ')" 11 "ids: $t"
done
QWEN_MODEL=other.gguf qtok text | qtok -d >out 2>err
is "$?$(wc -l <err | tr -d ' ')$(wc -c <out | tr -d ' ')" 110 "tokens of another vocabulary"
a_fp=$(qtok -f json text | jq -r 'select(.kind).vocabulary')
b_fp=$(qtok -m other.gguf -f json text | jq -r 'select(.kind).vocabulary')
grep -q "$(echo "$a_fp" | cut -c 1-8)" err && grep -q "$(echo "$b_fp" | cut -c 1-8)" err
ok $? "both are named" || cat err >&2
n=$(wc -c <a)
for k in 1 $((n / 3)) $((n / 2)) $((n - 1)); do
	head -c $k a | qtok -d >out 2>err
	is "$?$(wc -l <err | tr -d ' ')" 11 "a stream cut after $k bytes"
done
qtok -d text >out 2>err
is "$?$(wc -l <err | tr -d ' ')$(wc -c <out | tr -d ' ')" 110 "text where tokens belong"

# -- files
fails 1 "no-such-file: No such file" "a file that is not there" qtok no-such-file
fails 1 "no-such-file: No such file" "nor as a second operand" qtok text no-such-file
fails 1 "no-such-model: no such file, and no model" "a model that is not there" qtok -m no-such-model text
fails 1 "tokenizer" "a model without a vocabulary" qtok -m "$TOP/tests/files/gguf/good-v3.gguf" text
fails 1 "tokenizer" "also to decode" qtok -d -m "$TOP/tests/files/gguf/good-v3.gguf" a
fails 1 "text" "a model that is none" qtok -m text text
mkdir folder
fails 1 "folder: Is a directory" "a directory" qtok -c folder
fails 1 "m.gguf" "a state or model where tokens belong" qtok -d m.gguf
if [ "$(id -u)" != 0 ]; then
	cp text secret
	chmod 0 secret
	fails 1 "secret: Permission denied" "a file not to be read" qtok secret
else
	skip "a file not to be read" "root reads all"
fi
mkdir "a folder"
cp m.gguf "a folder/a model.gguf"
chmod a-w "a folder/a model.gguf"
is "$(printf a! | qtok -c -m "a folder/a model.gguf")" 2 "a read-only model, spaces in its path"

# -- command lines
fails 2 "^qtok: -c prints only a number.*not with --stop; see qtok --help$" \
    "-c with --stop" qtok -c -d --stop x text
fails 2 "^qtok: -c prints only a number.*not with --bytes; see qtok --help$" \
    "-c with --bytes" qtok -dc --bytes text
fails 2 "not with -d; see qtok --help$" "-f with -d" qtok -d -f text a
fails 2 "not with -c; see qtok --help$" "-f with -c" qtok -c -f text a
fails 2 "use --show-special; see" "--special with -d" qtok -d --special a
fails 2 "bytes needs -d; see" "--bytes without -d" qtok --bytes text
fails 2 "show-special needs -d; see" "--show-special without -d" qtok --show-special text
fails 2 "^qtok: -f: 'raw' is not one of cbor, text, json and prompt; see" "-f raw" qtok -f raw text
fails 2 "-f: 'xml' is not one of" "-f with another word" qtok -f xml text
fails 2 "^qtok: unknown option -y; see qtok --help$" "an unknown option" qtok -y text
fails 2 "-f: 'xml' is not one of" "-f before a model that is not there" qtok -f xml -m no-such-model text
is "$(qtok --version | cut -d ' ' -f 1)" qtok "--version"
qtok --help | grep -q '^usage: qtok'
ok $? "--help"
qtok -v text >out 2>err
is "$(grep -c "$(wc -c <text | tr -d ' ') bytes" err)" 1 "-v says how much, on stderr"
cmp -s out a
ok $? "and changes nothing"

# -- a line without a space
tr -d ' \n' <longest | head -c 2000000 >line
qtok line | qtok -d | cmp -s - line
ok $? "a line of $(wc -c <line | tr -d ' ') bytes without a space"
done_testing
