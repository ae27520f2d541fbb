# SPDX-License-Identifier: GPL-2.0-only
# A boot with the rule of README.md in place, and what happens to a module that is taken away while a disk uses it.
# The caller sets `is_installed`: yes, or no where the rule names a scheduler that is not there.
. /tests/common.sh

disk=vda
queue=/sys/block/$disk/queue
default=$(cat $queue/scheduler)
[ $is_installed = no ] || depmod -a
# What systemd does at a boot (systemd-udevd.service, systemd-udev-trigger.service).
/sbin/systemd-udevd --daemon
udevadm trigger --action=add --subsystem-match=block
udevadm settle --timeout=60

reads() {
	dd if=/dev/$disk of=/dev/null bs=4k count=256 iflag=direct 2> /dev/null || fail "the disk does not work"
}

reads
if [ $is_installed = no ]; then
	[ "$(cat $queue/scheduler)" = "$default" ] || fail "the scheduler became $(cat $queue/scheduler)"
	note "without the module the disk keeps $default"
	note "at-boot passed"
	exit 0
fi

grep -q '\[sfq\]' $queue/scheduler || fail "the rule did not select sfq: $(cat $queue/scheduler)"
note "the rule selected $(cat $queue/scheduler)"

# The removal of a package deletes the file; the module that is loaded stays, as long as a disk uses it.
rm "/lib/modules/$(uname -r)/updates/sfq-iosched.ko"
if rmmod sfq_iosched 2> /run/refused; then
	fail "a module in use was removed"
fi
cat /run/refused
grep -q -i -e 'in use' -e 'temporarily unavailable' /run/refused || fail "rmmod said: $(cat /run/refused)"
reads
echo none > $queue/scheduler
rmmod sfq_iosched || fail "the module stays although no disk uses it"
reads
kernel_is_content
note "at-boot passed"
