"""Write the recipes in contrib/packages from pyproject.toml: python -m tools.packages [SDIST].

There are recipes for RPM, Spack, EasyBuild, conda and environment modules. With a source archive, the recipes are
written to the archive's folder with its digest, in the form that those projects expect. Without a source archive, they
are written to the repository, where a test checks them.
"""

from __future__ import annotations

import hashlib
import re
import sys
import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
PLACE = ROOT / "contrib" / "packages"
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = ("learn", "parquet", "serve", "store")
"""Extras of a site's installation besides the users' verbs."""
CONDA = {"lightgbm": "lightgbm", "prometheus-client": "prometheus_client", "tzdata": "python-tzdata"}
SPACK_LACKS = ("psycopg",)
"""Not packaged by Spack: with Spack, a store on PostgreSQL needs pip."""
EASYBUILD = {"foss": "2025b", "Python": "3.13.5", "Python-bundle-PyPI": "2025.07", "SciPy-bundle": "2025.07",
             "numba": "0.62.0", "hatchling": "1.27.0"}  # fmt: skip
"""Modules with click, jinja2, rich, numpy and numba; `eb --dry-run` says whether they exist."""
EASYBUILD_SOURCES = {
    "msgspec": ("0.22.0", "0a13624a4969159fe35d8c2a3d377b2b61bbd8585e327440d5e52725affcce38"),
    "tzdata": ("2026.6", "85d2cd9c09f81f0bb29db27759fc83af4f1e620efb814f8c5bf8b4cc4feece6d"),
}
"""Packages that those modules lack, with the digests of their source archives."""
DESCRIPTION = (
    "Forecasts run times and queue waits of batch jobs from a cluster's own history, each with an interval and a track "
    "record; answers the cluster's users on the command line, over HTTP and in a browser; simulates schedules."
)


def requirement(text: str) -> tuple[str, str]:
    """Return name and bounds of a requirement, without extras.

    >>> requirement("psycopg[binary]>=3.2")
    ('psycopg', '>=3.2')
    """
    name, bounds = re.fullmatch(r"([A-Za-z0-9_-]+)(?:\[[a-z]+\])?(.*)", text).groups()
    return name, bounds


def spack_range(bounds: str) -> str:
    """Return bounds as Spack writes them: the upper bound is included.

    >>> spack_range(">=3.11,<3.15"), spack_range(">=8.1")
    ('@3.11:3.14', '@8.1:')
    """
    low, _, high = bounds.removeprefix(">=").partition(",<")
    major, _, minor = high.partition(".")
    return f"@{low}:{f'{major}.{int(minor) - 1}' if minor else ''}"


def core() -> list[tuple[str, str]]:
    """Return the requirements of the core."""
    return [requirement(text) for text in PROJECT["dependencies"]]


def extra(name: str) -> list[tuple[str, str]]:
    """Return the further requirements of an extra."""
    return [requirement(text) for text in PROJECT["optional-dependencies"][name]]


def spec(version: str) -> str:
    """Return an RPM spec; `tools/system_package.sh rpm` provides the wheel, requirements with hashes, units and uv."""
    return filled(RPM, version=version, description=wrapped(DESCRIPTION))


def spack(version: str, digest: str) -> str:
    """Return Spack's package.py, each extra as a variant."""
    variants = "".join(f'    variant("{name}", default=True, description="{VARIANTS[name]}")\n' for name in EXTRAS)
    needs = "".join(f'        depends_on("py-{name}{spack_range(bounds)}")\n' for name, bounds in core())
    for name in EXTRAS:
        needs += f'        with when("+{name}"):\n' + "".join(
            f'            depends_on("py-{each}{spack_range(bounds)}")\n'
            for each, bounds in extra(name) if each not in SPACK_LACKS
        )  # fmt: skip
    return filled(SPACK, version=version, description=wrapped(PROJECT["description"] + ".", 4), digest=digest,
                  variants=variants, needs=needs, python=spack_range(PROJECT["requires-python"]))  # fmt: skip


def easybuild(version: str, digest: str) -> str:
    """Return EasyBuild's easyconfig: the users' verbs, on a toolchain's own Python, SciPy and numba."""
    modules = ("Python", "Python-bundle-PyPI", "SciPy-bundle", "numba")
    lines = "".join(f"    ('{name}', '{EASYBUILD[name]}'),\n" for name in modules)
    sources = "".join(
        f"    ('{name}', '{number}', {{\n        'checksums': ['{sha}'],\n    }}),\n"
        for name, (number, sha) in EASYBUILD_SOURCES.items()
    )
    return filled(EASYCONFIG, version=version, description=wrapped(DESCRIPTION), toolchain=EASYBUILD["foss"],
                  hatchling=EASYBUILD["hatchling"], modules=lines, sources=sources, digest=digest)  # fmt: skip


