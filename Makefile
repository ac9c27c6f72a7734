# The commands of a developer. Each target sets up the environments that it needs. After
# `make setup`, only `make lock`, `make gateway-image`, `make spark-archive` and
# `make more-clients` use the network.

SHELL  := /bin/sh
VENV   := .venv
READY  := $(VENV)/.ready
BIN    := $(VENV)/bin
# The pip that installs into the other environments.
PIPS   := .venv-pip
PIP    := $(PIPS)/.ready
# Programs that are called, never imported: local AWS engines, SAM, linters.
TOOLS  := .venv-tools
TOOLED := $(TOOLS)/.ready
# Clients of S3 that the tests call as programs: they pin another botocore and another DuckDB.
CLIENTS := .venv-clients
CLIENTED := $(CLIENTS)/.ready
# The generator of the site.
PAGES  := .venv-docs
PAGED  := $(PAGES)/.ready
SITE   ?= build/site
# PySpark 3.5 and 4, each with its own Java: they cannot share an environment.
SPARKS := .venv-spark3/.ready .venv-spark4/.ready
# The page, built from ui/; what it is built from.
PAGE   := graveler/ui/static/index.html
PAGE_SOURCES := $(shell find ui -name node_modules -prune -o -name types.ts -prune -o -type f -print 2>/dev/null)
PORT   ?= 8000
STORE  ?= .graveler
# As many as there are cores.
JOBS   ?= $(shell getconf _NPROCESSORS_ONLN 2>/dev/null || echo 2)
MINUTES ?= 1
SEEDS ?= 25
ARGS   ?=
PYTHON ?=
# For deploy: the stack's name, the runtime of its functions, and an interpreter of that version.
STACK  ?= graveler
LOCAL  ?=
RUNTIME ?=
ARCHITECTURE ?=
LAYER_PYTHON ?=
# For deploy: tags, the role of CloudFormation, the bucket for the code, and CONFIRM=1.
TAGS   ?=
ROLE   ?=
BUCKET ?=
CONFIRM ?=
export PYTHON SITE STACK LOCAL RUNTIME ARCHITECTURE LAYER_PYTHON ARGS TAGS ROLE BUCKET CONFIRM
# The tests start hundreds of processes.  Without bytecode on disk, each of them compiles every
# module that it imports: a second of a core for one `graveler serve`.
unexport PYTHONDONTWRITEBYTECODE

# The layer's wheels for both architectures, fetched once, so that no later step uses the network.
LAYERS := build/layers/.ready

# Three environments are made at a time, because each waits for the network half of its time: first
# those that the first tests need.
ifneq ($(filter setup first rest,$(MAKECMDGOALS)),)
MAKEFLAGS += -j3
$(PAGED) $(CLIENTED): | $(READY)
.venv-spark3/.ready: | .venv-spark4/.ready
endif
# `make setup test` makes the environments once.
test: | $(filter setup,$(MAKECMDGOALS))

# An environment contains absolute paths, so a copied or moved checkout needs a new one.
define made_here
ifneq ($$(shell cat $(1) 2>/dev/null),$$(CURDIR))
$(1): FORCE
endif
endef
$(foreach stamp,$(PIP) $(READY) $(TOOLED) $(CLIENTED) $(PAGED) $(SPARKS),$(eval $(call made_here,$(stamp))))

.DEFAULT_GOAL := help
.PHONY: help setup run ui ui-dev check first static rest test test-spark lint coverage soak soak-spark bench bench-cold bench-ui bench-spark docs deploy page-if-possible spark-archive proto sbom gateway-image more-clients lock clean FORCE

help: ## lists the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@echo
	@echo "  PYTHON=python3.12  the Python of the setup       PORT=8000  the port of run"
	@echo "  ARGS='...'         more options for the command  JOBS=n     test processes (cores)"

setup: $(READY) $(TOOLED) $(CLIENTED) $(PAGED) $(SPARKS) $(LAYERS) ## creates the environments from the locks (a second call does nothing)
	@echo "ready: $(VENV) $(TOOLS) $(CLIENTS) $(PAGES) $(SPARKS:/.ready=)"

$(PIP): requirements/pip.txt scripts/setup.sh
	@sh scripts/setup.sh $(PIPS) requirements/pip.txt

$(READY) $(TOOLED) $(CLIENTED) $(PAGED) $(SPARKS): requirements/pip.txt | $(PIP)

$(READY): requirements/dev.txt pyproject.toml scripts/setup.sh
	@sh scripts/setup.sh $(VENV) requirements/dev.txt .

$(TOOLED): requirements/tools.txt scripts/setup.sh
	@sh scripts/setup.sh $(TOOLS) requirements/tools.txt

$(CLIENTED): requirements/clients.txt scripts/setup.sh
	@sh scripts/setup.sh $(CLIENTS) requirements/clients.txt

$(PAGED): requirements/docs.txt scripts/setup.sh
	@sh scripts/setup.sh $(PAGES) requirements/docs.txt

.venv-spark%/.ready: requirements/spark%.txt pyproject.toml scripts/setup.sh scripts/java.sh
	@UNFINISHED=1 NEWEST=$(if $(filter 3,$*),3.12) sh scripts/setup.sh .venv-spark$* requirements/spark$*.txt .
	@$(if $(filter 3,$*),sh scripts/s3a.sh .venv-spark3 requirements/s3a.txt)
	@sh scripts/java.sh .venv-spark$*
	@pwd >$@

.venv-spark3/.ready: requirements/s3a.txt scripts/s3a.sh

$(LAYERS): requirements/layer.txt layers/build.py scripts/layers.sh $(READY)
	@sh scripts/layers.sh $(BIN)/python
	@touch $@

