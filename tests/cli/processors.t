#!/bin/sh
# The default number of threads of a tool: as many as it can use.
. "$TOP/tests/cli/tap.sh"
model qwen3 || exit

# threads COMMAND...: what qprefill under it says
threads() {
	echo 1 2 3 | "$@" qprefill -v -m "$MODEL" 2>&1 >/dev/null |
	    sed -n 's/.*, \([0-9]*\) threads\{0,1\}, .*/\1/p'
}
all=$(threads env)
ok "$([ "$all" -ge 1 ]; echo $?)" "a thread for each processor: $all"

if taskset -c 0 true 2>/dev/null; then
	is "$(threads taskset -c 0)" 1 "of those that taskset(1) leaves"
else
	skip "taskset(1)" "there is none, or no processor 0"
fi

# in_group GROUP COMMAND...
in_group() {
	sh -c 'echo $$ >"$0/cgroup.procs" && exec "$@"' "$@"
}
# a group of version 1, where one may be made
group=$(sed -n 's|^[0-9]*:\(.*,\)\{0,1\}cpu\(,.*\)\{0,1\}:|/sys/fs/cgroup/cpu|p' /proc/self/cgroup)
group=${group%/}/qpipe-test-$$
if [ -e "${group%/*}/cpu.cfs_quota_us" ] && mkdir "$group" 2>/dev/null &&
    (echo 50000 >"$group/cpu.cfs_quota_us") 2>/dev/null &&
    in_group "$group" true 2>/dev/null; then
	is "$(threads in_group "$group")" 1 "half a processor's time: one"
	echo 100100 >"$group/cpu.cfs_quota_us"
	two=$((all < 2 ? all : 2))
	is "$(threads in_group "$group")" "$two" "a little more than one's: two"
	echo -1 >"$group/cpu.cfs_quota_us"
	is "$(threads in_group "$group")" "$all" "without a limit: all"
else
	skip "a limit of a control group" "none can be made here"
fi
rmdir "$group" 2>/dev/null

# files as version 2 has them, with the limit of the group around it
cat >v2 <<'E2'
mount -t tmpfs none /sys/fs/cgroup || exit 99
d=/sys/fs/cgroup$(sed -n 's/^0:://p' /proc/self/cgroup)
mkdir -p "$d"
echo "$around" >/sys/fs/cgroup/cpu.max
[ "$d" = /sys/fs/cgroup/ ] || echo "$own" >"$d/cpu.max"
exec "$@"
E2
if grep -q '^0::' /proc/self/cgroup &&
    around='max 100000' own='max 100000' unshare -rm sh v2 true 2>/dev/null; then
	for quota in '20000 100000 1' '100000 100000 1' "max 100000 $all" "x $all"; do
		export around="${quota% *}" own='max 100000'
		is "$(threads unshare -rm sh v2)" "${quota##* }" \
		    "version 2: cpu.max is ${quota% *}"
	done
else
	skip "control groups of version 2" "no namespace to put one in"
fi
done_testing
