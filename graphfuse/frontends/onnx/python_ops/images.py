"""Encoded images to pixels, by Pillow."""

from __future__ import annotations

import io
import warnings
from typing import Any

import numpy as np

from graphfuse.errors import UnsupportedError
from graphfuse.frontends.onnx.node import one_of
from graphfuse.frontends.onnx.python_ops.call import Call, python_op

FORMATS = ("BMP", "JPEG", "JPEG2000", "TIFF", "PNG", "WEBP", "PPM")
"""What the operator's definition lists (PPM: portable any maps). Of others, Pillow starts programs for some (EPS)."""


@python_op("ImageDecoder")
def image_decoder(c: Call) -> Any:
    """Pixels as (height, width, channels), in the order that `pixel_format` says."""
    try:
        from PIL import Image
    except ImportError:
        raise UnsupportedError("ImageDecoder: needs the package pillow: pip install pillow", c.loc) from None
    order = one_of("pixel_format", c.get("pixel_format", "RGB"), ("RGB", "BGR", "Grayscale"), c.error)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of sizes: what is twice as large as what it warns of is an error
            opened = Image.open(io.BytesIO(c.array(0).tobytes()), formats=FORMATS)
            image = opened.convert("L" if order == "Grayscale" else "RGB")
    except Exception as e:  # noqa: BLE001  # decoders raise whatever they run into
        raise c.error(f"input 0: not an image that can be decoded: {str(e).lower()}") from None
    pixels = np.asarray(image, dtype=np.uint8)
    if order == "Grayscale":
        return pixels[:, :, None].copy()
    return np.ascontiguousarray(pixels[:, :, ::-1]) if order == "BGR" else pixels.copy()
