# SPDX-License-Identifier: GPL-2.0-only
# Each scheduler under load until it has served so many requests, while everything that can go wrong does: requests
# that come back, memory that runs out, processes that are killed, changes of scheduler and of tunables under load.
# The caller sets `requests` and `processors`.
. /tests/common.sh

# The faults of a kernel's memory: a share of the allocations of one slab fail (Documentation/fault-injection).
fail_queues_of() {
	slab=/sys/kernel/slab/${1}_queue
	[ -e "$slab/failslab" ] || return 0
	# Read-only in Linux 6.1, where the kernel's command line says `slub_debug=A,CACHE` (mm/slub.c).
	[ "$(cat "$slab/failslab")" = 1 ] || echo 1 > "$slab/failslab"
	faults=/sys/kernel/debug/failslab
	echo 1 > $faults/cache-filter
	echo 30 > $faults/probability
	echo -1 > "$faults/times"
	echo 0 > $faults/verbose
	has_failslab=yes
}

# Waits for memory that a scheduler did not get are no loss: the request is served from another queue.
counts_balance() {
	sync
	in=$(($(counter inserted) + $(counter requeued)))
	out=$(($(counter dispatched) + $(counter absorbed)))
	[ "$in" = "$out" ] || fail "$in requests came and $out left: $(cat "$sched/counters")"
	awk '/^(sync|async|dispatch) / && $2 != 0 { exit 1 }' "$sched/state" ||
		fail "requests are still queued: $(cat "$sched/state")"
}

# Reads every file of the scheduler and writes each tunable back, as long as the load lasts.
meddle() {
	while [ -e /run/meddle ]; do
		cat "$sched"/* > /dev/null 2>&1 || true
		for knob in "$queue"/iosched/*; do
			value=$(cat "$knob" 2> /dev/null) || continue
			echo "$value" > "$knob" 2> /dev/null || true
		done
		sleep 0.5
	done
}

# load DISK MEBIBYTES: a mix of about 30,000 requests, and readers that are killed in the midst of theirs. Starting a
# process costs this slow machine more than a hundred requests, so few are started.
load() {
	# Buffered and direct I/O of the same sectors would be a fault of the load.
	half=$(($2 / 2))m
	run_fio 3600 --filename="/dev/$1" --size=$half --randrepeat=0 --norandommap=1 --io_size=1g \
		--name=deep --ioengine=libaio --direct=1 --iodepth=32 --rw=randrw --bsrange=512-32k --bs_unaligned=0 \
		--blockalign=512 --numjobs=3 --number_ios=5000 \
		--name=neighbours --ioengine=libaio --direct=1 --iodepth=16 --iodepth_batch=8 --rw=rw --bs=4k \
		--number_ios=5000 \
		--name=single --ioengine=psync --direct=1 --rw=randrw --bs=4k --number_ios=1500 \
		--name=buffered --offset=$half --ioengine=psync --rw=randwrite --bs=4k --number_ios=5000 --end_fsync=1 \
		--name=fsync --offset=$half --ioengine=psync --rw=randwrite --bs=4k --fsync=4 --number_ios=500 \
		--name=threads --thread=1 --ioengine=psync --direct=1 --rw=randread --bs=4k --numjobs=8 --number_ios=250 &
	busy=$!
	while kill -0 $busy 2> /dev/null; do
		dd if="/dev/$1" of=/dev/null bs=4k count=4000 iflag=direct 2> /dev/null &
		killed=$!
		sleep 1
		kill -KILL $killed 2> /dev/null || true
		wait $killed 2> /dev/null || true
		# A fault may stop the load, so it is not waited for.
		kernel_is_content
	done
	wait $busy || exit 1
}

soak() {
	insmod "/$1-iosched.ko"
	insmod /sfq-test-disk.ko requeue_every=13 busy_every=17 timeout_every=4999 service_us=20
	served=0
	rounds=0
	# Every third round on the disk that gives requests back, with memory short in every second: three at least.
	while [ $served -lt "$requests" ] || [ $rounds -lt 3 ]; do
		disk=nullb0
		size=64
		[ $((rounds % 3)) != 2 ] || { disk=sfqtest size=32; }
		select_scheduler "$1" $disk 256
		has_failslab=
		[ $((rounds % 2)) = 0 ] || fail_queues_of "$1"
		touch /run/meddle
		meddle &
		meddler=$!
		load $disk $size
		rm /run/meddle
		wait $meddler || true
		[ -z "$has_failslab" ] || echo 0 > /sys/kernel/debug/failslab/probability
		counts_balance
		served=$((served + $(counter dispatched)))
		short=$((short + $(counter no_memory)))
		came_back=$((came_back + $(counter requeued)))
		joined=$((joined + $(counter merged) + $(counter absorbed)))
		rounds=$((rounds + 1))
		echo none > "$queue/scheduler"
		kernel_is_content
	done
	rmmod sfq_test_disk
	rmmod "${1}_iosched"
	echo "soak $1 served $served rounds $rounds requeued $came_back merged $joined no_memory $short"
}

[ "$(nproc)" = "$processors" ] || fail "$(nproc) processors instead of $processors"
null_disk nullb0 size=64 blocksize=512 memory_backed=1 completion_nsec=20000 hw_queue_depth=16 submit_queues=2 \
	discard=1 cache_size=4
for scheduler in sfq sfq2; do
	short=0 came_back=0 joined=0
	soak $scheduler
done
# Lockdep turns itself off after its first report, and after it has run out of its tables.
[ ! -e /proc/lockdep_stats ] || grep -q 'debug_locks: *1' /proc/lockdep_stats || fail "lockdep is off"
kernel_is_content
note "soak passed"
