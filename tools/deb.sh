#!/usr/bin/env bash
# A Debian package with dpkg-buildpackage, from the wheel: tools/deb.sh PYTHON [FOLDER]; needs debhelper and Debian's
# python3. Printed last: where it lies.
set -euo pipefail
cd "$(dirname "$0")/.."
python=$(realpath -s "$1") folder=$(realpath -m "${2:-dist}")
export UV="$python -m uv" LC_ALL=C.UTF-8
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
room=$place/batchcast
mkdir -p "$room" "$folder"
"$python" -m build --no-isolation --wheel --outdir "$room/dist" . > "$place/build.log" 2>&1 || { tail -n 30 "$place/build.log"; exit 1; }
version=$(basename "$room"/dist/batchcast-*.whl | cut -d- -f2)
cp -r contrib/debian constraints.txt "$room/"
"$python" - "$room/units" << 'PYTHON'
import sys
from pathlib import Path
from batchcast.service.operations.units import unit_files

(folder := Path(sys.argv[1])).mkdir()
for name, text in unit_files("/usr/bin/batchcast", is_open=False, is_remote=False).items():
    (folder / name).write_text(text)
PYTHON
cp contrib/systemd/*.socket "$room/units/"
printf 'batchcast (%s) unstable; urgency=medium\n\n  * Built from this checkout.\n\n -- The site <root@localhost>  %s\n' \
  "$version" "$(date -R -d "@${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || date +%s)}")" > "$room/debian/changelog"
(cd "$room" && dpkg-buildpackage --build=binary --no-sign --unsigned-changes -d) > "$place/deb.log" 2>&1 || { tail -n 40 "$place/deb.log"; exit 1; }
cp "$place"/batchcast_*.deb "$folder/"
ls "$folder"/batchcast_"$version"_*.deb
