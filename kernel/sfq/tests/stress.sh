# SPDX-License-Identifier: GPL-2.0-only
# Load, select, use in every way, switch under load, unload; nothing lost and nothing left behind.
. /tests/common.sh

mkdir -p /sys/fs/cgroup
mount -t cgroup2 none /sys/fs/cgroup
insmod /sfq-iosched.ko
null_disk nullb0 size=64 blocksize=512 memory_backed=1 completion_nsec=100000 hw_queue_depth=4 \
	discard=1 cache_size=4
null_disk nullb1 size=64 blocksize=512 memory_backed=0 completion_nsec=4000000 hw_queue_depth=1

note "tunables"
select_sfq nullb0 256
for name in sync_visits visit_requests visit_reads visit_writes starvation_check read_expire \
	write_expire fill; do
	echo "tunable $name $(cat "$queue/iosched/$name")"
done
for wrong in sync_visits=0 visit_reads=-1 starvation_check=0 read_expire=x fill=all; do
	if echo "${wrong#*=}" > "$queue/iosched/${wrong%=*}" 2> /dev/null; then
		fail "$wrong was taken"
	fi
done

for fill in both writes none; do
	note "every kind of request, fill=$fill"
	select_sfq nullb0 256
	echo $fill > "$queue/iosched/fill"
	# On a busy host the emulated machine itself may stand still for longer than requests expire in.
	for kind in read write; do
		echo 30000 > "$queue/iosched/${kind}_expire"
	done
	run_fio 240 /tests/mix.fio
	accounts_balance
	nobody_starved
done

note "control groups, one of them throttled"
echo +io > /sys/fs/cgroup/cgroup.subtree_control
mkdir /sys/fs/cgroup/free /sys/fs/cgroup/throttled
echo "$(cat /sys/block/nullb0/dev) wiops=400 riops=400" > /sys/fs/cgroup/throttled/io.max
select_sfq nullb0 256
for group in free throttled; do
	(
		sh -c 'echo $PPID' > /sys/fs/cgroup/$group/cgroup.procs
		offset=8m
		[ $group = free ] && offset=0
		run_fio 240 --name=$group --filename=/dev/nullb0 --ioengine=libaio --iodepth=16 --direct=1 \
			--rw=randwrite --bs=4k --size=1m --offset=$offset --verify=crc32c
	) &
done
wait
accounts_balance

note "two hundred changes of scheduler under load"
run_fio 120 --name=load --filename=/dev/nullb0 --ioengine=libaio --iodepth=16 --direct=1 --rw=randwrite \
	--bs=4k --size=4m --offset_increment=16m --numjobs=3 --verify=crc32c --loops=1000 \
	--time_based --runtime=100 --do_verify=0 > /dev/null 2>&1 &
load=$!
changes=0
while [ $changes -lt 200 ]; do
	for name in sfq none sfq mq-deadline; do
		echo $name > /sys/block/nullb0/queue/scheduler
		changes=$((changes + 1))
	done
done
killall -INT fio
wait $load || true
select_sfq nullb0 256
run_fio 240 /tests/mix.fio
accounts_balance

note "sixteen processes of ioping beside a writer"
select_sfq nullb0 256
fio --name=writer --filename=/dev/nullb0 --ioengine=libaio --iodepth=32 --direct=1 --rw=randwrite --bs=64k \
	--size=32m --time_based --runtime=4 > /run/writer.log 2>&1 &
writer=$!
pings=
for number in $(seq 16); do
	timeout -s KILL 60 ioping -q -c 20 -i 0.02 -D -s 4k /dev/nullb0 > /run/ioping.$number 2>&1 &
	pings="$pings $!"
done
for ping in $pings; do
	wait "$ping" || fail "ioping did not end well: $(cat /run/ioping.*)"
done
wait $writer || fail "the writer failed: $(cat /run/writer.log)"
accounts_balance

note "hundreds of requests queued before a slow disk"
select_sfq nullb1 1024
run_fio 100 --name=deep --filename=/dev/nullb1 --ioengine=libaio --iodepth=200 --direct=1 --rw=randrw \
	--bs=4k --size=16m --offset_increment=16m --numjobs=3 --number_ios=300 &
