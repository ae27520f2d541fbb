# SPDX-License-Identifier: GPL-2.0-only
# Records what a scheduler was asked and chose: for each /workloads/NAME.jobs, under the scheduler in
# NAME.scheduler with the tunables in NAME.set, into /output/NAME.trace. The disks are slow, so that requests
# wait for them. With NAME.mount the jobs are done in a file of the file system ext4 on the disk.
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
# Names of processes need probes where a process wakes up (tracing_sched_register(), kernel/trace/trace_sched_switch.c).
# The kernel would change that code while other processors run it, with a breakpoint meanwhile (text_poke_bp_batch(),
# arch/x86/kernel/alternative.c). An emulated processor may meet the breakpoint when it is gone: one boot in 13 of four
# processors ended with "Oops: int3" in ttwu_do_activate().
echo 0 > $tracing/options/record-cmd

# One request at a time; three at a time; with a cache that is flushed and written through, and discards, which
# need a memory; with a hardware queue for each processor.
null_disk nullb0 size=256 blocksize=512 memory_backed=0 completion_nsec=1500000 hw_queue_depth=1
null_disk nullb1 size=256 blocksize=512 memory_backed=0 completion_nsec=4000000 hw_queue_depth=3
null_disk nullb2 size=64 blocksize=512 memory_backed=1 discard=1 cache_size=4 completion_nsec=2000000 hw_queue_depth=2
null_disk nullb3 size=256 blocksize=512 memory_backed=0 submit_queues=4 completion_nsec=4000000 hw_queue_depth=1
# It gives requests back, and takes others only later.
insmod /sfq-test-disk.ko requeue_every=7 busy_every=11 service_us=3000

# A disk of zones, the first four of which are written in any order. It is made anew for each workload, which finds
# its zones empty.
make_zones() {
	null_disk nullb4 size=256 blocksize=512 memory_backed=0 zoned=1 zone_size=4 zone_nr_conv=4 \
		completion_nsec=2000000 hw_queue_depth=4
}

remove_zones() {
	echo none > /sys/block/nullb4/queue/scheduler
	rmdir /sys/kernel/config/nullb/nullb4
}

for path in /workloads/*.jobs; do
	name=$(basename "$path" .jobs)
	read -r device jobs < "$path"
	[ "$device" != nullb4 ] || make_zones
	target=/dev/$device
	if [ -e "/workloads/$name.mount" ]; then
		mkfs.ext4 -qF -E lazy_itable_init=0,lazy_journal_init=0 "$target"
		mkdir -p /mnt
		mount -t ext4 "$target" /mnt
		target=/mnt/load
		dd if=/dev/zero of=$target bs=1M count=24 2> /dev/null
		sync
	fi
	scheduler=$(cat "/workloads/$name.scheduler")
	rotational=0
	[ ! -e "/workloads/$name.rotational" ] || rotational=$(cat "/workloads/$name.rotational")
	echo "$rotational" > "/sys/block/$device/queue/rotational"
	echo > $tracing/trace
	# From the first request on, which may be the file system's own.
	case $scheduler in
	sfq | sfq2)
		events=$tracing/events/$scheduler/enable
		echo 1 > "$events"
		;;
	esac
	select_scheduler "$scheduler" "$device" 256
	# As large as the simulator's requests may get.
	[ "$(cat "$queue/max_sectors_kb")" -le 512 ] || echo 512 > "$queue/max_sectors_kb"
	while read -r tunable value; do
		echo "$value" > "$queue/iosched/$tunable"
	done < "/workloads/$name.set"
	case $scheduler in
	sfq | sfq2) ;;
	*)
		# Its clock begins with the workload.
		insmod /sched-recorder.ko scheduler="$scheduler"
		events=$tracing/events/sched_recorder/enable
		echo 1 > "$events"
		;;
	esac
	# Jobs have no blanks in them.
	# shellcheck disable=SC2086
	timeout -s KILL 60 /load "$target" $jobs || fail "$name failed, or a request was lost"
	sync
	[ ! -e "$sched/counters" ] || accounts_balance > /dev/null
	echo 0 > "$events"
	[ "$target" != /mnt/load ] || umount /mnt
	if grep -h '^overrun: [1-9]\|^dropped events: [1-9]' $tracing/per_cpu/cpu*/stats; then
		fail "events of $name were lost"
	fi
	grep -E ': (sfq2?_|sched_recorder(_dispatch)?: )' $tracing/trace > "/output/$name.trace"
	! grep -q '^sched_recorder ' /proc/modules || rmmod sched_recorder
	[ "$device" != nullb4 ] || remove_zones
done
for device in nullb0 nullb1 nullb2 nullb3 sfqtest; do
	echo none > "/sys/block/$device/queue/scheduler"
done
rmmod sfq_iosched sfq2_iosched
kernel_is_content
