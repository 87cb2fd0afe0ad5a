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
    entry()
