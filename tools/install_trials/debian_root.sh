#!/usr/bin/env bash
# A small Debian with what the package depends on and nothing else, to try it on or to build the container from:
# tools/install_trials/debian_root.sh FOLDER [PACKAGE...]. Needs root and debootstrap; some 350 MB, half a minute.
set -euo pipefail
folder=$1
shift
[ ! -e "$folder/etc/debian_version" ] || exit 0
mkdir -p "$(dirname "$folder")"
packages=(systemd systemd-sysv dbus curl procps python3 libgomp1 "$@")
debootstrap --variant=minbase --include="$(IFS=,; echo "${packages[*]}")" bookworm "$folder" > "$folder.log" 2>&1 \
  || { tail -n 20 "$folder.log"; exit 1; }
rm -rf "$folder"/var/cache/apt/archives/*.deb "$folder"/var/lib/apt/lists/* "$folder.log"
