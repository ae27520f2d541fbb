# SPDX-License-Identifier: GPL-2.0-only
# Measures the cells of a study: each line of /study/cells is
#
#	NAME DEVICE SCHEDULER SEED JOB...
#
# with the words of timed-load. What was measured comes to /output/NAME.
. /tests/common.sh

size_mib=1024

insmod /sfq-iosched.ko
modprobe bfq
modprobe kyber-iosched
# What the kernel still does after its start is not to be measured; idle time costs none.
sleep 10

# As many requests as blk-mq lets a scheduler have, each as large as the simulated ones may get.
use_scheduler() {
	queue=/sys/block/$2/queue
	if [ "$1" = none ]; then
		echo none > "$queue/scheduler"
	else
		select_scheduler "$1" "$2" 256
	fi
	grep -q "\\[$1\\]" "$queue/scheduler" || fail "$1 is not selected for $2"
	[ "$(cat "$queue/max_sectors_kb")" -le 512 ] || echo 512 > "$queue/max_sectors_kb"
}

while read -r name device scheduler seed jobs; do
	case $device in
	null-blk)
		[ -b /dev/nullb0 ] || null_disk nullb0 size=$size_mib blocksize=4096 memory_backed=0 \
			completion_nsec=200000 hw_queue_depth=2 max_sectors=1024
		disk=nullb0
		;;
	flash-card)
		# Each cell finds the card in the midst of its work, nearer or further from its next
		# cleaning; also short loads meet one.
		insmod /sfq-flash-card.ko size_mib=$size_mib programmed=$((180 + seed % 76))
		disk=sfqcard
		;;
	*)
		fail "no device $device"
		;;
	esac
	use_scheduler "$scheduler" $disk
	# Jobs have no blanks in them.
	# shellcheck disable=SC2086
	/timed-load /dev/$disk $((size_mib << 20)) "$seed" $jobs > "/output/$name" < /dev/null ||
		fail "the processes of $name failed"
	echo none > "/sys/block/$disk/queue/scheduler"
	if [ "$device" = flash-card ]; then
		echo "cleanings $(cat /sys/module/sfq_flash_card/parameters/cleanings)" >> "/output/$name"
		rmmod sfq_flash_card
	fi
	echo "cell $name"
done < /study/cells
kernel_is_content
