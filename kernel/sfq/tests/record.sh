# SPDX-License-Identifier: GPL-2.0-only
# Records what a scheduler was asked and chose: for each /workloads/NAME.jobs, under the scheduler in
# NAME.scheduler with the tunables in NAME.set, into /output/NAME.trace. The disks are slow, so that requests
# wait for them. A disk is made when the first workload names it.
. /tests/common.sh

tracing=/sys/kernel/tracing
mount -t tracefs none $tracing
echo 20000 > $tracing/buffer_size_kb
insmod /sfq-iosched.ko
insmod /sfq2-iosched.ko
modprobe kyber-iosched
modprobe bfq
# Each processor writes down what it does: one clock for all puts it in order.
echo mono > $tracing/trace_clock

# make_disk NAME: one of those that the workloads use.
make_disk() {
	case $1 in
	nullb0) # One request at a time.
		null_disk nullb0 size=256 blocksize=512 memory_backed=0 completion_nsec=1500000 hw_queue_depth=1
		;;
	nullb1) # Three at a time.
		null_disk nullb1 size=256 blocksize=512 memory_backed=0 completion_nsec=4000000 hw_queue_depth=3
		;;
	nullb2) # With a cache that is flushed and written through, and discards, which need a memory.
		null_disk nullb2 size=64 blocksize=512 memory_backed=1 discard=1 cache_size=4 \
			completion_nsec=2000000 hw_queue_depth=2
		;;
	nullb3) # A hardware queue for each processor.
		null_disk nullb3 size=256 blocksize=512 memory_backed=0 submit_queues=4 \
			completion_nsec=4000000 hw_queue_depth=1
		;;
	sfqtest) # Gives requests back, and takes others only later.
		insmod /sfq-test-disk.ko requeue_every=7 busy_every=11 service_us=3000
		;;
	*)
		fail "no disk $1"
		;;
	esac
}

for path in /workloads/*.jobs; do
	name=$(basename "$path" .jobs)
	read -r device jobs < "$path"
	[ -b "/dev/$device" ] || make_disk "$device"
	scheduler=$(cat "/workloads/$name.scheduler")
	rotational=0
	[ ! -e "/workloads/$name.rotational" ] || rotational=$(cat "/workloads/$name.rotational")
	echo "$rotational" > "/sys/block/$device/queue/rotational"
	select_scheduler "$scheduler" "$device" 256
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
	timeout -s KILL 60 /load "/dev/$device" $jobs || fail "$name failed, or a request was lost"
	sync
	[ ! -e "$sched/counters" ] || accounts_balance > /dev/null
	echo 0 > "$events"
	if grep -h '^overrun: [1-9]\|^dropped events: [1-9]' $tracing/per_cpu/cpu*/stats; then
		fail "events of $name were lost"
	fi
	grep -E ': (sfq2?_|sched_recorder(_dispatch)?: )' $tracing/trace > "/output/$name.trace"
	! grep -q '^sched_recorder ' /proc/modules || rmmod sched_recorder
done
for device in nullb0 nullb1 nullb2 nullb3 sfqtest; do
	[ ! -b "/dev/$device" ] || echo none > "/sys/block/$device/queue/scheduler"
done
rmmod sfq_iosched sfq2_iosched
kernel_is_content
