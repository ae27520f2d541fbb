# SPDX-License-Identifier: GPL-2.0-only
# The seven mixes of docs/sfq2.md under sfq2. Says of each
#
#	row NAME rate N longest_us N
#
# The disk takes one request at a time, 5 ms each.
. /tests/common.sh

insmod /sfq2-iosched.ko
null_disk nullb0 size=256 blocksize=4096 memory_backed=0 completion_nsec=5000000 hw_queue_depth=1
# Write-back begins at once, and a writer is not stopped before there is plenty of it.
echo 4194304 > /proc/sys/vm/dirty_background_bytes
echo 134217728 > /proc/sys/vm/dirty_bytes

reader="--filename=/dev/nullb0 --direct=1 --rw=randread --bs=4k --time_based --runtime=6 --size=256m"

# measure NAME OPTIONS...: a reader with one request at a time, with options of its own before --, beside what follows.
measure() {
	name=$1 own=
	shift
	while [ "$1" != -- ]; do
		own="$own $1"
		shift
	done
	shift
	select_scheduler sfq2 nullb0 256
	# Options have no blanks in them.
	# shellcheck disable=SC2086
	timeout -s KILL 120 fio --output-format=terse $reader \
		--name=reader --ioengine=psync $own --name=other "$@" > /run/fio.log 2>&1 || {
		head -n 20 /run/fio.log
		fail "fio failed for $name"
	}
	awk -F ';' -v name="$name" '$3 == "reader" { print "row " name " rate " int($8) " longest_us " int($39) }' \
		/run/fio.log
	accounts_balance
}

measure depth-32 -- --ioengine=libaio --iodepth=32
measure depth-128 -- --ioengine=libaio --iodepth=128
measure threads -- --ioengine=libaio --iodepth=16 --numjobs=32 --thread
# Elsewhere, for a direct read waits for dirty pages of its own place; and invalidating would write them synchronously.
measure write-back --size=128m -- --ioengine=psync --direct=0 --rw=randwrite --offset=128m --size=128m --invalidate=0
measure real-time --prioclass=1 -- --ioengine=libaio --iodepth=32 --prioclass=3
for kind in read dsync-write; do
	select_scheduler sfq2 nullb0 256
	measured=$(/short-lived /dev/nullb0 67108864 1 $kind 100 8 5) || fail "the processes failed"
	echo "$measured" | awk -v kind=$kind '{ print "row short-lived-" kind " rate " $6 " longest_us " int($2 / 1000) }'
	accounts_balance
done
echo none > "$queue/scheduler"
rmmod sfq2_iosched
kernel_is_content
note "sfq2 rows passed"
