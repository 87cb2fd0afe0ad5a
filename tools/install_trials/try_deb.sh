#!/bin/bash
# The Debian package as an operator meets it, under a real systemd (tools/install_trials/in_systemd.sh THIS FOLDER; FOLDER holds the
# package and demo.db, a store): installed, started, asked, restarted and upgraded while it is asked, the store taken back and forth, removed, purged.
set -uo pipefail
check() { # what, command...
  local what=$1
  shift
  if "$@" > /tmp/last 2>&1; then echo "ok: $what"; else echo "FAILED: $what"; tail -n 20 /tmp/last; journalctl --no-pager -n 30 -u 'batchcast-*' 2> /dev/null; exit 1; fi
}
as() { setpriv --reuid="$1" --regid=nogroup --clear-groups "${@:2}"; }
ask() { as nobody curl -sS --fail --max-time 60 --retry 3 --retry-delay 1 --unix-socket /run/batchcast/api.sock "http://localhost$1"; }
until_there() { for _ in $(seq 60); do "$@" && return 0; sleep 0.5; done; return 1; }
active() { [ "$(systemctl is-active "$1")" = active ]; }

systemctl mask --quiet systemd-networkd-wait-online &> /dev/null # there is no network here to wait for
deb=$(ls /given/batchcast_*.deb)
check "dpkg -i" dpkg -i "$deb"
check "its user" getent passwd batchcast
check "the program" batchcast --version
check "no daemon starts by itself" bash -c '! systemctl is-active batchcast-collect batchcast-serve'
check "the settings" test -f /etc/batchcast/batchcast.toml
check "what slurmctld is given to run" bash -n /usr/share/batchcast/batchcast-start
check "no unit that systemd complains of" bash -c '! systemd-analyze verify /lib/systemd/system/batchcast-*.{service,timer,socket} 2>&1 | grep -i batchcast'
for unit in collect serve export; do
  systemd-analyze security --no-pager "batchcast-$unit.service" | grep -o 'Overall exposure level for.*: [0-9.]*'
done

install -d -o batchcast -g batchcast /var/lib/batchcast
install -o batchcast -g batchcast -m 600 /given/demo.db /var/lib/batchcast/store.db
check "systemctl enable --now" systemctl enable --now batchcast-serve batchcast-collect batchcast-export.timer
check "the service answers a user" until_there ask '/v1/accuracy'
check "the page" bash -c 'curl -sS --unix-socket /run/batchcast/api.sock http://localhost/?user=carl | grep -q "<h1>"'
check "the collector runs, whether Slurm answers or not" until_there active batchcast-collect
check "nobody but its user reads the store" bash -c '! setpriv --reuid=nobody --regid=nogroup --clear-groups cat /var/lib/batchcast/store.db'
check "a user's command asks the service" as nobody batchcast accuracy
check "an operator issues a token" batchcast site token create carl
check "the daily export" bash -c 'systemctl start batchcast-export && test -s /var/lib/batchcast/history.parquet'
check "doctor says what is missing here" bash -c 'batchcast doctor | grep -i squeue'

# the socket keeps questions while the service restarts
systemctl disable --now batchcast-serve > /dev/null 2>&1
check "the socket" systemctl enable --now batchcast-serve.socket
check "the first question starts the service" ask '/v1/start?user=carl'

# three clients go on asking while "$2..." is done; what was answered and lost is printed under the name $1
under_load() {
  rm -f /tmp/answers /tmp/lost /tmp/enough
  for what in start?user=carl accuracy health; do
    (while [ ! -e /tmp/enough ]; do
      if ask "/v1/$what" > "/tmp/one.$BASHPID" 2> "/tmp/why.$BASHPID"; then echo got >> /tmp/answers; else cat "/tmp/why.$BASHPID" >> /tmp/lost; fi
    done) &
  done
  until [ "$(cat /tmp/answers 2> /dev/null | wc -l)" -ge 3 ]; do sleep 0.2; done
  "${@:2}"
  sleep 1
  touch /tmp/enough /tmp/lost
  wait
  echo "$1 under load: $(wc -l < /tmp/answers) answers, $(grep -c ^curl /tmp/lost) lost"
  check "no answer was lost" test ! -s /tmp/lost
  check "and none was a defect: 503, ask again, to what takes longer than ten seconds" \
    bash -c '! journalctl -u batchcast-serve | grep status=500'
}
restarts() { for _ in 1 2 3; do sleep 1; systemctl restart batchcast-serve; done; }
under_load "restarted three times" restarts

# a newer package: the same files under a higher version, and settings that the operator has changed
echo 'least_users = 4' >> /etc/batchcast/batchcast.toml
dpkg-deb -R "$deb" /tmp/newer && sed -i 's/^Version: .*/&+1/' /tmp/newer/DEBIAN/control
dpkg-deb -Znone --root-owner-group -b /tmp/newer /tmp/newer.deb > /dev/null
process() { systemctl show --property=MainPID --value "$1"; }
collector=$(process batchcast-collect) service=$(process batchcast-serve)
python3 -c "from sqlite3 import connect as at; at('/var/lib/batchcast/store.db').backup(at('/var/backups/batchcast.db'))"
upgrade() { check "dpkg -i of a newer one" dpkg -i /tmp/newer.deb; }
under_load "upgraded" upgrade
check "what ran was started anew" bash -c "[ $collector != \$(systemctl show --property=MainPID --value batchcast-collect) ] && \
  [ $service != \$(systemctl show --property=MainPID --value batchcast-serve) ]"
check "and runs" bash -c 'systemctl is-active batchcast-collect batchcast-serve'
check "the operator's settings are kept" grep -q 'least_users = 4' /etc/batchcast/batchcast.toml

# back, as docs/guides/install.md says
systemctl stop batchcast-collect batchcast-serve.socket batchcast-serve
check "dpkg -i of the older one" dpkg -i "$deb"
check "the copy from before" cp --no-preserve=ownership /var/backups/batchcast.db /var/lib/batchcast/store.db
rm -f /var/lib/batchcast/store.db-wal /var/lib/batchcast/store.db-shm
check "its units again" systemctl start batchcast-collect batchcast-serve.socket
check "it answers again" until_there ask '/v1/start?user=carl'

check "dpkg -r" dpkg -r batchcast
check "nothing runs any more" bash -c '! systemctl is-active batchcast-collect batchcast-serve batchcast-serve.socket; ! pgrep -u batchcast'
check "no program is left" test ! -e /usr/lib/batchcast/bin
check "the store is left" test -s /var/lib/batchcast/store.db
check "dpkg -P" dpkg -P batchcast
check "no settings are left" test ! -e /etc/batchcast/batchcast.toml
echo "the Debian package: installed, started, restarted, upgraded, taken back, removed, purged in $SECONDS s"
