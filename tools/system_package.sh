#!/usr/bin/env bash
# A package of this system from the wheel: tools/system_package.sh deb|rpm PYTHON [FOLDER]. deb needs debhelper, rpm needs
# rpmbuild; either the system's own Python (`SYSTEM_PYTHON`, else /usr/bin/python3). Printed last: where it lies.
# Installed is only what has a hash in requirements.txt (tools/hashes.sh). Beside the package: NAME.cdx.json, what is in it.
set -euo pipefail
cd "$(dirname "$0")/.."
kind=$1 python=$(realpath -s "$2") folder=$(realpath -m "${3:-dist}") system=${SYSTEM_PYTHON:-/usr/bin/python3}
export UV="$python -m uv" LC_ALL=C.UTF-8
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2> /dev/null || date +%s)}
export SOURCE_DATE_EPOCH
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
export ROOM=$place/batchcast SBOM="$python $PWD/tools/sbom.py $place/sbom.json"
mkdir -p "$ROOM" "$folder"
"$python" -m build --no-isolation --wheel --outdir "$ROOM/dist" . > "$place/build.log" 2>&1 || { tail -n 30 "$place/build.log"; exit 1; }
version=$(basename "$ROOM"/dist/batchcast-*.whl | cut -d- -f2)
cp -r contrib/debian contrib/packages/rpm/batchcast.spec "$ROOM/"
bash tools/hashes.sh "$python" "$ROOM/requirements.txt"
"$python" - "$ROOM/units" << 'PYTHON'
import sys
from pathlib import Path
from batchcast.cli.site.setup import unit_files

(folder := Path(sys.argv[1])).mkdir()
for name, text in unit_files("/usr/bin/batchcast", is_open=False, is_remote=False).items():
    (folder / name).write_text(text)
PYTHON
cp contrib/systemd/*.socket "$ROOM/units/"
if [ "$kind" = rpm ]; then
  rpmbuild -bb --define "_topdir $place/rpm" --define "python $system" "$ROOM/batchcast.spec" > "$place/made.log" 2>&1 \
    || { tail -n 40 "$place/made.log"; exit 1; }
  cp "$place"/rpm/RPMS/*/batchcast-*.rpm "$folder/"
  name=$(ls "$folder"/batchcast-"$version"-*.rpm)
else
  printf 'batchcast (%s) unstable; urgency=medium\n\n  * Built from this checkout.\n\n -- The site <root@localhost>  %s\n' \
    "$version" "$(date -R -d "@$SOURCE_DATE_EPOCH")" > "$ROOM/debian/changelog"
  (cd "$ROOM" && dpkg-buildpackage --build=binary --no-sign --unsigned-changes -d) > "$place/made.log" 2>&1 \
    || { tail -n 40 "$place/made.log"; exit 1; }
  cp "$place"/batchcast_*.deb "$folder/"
  name=$(ls "$folder"/batchcast_"$version"_*.deb)
fi
cp "$place/sbom.json" "$name.cdx.json"
echo "$name"
