# SPDX-License-Identifier: GPL-2.0-only
# Measures the cells of a study: each line of /study/cells is
#
#	NAME DEVICE SCHEDULER SEED JOB...
#
# with the words of timed-load. What was measured comes to /output/NAME.
. /tests/common.sh

insmod /sfq-iosched.ko
modprobe bfq
modprobe kyber-iosched
# What the kernel still does after its start is not to be measured; idle time costs none.
sleep 10

while read -r name device scheduler seed jobs; do
	study_disk "$device" "$seed" completion_nsec=200000 hw_queue_depth=2
	use_scheduler "$scheduler" "$disk"
	# Jobs have no blanks in them.
	# shellcheck disable=SC2086
	/timed-load "/dev/$disk" $((size_mib << 20)) "$seed" $jobs > "/output/$name" < /dev/null ||
		fail "the processes of $name failed"
	end_study_disk "/output/$name"
	echo "cell $name"
done < /study/cells
kernel_is_content
