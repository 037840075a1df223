"""The evaluation: the baselines are what their sources say, and the bundled model beats them on real scenes."""

import numpy as np
import pytest

from napari_mst.training.evaluate import evaluate, least_squares, main, mallett_yuksel, model_method, photograph

WAVELENGTHS = np.arange(400.0, 701, 10)


def write_scene(path, cube):
    np.savez(path, cube=cube, wavelengths=WAVELENGTHS)


def test_white_is_photographed_white_and_estimated_flat():
    white = np.ones((31, 2, 2), np.float32)
    codes = photograph(white, WAVELENGTHS)
    assert (codes == 255).all()
    np.testing.assert_allclose(mallett_yuksel()(codes), white, atol=0.02)
    np.testing.assert_allclose(least_squares()(codes), white, atol=0.25)


def test_metrics_of_a_perfect_method_are_perfect(tmp_path):
    cube = np.random.default_rng(0).uniform(0.1, 0.9, (31, 4, 5)).astype(np.float32)
    write_scene(tmp_path / "scene.npz", cube)
    measured = evaluate(lambda codes: cube, tmp_path)
    assert measured["MRAE"] == measured["RMSE"] == 0
    assert measured["SAM (deg)"] < 1e-4
    assert measured["PSNR (dB)"] == np.inf


def test_integers_are_read_at_full_scale(tmp_path):
    write_scene(tmp_path / "scene.npz", np.full((31, 2, 2), 65535, np.uint16))
    assert evaluate(lambda codes: np.ones((31, 2, 2), np.float32), tmp_path)["RMSE"] == 0


def test_folder_without_scenes_is_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"Expected .npz scenes"):
        evaluate(least_squares(), tmp_path)


def test_bundled_model_beats_the_baselines_on_a_real_scene(shared_data, tmp_path, capsys):
    (tmp_path / "paints.npz").symlink_to(shared_data / "cave" / "paints.npz")
    ours = evaluate(model_method("mstpp-srgb"), tmp_path)
    for baseline in (least_squares(), mallett_yuksel()):
        theirs = evaluate(baseline, tmp_path)
        assert ours["MRAE"] < theirs["MRAE"]
        assert ours["PSNR (dB)"] > theirs["PSNR (dB)"]
    main([str(tmp_path), "mstpp-srgb"])
    assert f"{ours['MRAE']:.4f}" in capsys.readouterr().out