deep=$!
most=0
while kill -0 $deep 2> /dev/null; do
	queued=$(awk '/^(sync|async) / { sum += $2 } END { print sum }' "$sched/state")
	[ "$queued" -le "$most" ] || most=$queued
	sleep 0.2
done
wait $deep || exit 1
[ "$most" -gt 300 ] || fail "only $most requests were queued at once"
accounts_balance
echo "most_queued $most expired $(counter expired)"

note "a process killed with requests queued"
select_sfq nullb1 1024
fio --name=killed --filename=/dev/nullb1 --ioengine=libaio --iodepth=400 --direct=1 --rw=randread --bs=4k \
	--size=64m --thread=0 > /dev/null 2>&1 &
wait_until 20 '[ $(counter inserted) -ge 300 ]'
killall -KILL fio
orphans=$(grep -c orphan "$sched/queues" || true)
queued=$(awk '/^sync / { print $2 }' "$sched/state")
echo "killed with $queued queued, $orphans orphans"
[ "$queued" -gt 100 ] || fail "only $queued requests were left queued"
wait || true
wait_until 20 '[ -z "$(cat $sched/queues)" ]'
accounts_balance
[ "$(counter queues_made)" = "$(counter queues_freed)" ] || fail "a queue was not freed"

note "requests given back, refused and timed out"
insmod /sfq-test-disk.ko requeue_every=13 busy_every=17 timeout_every=499
select_sfq sfqtest 256
sed 's#/dev/nullb0#/dev/sfqtest#; s#^size=2m#size=1m#; /^\[discard\]/,$d; s#=4m#=2m#' /tests/mix.fio \
	> /run/back.fio
run_fio 240 /run/back.fio
accounts_balance
cat /sys/module/sfq_test_disk/parameters/counters
awk '$2 < 10 || $4 < 10 || $6 < 3 { exit 1 }' /sys/module/sfq_test_disk/parameters/counters ||
	fail "too few requests came back"
[ "$(counter requeued)" -gt 10 ] || fail "the scheduler saw no request come back"
rmmod sfq_test_disk

note "a zoned disk"
null_disk nullb2 size=64 blocksize=4096 memory_backed=1 completion_nsec=100000 hw_queue_depth=8 zoned=1 \
	zone_size=4
select_sfq nullb2 256
run_fio 240 --name=zones --filename=/dev/nullb2 --zonemode=zbd --ioengine=libaio --iodepth=16 --direct=1 \
	--rw=randwrite --bs=16k --size=16m --offset_increment=16m --numjobs=3 --verify=crc32c
accounts_balance
echo none > "$queue/scheduler"

note "two hundred short processes, and no reference to one is kept"
select_sfq nullb0 256
pids_before=$(slab_objects pid)
for number in $(seq 200); do
	dd if=/dev/nullb0 of=/dev/null bs=4k count=1 iflag=direct 2> /dev/null
done
[ "$(counter queues_made)" -ge 200 ] || fail "only $(counter queues_made) queues were made"
wait_until 20 '[ -z "$(cat $sched/queues)" ]'
sleep 1
# A slab a processor works on counts as full.
pids_after=$(slab_objects pid)
echo "process numbers in use: $pids_before before, $pids_after after"
[ "$pids_after" -le $((pids_before + 100)) ] || fail "references to process numbers leaked"
accounts_balance

note "unload"
echo none > /sys/block/nullb0/queue/scheduler
echo none > /sys/block/nullb1/queue/scheduler
[ -d /sys/kernel/slab/sfq_queue ] || fail "the slab of queues is shared, its count says nothing"
objects=$(slab_objects sfq_queue)
[ "$objects" = 0 ] || fail "$objects queues are still allocated"
rmmod sfq_iosched
[ ! -d /sys/kernel/slab/sfq_queue ] || fail "the slab of queues outlived the module"
insmod /sfq-iosched.ko
rmmod sfq_iosched
kernel_is_content
note "stress passed"