$(PAGE): $(PAGE_SOURCES) scripts/page.sh scripts/page_types.py | $(READY)
	@sh scripts/page.sh build $(BIN)/python

ui: $(PAGE) ## builds the page of the browser from ui/ (needs an npm registry once)

ui-dev: $(READY) ## serves the page with reload on port 5173, in front of the service on GRAVELER_ENDPOINT (http://127.0.0.1:8000)
	@sh scripts/page.sh dev $(BIN)/python

# Without an npm registry the service runs without the page, and a deployment has none.
page-if-possible: $(READY)
	@OPTIONAL=1 $(MAKE) --no-print-directory $(PAGE)

run: $(READY) page-if-possible ## serves a sample lake on 127.0.0.1:8000; ARGS=--once stops after the story
	@$(BIN)/graveler demo --store $(STORE) --listen 127.0.0.1:$(PORT) $(ARGS)

check: $(READY) ## runs ruff, mypy, the layer rules and the unit tests on the memory drivers: under a minute
	@sh scripts/checks.sh $(BIN) $(JOBS) lint page quick

test: ## runs ruff, mypy, the build of the site, and all tests
	@MAKE='$(MAKE_COMMAND)' sh scripts/checks.sh $(BIN) $(JOBS) all

# The steps of `make test`, which the script calls.  The tests on PySpark 4 begin after `first`, so
# that they use the cores that `rest` leaves idle.
first: $(READY) $(TOOLED) .venv-spark4/.ready

# What needs the first environment alone is checked while the others are made.
static: $(READY)
	@sh scripts/checks.sh $(BIN) $(JOBS) lint static

rest: static $(PAGE) $(SPARKS) $(TOOLED) $(CLIENTED) $(PAGED) $(LAYERS)

test-spark: $(READY) $(TOOLED) $(SPARKS) ## runs only the tests on PySpark 3.5 and 4
	@sh scripts/checks.sh $(BIN) $(JOBS) spark

lint: $(READY) ## runs ruff and mypy, and the checks of the page
	@sh scripts/checks.sh $(BIN) $(JOBS) lint types page

soak: $(READY) $(TOOLED) ## runs schedules, fuzzing, kills and load together for MINUTES=n; prints one JSON line
	@$(BIN)/python -m simulator.soak.run --minutes $(MINUTES) $(ARGS)

soak-spark: $(READY) $(SPARKS) ## kills drivers of Spark, their workers and the server for SEEDS=n, and lets Spark run tasks twice; a JSON line each
	@.venv-spark4/bin/python -m simulator.soak.spark_speculation
	@.venv-spark4/bin/python -m simulator.soak.spark_kills --seeds $(SEEDS) $(ARGS)

coverage: $(READY) $(PAGE) $(TOOLED) $(CLIENTED) $(LAYERS) ## measures branch coverage per folder; fails below the minimum of a folder
	@sh scripts/coverage.sh $(BIN) $(JOBS)

bench: $(READY) ## measures speed and memory, prints the lines and one of JSON; QUICK=1 takes 3 minutes
	@$(BIN)/python -m benchmarks $(ARGS)

bench-cold: $(READY) $(LAYERS) ## measures the cold start of the API function and of an empty application
	@$(BIN)/python -m benchmarks.cold $(ARGS)

bench-ui: $(READY) $(PAGE) ## measures the page in a slow browser: first rows, and the slowest interaction
	@PYTHONPATH=. $(BIN)/python -m benchmarks.page $(ARGS)

bench-spark: $(READY) $(SPARKS) ## measures imports, reads, diffs and tables beside Spark's own Parquet on both versions of PySpark; QUICK=1 takes 8 minutes
	@$(BIN)/python -m benchmarks.spark $(ARGS)

docs: $(PAGED) ## builds the site from docs/ in build/site; fails on a dead link or an unlisted page
	@sh scripts/checks.sh $(BIN) $(JOBS) site
	@echo "open $(SITE)/index.html"

deploy: $(TOOLED) ## deploys to AWS, with the page if `make ui` has built it; LOCAL=1 deploys to a local engine and serves until interrupted
	@sh scripts/deploy.sh $(TOOLS)/bin/python

spark-archive: $(SPARKS) ## packs what jobs on Spark need besides Spark into one archive in build/spark (uses the network); ARGS='--spark 3 --python 3.11'
	@.venv-spark$(if $(findstring --spark 3,$(ARGS)),3,4)/bin/python scripts/spark_archive.py $(ARGS)

proto: $(READY) ## regenerates graveler/core/wire_pb2.py from graveler/core/wire.proto
	@$(BIN)/python scripts/proto.py graveler/core
	@echo "wrote graveler/core/wire_pb2.py and graveler/core/wire_pb2.pyi"

sbom: $(READY) ## writes the bill of materials of all locks (CycloneDX) in build/sbom
	@PYTHONPATH=. $(BIN)/python scripts/sbom.py

gateway-image: $(READY) ## runs the steps of the image of `graveler gateway` in a folder of this machine (uses the network)
	@PYTHONPATH=. $(BIN)/python -m pytest -q tests/aws/image_steps.py

more-clients: $(READY) ## runs S3 clients for JavaScript (needs node, npm and the network); ARGS=torch runs s3torchconnector
	@PYTHONPATH=. $(BIN)/python -m tests.gateway.by_hand.run $(ARGS)

lock: ## resolves the requirements again (uses the network)
	@sh scripts/lock.sh

clean: ## removes the environments, caches and build output; keeps the sample lake in .graveler
	rm -rf $(VENV) $(PIPS) $(TOOLS) $(CLIENTS) $(PAGES) $(SPARKS:/.ready=) .venv-ui ui/node_modules graveler/ui/static build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .coverage htmlcov
	find benchmarks functions graveler layers scripts simulator tests -name __pycache__ -type d -prune -exec rm -rf {} +
