"""The state of the dock "Metamers", without Qt: a spectrum, its estimate, and a metamer of it.

The dock forwards user actions to a `MetamerModel` and draws it; a script can use the model alone.
"""

from typing import NamedTuple

import numpy as np
from psygnal import Signal

from napari_mst.analysis.library import colour_checker
from napari_mst.analysis.metamers import COUNT, Metamers, metamers
from napari_mst.base.arrays import Doubles
from napari_mst.cube.colour import linear_to_srgb
from napari_mst.cube.illuminants import DAYLIGHT, colour_weights, illuminant_title
from napari_mst.cube.spectrum import Spectrum

TO_ESTIMATE = COUNT
"""The direction from the spectrum to its estimate; all lower numbers are waves."""
SECOND_LIGHT = "A"
"""Incandescent light, in which metamers of daylight look different."""
FIRST_PATCH = 12
"""Foliage: a paint that matches leaves in daylight looks very different under a lamp."""
FIRST_AMOUNT = 0.6
JUST_VISIBLE = 1.0
"""Least CIEDE2000 difference that can be seen side by side."""
PLAIN = 3.0
"""Least CIEDE2000 difference that anybody sees."""
_NOTHING = 1e-6  # largest value of a metameric black that is only rounding

QUESTION = "Both have the same colour in the photo. Which of the two was photographed?"

ColourCodes = tuple[int, int, int]


class Seen(NamedTuple):
    """One spectrum as the page shows it.

    Attributes
    ----------
    codes
        Its codes in an exact sRGB photo in daylight.
    second
        Its sRGB codes in the second light, seen by eyes that are adapted to that light.
    difference
        CIEDE2000 from the first spectrum in the second light.
    """

    spectrum: Spectrum
    codes: ColourCodes
    second: ColourCodes
    difference: float


class Subject(NamedTuple):
    """The spectrum under study, with its estimate.

    Attributes
    ----------
    spectrum
        Reflectance; its name is that of the patch or the pixel.
    estimate
        The estimate of another cube of the viewer at the same place; None leaves it to the network.
    has_truth
        False if the spectrum is itself an estimate.
    """

    spectrum: Spectrum
    estimate: Spectrum | None = None
    has_truth: bool = True


