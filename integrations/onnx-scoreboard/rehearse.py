"""Run the scoreboard's steps without its container: `python integrations/onnx-scoreboard/rehearse.py --results DIR`."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
MODULE = "graphfuse.onnx_backend"


def main() -> int:
    """List the packages, run the tests, say what came of it; pytest's exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--results", type=Path, required=True, help="where report.json and the like go")
    parser.add_argument("-k", dest="only", default="", help="which tests, as pytest takes it (default: all)")
    parser.add_argument("--scoreboard", type=Path, help="a checkout of onnx/backend-scoreboard")
    args = parser.parse_args()
    results = args.results.resolve()
    results.mkdir(parents=True, exist_ok=True)
    packages = subprocess.run(
        [sys.executable, "-m", "pip", "list", "--format=json"], check=True, capture_output=True, text=True
    )
    (results / "pip-list.json").write_text(packages.stdout)
    tests = args.scoreboard / "test" if args.scoreboard else HERE / "rehearsal"
    chosen = f"not _cuda and ({args.only})" if args.only else "not _cuda"
    command = [sys.executable, "-m", "pytest", "test_backend.py", f"--onnx_backend={MODULE}", "-k", chosen, "-q"]
    env = {**os.environ, "RESULTS_DIR": str(results), "CSVDIR": str(results)}
    # its own directory and no configuration: that of a repository around it is not meant
    return subprocess.run([*command, "-c", os.devnull, "--rootdir", "."], cwd=tests, env=env, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
