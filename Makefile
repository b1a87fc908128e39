# graphfuse: run `make` for the list of targets. Everything installs into .venv, from pip alone.

PYTHON ?= $(shell for p in python3.13 python3.12 python3.11 python3; do \
  command -v $$p >/dev/null 2>&1 && $$p -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' \
  >/dev/null 2>&1 && { echo $$p; break; }; done)
VENV ?= .venv
BIN := $(VENV)/bin
JOBS ?= $(shell nproc 2>/dev/null || sysctl -n hw.ncpu 2>/dev/null || echo 2)

.DEFAULT_GOAL := help
.PHONY: help venv demo demo-text test test-avx2 test-full mutants test-gpu bench check docs clean

help: ## this list
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

venv: $(BIN)/.installed ## .venv with graphfuse and what its tests need

$(BIN)/.installed: pyproject.toml
	@test -n "$(PYTHON)" || { echo "no python >= 3.11 with venv found; set PYTHON=/path/to/python3" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet -e '.[test]'
	@touch $@

# this version's wheel is the one for CPUs; its exporter to ONNX needs onnxscript
$(BIN)/.torch: $(BIN)/.installed
	$(BIN)/python -m pip install --quiet torch==2.13.0 onnxscript
	@touch $@

# what exports models, for test-full and bench; torchvision and timm come without dependencies of their own,
# which would bring another torch; pillow is all they import of those
$(BIN)/.models: $(BIN)/.torch
	$(BIN)/python -m pip install --quiet 'transformers<5'
	$(BIN)/python -m pip install --quiet --no-deps torchvision==0.28.0 timm pillow
	@touch $@

demo: venv ## digits, then ResNet-50 and BERT beside ONNX Runtime
	$(BIN)/python -m models.demo

demo-text: venv ## a tiny GPT writes, token by token
	$(BIN)/python -m models.demo_text

# as many workers as cores: threads of numpy's and torch's own would wait for one another, which keeps cores busy
test test-avx2 test-full: export OMP_NUM_THREADS := 1

test: venv $(BIN)/.torch ## all that needs no GPU and is quick
	$(BIN)/python -m pytest -n $(JOBS)

AVX2_TESTS := interp cpu codegen onnx/test_quantised.py models/test_quantised.py gpu/test_arith.py

test-avx2: venv ## arithmetic, with AVX-512 taken away
	$(BIN)/python tools/without_avx512.py $(BIN)/python -m pytest -n $(JOBS) $(AVX2_TESTS:%=tests/%)

test-full: venv $(BIN)/.models ## the above, every model, 2,000 fuzz cases
	$(BIN)/python -m pytest -n $(JOBS) -m 'not gpu'

mutants: venv ## wrong rewrite rules, which the laws must find: SEED=1 COUNT=20
	$(BIN)/python -m tests.mutants --seed $(or $(SEED),0) --count $(or $(COUNT),20) --jobs $(JOBS)

test-gpu: venv ## what needs an NVIDIA GPU
	$(BIN)/python -m pip install --quiet -e '.[test,cuda]'
	$(BIN)/python -m pytest -m gpu -p no:benchmark tests/gpu/device tests/test_docs.py

bench: venv $(BIN)/.models ## speed against ONNX Runtime and Inductor
	$(BIN)/python -m benchmarks.cpu_models

# pyright brings its node in a wheel; models and backends are checked beside the libraries that they import
check: export PYRIGHT_PYTHON_IGNORE_WARNINGS := 1
check: venv $(BIN)/.models ## lint, format, types
	$(BIN)/python -m pip install --quiet -e '.[test,dev]'
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright --pythonpath $(BIN)/python

docs: export NO_MKDOCS_2_WARNING := 1
docs: venv ## render the generated pages and README's figures, build the site
	$(BIN)/python -m graphfuse knobs --markdown > docs/knobs.md
	$(BIN)/python -m graphfuse errors --markdown > docs/errors.md
	$(BIN)/python tools/render_cli.py > docs/cli.md
	$(BIN)/python tools/render_results.py > docs/benchmarks.md
	$(BIN)/python tools/render_results.py fusion > docs/fusion.md
	$(BIN)/python tools/render_gpu_results.py > docs/benchmarks-gpu.md
	$(BIN)/python tools/render_torch_results.py > docs/benchmarks-torch.md
	$(BIN)/python tools/render_readme.py
	$(BIN)/python -m pip install --quiet -e '.[docs]'
	$(BIN)/python -m mkdocs build --quiet

clean: ## remove what was built
	rm -rf build dist $(VENV) .pytest_cache .ruff_cache .hypothesis
