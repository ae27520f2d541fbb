# SPDX-License-Identifier: GPL-2.0-only
# What the tests share. They run as root in a virtual machine that nobody needs afterwards; the module
# is /sfq-iosched.ko, and programs of busybox, fio and ioping are at hand.

fail() {
	echo "FAIL: $*"
	exit 1
}

note() {
	echo "test: $*"
}

# null_disk NAME ATTRIBUTE=VALUE...: a disk without a medium. Some kernels number disks: name them nullb0, nullb1.
null_disk() {
	if [ ! -d /sys/kernel/config/nullb ]; then
		modprobe null_blk nr_devices=0
		mount -t configfs none /sys/kernel/config
	fi
	disk=/sys/kernel/config/nullb/$1
	mkdir "$disk"
	shift
	for attribute in queue_mode=2 irqmode=2 "$@" power=1; do
		echo "${attribute#*=}" > "$disk/${attribute%%=*}" || fail "null_blk takes no $attribute"
	done
}

# select_scheduler NAME DISK REQUESTS: afresh, with room for so many requests.
select_scheduler() {
	queue=/sys/block/$2/queue
	sched=/sys/kernel/debug/block/$2/sched
	echo none > "$queue/scheduler"
	echo "$1" > "$queue/scheduler"
	grep -q "\\[$1\\]" "$queue/scheduler" || fail "$1 is not selected for $2"
	echo "$3" > "$queue/nr_requests"
	# It takes over the number that was in force before. That of sfq2 is something else.
	[ "$1" != mq-deadline ] || echo "$3" > "$queue/iosched/async_depth"
}

# use_scheduler NAME DISK: for a study, NAME or none. As many requests as blk-mq lets a scheduler have, each as
# large as the simulated ones may get.
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

# Of the disks of studies.
size_mib=1024

# study_disk DEVICE SEED ATTRIBUTE=VALUE...: sets disk to null-blk with these attributes, or to the flash card.
study_disk() {
	device=$1
	seed=$2
	shift 2
	case $device in
	null-blk)
		[ -b /dev/nullb0 ] || null_disk nullb0 size=$size_mib blocksize=4096 memory_backed=0 max_sectors=1024 "$@"
		disk=nullb0
		;;
	flash-card)
		# Each cell finds the card in the midst of its work, nearer or further from its next cleaning; also
		# short loads meet one.
		insmod /sfq-flash-card.ko size_mib=$size_mib programmed=$((180 + seed % 76))
		disk=sfqcard
		;;
	*)
		fail "no device $device"
		;;
	esac
}

# end_study_disk FILE: takes the disk away where it is one of a single cell, and tells of it in the file.
end_study_disk() {
	echo none > "/sys/block/$disk/queue/scheduler"
	[ "$disk" = sfqcard ] || return 0
	echo "cleanings $(cat /sys/module/sfq_flash_card/parameters/cleanings)" >> "$1"
	rmmod sfq_flash_card
}

select_sfq() {
	select_scheduler sfq "$@"
}

counter() {
	[ ! -e "$sched/counters" ] || awk -v name="$1" '$1 == name { print $2 }' "$sched/counters"
}

# Nothing is queued, and every request that came is accounted for.
accounts_balance() {
	sync
	in=$(($(counter inserted) + $(counter requeued)))
	out=$(($(counter dispatched) + $(counter absorbed)))
	[ "$in" = "$out" ] || fail "$in requests came and $out left: $(cat "$sched/counters")"
	done=$(($(counter completed) + $(counter requeued)))
	[ "$(counter dispatched)" = "$done" ] ||
		fail "$(counter dispatched) requests were sent and $done came back"
	[ "$(counter no_memory)" = 0 ] || fail "memory ran out"
	awk '/^(sync|async|dispatch) / && $2 != 0 { exit 1 }' "$sched/state" ||
		fail "requests are still queued: $(cat "$sched/state")"
	note "accounts balance: $(counter inserted) requests, $(counter merged) merges," \
		"$(counter expired) expired, $(counter requeued) requeued"
}

# On a fast disk only a queue that is not visited has requests that expire.
nobody_starved() {
	[ "$(counter expired)" = 0 ] || fail "$(counter expired) requests starved on a fast disk"
}

# run_fio SECONDS ARGUMENTS: a job that hangs lost a request. A slow kernel sets `patience`, a factor of the seconds.
run_fio() {
	seconds=$1
	shift
	timeout -s KILL "$((seconds * ${patience:-1}))" fio "$@" > /run/fio.log 2>&1 || {
		grep -E "err=|verify|error|fio:" /run/fio.log | head -n 20
		[ ! -e "$sched/counters" ] || cat "$sched/counters" "$sched/state" "$sched/queues"
		fail "fio $* failed: a request was lost, or starved ($(counter expired) expired)"
	}
}

# What the kernel prints when something is wrong, also that lockdep gave up, after which it finds nothing more.
COMPLAINTS='WARNING|BUG|Oops|Call Trace|general protection|blocked for more|lockup|remaining|corruption'
COMPLAINTS="$COMPLAINTS|UBSAN|ODEBUG|INFO: (possible|trying|task|rcu)|locking correctness validator"

# A kernel with KCSAN begins without looking, which would slow its boot.
[ ! -e /sys/kernel/debug/kcsan ] || echo on > /sys/kernel/debug/kcsan

kernel_is_content() {
	dmesg | complaints && fail "the kernel complained"
	return 0
}

# complaints: prints the complaints in a kernel log, and fails if there are none. KCSAN also reports races of other
# parts of the kernel, which is not free of them: a report counts if one of the two functions is the scheduler's.
complaints() {
	awk -v pattern="$COMPLAINTS" '$0 ~ pattern && (!/BUG: KCSAN: / || /sfq/) { print; found = 1 } END { exit !found }'
}

# wait_until SECONDS COMMAND: polls until the command succeeds.
wait_until() {
	polls=$(($1 * 10 * ${patience:-1}))
	shift
	while ! eval "$*"; do
		polls=$((polls - 1))
		[ $polls -gt 0 ] || fail "it never came about that $*"
		sleep 0.1
	done
}

# Objects of a slab that are in use, as exactly as the kernel can say.
slab_objects() {
	echo 1 > "/sys/kernel/slab/$1/shrink"
	awk '{ print $1 }' "/sys/kernel/slab/$1/objects"
}
