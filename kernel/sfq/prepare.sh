#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# Takes the private headers of the block layer from linux-source: no package ships them by themselves.
#
#   prepare.sh HEADERS SOURCE DIRECTORY
#
# HEADERS is the directory of the kernel's headers, SOURCE a linux-source tree or tarball of the very
# same version, DIRECTORY where the headers go.
set -eu

refuse() {
	echo "prepare.sh: $*" >&2
	exit 1
}

headers=$1 source=$2 directory=$3
version_header=$headers/include/generated/uapi/linux/version.h
[ -r "$version_header" ] ||
	refuse "no kernel headers in $headers: install the package linux-headers of this kernel"
headers_version=$(awk '/LINUX_VERSION_MAJOR/ { a = $3 } /LINUX_VERSION_PATCHLEVEL/ { b = $3 }
	/LINUX_VERSION_SUBLEVEL/ { c = $3 } END { print a "." b "." c }' "$version_header")
series=${headers_version%.*}
[ -n "$source" ] && [ -e "$source" ] ||
	refuse "no kernel source ${source:-given}: install the package linux-source-$series, or name a tree or tarball with SOURCE="

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
if [ -d "$source" ]; then
	tree=$source
else
	tar -xf "$source" -C "$scratch" --strip-components=1 --wildcards --no-wildcards-match-slash \
		'*/Makefile' '*/block/*.h' || refuse "$source is no tarball of a kernel source"
	tree=$scratch
fi
[ -r "$tree/Makefile" ] && [ -r "$tree/block/elevator.h" ] ||
	refuse "$source is no kernel source: it lacks Makefile or block/elevator.h"
source_version=$(awk '/^VERSION =/ { a = $3 } /^PATCHLEVEL =/ { b = $3 }
	/^SUBLEVEL =/ { c = $3; print a "." b "." c; exit }' "$tree/Makefile")
[ "$source_version" = "$headers_version" ] ||
	refuse "$source is Linux $source_version, but the headers in $headers are Linux $headers_version: install the same version of both"

mkdir -p "$directory"
cp "$tree"/block/*.h "$directory/"
