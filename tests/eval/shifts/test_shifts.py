import numpy as np
import pytest
from doors import refusal
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import ndimage

from latecomer.errors import InputError
from latecomer.eval.shifts.kinds.shipped import blur, brightness, contrast, noise, rotate
from latecomer.eval.shifts.transforms import SHIFTS

IMAGES = np.random.default_rng(0).random((5, 3, 8, 8)).astype(np.float32)


@pytest.mark.parametrize("sigma", [0.5, 1.0, 3.7])
def test_blur_equals_scipys_channel_by_channel(sigma):
    blurred = blur(IMAGES, sigma)
    assert blurred.dtype == np.float32
    for image, result in zip(IMAGES, blurred, strict=True):
        for channel, plane in zip(image, result, strict=True):
            wanted = ndimage.gaussian_filter(
                channel.astype(np.float64), sigma, mode="nearest", truncate=4
            )
            np.testing.assert_allclose(plane, wanted, atol=1e-5)


def test_blur_by_hand():
    # Weights exp(-k^2 / 2) for sigma 1, cut at 4 and normalised; the edge pixel is repeated.
    weights = np.exp(-0.5 * np.arange(-4, 5) ** 2)
    weights /= weights.sum()
    row = np.array([0.0, 1, 0, 0, 2])
    padded = np.concatenate([np.zeros(4), row, np.full(4, 2.0)])
    wanted = [weights @ padded[i : i + 9] for i in range(5)]
    image = np.tile(row, (5, 1))[None, None]
    np.testing.assert_allclose(blur(image, 1.0)[0, 0], np.tile(wanted, (5, 1)), atol=1e-6)


def test_nothing_is_done_at_severity_zero_and_inputs_are_kept():
    before = IMAGES.copy()
    np.testing.assert_array_equal(blur(IMAGES, 0), IMAGES)
    np.testing.assert_array_equal(rotate(IMAGES, 0), IMAGES)
    blur(IMAGES, 2)
    rotate(IMAGES, 17)
    np.testing.assert_array_equal(IMAGES, before)


@pytest.mark.parametrize("turns", range(-4, 5))
def test_quarter_turns_are_exact(turns):
    rotated = rotate(IMAGES, 90 * turns)
    np.testing.assert_array_equal(rotated, np.rot90(IMAGES, turns, axes=(2, 3)))


def test_half_turns_of_oblong_images_are_exact():
    oblong = IMAGES[:, :, :5]
    np.testing.assert_array_equal(rotate(oblong, 180), oblong[:, :, ::-1, ::-1])
    assert rotate(oblong, 90).shape == oblong.shape


def test_rotation_goes_counter_clockwise_and_fills_corners_with_black():
    image = np.ones((1, 1, 9, 9), dtype=np.float32)
    turned = rotate(image, 45)[0, 0]
    assert turned[0, 0] == turned[0, 8] == turned[8, 0] == turned[8, 8] == 0
    assert turned[4, 4] == pytest.approx(1)
    right = np.zeros((1, 1, 9, 9), dtype=np.float32)
    right[0, 0, 4, 7] = 1
    row, column = np.unravel_index(np.argmax(rotate(right, 45)), (9, 9))
    assert row < 4 < column


@given(degrees=st.floats(-80, 80))
@settings(deadline=None)
def test_rotation_is_the_bilinear_one(degrees):
    # Each target pixel looks up the source at the point turned back about the centre.
    plane = np.pad(IMAGES[0, 0].astype(np.float64), 1)
    angle = np.deg2rad(degrees)
    row, column = np.mgrid[:8, :8] - 3.5
    source_row = np.cos(angle) * row + np.sin(angle) * column + 3.5
    source_column = -np.sin(angle) * row + np.cos(angle) * column + 3.5
    top, left = np.floor(source_row).astype(int), np.floor(source_column).astype(int)
    down, along = source_row - top, source_column - left

    def pixel(r, c):
        return plane[np.clip(r + 1, 0, 9), np.clip(c + 1, 0, 9)]

    wanted = (1 - down) * ((1 - along) * pixel(top, left) + along * pixel(top, left + 1))
    wanted += down * ((1 - along) * pixel(top + 1, left) + along * pixel(top + 1, left + 1))
    np.testing.assert_allclose(rotate(IMAGES[:1], degrees)[0, 0], wanted, atol=1e-5)


