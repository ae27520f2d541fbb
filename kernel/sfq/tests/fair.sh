# SPDX-License-Identifier: GPL-2.0-only
# Measures the cells of a study of cases: each line of /study/cells is
#
#	NAME DEVICE SCHEDULER SEED MILLISECONDS JOB...
#
# with the words of fair-load. What was measured comes to /output/NAME.
. /tests/common.sh

size_mib=1024

insmod /sfq-iosched.ko
insmod /sfq2-iosched.ko
modprobe bfq
modprobe kyber-iosched
# Write-back begins at once, and a writer is stopped before it takes long to end. The simulated board has the same.
echo 4194304 > /proc/sys/vm/dirty_background_bytes
echo 8388608 > /proc/sys/vm/dirty_bytes
# What the kernel still does after its start is not to be measured; idle time costs none.
sleep 10

# As many requests as blk-mq lets a scheduler have. Write-back throttling is off under all of them: bfq has it off anyway.
use_scheduler() {
	queue=/sys/block/$2/queue
	if [ "$1" = none ]; then
		echo none > "$queue/scheduler"
	else
		select_scheduler "$1" "$2" 256
	fi
	grep -q "\\[$1\\]" "$queue/scheduler" || fail "$1 is not selected for $2"
	[ ! -e "$queue/wbt_lat_usec" ] || echo 0 > "$queue/wbt_lat_usec"
	[ "$(cat "$queue/max_sectors_kb")" -le 512 ] || echo 512 > "$queue/max_sectors_kb"
}

while read -r name device scheduler seed milliseconds jobs; do
	case $device in
	null-blk)
		[ -b /dev/nullb0 ] || null_disk nullb0 size=$size_mib blocksize=4096 memory_backed=0 \
			completion_nsec=5000000 hw_queue_depth=1 max_sectors=1024
		disk=nullb0
		;;
	flash-card)
		# Each cell finds the card nearer or further from its next cleaning, as in study.sh.
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
	/fair-load /dev/$disk /sys/block/$disk/stat $((size_mib << 20)) "$seed" "$milliseconds" $jobs \
		> "/output/$name" < /dev/null || fail "the processes of $name failed"
	# What is dirty still goes out under the scheduler that it came in under.
	sync
	echo none > "/sys/block/$disk/queue/scheduler"
	if [ "$device" = flash-card ]; then
		echo "cleanings $(cat /sys/module/sfq_flash_card/parameters/cleanings)" >> "/output/$name"
		rmmod sfq_flash_card
	fi
	echo "cell $name"
done < /study/cells
kernel_is_content
