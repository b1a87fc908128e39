"""BERT at fifty pairs of batch and length: one graph, right at each."""

import itertools

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from benchmarks.torch_models import CASES  # noqa: E402 - it imports torch
from tests.torch.support import compiled, recorded_graphs  # noqa: E402


@pytest.mark.full
def test_bert_at_fifty_sizes_is_compiled_once():
    module, _ = CASES["bert"].small()
    model = module.model.eval()
    sizes = list(itertools.product((2, 3, 4, 7, 16), (8, 2, 3, 5, 11, 16, 31, 32, 47, 64)))
    assert len(sizes) == 50
    with torch.no_grad(), recorded_graphs() as graphs:
        fn = compiled(model, dynamic=True)
        for batch, length in sizes:
            ids = torch.randint(5, 500, (batch, length))
            mask = (torch.rand(batch, length) < 0.8).long()
            mask[:, 0] = 1
            want, found = (f(input_ids=ids, attention_mask=mask).logits for f in (model, fn))
            torch.testing.assert_close(found, want, rtol=1e-4, atol=1e-4)
    assert len(graphs) == 1
