"""The table of available models."""

import re

from napari_mst.models.cards import MODELS, WEIGHTS, ModelCard

_COLUMNS = "model", "photos", "error", "measured on", "size"


class ModelTable(dict[str, ModelCard]):
    """The cards of all models by name; prints as one short line per model."""

    def __repr__(self) -> str:
        rows = [_COLUMNS, *(self._row(card) for card in self.values())]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = ("  ".join(map(str.ljust, row, widths)).rstrip() for row in rows)
        return "\n".join(lines)

    def _row(self, card: ModelCard) -> tuple[str, ...]:
        scores = [(each["MRAE"], data) for data, each in card.accuracy.items() if "MRAE" in each]
        error, data = min(scores, default=(None, ""))
        path = WEIGHTS / (card.file or "")
        return (
            card.name,
            re.split(r"[,;(.]", card.domain)[0].strip(),
            "" if error is None else f"{error:.1%}",
            data,
            f"{path.stat().st_size / 1e6:.2g} MB" if path.is_file() else "",
        )


def list_models() -> ModelTable:
    """The available models, with suitable photos, accuracy and size.

    The error is the mean of abs(estimate - truth) / truth.

    Notes
    -----
    =======  =======================
    returns  a dict of cards by name
    =======  =======================

    Examples
    --------
    >>> list(nm.list_models())  # doctest: +NORMALIZE_WHITESPACE
    ['mstpp-photo', 'mstpp-srgb', 'pixelwise-srgb', 'mstpp-camera', 'mstpp-hybrid',
     'mstpp-mixed', 'mst-plus-plus']
    """
    return ModelTable(MODELS)
