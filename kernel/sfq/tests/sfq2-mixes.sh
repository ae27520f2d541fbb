# SPDX-License-Identifier: GPL-2.0-only
# Records the waits of random mixes under sfq2: each line of /mixes is
#
#	NAME PLACES MILLISECONDS JOB...
#
# with the words of fair-load. The disk takes PLACES requests at a time, 2 ms each. What the module was asked
# and chose comes to /output/NAME.trace.
. /tests/common.sh

tracing=/sys/kernel/tracing
mount -t tracefs none $tracing
echo 40000 > $tracing/buffer_size_kb
insmod /sfq2-iosched.ko
for places in 1 2 4; do
	null_disk nullb$places size=256 blocksize=4096 memory_backed=0 completion_nsec=2000000 hw_queue_depth=$places
done
# Held open: whoever closes a disk as the last one waits for all that is dirty.
exec 3<> /dev/nullb1 4<> /dev/nullb2 5<> /dev/nullb4
# Write-back begins at once, and a writer is stopped before it takes long to end.
echo 4194304 > /proc/sys/vm/dirty_background_bytes
echo 8388608 > /proc/sys/vm/dirty_bytes

nothing_is_queued() {
	awk '/^(sync|async|waited_for|async_in_flight) / && $2 != 0 { exit 1 }' "$sched/state"
}

while read -r name places milliseconds jobs; do
	disk=nullb$places
	select_scheduler sfq2 "$disk" 256
	# Joined requests would cost more than the table of the mixes says.
	echo 2 > "$queue/nomerges"
	echo > $tracing/trace
	echo 1 > $tracing/events/sfq2/enable
	# Jobs have no blanks in them.
	# shellcheck disable=SC2086
	/fair-load "/dev/$disk" "/sys/block/$disk/stat" 268435456 1 "$milliseconds" $jobs > /dev/null < /dev/null ||
		fail "the processes of $name failed"
	# Without sync, whose writes would be one more process.
	wait_until 20 nothing_is_queued
	echo 0 > $tracing/events/sfq2/enable
	if grep -h '^overrun: [1-9]\|^dropped events: [1-9]' $tracing/per_cpu/cpu*/stats; then
		fail "events of $name were lost"
	fi
	grep ': sfq2_' $tracing/trace > "/output/$name.trace"
	accounts_balance
	echo none > "$queue/scheduler"
done < /mixes
kernel_is_content
note "mixes passed"
