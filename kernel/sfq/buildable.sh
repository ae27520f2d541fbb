#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# Tells whether the module can be built for a kernel; if not, says why and ends with status 1.
#
#	buildable.sh KERNEL [USR_SRC]
#
# dkms asks this each time it reads dkms.conf, so that nothing is unpacked here: the version of a tarball is
# taken from its package. prepare.sh, which the build begins with, looks into the tarball.
set -eu

kernel=$1 root=${2:-/usr/src}
series=$(echo "$kernel" | cut -d. -f1,2)

skip() {
	echo "sfq-iosched: skipped for kernel $kernel: $*" >&2
	exit 1
}

case $series in
6.1 | 6.12) ;;
*) skip "the module is for Linux 6.1 and 6.12" ;;
esac
headers=$root/linux-headers-$kernel
[ -d "$headers" ] || headers=/lib/modules/$kernel/build
version_header=$headers/include/generated/uapi/linux/version.h
# What is missing then is not the source: dkms itself tells of missing headers.
[ -r "$version_header" ] || exit 0
headers_version=$(awk '/LINUX_VERSION_MAJOR/ { a = $3 } /LINUX_VERSION_PATCHLEVEL/ { b = $3 }
	/LINUX_VERSION_SUBLEVEL/ { c = $3 } END { print a "." b "." c }' "$version_header")

source=$root/linux-source-$series
source_version=
if [ -r "$source/Makefile" ]; then
	source_version=$(awk '/^VERSION =/ { a = $3 } /^PATCHLEVEL =/ { b = $3 }
		/^SUBLEVEL =/ { print a "." b "." $3; exit }' "$source/Makefile")
elif [ ! -e "$source.tar.xz" ]; then
	skip "install linux-source-$series, then run: dkms install sfq-iosched/1.0 -k $kernel"
elif command -v dpkg-query > /dev/null; then
	# shellcheck disable=SC2016
	source_version=$(dpkg-query -W -f '${Version}' "linux-source-$series" 2> /dev/null | sed 's/-.*//') || true
fi
[ "${source_version:-$headers_version}" = "$headers_version" ] ||
	skip "linux-source-$series is $source_version, the headers are $headers_version:" \
		"install the same version of both, then run: dkms install sfq-iosched/1.0 -k $kernel"
