#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# The Debian package of the module in a clean Debian: installed, beside a second kernel, upgraded, removed.
#
#	package.sh [DIRECTORY]
#
# Makes a chroot in DIRECTORY, or in a temporary folder; chroot.sh says what that takes. Ends with the line
# "package: passed", or with a reason and another status than 0. After every step apt's state must be clean.
set -eu

name=package
root=${1:-$(mktemp -d)}
# shellcheck source-path=SCRIPTDIR source=chroot.sh
. "$(dirname "$0")/chroot.sh"

is_clean() {
	audit=$(inside dpkg --audit)
	[ -z "$audit" ] || fail "$1: packages are half configured: $audit"
	inside apt-get check -q >> "$log" 2>&1 || fail "$1: apt-get check found: $(tail -n 3 "$log")"
}

# has_module VERSION KERNEL
has_module() {
	inside dkms status | grep -q "^sfq-iosched/$1, $2, x86_64: installed" ||
		fail "sfq-iosched $1 is not installed for $2: $(inside dkms status)"
	for module in sfq-iosched sfq2-iosched; do
		find "$root/lib/modules/$2" -name "$module.ko*" | grep -q . || fail "no $module in /lib/modules/$2"
	done
}

# package_of VERSION: builds it in the chroot and leaves it there, as /root/VERSION.deb.
package_of() {
	rm -rf "$root/root/sfq"
	mkdir -p "$root/root/sfq"
	tar -C "$here" --exclude=./build -cf - . | tar -C "$root/root/sfq" -xf -
	sed -i "s/^PACKAGE_VERSION=.*/PACKAGE_VERSION=\"$1\"/" "$root/root/sfq/dkms.conf"
	sed -i "1s/(.*)/($1)/" "$root/root/sfq/debian/changelog"
	inside make -C /root/sfq deb >> "$log" 2>&1 || fail "make deb failed: $(tail -n 5 "$log")"
	cp "$root/root/sfq/build/sfq-iosched-dkms_$1_all.deb" "$root/root/$1.deb"
}

note "the package, and what lintian finds"
install build-essential debhelper dh-dkms lintian kmod >> "$log" 2>&1 ||
	fail "apt-get install failed: $(tail -n 3 "$log")"
package_of 1.0
found=$(inside lintian --allow-root /root/1.0.deb 2>&1) || fail "lintian: $found"
[ -z "$found" ] || fail "lintian: $found"

note "installed beside a kernel with its source"
install /root/1.0.deb linux-source-6.1 "linux-headers-$with_source" >> "$log" 2>&1 ||
	fail "apt-get install failed: $(tail -n 3 "$log")"
is_clean "after the installation"
has_module 1.0 "$with_source"

note "a second kernel without its source"
install "linux-headers-$without_source" > "$root.install" 2>&1 || fail "apt-get failed: $(tail -n 3 "$root.install")"
cat "$root.install" >> "$log"
is_clean "after the second kernel"
grep -q "^sfq-iosched: skipped for kernel $without_source: install linux-source-6.12" "$root.install" ||
	fail "the kernel without a source was not skipped with a message"
has_module 1.0 "$with_source"

note "upgraded"
package_of 1.1
install /root/1.1.deb >> "$log" 2>&1 || fail "the upgrade failed: $(tail -n 5 "$log")"
is_clean "after the upgrade"
has_module 1.1 "$with_source"
if inside dkms status | grep "sfq-iosched/1.0"; then
	fail "the old version is still there"
fi
[ ! -e "$root/usr/src/sfq-iosched-1.0" ] || fail "the old source is still there"

note "removed"
inside apt-get purge -q -y sfq-iosched-dkms >> "$log" 2>&1 || fail "the removal failed: $(tail -n 5 "$log")"
is_clean "after the removal"
[ -z "$(inside dkms status)" ] || fail "DKMS still has $(inside dkms status)"
left=$(find "$root/lib/modules" "$root/usr/src" -name 'sfq*-iosched*')
[ -z "$left" ] || fail "left behind: $left"
rm -f "$log"
note "passed"
