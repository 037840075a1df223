"""The words of the reconstruction dock: its tooltips, and descriptions of a model."""

from textwrap import fill

from napari_mst.models import ModelCard

WIDTH = 90
"""Letters of a line in a tooltip, which Qt itself does not wrap."""
PHOTO_HINT = "The Image layer to reconstruct: RGB, grey, or the current page of a stack."
PART_HINT = (
    "How much of the photo to reconstruct. Most networks look at all of the image, or at "
    "surroundings, so a part is another image: its numbers differ from those of the whole photo."
)
MODEL_HINT = "The network that turns the photo into a cube."
WEIGHTS_HINT = "A file of weights as their authors publish it."
SETTINGS_HINT = (
    "Where and how exactly a run computes. napari remembers these choices; they are in its "
    "Preferences, too."
)
DEVICE_HINT = "The processor or GPU that computes; automatic takes the best."
RUN_HINT = "Reconstruct the chosen photo, or the part of it, as a new layer."
CANCEL_HINT = "Stop the run; nothing is left of it."
DETAILS_HINT = "What the run has assumed, and what else there is to know about it."
FIT_HINT = "Take the model for photos of this kind."
CPU_HINT = "Run again on the processor: slower, but with the memory of the whole computer."
MEMORY_HINT = (
    "The most of this computer's memory that a run may take; automatic is most of what is free. "
    "What does not fit goes through a temporary file: slower, with the same numbers."
)
DENOISE_HINT = (
    "Non-local means before the network. Automatic denoises photos that are noisy and were no "
    "JPEG, and leaves all others as they are."
)
H_HINT = (
    "The strength h, in units of the noise that is estimated from the photo; automatic takes 1.2. "
    "More averages pixels that are less alike."
)
DENOISE_CHOICES: dict[str, tuple[str, str]] = {
    "automatic": ("auto", "Photos that are noisy and were no JPEG."),
    "off": ("off", "The network sees the photo as it is."),
    "every photo": ("always", "Also where it harms, as on clean photos."),
}
"""Title -> value of the option, "always" for a number; and tooltip."""
CORRECTION_HINT = (
    "Adjust each spectrum until its colour rounds to the code values of the photo, and no further, "
    "so that noise which the network removed stays away. "
    "For models that know how a photo shows their spectra."
)
FOLDER_HINT = (
    "Make cubes of all photos in a folder, with the settings above. They go into its folder cubes; "
    "those that are there from the same settings stay."
)
NO_CUBE = "There is no cube yet: press Run first."
SAVE_HINT = (
    "Save the cube that is selected or shown, with its wavelengths, its history, "
    "and the picks on it."
)

CAMERA_HINT = (
    "The camera that took the photo: type a part of its name. "
    "A CSV file holds lines of nm, red, green, blue."
)
ILLUMINANT_HINT = (
    "The light that the photo was taken in; `estimate` finds it in the photo, if that has the "
    "values of the sensor. A CSV file holds lines of nm, power."
)
WHITE_HINT = (
    "The stored value of a white surface, reflectance 1. Left empty, it is the full scale of the "
    "file: spectra of an under-exposed photo are then too dark, with the right shape."
)
BALANCED_HINT = (
    "Tick this if white and grey surfaces have equal red, green and blue. "
    "If not, the camera's own balance is computed."
)
FIND_LIGHT_HINT = (
    "Find the light in the photo itself, by a small network: the three most likely ones. "
    "A linear photo must have the values of the sensor, as a RAW file has; an sRGB photo shows how "
    "far its white is off that of D65."
)
FIND_PATCH_HINT = (
    "Press this, then click a grey or white patch of the photo; or draw a rectangle in it first. "
    "It gives white level, white balance and light of a linear photo, and corrects the white "
    "balance of an sRGB photo."
)
CORRECT_WHITE_HINT = (
    "Have the next run make the white of this photo grey first, by the Bradford transform. The "
    "history of the cube says so; untick it to take the photo as it is."
)
GREY_HINT = "The share of light that the grey patch reflects: 18 % for a grey card."
FIND_CHART_HINT = (
    "Lay a frame around a ColorChecker in the photo, and drag its corners onto the middles of the "
    "corner patches. Its colours calibrate the photo, and its patches correct the spectra."
)
READ_CHART_HINT = "Calibrate the photo by the colours in the squares."
COLOURS = "Colours off?"
COLOURS_FAR = "Colours off? White is far from that of daylight."
COLOURS_HINT = (
    "Let the photo itself show its light, its white or its colours: by all of its pixels, by a "
    "grey patch, or by a ColorChecker."
)
WHITE_FRAME_HINT = (
    "A photo of a white surface that fills it, with the same camera, lens, settings and light: the "
    "photo is divided by it, so that vignetting and uneven light are gone."
)
DARK_FRAME_HINT = (
    "A photo with the lens covered and the same exposure, which is subtracted from both; it may be "
    "left out."
)
FRAME_REFLECTANCE_HINT = "The share of light that the white surface reflects."
USE_FRAMES_HINT = (
    "Read the frames. The next run divides the photo by the white one, whose middle shows the "
    "light. Forget drops them."
)
CHART_KIND_HINT = "Which ColorChecker the photo shows."
TAKE_LIGHT_HINT = "Take this light alone."
FORGET_HINT = "Drop what was found in the photo, and go back to the rows above."
LINEAR_HINT = (
    "8-bit photos are nearly always sRGB-encoded, and refused. "
    "Tick this if yours holds linear light."
)


def model_help(card: ModelCard) -> str:
    """Say in a line what a model is."""
    return card.title if card.file else f"{card.title}; or weights of your own, from a file"


def model_facts(card: ModelCard) -> str:
    """Say what a model gives, is for, comes from, and how accurate it is, a fact a line."""
    nm = card.wavelengths
    bands = f"{len(nm)} bands, {nm[0]:g}-{nm[-1]:g} nm" if nm else "unknown bands"
    measured = []
    for data, values in card.accuracy.items():
        metrics = ", ".join(f"{name} {value:g}" for name, value in values.items())
        measured.append(f"{data}: {metrics}")
    facts = [
        ", ".join(filter(None, [bands, card.quantity])) + ".",
        card.domain,
        card.training_data and f"Training data: {card.training_data}",
        *measured,
        card.licence and f"Licence: {card.licence}",
        card.reference,
    ]
    return "\n".join(fill(fact, WIDTH) for fact in facts if fact)
