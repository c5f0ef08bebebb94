"""Train what the experiments of `regard lab` rest on, and keep the results beside their code.

python scripts/make_lab_results.py gradients
"""

import sys

from regard.lab.gradients import recall


def main() -> None:
    """Train the experiment that is named."""
    makers = {"gradients": lambda: recall.write_results(recall.train_all(report=print))}
    if len(sys.argv) != 2 or sys.argv[1] not in makers:
        raise SystemExit(f"name one of {', '.join(makers)}")
    makers[sys.argv[1]]()


if __name__ == "__main__":
    main()
