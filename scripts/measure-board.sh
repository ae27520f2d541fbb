#!/bin/sh
# Measures file systems on a raw NAND partition of this board as nandlab's raw-NAND tests do: IOzone,
# time of a mount, and memory taken by many small files. Writes a CSV that a study takes as its
# reference; docs/own-board.md says how.
#
# EVERYTHING ON THE PARTITIONS IS ERASED. Needs root, iozone and mtd-utils; busybox's shell will do.
set -eu

usage() {
    cat >&2 <<'USAGE'
usage: measure-board.sh --yes --out FILE.csv [OPTIONS] FS=/dev/mtdN ...
  FS               jffs2, yaffs2 or ubifs; each is measured on its partition, which is ERASED
  --yes            yes, erase them
  --out FILE.csv   where the measurements are written
  --sizes LIST     MiB of IOzone's file, as "1 8 16" (default "1 8")
  --files NUMBER   files of 1 KiB for the test of memory (default 2000)
  --repeats NUMBER runs of everything (default 3)
  --mount-point D  a folder to mount at (default: one of its own)
USAGE
}

fail() {
    echo "measure-board.sh: error: $*" >&2
    exit 2
}

# The kernel's view of the board; tests put folders of their own here.
proc=${NANDLAB_PROC:-/proc}
sys=${NANDLAB_SYS:-/sys}
# A number that no other UBI device of the board has.
ubi=31
confirmed='' out='' sizes='1 8' files=2000 repeats=3 mount_point='' pairs=''

while [ $# -gt 0 ]; do
    case $1 in
        --yes) confirmed=yes ;;
        --out | --sizes | --files | --repeats | --mount-point)
            [ $# -gt 1 ] || fail "$1 needs a value"
            case $1 in
                --out) out=$2 ;;
                --sizes) sizes=$2 ;;
                --files) files=$2 ;;
                --repeats) repeats=$2 ;;
                --mount-point) mount_point=$2 ;;
            esac
            shift
            ;;
        -h | --help)
            usage
            exit 0
            ;;
        jffs2=* | yaffs2=* | ubifs=*) pairs="$pairs $1" ;;
        *)
            usage
            fail "unknown argument $1"
            ;;
    esac
    shift
done

[ -n "$pairs" ] || {
    usage
    fail "name at least one FS=/dev/mtdN; there is no default partition"
}
[ -n "$out" ] || fail "name the file for the measurements with --out"
for number in $files $repeats $sizes; do
    case $number in
        *[!0-9]* | '' | 0) fail "$number: not a whole number from 1" ;;
    esac
done

need='iozone flash_erase mount umount awk sync'
for pair in $pairs; do
    device=${pair#*=}
    number=${device##*/mtd}
    case $number in
        *[!0-9]* | '') fail "$device: name the character device of an MTD partition, as /dev/mtd4" ;;
    esac
    grep -q "^mtd$number:" "$proc/mtd" || fail "$device: not in $proc/mtd, which lists the partitions"
    if grep -Eq "^([^ ]*/)?mtd(block)?:?$number " "$proc/mounts"; then
        fail "$device: mounted; unmount it first"
    fi
    for attached_to in "$sys"/class/ubi/ubi*/mtd_num; do
        if [ -r "$attached_to" ] && [ "$(cat "$attached_to")" = "$number" ]; then
            fail "$device: attached to UBI; detach it first"
        fi
    done
    case $pair in
        ubifs=*) need="$need ubiformat ubiattach ubidetach ubimkvol" ;;
    esac
done
for program in $need; do
    command -v "$program" >/dev/null || fail "$program: not found on this board"
done
[ -n "$confirmed" ] || fail "this erases$pairs; say --yes if nothing on them is needed"

made=''
if [ -z "$mount_point" ]; then
    mount_point=${TMPDIR:-/tmp}/measure-board.$$
    mkdir "$mount_point"
    made=yes
fi
[ -d "$mount_point" ] || fail "$mount_point: no such folder"
part=$out.part
mounted='' attached=''

leave() {
    [ -z "$mounted" ] || umount "$mount_point" || true
    [ -z "$attached" ] || ubidetach -d "$ubi" >/dev/null || true
    [ -z "$made" ] || rmdir "$mount_point" || true
    rm -f "$part"
}
trap leave EXIT
trap 'exit 130' INT TERM