def conda(version: str, digest: str) -> str:
    """Return conda's recipe.yaml: the users' verbs; extras only bound versions."""

    def lines(names: list[tuple[str, str]]) -> str:
        return "".join(f"    - {CONDA.get(name, name)} {bounds}\n" for name, bounds in names)

    beside = lines(sorted({one for name in EXTRAS for one in extra(name)}))
    return filled(RECIPE, version=version, digest=digest, python=PROJECT["requires-python"], core=lines(core()),
                  extras=beside)  # fmt: skip


def module(version: str) -> str:
    """Return a module file for Lmod and Environment Modules; it finds the installation relative to its own location."""
    return filled(MODULE, version=version)


def filled(template: str, **values: str) -> str:
    """Fill a template with its values, and with values of the project."""
    shared = {"summary": PROJECT["description"], "license": PROJECT["license"], "home": PROJECT["urls"]["Source"]}
    for name, value in {**values, **shared}.items():
        template = template.replace(f"@{name}@", value)
    return template


def wrapped(text: str, margin: int = 0) -> str:
    """Wrap text to lines of at most 78 characters."""
    from textwrap import fill

    return fill(text, 78, subsequent_indent=" " * margin)


def recipes(digest: str = "0" * 64) -> dict[str, str]:
    """Return the files by path; `digest` is the source archive's, zeros without one."""
    version = PROJECT["version"]
    return {
        "rpm/batchcast.spec": spec(version),
        "spack/package.py": spack(version, digest),
        f"easybuild/batchcast-{version}-foss-{EASYBUILD['foss']}.eb": easybuild(version, digest),
        "conda/recipe.yaml": conda(version, digest),
        f"modulefiles/batchcast/{version}": module(version),
    }


