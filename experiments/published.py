"""The authors' own figures (Sun et al., ICLR 2023): seconds on an i7-10700 with 8 cores and 16 GB.

They are shown beside ours, never compared with ours by a ratio: another machine, other versions.
"""

from __future__ import annotations

from collections.abc import Sequence

Figure = float | str | None  # None: "cannot"
MACHINE = "i7-10700, 8 cores, 16 GB"

# Table 1, by the sizes tiny to large; None: "cannot".
TABLE1: dict[str, Sequence[Figure]] = {
    "OptNet": [0.81, 9.48, 40.72, 317.78],
    "CvxpyLayer": [25.34, 212.86, 1056.18, None],
    "Alt-Diff": [0.71, 5.75, 20.20, 154.52],
}
TABLE1_COSINES = [0.999, 0.999, 0.999, 0.998]

# Tables 2 and 5, by tolerances 1e-1 to 1e-5.
TABLE2: dict[str, Sequence[Figure]] = {
    "OptNet": [8.58, 9.32, 9.48, 9.59, 10.13],
    "CvxpyLayer": 5 * ["about 213"],
    "Alt-Diff": [1.18, 3.50, 5.75, 8.04, 10.76],
}
TABLE5: dict[str, Sequence[Figure]] = {
    "OptNet": 5 * ["768 to 1027"],
    "CvxpyLayer": 5 * ["about 123"],
    "Alt-Diff": [47.31, 57.46, 58.51, 71.18, 81.99],
}

# Table 4, by n = 3000, 5000, 10000, 20000.
TABLE4: dict[str, Sequence[Figure]] = {
    "OptNet": [18.46, 77.87, 834.59, None],
    "CvxpyLayer": [3.61, 18.14, 123.79, 1024.69],
    "Alt-Diff": [3.16, 9.96, 58.51, 539.19],
}

TABLE4_COSINES = "0.997 to 0.999"  # over its sizes

# Table 6, by its four sizes.
TABLE6: dict[str, Sequence[Figure]] = {
    "CvxpyLayer": [0.11, 0.97, 2.09, 9.67],
    "Alt-Diff": [0.03, 0.33, 1.10, 5.02],
}

TABLE6_COSINES = "0.996 to 0.999"  # over its sizes

# Section 5.3: accuracy after 30 epochs in per cent with its spread, and seconds an epoch.
MNIST = {"OptNet": (98.95, 0.25, 307.16), "Alt-Diff": (98.97, 0.17, 167.66)}
