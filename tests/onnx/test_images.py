"""ImageDecoder: the formats that its definition lists, and nothing else that Pillow can do."""

from __future__ import annotations

import io

import numpy as np
import pytest
from onnx import helper

from graphfuse.errors import GraphfuseError
from graphfuse.host.model import OnnxModel

Image = pytest.importorskip("PIL.Image")
POSTSCRIPT = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 2 2\n%%EndComments\nshowpage\n%%EOF\n"


def decoded(data: bytes, **attributes: str) -> np.ndarray:
    x = np.frombuffer(data, np.uint8)
    node = helper.make_node("ImageDecoder", ["x"], ["y"], **attributes)
    return OnnxModel.of_node(node, [x])({"x": x})["y"]


@pytest.mark.parametrize("form", ["BMP", "PNG", "PPM", "TIFF", "JPEG", "WEBP", "JPEG2000"])
def test_formats(form: str) -> None:
    pixels, file = np.full((3, 5, 3), 200, np.uint8), io.BytesIO()
    try:
        Image.fromarray(pixels).save(file, form)
    except (KeyError, OSError):
        pytest.skip(f"this Pillow writes no {form}")
    np.testing.assert_allclose(decoded(file.getvalue()), pixels, atol=3)
    assert decoded(file.getvalue(), pixel_format="Grayscale").shape == (3, 5, 1)


@pytest.mark.parametrize("data", [POSTSCRIPT, b"", b"\x89PNG\r\n\x1a\n", b"GIF89a", b"II*\0" + b"\xff" * 40], ids=repr)
def test_data_that_is_no_such_image(data: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """PostScript would be handed to Ghostscript, which runs programs."""
    started: list[object] = []
    monkeypatch.setattr("subprocess.Popen.__init__", lambda *args, **_: started.append(args))
    with pytest.raises(GraphfuseError, match="ImageDecoder: input 0: not an image that can be decoded"):
        decoded(data)
    assert not started


def test_an_order_that_there_is_not() -> None:
    with pytest.raises(GraphfuseError, match="pixel_format must be RGB, BGR or Grayscale, got CMYK"):
        decoded(b"", pixel_format="CMYK")
