"""Write regard/samples/pendulum.csv: pendulums on four bodies, timed by a person with a stop-watch.

    python scripts/make_pendulum.py

The period of a pendulum of length L let go at the angle a is exactly 2 pi sqrt(L / g) / agm(1, cos(a / 2)), where agm
is the arithmetic-geometric mean. Somebody who times ten swings is off by about a fifth of a second, a fiftieth for each
swing: that noise is added, and no model can do better than it.
"""

import csv
import math
import random
from pathlib import Path

TABLE = Path(__file__).parent.parent / "regard" / "samples" / "pendulum.csv"
GRAVITY = {"Earth": 9.81, "Mars": 3.72, "Moon": 1.62, "Titan": 1.35}  # metres per second squared
ROWS = 1200
ERROR = 0.02  # seconds


def period(length: float, angle: float, gravity: float) -> float:
    """Seconds of a whole swing, for any angle below 180 degrees."""
    one, other = 1.0, math.cos(math.radians(angle) / 2)
    for _ in range(6):  # doubles its right digits every time
        one, other = (one + other) / 2, math.sqrt(one * other)
    return 2 * math.pi * math.sqrt(length / gravity) / one


def main() -> None:
    """Draw the pendulums, time them, write the table."""
    chance = random.Random(0)
    with TABLE.open("w", encoding="utf-8", newline="") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(["length", "angle", "gravity", "period", "body"])
        for _ in range(ROWS):
            length, angle = round(chance.uniform(0.2, 3.0), 2), round(chance.uniform(5, 150))
            body = chance.choice(list(GRAVITY))
            timed = period(length, angle, GRAVITY[body]) + chance.gauss(0, ERROR)
            table.writerow([length, angle, GRAVITY[body], round(timed, 2), body])
    print(f"{TABLE}: {ROWS} rows")


if __name__ == "__main__":
    main()
