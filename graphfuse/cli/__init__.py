"""The command line: one file per verb, loaded when it is asked for.

Owns what Ctrl-C does, from the first instruction on: so next to nothing is imported here. Verbs are `program`'s.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from graphfuse.cli.exit_codes import INTERRUPTED


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command line, by default this process's, and return its exit code."""
    try:
        if argv is not None:
            from graphfuse.cli.program import run_line

            return run_line(argv)
        import signal
        import sys

        _watch_imports()
        from graphfuse.cli.program import run_line

        code = run_line(sys.argv[1:])
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # Python would print what is raised while it ends
        return code
    except KeyboardInterrupt:  # before or after `run_line` knows what to do with it
        return INTERRUPTED


def _watch_imports() -> None:
    """Make Ctrl-C end the process while a module is imported. Elsewhere it still raises KeyboardInterrupt.

    Modules in C make other errors of that, and Python prints it where it cannot be raised.
    """
    import os
    import signal

    def interrupted(number: int, frame: Any) -> None:
        while frame is not None:
            if frame.f_code.co_filename.startswith("<frozen importlib"):
                os._exit(INTERRUPTED)
            frame = frame.f_back
        signal.default_int_handler(number, frame)

    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # it may be ignored, as behind `nohup`
        signal.signal(signal.SIGINT, interrupted)
