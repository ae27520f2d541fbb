#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# The module under DKMS in a clean Debian: headers of two kernels, the source of one.
#
#	dkms.sh [DIRECTORY]
#
# Makes a chroot in DIRECTORY, or in a temporary folder; chroot.sh says what that takes. Ends with the line
# "dkms: passed", or with a reason and another status than 0.
set -eu

name=dkms
root=${1:-$(mktemp -d)}
# shellcheck source-path=SCRIPTDIR source=chroot.sh
. "$(dirname "$0")/chroot.sh"

install dkms make gcc-12 libc6-dev xz-utils kmod linux-source-6.1 >> "$log" 2>&1 ||
	fail "apt-get install failed: $(tail -n 3 "$log")"

note "the module's source, as README.md says"
mkdir -p "$root/root/sfq"
tar -C "$here" --exclude=./build -cf - . | tar -C "$root/root/sfq" -xf -
inside make -C /root/sfq dkms >> "$log" 2>&1 || fail "make dkms failed: $(tail -n 5 "$log")"
if find "$root/usr/src/sfq-iosched-1.0" -name 'elevator.h' | grep .; then
	fail "private headers of a kernel were shipped"
fi

note "apt-get install of the headers of both"
status=0
install "linux-headers-$with_source" "linux-headers-$without_source" > "$root.install" 2>&1 || status=$?
cat "$root.install" >> "$log"
grep -e '^sfq-iosched:' -e '^dkms' -e 'BUILD_EXCLUSIVE' -e 'Building' -e 'rror' "$root.install" || true
[ $status = 0 ] || fail "apt-get ended with $status"
audit=$(inside dpkg --audit)
[ -z "$audit" ] || fail "packages are half configured: $audit"
grep -q "^sfq-iosched: skipped for kernel $without_source: install linux-source-6.12" "$root.install" ||
	fail "the kernel without a source was not skipped with a message"
inside dkms status
inside dkms status | grep -q "^sfq-iosched/1.0, $with_source, x86_64: installed" ||
	fail "no module was built for $with_source"
if inside dkms status | grep -q "$without_source"; then
	fail "something was built for $without_source"
fi
for module in sfq-iosched sfq2-iosched; do
	find "$root/lib/modules/$with_source" -name "$module.ko*" | grep -q . || fail "$module is not in /lib/modules"
done
if find "$root/var/lib/dkms" -name elevator.h | grep .; then
	fail "private headers of a kernel were left behind"
fi

note "a build that is asked for is refused with status 77"
status=0
inside dkms install sfq-iosched/1.0 -k "$without_source" || status=$?
[ $status = 77 ] || fail "dkms install ended with $status"

note "after \`make install\`, \`make dkms\` says what to do"
inside dkms remove sfq-iosched/1.0 --all >> "$log" 2>&1
inside make -C /root/sfq install KVER="$with_source" >> "$log" 2>&1 || fail "make install failed: $(tail -n 3 "$log")"
if inside make -C /root/sfq dkms > "$root.refused" 2>&1; then
	fail "make dkms installed over another module"
fi
grep 'make uninstall' "$root.refused" || fail "make dkms does not say what to do: $(cat "$root.refused")"
inside make -C /root/sfq uninstall
inside make -C /root/sfq dkms >> "$log" 2>&1 || fail "make dkms failed after make uninstall: $(tail -n 5 "$log")"
inside dkms status | grep -q "^sfq-iosched/1.0, $with_source, x86_64: installed" || fail "no module was built"

note "with the source, the other kernel gets its module"
install linux-source-6.12 >> "$log" 2>&1 || fail "apt-get install failed: $(tail -n 3 "$log")"
inside dkms install sfq-iosched/1.0 -k "$without_source" >> "$log" 2>&1 || fail "no module: $(tail -n 5 "$log")"
inside dkms status
inside dkms status | grep -q "^sfq-iosched/1.0, $without_source, x86_64: installed" || fail "no module was built"
rm -f "$log"
note "passed"
