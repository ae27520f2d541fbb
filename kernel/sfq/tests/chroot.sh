# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=sh
# What the tests of an installation share: a chroot with a clean Debian, and apt in it. Whoever reads this in
# has set name, the name of the test, and root, the folder of the chroot.
#
# A chroot takes root, 3 GB and some minutes. It comes from debootstrap and the mirrors that apt of this machine
# uses. With KEEP=yes it stays; $root.log stays unless all went well.

fail() {
	echo "$name: FAIL: $*" >&2
	exit 1
}

note() {
	echo "$name: $*"
}

[ "$(id -u)" = 0 ] || fail "a chroot takes root"
for program in debootstrap chroot apt-get; do
	command -v "$program" > /dev/null || fail "$program is not installed"
done
here=$(cd "$(dirname "$0")/.." && pwd)
log=$root.log

clean_up() {
	umount "$root/proc" 2> /dev/null || true
	rm -f "$root.install" "$root.refused"
	[ "${KEEP-}" = yes ] || rm -rf "$root"
}
trap clean_up EXIT
trap 'exit 1' INT TERM

# inside COMMAND...: in the chroot, nobody asked, nothing started.
inside() {
	chroot "$root" env DEBIAN_FRONTEND=noninteractive LC_ALL=C PATH=/usr/sbin:/usr/bin:/sbin:/bin "$@"
}

install() {
	inside apt-get install -q -y --no-install-recommends "$@"
}

# The release of the newest headers of a series that apt offers.
newest() {
	inside apt-cache pkgnames linux-headers- | sed -n "s/^linux-headers-\\($1\\..*-amd64\\)\$/\\1/p" |
		grep -v -e -rt- -e cloud | sort -V | tail -n 1
}

note "a chroot"
# The first suite that is neither of updates nor of security is that of the release.
# shellcheck disable=SC2016
apt-get indextargets --format '$(REPO_URI) $(CODENAME)' 'Identifier: Packages' |
	awk '$2 !~ /-/ { print; exit }' > "$log"
read -r mirror suite < "$log" || fail "apt knows no mirror"
mkdir -p "$root"
debootstrap --variant=minbase "$suite" "$root" "$mirror" > "$log" 2>&1 || fail "debootstrap failed: $(tail -n 3 "$log")"
rm -f "$root"/etc/apt/sources.list
cp -a /etc/apt/sources.list* /etc/apt/apt.conf.d /etc/apt/trusted.gpg.d "$root/etc/apt/" 2> /dev/null || true
[ ! -e /etc/resolv.conf ] || cp -L /etc/resolv.conf "$root/etc/resolv.conf"
mount -t proc proc "$root/proc"
# The services of a chroot are not to be started.
printf '#!/bin/sh\nexit 101\n' > "$root/usr/sbin/policy-rc.d"
chmod +x "$root/usr/sbin/policy-rc.d"
inside apt-get update -q >> "$log" 2>&1 || fail "apt-get update failed: $(tail -n 3 "$log")"

with_source=$(newest 6.1)
without_source=$(newest 6.12)
[ -n "$with_source" ] && [ -n "$without_source" ] || fail "apt does not offer kernels 6.1 and 6.12"
note "source of $with_source, none of $without_source"
