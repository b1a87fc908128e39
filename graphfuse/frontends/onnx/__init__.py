"""ONNX files to graph IR. The only package that imports onnx."""

from graphfuse.frontends.onnx.importer import import_model

__all__ = ["import_model"]
