#!/usr/bin/env bash
# A script run as root under a systemd of its own, on a copy of this machine that is thrown away: tools/in_systemd.sh
# SCRIPT [FOLDER]. FOLDER is seen there as /given. Prints what the script prints, ends with its exit code. Needs root,
# overlayfs and systemd-nspawn (Debian: systemd-container); no network but its own loopback, with NETWORK=yes this machine's.
set -euo pipefail
script=$(realpath "$1") given=$(realpath "${2:-$(mktemp -d)}")
if [ "${IN_SYSTEMD:-}" != yes ]; then
  place=$(mktemp -d)
  trap 'rm -rf "$place"' EXIT
  IN_SYSTEMD=yes PLACE=$place unshare --mount --propagation private "$0" "$script" "$given"
  exit
fi
mkdir "$PLACE"/upper "$PLACE"/work "$PLACE"/root
mount -t overlay overlay -o "lowerdir=/,upperdir=$PLACE/upper,workdir=$PLACE/work" "$PLACE/root"
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
systemd-nspawn --quiet --directory="$root" --register=no --keep-unit "${network[@]}" --boot \
  systemd.unit=the-script.service systemd.journald.forward_to_console=no > "$PLACE/boot" 2>&1 < /dev/null || code=$?
cat "$root/said"
[ -s "$root/said" ] || tail -n 20 "$PLACE/boot"
exit "$code"
