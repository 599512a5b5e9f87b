#!/bin/sh
# Structs that a program fills and passes in may grow, so their size is passed,
# too (qwen/base.h): the headers declare X_sized, and X as a macro.
. "$TOP/tests/cli/tap.sh"

# Structs that functions take without a size, and why they cannot grow.
cat >fixed <<'EOT'
qwen_adapter		elements of an array in struct qwen_model_opts
qwen_advice		a function fills it for its caller
qwen_cache_usage	a function fills it for its caller
qwen_card_speed		a function fills an array of it for its caller
qwen_checkpoint		elements of an array in struct qwen_state_info
qwen_checkpoints	struct qwen_eval points to it
qwen_constraint		it goes by value, and refers to a table of callbacks
qwen_draft_stats	a function fills it for its caller
qwen_embedding		a function fills it for its caller, who may change it
qwen_err		every function fills it for its caller
qwen_fp			a fingerprint: 16 bytes
qwen_gguf_kv		the library makes it and shows it
qwen_gguf_tensor	the library makes it and shows it
qwen_header		records, readers and states hold it or point to it
qwen_kernel_stat	elements of an array that a function fills
qwen_machine		a function fills it for its caller
qwen_plan_home		a function fills an array of it for its caller
qwen_plan		a function fills it for its caller
qwen_record		a function fills it for its caller
qwen_rope		headers and options hold it
qwen_row_pair		a function fills it for its caller
qwen_run		struct qwen_state_extra holds it
qwen_sample_top		elements of an array that a function fills
qwen_span		elements of arrays, and of blocks of states
qwen_state_block	a function fills it for its caller
qwen_state_extra	both sides fill it, and own parts of it in turn
qwen_state_layer	elements of an array that the library makes
qwen_state_loss		a function fills it for its caller
qwen_state_value	a function fills it for its caller
qwen_store_gc_result	a function fills it for its caller
qwen_str		a pointer and a length, also by value
qwen_trace_value	struct qwen_record holds it
qwen_work_stats		a function fills it for its caller
EOT

# What headers declare: "open S" for a struct with members, "takes F S" for a
# parameter of that type, "macro F S" for a macro F that passes the size of S.
# Parameters of callbacks are left out: the library passes those.
declared() {
	cat "$@" | sed 's|/\*.*\*/||; /\/\*/,/\*\//d' | awk '
	/^#define .*\(\.\.\.\) \\$/ { macro = $2; sub(/\(.*/, "", macro); next }
	macro != "" {
		at = macro "_sized(sizeof(struct "
		if (sub(/, __VA_ARGS__\)$/, "") && index($0, at) == 2)
			print "macro", macro, substr($0, length(at) + 2, \
			    length($0) - length(at) - 2)
		macro = ""
		next
	}
	/^#/ || /^extern "C" {$/ || /^}$/ { next }
	/^(struct|enum).*{$/ { body = 1; if ($1 == "struct") print "open", $2 }
	body { body = !/^}/; next }
	{ all = all " " $0 }
	/;$/ {
		gsub(/\(\*[a-z]*\)\([^()]*\)/, "", all)
		f = all
		sub(/\(.*/, "", f)
		sub(/.*[ *]/, "", f)
		sub(/^[^(]*/, "", all)
		while (match(all, /struct qwen_[a-z0-9_]+ /)) {
			print "takes", f, substr(all, RSTART + 7, RLENGTH - 8)
			all = substr(all, RSTART + RLENGTH)
		}
		all = ""
	}'
}

# What is wrong with these, a line each.
wrong() {
	declared "$@" | sort -u | awk -v fixed="$PWD/fixed" '
	BEGIN { while ((getline <fixed) > 0) exempt[$1] }
	$1 == "open" { open[$2] }
	$1 == "macro" { size[$2 "_sized"] = $3 }
	$1 == "takes" { f[++n] = $2; s[n] = $3 }
	END {
		for (i = 1; i <= n; i++) {
			if (!(s[i] in open))
				continue;
			if (f[i] in size && size[f[i]] == s[i])
				has[f[i]]
			else if (s[i] in exempt)
				used[s[i]]
			else
				print f[i] " takes struct " s[i] " without its size"
			if (f[i] ~ /_sized$/ && !(f[i] in size))
				print f[i] " has no macro"
		}
		for (m in size)
			if (!(m in has))
				print m " does not take the struct " size[m]
		for (e in exempt)
			if (!(e in used))
				print "no function takes struct " e
	}' | sort -u
}

wrong "$TOP"/lib/qwen/*.h >other
[ ! -s other ]
ok $? "each struct that a program fills goes with its size"
sed 's/^/# /' other >&2
declared "$TOP"/lib/qwen/*.h >all
[ "$(grep -c '^macro' all)" -ge 19 ]
ok $? "$(grep -c '^macro' all) functions take a size"
sed -n 's/^macro \([^ ]*\) .*/\1_sized/p' all | while read -r f; do
	grep -qw "$f" "$TOP/tests/unit/struct_sizes.c" || echo "$f"
done >other
[ ! -s other ]
ok $? "unit/struct_sizes calls each of them"
sed 's/^/# /' other >&2

# -- a header in which somebody forgot
cp "$TOP"/lib/qwen/*.h .
cat >>session.h <<'EOT'
struct qwen_new_opts {
	int	n;
};
int qwen_new(struct qwen_session *s,
    const struct qwen_new_opts *o, struct qwen_err *err);
EOT
is "$(wrong ./*.h)" "qwen_new takes struct qwen_new_opts without its size" \
    "one without it is found"
sed 's/^\(	qwen_work_add_sized(sizeof(struct qwen_job\)/\1_end/' work.h >new
mv new work.h
is "$(wrong ./work.h ./base.h | grep add)" \
    "qwen_work_add_sized does not take the struct qwen_job_end
qwen_work_add_sized takes struct qwen_job without its size" \
    "and a macro with the size of another"
done_testing