class MetamerModel:
    """A spectrum, a metamer of it, and the light in which both are compared.

    `changed` is emitted after every change, and `subject_changed` before it when the spectrum is
    another. Use the methods to change it.

    Attributes
    ----------
    patch
        Number of the chosen patch of the chart; None for a pixel of a cube.
    direction
        The metameric black that the slider moves along: 0 is the smoothest wave, `TO_ESTIMATE`
        leads to the estimate.
    amount
        -1 to 1: the share of the range in which reflectances stay within 0-1.
    light
        A name of `illuminants.illuminant_names`, in which colours are compared.
    is_answered
        Whether somebody has said which of the two was photographed; each patch asks again.
    """

    changed = Signal()
    subject_changed = Signal()

    def __init__(self) -> None:
        self.chart = tuple(colour_checker())
        self.patch: int | None = FIRST_PATCH
        self.direction = 0
        self.amount = FIRST_AMOUNT
        self.light = SECOND_LIGHT
        self.is_answered = False
        self.subject = Subject(self.chart[FIRST_PATCH])
        self._family: Metamers = metamers(self.subject.spectrum)

    # ------------------------------------------------------------------------ the spectrum

    @property
    def codes(self) -> ColourCodes:
        """The photo's three numbers for the spectrum: everything that a network sees of it."""
        return codes_of(self.subject.spectrum)

    @property
    def estimate(self) -> Spectrum | None:
        """The estimated spectrum; None before it is known, and for a spectrum without truth."""
        return self.subject.estimate

    def choose_patch(self, number: int) -> None:
        """Show a patch of the chart, 0 to 23."""
        self.choose(Subject(self.chart[number]), number)

    def choose(self, subject: Subject, patch: int | None = None) -> None:
        """Show any spectrum, for example the spectrum of a *patch*.

        Raises `SpectrumError` if it has no metamers; nothing changes.
        """
        # First, as this raises if the spectrum cannot be used.
        self._family = metamers(subject.spectrum)
        self.subject = subject
        self.patch = patch
        self.is_answered = False
        self.subject_changed.emit()
        self.changed.emit()

    def take_estimate(self, codes: ColourCodes, estimate: Spectrum) -> None:
        """Show the network's spectrum for a photo's *codes*, if they are still the spectrum's."""
        if codes == self.codes and self.subject.has_truth and self.estimate is None:
            self.subject = self.subject._replace(estimate=estimate)
            self.changed.emit()

    # ------------------------------------------------------------------------ what is changed

    def choose_direction(self, direction: int) -> None:
        """Move along another metameric black."""
        self.direction = direction
        self.changed.emit()

    def slide(self, amount: float) -> None:
        """Move the metamer: 0 is the spectrum itself, -1 and 1 are the ends of the range."""
        self.amount = min(max(amount, -1.0), 1.0)
        self.changed.emit()

    def choose_light(self, light: str) -> None:
        """Compare the colours in another light."""
        self.light = light
        self.changed.emit()

    def answer(self) -> None:
        """Choose one of the two as the photographed one; any answer shows that nobody can know."""
        self.is_answered = True
        self.changed.emit()

    @property
    def can_reach_estimate(self) -> bool:
        """True if there is an estimate at the same wavelengths as the spectrum."""
        estimate = self.estimate
        wavelengths = self.subject.spectrum.wavelengths
        return estimate is not None and np.array_equal(estimate.wavelengths, wavelengths)

    # ------------------------------------------------------------------------ what is shown

    @property
    def first(self) -> Seen:
        """The spectrum under study."""
        return self._seen(self.subject.spectrum)

    @property
    def estimated(self) -> Seen | None:
        """The estimate of the network for its colour; None before it is known."""
        estimate = self.subject.estimate
        return None if estimate is None else self._seen(estimate)

    @property
    def metamer(self) -> Seen:
        """The spectrum of the same colour that the slider makes."""
        return self._seen(self._moved(self.amount))

    def _moved(self, amount: float) -> Spectrum:
        black = self._black
        # Where nothing is left to move, the range has no end.
        if np.abs(black).max() < _NOTHING:
            return self.subject.spectrum
        low, high = self._family.limits(black)
        if self.direction == TO_ESTIMATE:
            low, high = max(low, -1.0), min(high, 1.0)
        reach = high if amount > 0 else -low
        return self._family.moved(black, amount * reach)

    @property
    def _black(self) -> Doubles:
        """The metameric black that the slider moves along; zeros while there is none."""
        if self.direction < len(self._family.blacks):
            return self._family.blacks[self.direction]
        if self.estimate is None or not self.can_reach_estimate:
            return np.zeros(self.subject.spectrum.values.size)
        return self._family.toward(self.estimate)

    @property
    def is_asking(self) -> bool:
        """True while two spectra of one colour are shown and the question is unanswered."""
        has_two = self.direction != TO_ESTIMATE or self.can_reach_estimate
        return has_two and bool(self.amount) and not self.is_answered

    def _seen(self, spectrum: Spectrum) -> Seen:
        difference = self._family.difference(spectrum, self.light)
        return Seen(spectrum, codes_of(spectrum), codes_of(spectrum, self.light), difference)

    @property
    def sentence(self) -> str:
        """The question; once it is answered, the reason why nobody can know."""
        if self.is_asking:
            return QUESTION
        if self.direction == TO_ESTIMATE and not self.can_reach_estimate:
            return self._why_no_estimate()
        if not self.amount:
            return "Move the slider: the spectrum changes, the colour in the photo does not."
        codes = " ".join(str(code) for code in self.first.codes)
        title = illuminant_title(self.light)
        same = f"Nobody can tell: both are RGB {codes} in the photo, which is all a network sees."
        difference = self.metamer.difference
        if difference < JUST_VISIBLE:
            return f"{same} Under {title} an eye can hardly tell them apart either."
        how = "can be seen" if difference < PLAIN else "is plain to see"
        return f"{same} Under {title} the difference {how}."

    def _why_no_estimate(self) -> str:
        if not self.subject.has_truth:
            return "This spectrum is itself an estimate. Choose a wave to move along."
        if self.estimate is None:
            return "The network is estimating the spectrum."
        return "The estimate has other bands than this spectrum. Choose a wave to move along."


def codes_of(spectrum: Spectrum, light: str = DAYLIGHT) -> ColourCodes:
    """The 8-bit sRGB codes of a reflectance under *light*, adapted to its white."""
    linear = np.clip(spectrum.values @ colour_weights(spectrum.wavelengths, light), 0, 1)
    red, green, blue = np.round(255 * linear_to_srgb(linear)).astype(int).tolist()
    return red, green, blue