VARIANTS = {
    "learn": "Methods that are trained", "parquet": "Parquet files", "serve": "The service and its pages",
    "store": "A store of history and forecasts",
}  # fmt: skip
RPM = """\
# Made by `python -m tools.packages`; built by `make rpm`. As the Debian package it has everything but Python in
# /usr/lib/batchcast, for the Python it is built with (--define 'python /usr/bin/python3.11').
%global __os_install_post %{nil}
%global debug_package %{nil}
%global _binary_payload w3.zstdio
%{!?python: %global python /usr/bin/python3}
%{!?_unitdir: %global _unitdir /usr/lib/systemd/system}
%global abi %(%{python} -c 'import sys; print("3.%d" % sys.version_info[1])')
%{!?_sysusersdir: %global _sysusersdir %{_prefix}/lib/sysusers.d}
%global place %{_prefix}/lib/batchcast

Name: batchcast
Version: @version@
Release: 1
Summary: @summary@
License: @license@
URL: @home@
AutoReqProv: no
Requires: python(abi) = %{abi}
Requires: systemd
Recommends: slurm

%description
@description@

%prep

%build

%install
$UV venv --quiet --relocatable --no-project --python %{python} %{buildroot}%{place}
$UV pip install --quiet --link-mode copy --python %{buildroot}%{place}/bin/python \\
  --require-hashes --requirement $ROOM/requirements.txt
$UV pip install --quiet --link-mode copy --python %{buildroot}%{place}/bin/python --no-deps --offline \\
  "$(echo $ROOM/dist/batchcast-*.whl)"
$SBOM %{buildroot}%{place}/lib/python3.*/site-packages
rm -rf %{buildroot}%{place}/.lock %{buildroot}%{place}/.gitignore %{buildroot}%{place}/CACHEDIR.TAG
rm -rf %{buildroot}%{place}/lib64
find %{buildroot}%{place} -name __pycache__ -prune -exec rm -rf {} +
find %{buildroot}%{place} -path '*/tests' -type d -prune -exec rm -rf {} +
rm -f %{buildroot}%{place}/lib/python3.*/site-packages/*.dist-info/direct_url.json
install -d %{buildroot}/usr/bin
ln -s ../lib/batchcast/bin/batchcast %{buildroot}/usr/bin/batchcast
install -D -m 644 $ROOM/units/batchcast.toml %{buildroot}/etc/batchcast/batchcast.toml
install -D -m 644 $ROOM/units/batchcast.sysusers %{buildroot}%{_sysusersdir}/batchcast.conf
for file in batchcast.lua cli_filter.lua; do
  install -D -m 644 $ROOM/units/$file %{buildroot}/usr/share/batchcast/$file; done
install -D -m 755 $ROOM/units/batchcast-start %{buildroot}/usr/share/batchcast/batchcast-start
for unit in $ROOM/units/*.service $ROOM/units/*.timer $ROOM/units/*.socket; do
  install -D -m 644 $unit %{buildroot}%{_unitdir}/$(basename $unit); done

%files
%license %{place}/lib/python3.*/site-packages/batchcast-%{version}.dist-info/licenses/LICENSE
%{place}
/usr/bin/batchcast
/usr/share/batchcast
%{_sysusersdir}/batchcast.conf
%{_unitdir}/batchcast-*
%config(noreplace) /etc/batchcast/batchcast.toml

%post
systemd-sysusers batchcast.conf || :
%{place}/bin/python -m compileall -q -j 0 %{place}/lib > /dev/null 2>&1 || :
[ ! -d /run/systemd/system ] || systemctl daemon-reload || :

%preun
if [ $1 -eq 0 ]; then
  [ ! -d /run/systemd/system ] || systemctl stop batchcast-serve.socket batchcast-serve batchcast-collect \\
    batchcast-export.timer batchcast-export || :
  find %{place} -name __pycache__ -prune -exec rm -rf {} +
fi

%postun
if [ $1 -ge 1 ] && [ -d /run/systemd/system ]; then
  systemctl daemon-reload || :
  systemctl try-restart batchcast-collect batchcast-serve || :
fi
"""
SPACK = '''\
# Copyright Spack Project Developers. See COPYRIGHT file for details.
#
# SPDX-License-Identifier: (Apache-2.0 OR MIT)

from spack_repo.builtin.build_systems.python import PythonPackage

from spack.package import *


class PyBatchcast(PythonPackage):
    """@description@"""

    homepage = "@home@"
    pypi = "batchcast/batchcast-@version@.tar.gz"

    license("@license@")

    version("@version@", sha256="@digest@")

@variants@
    with default_args(type="build"):
        depends_on("py-hatchling")

    with default_args(type=("build", "run")):
        depends_on("python@python@")
@needs@'''
EASYCONFIG = """\
easyblock = 'PythonBundle'

name = 'batchcast'
version = '@version@'

homepage = '@home@'
description = \"\"\"@description@\"\"\"

toolchain = {'name': 'foss', 'version': '@toolchain@'}

builddependencies = [
    ('hatchling', '@hatchling@'),
]

dependencies = [
@modules@]

exts_list = [
@sources@    (name, version, {
        'checksums': ['@digest@'],
    }),
]

sanity_check_paths = {
    'files': ['bin/batchcast'],
    'dirs': ['lib/python%(pyshortver)s/site-packages/batchcast'],
}

sanity_check_commands = ['batchcast --version']

moduleclass = 'tools'
"""
RECIPE = """\
schema_version: 1

package:
  name: batchcast
  version: "@version@"

source:
  url: https://pypi.org/packages/source/b/batchcast/batchcast-@version@.tar.gz
  sha256: @digest@

build:
  number: 0
  noarch: python
  script: python -m pip install . --no-deps --no-build-isolation -vv
  python:
    entry_points:
      - batchcast = batchcast.__main__:entry

requirements:
  host:
    - python @python@
    - hatchling
    - pip
  run:
    - python @python@
@core@  run_constraints:
@extras@
tests:
  - python:
      imports:
        - batchcast
        - batchcast.client
  - script:
      - batchcast --version

about:
  homepage: @home@
  summary: '@summary@'
  license: @license@
  license_file: LICENSE
"""
MODULE = """\
#%Module1.0
# Beside an installation: PREFIX/modulefiles/batchcast/@version@, where PREFIX/bin holds the program.
proc ModulesHelp { } { puts stderr "@home@" }
module-whatis "@summary@"
conflict batchcast
set prefix [file dirname [file dirname [file dirname [file normalize $ModulesCurrentModulefile]]]]
prepend-path PATH $prefix/bin
"""


def main(words: list[str]) -> None:
    """Write the recipes."""
    place, digest = (PLACE, "0" * 64)
    if words:
        place, digest = Path(words[0]).parent, hashlib.sha256(Path(words[0]).read_bytes()).hexdigest()
    for name, text in recipes(digest).items():
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_text(text)
        print(place / name)


if __name__ == "__main__":
    main(sys.argv[1:])
