"""On synthetic logs with bursts and no difference, how often does the 90 % interval hold zero: `make coverage`.

The table in docs/evidence/differences.md is this one's output.
"""

from __future__ import annotations

import argparse

from batchcast.evaluation.resampling import coverage


def main() -> None:
    """Print one line a setting, as a Markdown table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--logs", type=int, default=1000, help="synthetic logs a setting")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    print("| errors | tail of burst sizes | user-weeks | jobs | intervals that hold zero |")
    print("|---|---|---|---|---|")
    for row in coverage(logs=given.logs, seed=given.seed):
        errors = "lopsided" if row.bursts.lopsided else "alike"
        print(
            f"| {errors} | {row.bursts.tail:g} | {row.groups:.0f} | {row.jobs:,.0f} | {100 * row.share:.1f} % |",
            flush=True,
        )


if __name__ == "__main__":
    main()
