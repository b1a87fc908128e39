"""Two processes over gloo: data parallel, sharded, and collectives inside of a graph."""

import copy
import socket

import pytest

torch = pytest.importorskip("torch")

import torch.distributed as dist  # noqa: E402

from tests.torch.support import left_to_torch, recorded_graphs  # noqa: E402

pytestmark = [
    pytest.mark.full,
    pytest.mark.skipif(not dist.is_available() or not dist.is_gloo_available(), reason="no gloo"),
]
CHECKED = {"check": True}


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = torch.nn.Linear(16, 32), torch.nn.Linear(32, 16)

    def forward(self, x):
        return x + self.down(torch.nn.functional.gelu(self.up(x)))


class Network(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = Block(), Block()

    def forward(self, x):
        return self.second(self.first(x)).square().mean()


def trained(model, rank, *, whole):
    """Losses of three steps, each process with its own data."""
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    run = torch.compile(model, backend="graphfuse", options=CHECKED) if whole else model
    torch.manual_seed(rank + 10)
    losses = []
    for _ in range(3):
        loss = run(torch.randn(6, 16))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return losses


def same(ours, theirs):
    pairs = zip(ours.parameters(), theirs.parameters(), strict=True)
    return all(torch.allclose(_local(p), _local(q), atol=1e-6) for p, q in pairs)


def _local(p):
    return p.to_local() if hasattr(p, "to_local") else p


def data_parallel(rank):
    model = Network()
    theirs = torch.nn.parallel.DistributedDataParallel(copy.deepcopy(model))
    want = trained(theirs, rank, whole=False)
    for how in ("ddp_optimizer", "python_reducer"):
        torch._dynamo.reset()
        with torch._dynamo.config.patch(optimize_ddp=how), recorded_graphs() as graphs:
            ours = torch.nn.parallel.DistributedDataParallel(copy.deepcopy(model))
            found = trained(ours, rank, whole=True)
        assert graphs and sum(len(g.parts) for g in graphs) >= 2, how
        assert torch.allclose(torch.tensor(found), torch.tensor(want), atol=1e-6) and same(ours, theirs), how


def sharded(rank):
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    mesh, model = init_device_mesh("cpu", (2,)), Network()

    def made(*, compiles):
        copied = copy.deepcopy(model)
        for block in (copied.first, copied.second):
            if compiles:
                block.compile(backend="graphfuse", options=CHECKED)
            fully_shard(block, mesh=mesh)
        return fully_shard(copied, mesh=mesh)

    theirs, ours = made(compiles=False), made(compiles=True)
    want = trained(theirs, rank, whole=False)
    with recorded_graphs() as graphs:
        found = trained(ours, rank, whole=False)
    assert graphs and torch.allclose(torch.tensor(found), torch.tensor(want), atol=1e-6) and same(ours, theirs)


def collectives(rank):
    from torch.distributed._functional_collectives import all_gather_tensor, all_reduce, reduce_scatter_tensor

    def fn(x):
        y = all_reduce(x.sin(), "sum", dist.group.WORLD)
        z = all_gather_tensor(y * 2 + 1, 0, dist.group.WORLD)
        return reduce_scatter_tensor(z.cos(), "sum", 0, dist.group.WORLD) + y, z

    x = torch.randn(4, 3) + rank
    with recorded_graphs() as graphs:
        found = torch.compile(fn, backend="graphfuse", options=CHECKED, fullgraph=True)(x)
    torch.testing.assert_close(found, fn(x))
    (graph,) = graphs
    names = [str(n.target) for n in graph.module.graph.nodes if n.op == "call_function"]
    order = [n.split(".")[1] for n in names if "c10d" in n and "wait" not in n]
    assert order == ["all_reduce", "all_gather_into_tensor", "reduce_scatter_tensor"] and len(graph.parts) == 4
    assert "wait_tensor" in left_to_torch(graphs)


def process(rank, port):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=2)
    torch.manual_seed(0)
    try:
        with torch._functorch.config.patch(enable_autograd_cache=False):
            for part in (data_parallel, sharded, collectives):
                torch._dynamo.reset()
                part(rank)
    finally:
        dist.destroy_process_group()


def test_two_processes():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    torch.multiprocessing.spawn(process, args=(port,), nprocs=2)
