"""Tensor maps that a kernel makes: boxes come as the host's maps bring them, and what is wrong with one is said."""

import ml_dtypes
import numpy as np
import pytest

from graphfuse.gpu.emulator import Buffer, EmulatorError
from tests.gpu.emulator.ptx import entry, launch

DECLS = "\t.shared .align 1024 .b8 box[4096];\n\t.shared .align 128 .b8 map[128];\n\t.shared .align 8 .b8 done[8];\n"
FIELD = "@%q1 tensormap.replace.tile.{field}.shared::cta.b1024.{of} [%r1], {value};"
SWIZZLES = {0: 0, 32: 1, 64: 2, 128: 3}


def made(fields):
    """A kernel that copies the box at {x, y} of its first argument to its second, by a map in its third."""
    lines = "\n".join(
        FIELD.format(field=name, of="b64" if name in ("global_address", "global_stride") else "b32", value=value)
        for name, value in fields
    )
    return entry(
        f"""
    mov.b32 %r1, map; mov.b32 %r2, box; mov.b32 %r3, done; setp.eq.u32 %q1, %t, 0;
    shl.b32 %r4, %t, 2; add.s32 %r4, %r4, %r1; st.shared.b32 [%r4], 0;
    bar.warp.sync -1;
    mov.b64 %d1, %p0;
    {lines}
    tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%p2], [%r1], 128;
    fence.proxy.tensormap::generic.acquire.gpu [%p2], 128;
    @%q1 mbarrier.init.shared::cta.b64 [%r3], 1;
    @%q1 fence.mbarrier_init.release.cluster;
    @%q1 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r3], 1024;
    @%q1 cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%r2], [%p2, {{8, 5}}], [%r3];
    bar.sync 0;
WAIT:
    mbarrier.try_wait.parity.shared::cta.b64 %q2, [%r3], 0;
    @!%q2 bra WAIT;
    shl.b32 %r5, %t, 5; add.s32 %r6, %r5, %r2; cvt.u64.u32 %d2, %r5; add.s64 %d2, %d2, %p1;
    ld.shared.v4.b32 {{%r7, %r8, %r9, %r10}}, [%r6]; st.global.v4.b32 [%d2], {{%r7, %r8, %r9, %r10}};
    ld.shared.v4.b32 {{%r7, %r8, %r9, %r10}}, [%r6+16]; st.global.v4.b32 [%d2+16], {{%r7, %r8, %r9, %r10}};
""",
        ["p0", "p1", "p2"],
        DECLS,
    )


def fields(swizzle=0, **changed):
    """Of a map of 40 rows of 48 numbers of 2 bytes, in boxes of 32 rows of 16."""
    given = {
        "global_address": "%d1", "rank": 1, "box_dim": (16, 32), "global_dim": (48, 40), "global_stride": (96,),
        "element_stride": (1, 1), "elemtype": 10, "interleave_layout": 0, "swizzle_mode": SWIZZLES[swizzle],
        "fill_mode": 0,
    } | changed  # fmt: skip
    for name, value in given.items():
        if isinstance(value, tuple):
            yield from ((name, f"{i}, {v}") for i, v in enumerate(value))
        else:
            yield name, value


def arguments():
    x = np.arange(40 * 48).reshape(40, 48).astype(ml_dtypes.bfloat16)
    return [x, np.zeros((32, 16), x.dtype), Buffer(np.zeros(128, np.uint8), initialised=False)]


def test_a_box():
    for seed in range(3):
        x, out, place = arguments()
        report = launch(made(fields()), [x, out, place], seed=seed)
        assert (out == x[5:37, 8:24]).all()
        assert not report.notes


def test_elements_outside_and_swizzled():
    x, out, place = arguments()
    launch(made(fields(32, global_dim=(20, 30))), [x, out, place])
    rows = out.view(np.uint8).reshape(32, 2, 16)
    rows = np.take_along_axis(rows, (np.arange(2) ^ (np.arange(32)[:, None] >> 2 & 1))[..., None], 1)
    found = rows.reshape(32, 32).view(ml_dtypes.bfloat16)
    assert (found[:25, :12] == x[5:30, 8:20]).all()
    assert not found[25:].any()
    assert not found[:, 12:].any()


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"global_dim": (48, 41)}, "out of bounds: the tensor map ends 96 bytes behind"),
        ({"global_address": 64}, "the tensor map's global_address is near no buffer"),
        ({"global_stride": (90,)}, "tensor map: stride 90: expected a multiple of 16 bytes"),
        ({"elemtype": 40}, "elemtype 40, swizzle_mode 0, interleave_layout 0: expected less than 13, less than 4, 0"),
        ({"box_dim": (16, 300)}, "tensor map: box (16, 300): expected sizes from 1 to 256"),
        ({"rank": 2}, "the tensor map has 3 dims: expected 2|box"),
    ],
)
def test_maps_that_are_wrong(changed, message):
    with pytest.raises(EmulatorError) as e:
        launch(made(fields(**changed)), arguments())
    assert any(m in e.value.message for m in message.split("|"))


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (
            "fence.proxy.tensormap::generic.acquire.gpu [%p2], 128;",
            "no fence.proxy.tensormap acquire of this block since",
        ),
        ("bar.warp.sync -1;", "race: write of shared"),
        ("mov.b64 %d1, %p0;", "near no buffer"),
    ],
)
def test_what_is_left_out(line, message):
    text = made(fields())
    assert line in text
    with pytest.raises(EmulatorError, match=message):
        launch(text.replace(line, ""), arguments())


def test_a_dimension_too_many():
    with pytest.raises(EmulatorError, match="dimension 5: there are 5"):
        launch(made([*fields(), ("box_dim", "5, 1")]), arguments())
    with pytest.raises(EmulatorError, match="unknown modifier '.colour'"):
        launch(made([*fields(), ("colour", "1")]), arguments())
