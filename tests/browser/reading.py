"""How well text stands out from what is behind it, as WCAG counts it."""


def luminance(colour: str) -> float:
    """Of `#rrggbb`, as the accessibility guidelines have it."""
    parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(first: float, second: float) -> float:
    """From 1 (the same) to 21 (black on white)."""
    return (max(first, second) + 0.05) / (min(first, second) + 0.05)
