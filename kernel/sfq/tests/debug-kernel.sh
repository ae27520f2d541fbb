#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# Builds a small kernel that looks for faults while it runs.
#
#   debug-kernel.sh KIND SOURCE DIRECTORY
#
# KIND is kasan (memory, locks, sleep) or kcsan (data races); SOURCE is a tarball of linux-source. DIRECTORY must not
# exist. It gets `image`, `lib/modules`, `release`, and `source`, the tree that modules are built against.
# No debug information is made: the report of a fault names functions, and the build takes minutes, not an hour.
set -eu

refuse() {
	echo "debug-kernel.sh: $*" >&2
	exit 1
}

[ $# = 3 ] || refuse "expected KIND SOURCE DIRECTORY"
kind=$1 source=$2 directory=$3
here=$(cd "$(dirname "$0")" && pwd)
[ -r "$here/debug-$kind.config" ] || refuse "no kind $kind: there are kasan and kcsan"
[ -r "$source" ] || refuse "no tarball $source: install linux-source"
for program in gcc-12 make flex bison bc perl; do
	command -v "$program" > /dev/null || refuse "$program is not installed"
done
[ ! -e "$directory" ] || refuse "$directory exists"

mkdir -p "$directory/source"
tree=$(cd "$directory/source" && pwd)
tar -xf "$source" -C "$tree" --strip-components=1
cat "$here/debug-base.config" "$here/debug-$kind.config" > "$tree/wanted.config"

build() {
	make -s -C "$tree" -j "$(nproc)" CC=gcc-12 HOSTCC=gcc-12 "$@"
}

build KCONFIG_ALLCONFIG="$tree/wanted.config" allnoconfig > /dev/null
# An option whose conditions are not met is dropped without a word.
grep -E '^(CONFIG|# CONFIG)' "$tree/wanted.config" | while IFS= read -r line; do
	grep -qxF "$line" "$tree/.config" || refuse "the kernel does not take: $line"
done
build bzImage modules
build INSTALL_MOD_PATH="$directory" modules_install
make -s -C "$tree" kernelrelease > "$directory/release"
# Not the uncompressed vmlinux: an emulated machine enters that at arch/x86/platform/pvh, where KASAN of Linux 6.1 looks
# at a shadow that is not there yet.
cp "$tree/arch/x86/boot/bzImage" "$directory/image"
# What modules are built with stays: headers, Module.symvers, and the programs in scripts and tools.
find "$tree" \( -name '*.o' -o -name '*.a' -o -name '.*.cmd' \) -type f -delete
rm -rf "$tree/Documentation" "$tree/vmlinux" "$tree/drivers" "$tree/sound" "$tree/net" "$tree/fs"
