# Everything runs from a venv of the project's own; nothing but Python 3.11+ is needed.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
CORE := $(VENV)/core/bin
JOBS ?= 2
unexport PYTHONDONTWRITEBYTECODE  # else every process that tests start compiles the same modules anew
PIP := -m pip install --quiet --disable-pip-version-check
UV := $(if $(PIP_INDEX_URL),UV_DEFAULT_INDEX='$(PIP_INDEX_URL)') $(BIN)/uv pip install --quiet
# What $(2) names into the venv of the Python $(1), by uv in a fifth of pip's time. Where uv does not reach what pip's
# own settings name, pip installs.
install = @$(UV) --python $(1) $(2) 2> $(VENV)/uv.log || $(1) $(PIP) $(2)

.PHONY: setup setup-run setup-docs setup-core setup-workflows demo test test-core test-long test-fast-and-long test-lab test-lab-all test-all lint house bench docs figures figures-all pictures lock audit wheel deb rpm packages \
	try-deb container try-container try-ansible slurm-lab-experiments clean
setup: $(VENV)/.dev
setup-run: $(VENV)/.run
setup-docs: $(VENV)/.docs
setup-core: $(VENV)/.core
setup-workflows: $(VENV)/.workflows

$(VENV)/.python:
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@touch $@

# What the demo needs and no more; `.dev` holds it too, so it counts where that is there.
$(VENV)/.run: pyproject.toml packages/papers/pyproject.toml constraints.txt | $(VENV)/.python
	@test -e $(VENV)/.dev || $(BIN)/python $(PIP) -c constraints.txt -e . -e packages/papers
	@touch $@

# Compiled as pip does it: with PYTHONDONTWRITEBYTECODE set, Python would do so at every start.
$(VENV)/.dev $(VENV)/.core $(VENV)/.workflows: export UV_COMPILE_BYTECODE=1
$(VENV)/.dev: pyproject.toml packages/papers/pyproject.toml constraints.txt | $(VENV)/.python
	@test -x $(BIN)/uv || $(BIN)/python $(PIP) -c constraints.txt uv
	$(call install,$(BIN)/python,-c constraints.txt -e '.[dev]' -e packages/papers)
	@touch $@

$(VENV)/.core: $(VENV)/.dev
	@test -x $(CORE)/python || $(PYTHON) -m venv $(VENV)/core
	$(call install,$(CORE)/python,-c constraints.txt -e '.[dev]')
	@touch $@

$(VENV)/.docs: $(VENV)/.dev
	$(call install,$(BIN)/python,-c constraints.txt -e '.[docs]')
	@touch $@

# A real Snakemake and a real JupyterHub, for their tests on the lab, and schemathesis, which asks the service: in venvs
# of their own, since they want other versions, and the last puts a plug-in into every pytest; the hub on the system's Python, if there is one: its notebooks are jobs of users who may not read root's.
$(VENV)/.workflows: tests/slurm/programs/snakemake.txt tests/slurm/programs/jupyterhub.txt tests/security/schemathesis.txt | $(VENV)/.dev
	@$(PYTHON) -m venv $(VENV)/schemathesis
	$(call install,$(VENV)/schemathesis/bin/python,-r tests/security/schemathesis.txt)
	@$(PYTHON) -m venv $(VENV)/snakemake
	$(call install,$(VENV)/snakemake/bin/python,-r tests/slurm/programs/snakemake.txt)
	@$(word 1,$(wildcard /usr/bin/python3) $(PYTHON)) -m venv $(VENV)/jupyterhub
	$(call install,$(VENV)/jupyterhub/bin/python,-r tests/slurm/programs/jupyterhub.txt)
	@touch $@

demo: setup-run
	@$(BIN)/batchcast demo -o demo-report

test: setup
	@$(BIN)/python -m pytest -n $(JOBS) -m "not slow and not long and not lab"

# What takes five seconds and more each: the tutorial, pages in Chromium, kernels compiled in processes of their own.
test-long: setup
	@$(BIN)/python -m pytest -n $(JOBS) -m "long and not slow and not lab"

# One after the other: each has the machine's clock to keep.
test-lab: setup
	@$(BIN)/python -m pytest -rs --durations=10 -m "lab and not slow" tests/slurm

# The same, with the guide and the reasons on the newer Slurm too.
test-lab-all: setup
	@$(BIN)/python -m pytest -rs -m lab tests/slurm

# Both in one run, whose last long tests leave no core idle: for CI.
test-fast-and-long: setup setup-core
	@$(CORE)/python -m pytest -n $(JOBS) --dist worksteal -m "not slow and not lab" tests src/batchcast --ignore tests/docs --ignore tests/checks/test_benchmarks.py
	@$(BIN)/python -m pytest -n $(JOBS) --dist worksteal -m "not slow and not lab" packages/papers tests/docs tests/checks

