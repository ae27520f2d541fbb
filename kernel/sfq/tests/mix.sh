# SPDX-License-Identifier: GPL-2.0-only
# The shortest test: all kinds of requests at once, nothing lost, nobody starved.
. /tests/common.sh

insmod /sfq-iosched.ko
null_disk nullb0 size=64 blocksize=512 memory_backed=1 completion_nsec=100000 hw_queue_depth=4 \
	discard=1 cache_size=4
select_sfq nullb0 256
run_fio 20 /tests/mix.fio
accounts_balance
nobody_starved
echo none > "$queue/scheduler"
rmmod sfq_iosched
kernel_is_content
note "mix passed"
