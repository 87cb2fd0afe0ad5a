#!/bin/bash
# The Ansible role run on a host with a systemd of its own, twice, and once more with other settings (make try-ansible):
# tools/install_trials/in_systemd.sh THIS FOLDER, ROOT=FOLDER with Ansible in it. Given are contrib/ansible as `ansible`, what tools/container.sh
# gathers as `container` (the wheels: nothing is fetched), and demo.db, a store.
set -uo pipefail
check() { # what, command...
  local what=$1
  shift
  if "$@" > /tmp/last 2>&1; then echo "ok: $what"; else echo "FAILED: $what"; tail -n 30 /tmp/last; journalctl --no-pager -n 20 -u 'batchcast-*' 2> /dev/null; exit 1; fi
}
until_there() { for _ in $(seq 60); do "$@" && return 0; sleep 0.5; done; return 1; }
as_nobody() { setpriv --reuid=nobody --regid=nogroup --clear-groups "$@"; }
ask() { as_nobody curl -sS --fail --max-time 60 --unix-socket /run/batchcast/api.sock "http://localhost$1"; }
wheels=/given/container/wheels
export PIP_NO_INDEX=1 PIP_FIND_LINKS=$wheels ANSIBLE_NOCOLOR=1 HOME=/root
play() { # settings
  ansible-playbook --inventory localhost, --connection local /given/ansible/site.yml -e "batchcast_wheel=$(ls $wheels/batchcast-*.whl)" \
    -e batchcast_constraints=$wheels/constraints.txt -e "{\"batchcast_settings\": $1}" 2>&1 | tee /tmp/played
}
changed() { grep -o 'changed=[0-9]*' /tmp/played; }
systemctl mask --quiet systemd-networkd-wait-online &> /dev/null

check "the role" play '{"interval_s": 30}'
changed
check "the same again" play '{"interval_s": 30}'
check "nothing was changed" grep -q 'changed=0 .*failed=0' /tmp/played
check "its user" getent passwd batchcast
check "the program" /opt/batchcast/bin/batchcast --version
check "the settings" grep -qx 'interval_s = 30' /etc/batchcast/batchcast.toml
check "enabled" systemctl is-enabled batchcast-collect batchcast-serve batchcast-export.timer
check "and active" systemctl is-active batchcast-collect batchcast-serve batchcast-export.timer
check "no unit that systemd complains of" bash -c '! systemd-analyze verify /etc/systemd/system/batchcast-*.{service,timer} 2>&1 | grep -i batchcast'

systemctl stop batchcast-collect batchcast-serve
install -o batchcast -g batchcast -m 600 /given/demo.db /var/lib/batchcast/store.db
systemctl start batchcast-collect batchcast-serve
check "the service answers a user" until_there ask /v1/accuracy
check "the page" bash -c "curl -sS --unix-socket /run/batchcast/api.sock 'http://localhost/?user=carl' | grep -q '<h1>'"
check "nobody but its user reads the store" bash -c '! setpriv --reuid=nobody --regid=nogroup --clear-groups cat /var/lib/batchcast/store.db'
process=$(systemctl show --property=MainPID --value batchcast-serve)
check "with another setting" play '{"interval_s": 45}'
changed
check "the service was started anew" bash -c "[ $process != \$(systemctl show --property=MainPID --value batchcast-serve) ]"
check "and answers" until_there ask /v1/accuracy
echo "the Ansible role: run three times on $(. /etc/os-release && echo "$PRETTY_NAME") in $SECONDS s, ansible-core $(ansible --version | grep -o '[0-9.]*' | head -n 1)"
