# SPDX-License-Identifier: GPL-2.0-only
# Measures the cells of a study of cases: each line of /study/cells is
#
#	NAME DEVICE SCHEDULER SEED MILLISECONDS JOB...
#
# with the words of fair-load. What was measured comes to /output/NAME.
. /tests/common.sh

insmod /sfq-iosched.ko
insmod /sfq2-iosched.ko
modprobe bfq
modprobe kyber-iosched
# Write-back begins at once, and a writer is stopped before it takes long to end. The simulated board has the same.
echo 4194304 > /proc/sys/vm/dirty_background_bytes
echo 8388608 > /proc/sys/vm/dirty_bytes
# What the kernel still does after its start is not to be measured; idle time costs none.
sleep 10

while read -r name device scheduler seed milliseconds jobs; do
	study_disk "$device" "$seed" completion_nsec=5000000 hw_queue_depth=1
	use_scheduler "$scheduler" "$disk"
	# bfq turns write-back throttling off, so it is off under all of them.
	[ ! -e "$queue/wbt_lat_usec" ] || echo 0 > "$queue/wbt_lat_usec"
	# Jobs have no blanks in them.
	# shellcheck disable=SC2086
	/fair-load "/dev/$disk" "/sys/block/$disk/stat" $((size_mib << 20)) "$seed" "$milliseconds" $jobs \
		> "/output/$name" < /dev/null || fail "the processes of $name failed"
	# What is dirty still goes out under the scheduler that it came in under.
	sync
	end_study_disk "/output/$name"
	echo "cell $name"
done < /study/cells
kernel_is_content
