#!/bin/sh
# Installs what the tests on real services need, on Debian 12 or Ubuntu, as root. Nothing is started.
set -eu
export DEBIAN_FRONTEND=noninteractive
# Keep the packages' own scripts from starting daemons; the tests start private ones and stop them by pid.
made_policy=
if [ ! -e /usr/sbin/policy-rc.d ]; then
    printf '#!/bin/sh\nexit 101\n' > /usr/sbin/policy-rc.d
    chmod 755 /usr/sbin/policy-rc.d
    made_policy=yes
fi
apt-get update -qq
# slurm-wlm-emulator must not be there: it takes the names slurmctld and slurmd over.
apt-get install -y -qq --no-install-recommends \
    munge slurmctld slurmd slurm-client slurmdbd slurm-wlm-mysql-plugin slurm-wlm-torque \
    mariadb-server faketime procps postgresql
[ -z "$made_policy" ] || rm -f /usr/sbin/policy-rc.d
# Two ordinary users to submit as and to ask as.
for name in bc_ada bc_bob; do
    id "$name" > /dev/null 2>&1 || useradd --create-home --shell /bin/sh "$name"
done
