"""Choices that are remembered: what asking for them costs."""

import pytest
from npe2 import PluginManager

from napari_mst.plugin.viewer.sharing import section


def test_plugins_that_are_known_are_not_searched_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    plugins = PluginManager.instance()
    plugins.discover()
    searches: list[object] = []
    monkeypatch.setattr(PluginManager, "discover", lambda self: searches.append(self))
    section("reconstruction")
    assert not searches
    plugins.discover()
    assert searches == [plugins]
