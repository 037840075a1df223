"""The cube of a photo in one call, for notebooks."""

from os import PathLike

from napari_mst.cube import SpectralCube
from napari_mst.models import Model, load_model
from napari_mst.models.cards import model_for
from napari_mst.photo.photo import PhotoLike, as_photo
from napari_mst.reconstruction.reconstructor import Reconstructor


def reconstruct(
    photo: PhotoLike,
    model: str | PathLike[str] | Model | None = None,
    *,
    calibrated_by: str = "",
) -> SpectralCube:
    """Reconstruct the cube of *photo*: (B, H, W) float32, wavelengths in nm.

    Use a `Reconstructor` for options, or for many cubes with one model.

    Parameters
    ----------
    photo
        A file, an array (H, W, 3) or a `Photo`.
    model
        A model, its name or its file; by default `mstpp-photo` for camera photos, and `mstpp-srgb`
        for photos with exact colours: see `Photo.exact_by`.
    calibrated_by
        Reason why the colours of *photo* are exact, such as "rendering" for a rendered image.

    Raises
    ------
    NapariMstError
        As `load_model` and `Reconstructor.reconstruct`.

    Notes
    -----
    =======  ==================================================================
    photo    a file; or uint8 0-255, uint16 0-65535, float 0-1; (H, W, 3), sRGB
    returns  (B, H, W) float32, reflectance, 0 to about 1; wavelengths in nm
    =======  ==================================================================

    Examples
    --------
    >>> nm.reconstruct(np.full((4, 6, 3), 128, np.uint8), "pixelwise-srgb").shape
    (31, 4, 6)
    """
    photo = as_photo(photo)
    model = model or model_for(photo.exact_by or calibrated_by)
    loaded = model if isinstance(model, Model) else load_model(model)
    return Reconstructor(loaded, calibrated_by=calibrated_by).reconstruct(photo)
