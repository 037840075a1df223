"""A program that prints the platform of Qt and the version of OpenGL that a window gets.

`napari-mst doctor` runs it in a separate process, since Qt ends a process that it has no display
for.
"""

import os
import sys

from qtpy.QtGui import QOffscreenSurface, QOpenGLContext
from qtpy.QtWidgets import QApplication
from vispy.gloo.gl import gl2


def main() -> None:
    """Print both on one line; the version is missing where there is no OpenGL."""
    application = QApplication([])
    surface = QOffscreenSurface()
    surface.create()
    context = QOpenGLContext()
    is_made = context.create() and context.makeCurrent(surface)
    version = gl2.glGetParameter(gl2.GL_VERSION) if is_made else ""
    sys.stdout.write(f"{application.platformName()} {version}\n")
    sys.stdout.flush()
    # The drivers of some virtual displays crash when Python frees the context at its end.
    os._exit(0)


if __name__ == "__main__":
    main()