say() { echo "measure-board.sh: $*" >&2; }

row() { echo "$1,$2,$fs,$3,$4,$5,$6,$7" >>"$part"; }

# Hundredths of a second since the start: the finest clock that every busybox can read.
clock() { awk '{ printf "%.0f\n", $1 * 100 }' "$proc/uptime"; }

# MemFree + Buffers + Cached, in KiB.
available() {
    awk '$1 == "MemFree:" || $1 == "Buffers:" || $1 == "Cached:" { sum += $2 } END { print sum }' \
        "$proc/meminfo"
}

forget() {
    sync
    echo 3 >"$proc/sys/vm/drop_caches"
}

# An empty file system; UBIFS's volume takes the whole device.
erase() {
    if [ "$fs" = ubifs ]; then
        ubiformat "$device" -y -q >/dev/null
        attach
        ubimkvol "/dev/ubi$ubi" -N measured -m >/dev/null
        detach
    else
        flash_erase -q "$device" 0 0 >/dev/null
    fi
}

attach() {
    ubiattach -p "$device" -d "$ubi" >/dev/null
    attached=yes
}

detach() {
    ubidetach -d "$ubi" >/dev/null
    attached=''
}

up() {
    if [ "$fs" = ubifs ]; then
        attach
        mount -t ubifs "ubi$ubi:measured" "$mount_point"
    else
        mount -t "$fs" "/dev/mtdblock$number" "$mount_point"
    fi
    mounted=yes
}

down() {
    umount "$mount_point"
    mounted=''
    [ "$fs" != ubifs ] || detach
}

# Two columns of IOzone's line of results, in KiB/s: OPTION, the two phases, MiB.
iozone_test() {
    found=$(iozone -i "$1" -w -s "${4}m" -r 4k -f "$mount_point/iozone.tmp" |
        awk -v kib="$((${4} * 1024))" '$1 == kib && $2 == 4 { print $3, $4 }')
    [ -n "$found" ] || fail "iozone -i $1 -s ${4}m on $fs printed no line of results"
    row iozone "$2" "$4" - throughput_kib_per_s "${found% *}" KiB/s
    row iozone "$3" "$4" - throughput_kib_per_s "${found#* }" KiB/s
}

# The cache is empty before the first read, as in nandlab's test.
measure_iozone() {
    for size in $sizes; do
        say "$fs: IOzone, $size MiB"
        erase
        up
        iozone_test 0 write rewrite "$size"
        forget
        iozone_test 1 read reread "$size"
        iozone_test 2 random-read random-write "$size"
        down
    done
}

measure_mount() {
    say "$fs: mount"
    erase
    up
    echo "a few pages" >"$mount_point/a"
    sync
    down
    forget
    begin=$(clock)
    up
    end=$(clock)
    row mount mount - - mount_ns "$(((end - begin) * 10000000))" ns
    down
}

measure_files() {
    say "$fs: $files files"
    erase
    up
    kib=$(awk 'BEGIN { for (i = 0; i < 1024; i++) printf "%c", 97 + (i * 7) % 26 }')
    file=0
    while [ "$file" -lt "$files" ]; do
        folder=$mount_point/$((file / 1000))
        [ -d "$folder" ] || mkdir "$folder"
        printf '%s' "$kib" >"$folder/$file"
        file=$((file + 1))
    done
    down
    forget
    before=$(available)
    up
    for folder in "$mount_point"/*/; do
        cat "$folder"* >/dev/null
    done
    after=$(available)
    row files touched - "$files" drop_bytes "$(((before - after) * 1024))" bytes
    row files touched - "$files" available_bytes "$((after * 1024))" bytes
    down
}

echo "test,phase,file_system,file_mib,files,metric,value,unit" >"$part"
for pair in $pairs; do
    fs=${pair%%=*}
    device=${pair#*=}
    number=${device##*/mtd}
    repeat=0
    while [ "$repeat" -lt "$repeats" ]; do
        repeat=$((repeat + 1))
        say "$fs on $device, run $repeat of $repeats"
        measure_iozone
        measure_mount
        measure_files
    done
done
mv "$part" "$out"
say "wrote $out"
