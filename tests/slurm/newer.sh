#!/bin/sh
# A second, newer Slurm for the tests (Debian 13: 24.11) in a folder of its own, beside this machine's: `newer.sh` installs
# it, `newer.sh remove` takes it away. As root; needs the Debian mirror that apt uses (or MIRROR=...). Starts nothing.
set -eu
place=${BATCHCAST_NEWER_SLURM:-/var/lib/batchcast-lab/trixie}
export DEBIAN_FRONTEND=noninteractive
if [ "${1:-install}" = remove ]; then
    rm -rf --one-file-system "$place"
    exit 0
fi
[ ! -x "$place/usr/sbin/slurmctld" ] || exit 0
mirror=${MIRROR:-$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' | grep -m1 '/debian/*$' || true)}
[ -n "$mirror" ] || { echo "newer.sh: apt names no Debian mirror here (MIRROR=... names one)" >&2; exit 1; }
command -v debootstrap > /dev/null || apt-get install -y -qq --no-install-recommends debootstrap > /dev/null
rm -rf --one-file-system "$place" "$place.part"
mkdir -p "$place.part"
trap 'rm -rf --one-file-system "$place.part"' EXIT
# one pass of apt for all: debootstrap fetches, configures and is done; its log stands beside the folder
debootstrap --variant=minbase trixie "$place.part" "$mirror" > "$place.log" 2>&1 || { tail -n 20 "$place.log" >&2; exit 1; }
printf '#!/bin/sh\nexit 101\n' > "$place.part/usr/sbin/policy-rc.d"
chmod 755 "$place.part/usr/sbin/policy-rc.d"
echo "127.0.0.1 localhost $(hostname)" > "$place.part/etc/hosts"  # MariaDB and slurmd look names up
unshare --mount --propagation private sh -euc '
    mount --bind /proc "$1/proc"; mount --bind /dev "$1/dev"
    chroot "$1" apt-get update -qq
    chroot "$1" apt-get install -y -qq --no-install-recommends \
        munge slurmctld slurmd slurm-client slurmdbd slurm-wlm-mysql-plugin mariadb-server procps faketime
    rm -rf "$1"/var/cache/apt/archives/*.deb
' sh "$place.part" >> "$place.log" 2>&1 || { tail -n 20 "$place.log" >&2; exit 1; }
mv "$place.part" "$place"
