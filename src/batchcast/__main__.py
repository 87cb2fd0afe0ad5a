# SPDX-License-Identifier: Apache-2.0
"""`python -m batchcast`, and the function that the command `batchcast` calls."""

import sys


def entry() -> None:
    """Run the command line; Ctrl-C ends the program without a traceback, also during start-up."""
    try:
        from .cli.main import entry as run
    except KeyboardInterrupt:
        sys.stderr.write("interrupted\n")
        sys.exit(130)
    try:
        run()
    except SystemExit as finished:
        from .cli.interrupt import leave

        leave(finished.code)


if __name__ == "__main__":
    # `python -m` puts the working directory, which may be anybody's, first on the module path. Python itself has
    # searched it before this line; SECURITY.md says so.
    if not sys.flags.safe_path:
        del sys.path[0]
    entry()