def test_bytes_are_scaled_first():
    bytes_ = (IMAGES * 255).astype(np.uint8)
    scaled = bytes_.astype(np.float32) / 255
    np.testing.assert_array_equal(blur(bytes_, 1), blur(scaled, 1))
    np.testing.assert_array_equal(rotate(bytes_, 20), rotate(scaled, 20))


@pytest.mark.parametrize("name", ["blur", "rotation", "contrast", "brightness"])
def test_vectors_are_refused(name):
    with pytest.raises(InputError, match=rf"shifts\.{name} needs images .* have shape \[64\]"):
        SHIFTS[name].apply(np.zeros((5, 64)), 1.0, None)


@pytest.mark.parametrize(
    ("name", "severity", "words"),
    [
        ("blur", -1, "shifts.blur (sigma in pixels) must lie in [0, 50]"),
        ("blur", float("nan"), "got nan"),
        ("blur", "1", "got '1'"),
        ("rotation", 400, "shifts.rotation (degrees) must lie in [-360, 360]"),
        ("extrapolation", 0, "shifts.extrapolation (Dirichlet alpha)"),
    ],
)
def test_bad_severities_are_refused_in_one_line(name, severity, words):
    assert words in refusal(SHIFTS[name].checked, severity)


def test_a_shift_of_labels_is_not_applied_to_inputs():
    with pytest.raises(InputError, match="is no shift of inputs"):
        SHIFTS["extrapolation"].apply(IMAGES, 0.1, None)


def test_noise_has_the_spread_asked_for_and_is_cut_only_where_bytes_were():
    rng = np.random.default_rng(0)
    flat = np.full((40, 64), 0.5, np.float32)
    noisy = noise(flat, 2.0, rng)
    assert noisy.dtype == np.float32
    assert noisy.std() == pytest.approx(2.0, rel=0.05)
    assert noisy.mean() == pytest.approx(0.5, abs=0.2)
    dark = noise(np.zeros((40, 1, 8, 8), np.uint8), 0.5, np.random.default_rng(0))
    assert (dark.min(), dark.max()) == (0, 1)
    a, b = (SHIFTS["noise"].apply(flat, 1.0, np.random.default_rng(s)) for s in (1, 1))
    np.testing.assert_array_equal(a, b)
    np.testing.assert_array_equal(noise(flat, 0, rng), flat)


@given(factor=st.floats(0, 10))
def test_contrast_keeps_each_images_mean_and_scales_its_spread(factor):
    changed = contrast(IMAGES, factor)
    axes = (1, 2, 3)
    np.testing.assert_allclose(changed.mean(axis=axes), IMAGES.mean(axis=axes), atol=1e-5)
    np.testing.assert_allclose(changed.std(axis=axes), factor * IMAGES.std(axis=axes), atol=1e-5)


def test_brightness_adds_and_cuts_bytes_at_white():
    np.testing.assert_allclose(brightness(IMAGES, 0.25), IMAGES + 0.25, atol=1e-7)
    np.testing.assert_allclose(contrast(IMAGES, 1), IMAGES, atol=1e-6)
    pixels = np.array([[[[0, 102, 255]]]], np.uint8)
    np.testing.assert_allclose(brightness(pixels, 0.5), [[[[0.5, 0.9, 1]]]], atol=1e-6)
    np.testing.assert_allclose(brightness(pixels, -0.5), [[[[0, 0, 0.5]]]], atol=1e-6)
    # About the mean 0.4667: 0 and 1 leave the range and are cut, 0.4 becomes 0.3333.
    np.testing.assert_allclose(contrast(pixels, 2), [[[[0, 1 / 3, 1]]]], atol=1e-6)
