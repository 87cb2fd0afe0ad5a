#!/usr/bin/env bash
# Known weaknesses of what a build installs, by pip-audit: tools/audit.sh PYTHON FILE. FILE is what tools/hashes.sh writes.
# Ends with 1 if there are any, and with 75 if something was not checked, since
# pip-audit or its database cannot be had.
set -uo pipefail
log=$(mktemp)
trap 'rm -f "$log"' EXIT
"$1" -m uv tool run pip-audit --disable-pip --require-hashes --progress-spinner off -r "$2" > "$log" 2>&1
code=$?
unknown=$(grep -c 'could not be audited' "$log")
if [ "$code" = 0 ] && [ "$unknown" -gt 0 ]; then
  echo "the database of known weaknesses does not answer for $unknown packages: they were not checked" >&2
  exit 75
fi
if [ "$code" = 0 ] || grep -qE '^Found [0-9]+ known' "$log"; then
  cat "$log"
  exit "$code"
fi
tail -n 3 "$log"
echo "nothing was checked: pip-audit, or its database of known weaknesses, cannot be had here" >&2
exit 75
