"""Kernels as operators of torch, on CUDA tensors: the tests of CPU tensors once more."""

from __future__ import annotations

import pytest

from tests.kernels.test_torch_op import (  # noqa: F401
    silu,
    test_a_gradient_by_a_function,
    test_a_gradient_by_a_kernel,
    test_an_operator,
    test_no_graph_break,
    test_tensors_that_do_not_fit,
    test_views_that_begin_anywhere,
    test_what_torch_checks_of_operators,
)

pytestmark = [pytest.mark.gpu, pytest.mark.filterwarnings("default")]
