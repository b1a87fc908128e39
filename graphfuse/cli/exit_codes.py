"""Exit codes of a command line besides those of errors (`errors.py`). Imports nothing, as Ctrl-C may come at once."""

INTERRUPTED = 130
"""As shells have it: 128 and the number of SIGINT."""
INTERNAL_ERROR = 70
"""Of a bug (EX_SOFTWARE of sysexits.h)."""
BROKEN_PIPE = 141
"""As shells have it: 128 and the number of SIGPIPE."""
