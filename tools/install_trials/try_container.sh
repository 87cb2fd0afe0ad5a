#!/bin/bash
# The container as a user without root builds and runs it (make try-container): tools/install_trials/in_systemd.sh THIS FOLDER, ROOT=FOLDER with
# podman in it. Given are the context (tools/container.sh) as `container`, a Debian to build on as base.tar, and demo.db, a store.
set -uo pipefail
check() { # what, command...
  local what=$1
  shift
  if "$@" > /tmp/last 2>&1; then echo "ok: $what"; else echo "FAILED: $what"; tail -n 20 /tmp/last; exit 1; fi
}
until_there() { for _ in $(seq 120); do "$@" && return 0; sleep 0.5; done; return 1; }
getent passwd site > /dev/null || useradd --create-home --uid 4000 site
here=/home/site
install -d -o site -g site "$here/store" "$here/run" "$here/cache"
install -o site -g site -m 600 /given/demo.db "$here/store/store.db"
install -d -o site -g site -m 700 /run/user/4000
mine() { setpriv --reuid=site --regid=site --init-groups env HOME=$here XDG_RUNTIME_DIR=/run/user/4000 PATH=/usr/bin:/bin:/usr/sbin "$@"; }
ask() { curl -sS --fail --max-time 60 --unix-socket "$here/run/api.sock" "http://localhost$1"; }
pod() { mine podman --storage-driver vfs --cgroup-manager cgroupfs "$@"; }
cd "$here" || exit 1
mkdir -p /etc/containers && printf '[containers]\nkeyring = false\n' > /etc/containers/containers.conf # nspawn has none to give

check "a Debian to build on" pod import /given/base.tar debian-here
check "podman build, without root, nothing fetched" pod build --network none --build-arg BASE=localhost/debian-here --build-arg PIP_NO_INDEX=1 --tag batchcast /given/container
pod images --format '{{.Repository}} {{.Size}}' | grep batchcast
pod run --detach --name batchcast --userns=keep-id:uid=900,gid=900 --network none --read-only --cap-drop=all \
  --security-opt no-new-privileges --volume "$here/store:/var/lib/batchcast" --volume "$here/run:/run/batchcast" \
  --volume "$here/cache:/var/cache/batchcast" batchcast > /tmp/last 2>&1 || { echo "FAILED: podman run"; cat /tmp/last; exit 1; }
check "the service answers on the socket outside" until_there ask /v1/accuracy
check "the page" bash -c "curl -sS --unix-socket $here/run/api.sock 'http://localhost/?user=carl' | grep -q '<h1>'"
check "it runs as the user who started it" pgrep -u site -f '^/opt/batchcast/bin/python.* serve'
check "its log is JSON" bash -c "$(declare -f pod mine); here=$here; pod logs batchcast 2>&1 | tail -n 1 | python3 -c 'import json, sys; print(json.loads(sys.stdin.read())[\"status\"])'"
check "nothing is written but the volumes" bash -c "$(declare -f pod mine); here=$here; ! pod exec batchcast touch /opt/batchcast/x"
check "an operator issues a token in it" bash -c "$(declare -f pod mine); here=$here; pod exec batchcast batchcast site token create carl"
check "podman stop" pod stop --time 20 batchcast
check "and ended by itself" bash -c "$(declare -f pod mine); here=$here; [ \"\$(pod inspect --format '{{.State.ExitCode}}' batchcast)\" = 0 ]"
echo "the container: built, run and stopped without root in $SECONDS s"
