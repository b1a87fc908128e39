"""Attention to keys and values in pages, beside its definition."""

from __future__ import annotations

import numpy as np
import pytest

import graphfuse
from graphfuse.errors import GraphfuseError
from tests.frontends.microsoft.paged_cases import BF16, PAGED, X, by_definition, made, paged
from tests.frontends.microsoft.support import F64, U8, Case, interpreted
from tests.frontends.support import Array, declare


def compare(c: Case, got: list[Array], want: list[Array]) -> None:
    for g, w in zip(got, want, strict=True):
        assert (g.dtype, g.shape) == (w.dtype, w.shape)
        np.testing.assert_allclose(g.astype(F64), w.astype(F64), rtol=c.error, atol=c.error)


@pytest.mark.parametrize("name", PAGED)
def test_import(name: str) -> None:
    want = by_definition(PAGED[name])
    compare(PAGED[name], interpreted(PAGED[name], want), want)


def compiled(c: Case, device: str) -> None:
    model, fed = c.model()
    want = by_definition(c)
    declare(model, want)
    got = graphfuse.compile(model, device=device)(fed)
    compare(c, [np.asarray(got[o.name]) for o in model.graph.output], want)


@pytest.mark.parametrize("device", ["cpu", "emulator"])
@pytest.mark.parametrize("name", ["no pages", "norms", "slots"])
def test_a_sample_compiled(name: str, device: str) -> None:
    compiled(PAGED[name], device)


@pytest.mark.full
@pytest.mark.parametrize("device", ["cpu", "emulator"])
@pytest.mark.parametrize("name", PAGED)
def test_compiled(name: str, device: str) -> None:
    compiled(PAGED[name], device)


@pytest.mark.parametrize(
    ("c", "message"),
    [
        (paged(X, kv_cache_layout="LATENT"), "kv_cache_layout must be SEPARATE, got LATENT"),
        (paged({**X, "value_cache": None}), "value_cache is missing"),
        (paged(made(cache=U8)), "pages of numbers of 4 bits are not built, got tensor<12x3x2x16xu8>"),
        (paged(made(cache=BF16)), "a cache must have the query's element, got tensor<12x3x2x16xbf16>"),
        (paged({**X, "q_norm_weight": X["query"][0, :16]}), "q_norm_weight and k_norm_weight must be given together"),
        (paged({**X, "query": X["query"][None]}), "input 'x0' must have 2 dims, got tensor<1x8x96xf32>"),
        (paged(X, per=5), "10 query and 2 key heads do not divide 96 features"),
        (paged(X, do_rotary=1), "input 8 is missing"),
    ],
)
def test_what_is_not_built_is_an_error(c: Case, message: str) -> None:
    with pytest.raises(GraphfuseError, match=message) as e:
        interpreted(c)
    assert e.value.loc is not None
    assert "PagedAttention" in e.value.loc.node
