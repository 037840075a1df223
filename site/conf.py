"""How Sphinx builds the site; site/build.py calls it."""

import re
from typing import Any

project = "napari-mst"
copyright = "the napari-mst maintainers, MIT"  # noqa: A001 (the name that Sphinx gives it)
extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx_design",
    "numpydoc",
]
myst_enable_extensions = ["colon_fence", "dollarmath"]
myst_heading_anchors = 4
nb_execution_mode = "force"
nb_execution_show_tb = True
nb_execution_timeout = 1800  # seconds; a busy computer took more than 600 for the training
nb_execution_raise_on_error = True
numpydoc_show_class_members = False
add_module_names = False
default_role = "code"
html_theme = "pydata_sphinx_theme"
html_title = "napari-mst"
html_show_sourcelink = False
html_static_path = ["style"]
html_css_files = ["site.css"]
html_theme_options = {
    "show_prev_next": False,
    "show_toc_level": 2,
    "navbar_align": "left",
}

_ARRAY_LIKE = r"_Buffer \| _SupportsArray.*?complex \| bytes \| str\]"


def setup(app: Any) -> None:
    """Let signatures say ArrayLike, not all that it stands for."""

    def shorten(*event: Any) -> tuple[str, str] | None:
        arguments, result = event[-2:]
        if arguments is None:  # nothing that is called
            return None
        return re.sub(_ARRAY_LIKE, "ArrayLike", arguments), result

    app.connect("autodoc-process-signature", shorten)
