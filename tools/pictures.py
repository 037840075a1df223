"""Make the figures of README and site: `python -m tools.pictures [NAME ...]`, by default all.

Each function of `tools/figures.py` and `tools/gallery.py` makes the figure of its name in
docs/images. Photos come from sample_data, and from those that scikit-image brings with it, free
ones all. `tools/window_pictures.py` makes the pictures of the window; `make pictures` calls both.
"""

import sys

from tools import figures, gallery
from tools.drawing import FIGURES, IMAGES, squeeze

DPI = 100


def main(names: list[str]) -> None:
    """Write the figures of these *names*."""
    for name in names or FIGURES:
        path = IMAGES / f"{name}.png"
        FIGURES[name]().savefig(path, dpi=DPI)
        squeeze(path)
        print(path.name, f"{path.stat().st_size / 1000:.0f} kB", flush=True)


if __name__ == "__main__":
    print(f"{len(FIGURES)} figures of {figures.__name__} and {gallery.__name__}")
    main(sys.argv[1:])
