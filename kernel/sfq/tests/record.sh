# SPDX-License-Identifier: GPL-2.0-only
# Records what a scheduler was asked and chose: for each /workloads/NAME.jobs, under the scheduler in
# NAME.scheduler with the tunables in NAME.set, into /output/NAME.trace. The disks are slow, so that requests
# wait for them.
. /tests/common.sh

tracing=/sys/kernel/tracing
mount -t tracefs none $tracing
echo 20000 > $tracing/buffer_size_kb
insmod /sfq-iosched.ko
insmod /sfq2-iosched.ko
modprobe kyber-iosched
modprobe bfq
null_disk nullb0 size=256 blocksize=512 memory_backed=0 completion_nsec=1500000 hw_queue_depth=1
null_disk nullb1 size=256 blocksize=512 memory_backed=0 completion_nsec=4000000 hw_queue_depth=3

for path in /workloads/*.jobs; do
	name=$(basename "$path" .jobs)
	read -r disk jobs < "$path"
	scheduler=$(cat "/workloads/$name.scheduler")
	rotational=0
	[ ! -e "/workloads/$name.rotational" ] || rotational=$(cat "/workloads/$name.rotational")
	echo "$rotational" > "/sys/block/$disk/queue/rotational"
	select_scheduler "$scheduler" "$disk" 256
	# As large as the simulator's requests may get.
	[ "$(cat "$queue/max_sectors_kb")" -le 512 ] || echo 512 > "$queue/max_sectors_kb"
	while read -r tunable value; do
		echo "$value" > "$queue/iosched/$tunable"
	done < "/workloads/$name.set"
	echo > $tracing/trace
	case $scheduler in
	sfq | sfq2)
		events=$tracing/events/$scheduler/enable
		;;
	*)
		# Its clock begins with the workload.
		insmod /sched-recorder.ko scheduler="$scheduler"
		events=$tracing/events/sched_recorder/enable
		;;
	esac
	echo 1 > "$events"
	# Jobs have no blanks in them.
	# shellcheck disable=SC2086
	timeout -s KILL 60 /load "/dev/$disk" $jobs || fail "$name failed, or a request was lost"
	sync
	[ ! -e "$sched/counters" ] || accounts_balance > /dev/null
	echo 0 > "$events"
	if grep -h '^overrun: [1-9]\|^dropped events: [1-9]' $tracing/per_cpu/cpu*/stats; then
		fail "events of $name were lost"
	fi
	grep -E ': (sfq2?_|sched_recorder(_dispatch)?: )' $tracing/trace > "/output/$name.trace"
	! grep -q '^sched_recorder ' /proc/modules || rmmod sched_recorder
done
echo none > /sys/block/nullb0/queue/scheduler
echo none > /sys/block/nullb1/queue/scheduler
rmmod sfq_iosched sfq2_iosched
kernel_is_content
