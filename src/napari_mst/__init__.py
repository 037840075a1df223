"""napari-mst: RGB photos to hyperspectral cubes, in napari, in Python and on the command line.

`__init__.pyi` beside this file lists the public names. Each is imported on first use, so that
`import napari_mst` loads neither torch nor napari.
"""

__version__ = "0.1.0"


def listed(package, loader, path):
    """The `__getattr__` of a *package*, and its public names, as its `__init__.pyi` lists them."""
    # The loader reads it, since a package may lie in a zip file. Lines are split and not parsed:
    # `ast` takes long to import, and until `__main__` has run, Ctrl-C gives a traceback.
    text = loader.get_data(f"{path}/__init__.pyi").decode()
    lines = [line.split() for line in text.splitlines() if line.startswith("from ")]
    homes = {name: (module, stored) for _, module, _, stored, _, name in lines}

    def imported(name):
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        from importlib import import_module

        module, stored = homes[name]
        # A group of names, such as `maps`, is a module itself.
        return vars(import_module(module)).get(stored) or import_module(f"{module}.{stored}")

    return imported, list(homes)


__getattr__, _names = listed(__name__, __loader__, __path__[0])
__all__ = ["__version__", *_names]


def __dir__():
    return __all__
