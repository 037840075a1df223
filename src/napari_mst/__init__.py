"""napari-mst: RGB photos to hyperspectral cubes, in napari, in Python and on the command line.

`__init__.pyi` beside this file lists the public names. Each is imported on first use, so that
`import napari_mst` loads neither torch nor napari.
"""

__version__ = "0.1.0"

# The loader reads it, since a package may lie in a zip file. Lines are split and not parsed: `ast`
# takes long to import, and until `__main__` has run, Ctrl-C gives a traceback.
_list = __loader__.get_data(f"{__path__[0]}/__init__.pyi").decode()
_lines = [line.split() for line in _list.splitlines() if line.startswith("from ")]
_modules = {name: module for _, module, *_, name in _lines}

__all__ = ["__version__", *_modules]


def __getattr__(name: str) -> object:
    if name not in _modules:
        raise AttributeError(f"module 'napari_mst' has no attribute {name!r}")
    from importlib import import_module

    module = import_module(_modules[name])
    # A group of names, such as `maps`, is a module itself.
    return getattr(module, name, None) or import_module(f"{module.__name__}.{name}")


def __dir__() -> list[str]:
    return __all__
