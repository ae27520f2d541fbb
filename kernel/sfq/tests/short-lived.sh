# SPDX-License-Identifier: GPL-2.0-only
# How long an old process waits beside a stream of short-lived ones, which all are new to the scheduler: a reader
# and a writer, with the starvation check and without. Says, for each,
#
#	short-lived KIND expiry=on|off longest_ns N mean_ns N requests N short_lived N
#
# The disk takes one request at a time, 5 ms each, so that eight short-lived processes fill a round of 40 ms.
. /tests/common.sh

insmod /sfq-iosched.ko
null_disk nullb0 size=64 blocksize=4096 memory_backed=0 completion_nsec=5000000 hw_queue_depth=1
for kind in read dsync-write; do
	for expiry in on off; do
		select_sfq nullb0 256
		if [ $expiry = off ]; then
			# The longest there is: fifty days.
			echo 4294967295 > "$queue/iosched/read_expire"
			echo 4294967295 > "$queue/iosched/write_expire"
		fi
		measured=$(/short-lived /dev/nullb0 67108864 1 $kind 100 8 5) || fail "the processes failed"
		echo "short-lived $kind expiry=$expiry $measured"
		accounts_balance
	done
done
echo none > "$queue/scheduler"
rmmod sfq_iosched
kernel_is_content
note "short-lived passed"
