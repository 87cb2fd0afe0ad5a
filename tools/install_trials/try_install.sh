#!/bin/bash
# docs/guides/install.md, "Install", line by line as it stands there, then looked at (NETWORK=yes tools/install_trials/in_systemd.sh THIS
# FOLDER; FOLDER holds a clone of the checkout as `repository`).
set -uo pipefail
export BATCHCAST_REPOSITORY=/given/repository HOME=/root PATH=/usr/bin:/bin:/usr/sbin:/sbin
systemctl mask --quiet systemd-networkd-wait-online &> /dev/null
mkdir /tmp/fresh && cd /tmp/fresh || exit 1
sed -n '/^## Install/,/^## If Slurm/p' "$BATCHCAST_REPOSITORY/docs/guides/install.md" \
  | sed -n '/^ *```sh/,/^ *```$/{/```/d;p}' > /tmp/lines
begun=$SECONDS
set -ex
. /tmp/lines
set +x
grep -q '<h1>' /tmp/page.html
echo "the page: $(grep -o '<h1>.*</h1>' /tmp/page.html | head -1)"
systemctl is-active batchcast-collect batchcast-serve batchcast-export.timer
echo "docs/guides/install.md: every line followed, in $((SECONDS - begun)) s"
