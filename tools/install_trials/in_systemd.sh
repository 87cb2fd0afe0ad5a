#!/usr/bin/env bash
# A script run as root under a systemd of its own, on a copy of this machine that is thrown away: tools/install_trials/in_systemd.sh
# SCRIPT [FOLDER]. FOLDER is seen there as /given. Prints what the script prints, ends with its exit code. ROOT=FOLDER: on a
# copy of that Debian instead (tools/install_trials/debian_root.sh). Needs root and overlayfs; no network but its own loopback, with
# NETWORK=yes this machine's. Where systemd-nspawn is not there, Debian's is unpacked aside: to install it would bring this
# machine's systemd up to its version.
set -euo pipefail
script=$(realpath "$1") given=$(realpath "${2:-$(mktemp -d)}")
if [ "${IN_SYSTEMD:-}" != yes ]; then
  place=$(mktemp -d)
  trap 'rm -rf "$place"' EXIT
  if ! command -v systemd-nspawn > /dev/null; then
    (cd "$place" && apt-get download -qq systemd-container libsystemd-shared 2> fetched) || { cat "$place/fetched"; exit 1; }
    for deb in "$place"/*.deb; do dpkg -x "$deb" "$place/nspawn"; done
    export PATH=$place/nspawn/usr/bin:$PATH
    libraries=$(dirname "$(find "$place/nspawn" -name 'libsystemd-shared-*.so')")
  fi
  IN_SYSTEMD=yes PLACE=$place LIBRARIES=${libraries:-} unshare --mount --propagation private "$0" "$script" "$given"
  exit
fi
mkdir "$PLACE"/upper "$PLACE"/work "$PLACE"/root
mount -t overlay overlay -o "lowerdir=${ROOT:-/},upperdir=$PLACE/upper,workdir=$PLACE/work" "$PLACE/root"
root=$PLACE/root
mkdir -p "$root/given"
mount --bind "$given" "$root/given"
rm -f "$root/etc/machine-id" "$root/usr/sbin/policy-rc.d"
install -m 755 "$script" "$root/the-script"
touch "$root/said"
cat > "$root/etc/systemd/system/the-script.service" << 'UNIT'
[Unit]
After=basic.target
Wants=basic.target
[Service]
Type=oneshot
Environment=HOME=/root PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8
ExecStart=/bin/bash -c 'bash /the-script > /said 2>&1; code=$?; systemctl --no-block exit $code'
UNIT
code=0
network=(--private-network)
[ "${NETWORK:-}" != yes ] || network=(--resolv-conf=off)
LD_LIBRARY_PATH=$LIBRARIES SYSTEMD_NSPAWN_API_VFS_WRITABLE=${CONTAINERS:-no} systemd-nspawn --quiet --directory="$root" --register=no --keep-unit "${network[@]}" --boot \
  systemd.unit=the-script.service systemd.journald.forward_to_console=no > "$PLACE/boot" 2>&1 < /dev/null || code=$?
cat "$root/said"
[ -s "$root/said" ] || tail -n 20 "$PLACE/boot"
exit "$code"
