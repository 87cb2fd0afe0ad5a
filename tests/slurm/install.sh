#!/bin/sh
# Installs what the tests on real services need, on Debian 12 or Ubuntu, as root. Nothing is started.
set -eu
cd "$(dirname "$0")"
export DEBIAN_FRONTEND=noninteractive
# Keep the packages' own scripts from starting daemons: the tests start private ones and stop them by pid.
if [ ! -e /usr/sbin/policy-rc.d ]; then
    printf '#!/bin/sh\nexit 101\n' > /usr/sbin/policy-rc.d
    chmod 755 /usr/sbin/policy-rc.d
    trap 'rm -f /usr/sbin/policy-rc.d' EXIT
fi
apt-get update -qq
# shellcheck disable=SC2046
apt-get install -y -qq --no-install-recommends $(./packages)
