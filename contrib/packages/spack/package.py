# Copyright Spack Project Developers. See COPYRIGHT file for details.
#
# SPDX-License-Identifier: (Apache-2.0 OR MIT)

from spack_repo.builtin.build_systems.python import PythonPackage

from spack.package import *


class PyBatchcast(PythonPackage):
    """Forecasts batch jobs on HPC clusters: run times, queue waits, and what a
    scheduler gains by knowing."""

    homepage = "https://github.com/batchcast/batchcast"
    pypi = "batchcast/batchcast-0.1.0.tar.gz"

    license("Apache-2.0")

    version("0.1.0", sha256="0000000000000000000000000000000000000000000000000000000000000000")

    variant("learn", default=True, description="Methods that are trained")
    variant("parquet", default=True, description="Parquet files")
    variant("serve", default=True, description="The service and its pages")
    variant("store", default=True, description="A store of history and forecasts")

    with default_args(type="build"):
        depends_on("py-hatchling")

    with default_args(type=("build", "run")):
        depends_on("python@3.11:3.14")
        depends_on("py-click@8.1:")
        depends_on("py-jinja2@3.1.6:")
        depends_on("py-msgspec@0.19:")
        depends_on("py-numba@0.61:")
        depends_on("py-numpy@2.0:")
        depends_on("py-rich@13.7:")
        depends_on("py-tzdata@2024.1:")
        with when("+learn"):
            depends_on("py-lightgbm@4.6:")
            depends_on("py-rapidfuzz@3.9:")
            depends_on("py-scikit-learn@1.5:")
            depends_on("py-scipy@1.13:")
        with when("+parquet"):
            depends_on("py-pyarrow@17:")
        with when("+serve"):
            depends_on("py-httptools@0.6:")
            depends_on("py-prometheus-client@0.20:")
            depends_on("py-python-multipart@0.0.18:")
            depends_on("py-starlette@0.49.1:")
            depends_on("py-uvicorn@0.34:")
        with when("+store"):
            depends_on("py-sqlalchemy@2.0:")