# The core alone, in a venv without the papers: the core knows nothing of them.
test-core: setup-core
	@$(CORE)/python -m pytest -n $(JOBS) -m "not slow and not long and not lab" tests src/batchcast --ignore tests/docs --ignore tests/checks/test_benchmarks.py

# Everything, and every property with 200 examples where the fast tier draws 30.
test-all: setup
	@$(BIN)/python -m pytest -n $(JOBS) --hypothesis-profile deep

lint: setup
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check --quiet .
	@$(BIN)/mypy
	@$(BIN)/lint-imports

# A report, not a test: the rooms, their sizes, what may be too large, and what to do about it.
house: setup
	@$(BIN)/python -m tools.rooms

bench: setup
	@$(BIN)/python -m benchmarks

# The site in site/, from docs/ and the docstrings; tools/reference.py adds the pages of commands, methods, settings and
# columns. Every link inside the site is checked, and nothing is fetched.
docs: setup-docs
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet --site-dir site

# The figures of README and docs from the commands that print them (docs/figures/*.json), and which pages say otherwise;
# figures-all also runs commands of two minutes and more. Real logs lie in ../shared.
figures: setup
	@$(BIN)/python -m tools.figures

figures-all: setup
	@$(BIN)/python -m tools.figures --all

# The pictures of README and docs, from the demo and a made-up site, by Chromium.
pictures: setup
	@$(BIN)/python -m tools.docs_pictures

# constraints.txt from pyproject.toml, for every Python we support: names and versions only.
lock: setup
	@$(BIN)/python -m uv pip compile --quiet --universal --python-version 3.11 --all-extras --no-header --no-annotate \
		--no-emit-index-url --no-emit-find-links $(LOCK) -o constraints.txt pyproject.toml

# Known weaknesses of what packages and container install; says so where pip-audit or its database cannot be had.
audit: setup
	@mkdir -p build && bash tools/hashes.sh $(BIN)/python build/requirements.txt
	@bash tools/audit.sh $(BIN)/python build/requirements.txt

# A wheel and a source archive, the wheel installed in a venv of its own outside this checkout and tried there.
wheel: setup
	@bash tools/wheel.sh $(BIN)/python

# A Debian package in dist/, for this machine's own Python; needs debhelper.
deb: setup
	@bash tools/system_package.sh deb $(BIN)/python dist

# An RPM in dist/, for the Python that SYSTEM_PYTHON names (/usr/bin/python3); needs rpmbuild.
rpm: setup
	@bash tools/system_package.sh rpm $(BIN)/python dist

# contrib/packages from pyproject.toml: RPM, Spack, EasyBuild, conda, a module file; a test says when they are not current.
packages: setup
	@$(BIN)/python -m tools.packages

# It installed, started, asked, restarted and upgraded under load, removed and purged, on a copy of this machine (ROOT=FOLDER:
# of the Debian in FOLDER) under a systemd of its own; needs root and overlayfs.
try-deb: deb
	@mkdir -p build/try && rm -f build/try/* && cp dist/batchcast_*.deb build/try/
	@$(BIN)/python -m tools.demo_site build/try/demo.db
	@bash tools/install_trials/in_systemd.sh tools/install_trials/try_deb.sh build/try

# The container with podman or buildah, without root; BASE=IMAGE for another than Debian's.
container: setup
	@bash tools/container.sh $(BIN)/python build/container $(BASE)

# The container, and the Ansible role, each tried on a small Debian under a systemd of its own: need root, overlayfs and debootstrap.
try-container: setup
	@bash tools/install_trials/debian_root.sh build/debian-podman podman netavark aardvark-dns uidmap slirp4netns fuse-overlayfs passwd
	@bash tools/install_trials/debian_root.sh build/debian-python python3-venv
	@mkdir -p build/try-container && rm -rf build/try-container/*
	@bash tools/container.sh $(BIN)/python build/try-container/container
	@tar -C build/debian-python -cf build/try-container/base.tar .
	@$(BIN)/python -m tools.demo_site build/try-container/demo.db
	@ROOT=$(CURDIR)/build/debian-podman bash tools/install_trials/in_systemd.sh tools/install_trials/try_container.sh build/try-container

try-ansible: setup
	@bash tools/install_trials/debian_root.sh build/debian-ansible ansible-core python3-apt python3-venv python3-cffi-backend
	@mkdir -p build/try-ansible && rm -rf build/try-ansible/*
	@bash tools/container.sh $(BIN)/python build/try-ansible/container
	@cp -r contrib/ansible build/try-ansible/
	@$(BIN)/python -m tools.demo_site build/try-ansible/demo.db
	@ROOT=$(CURDIR)/build/debian-ansible bash tools/install_trials/in_systemd.sh tools/install_trials/try_ansible.sh build/try-ansible

# Needs root and tests/slurm/install.sh; about twenty minutes.
slurm-lab-experiments: setup
	@$(BIN)/python tests/slurm/experiments.py

clean:
	rm -rf $(VENV) build dist site demo-report report
