"""PTX as LLVM emits it: address spaces, inline assembly, loops, vectors, shared memory, tensor maps."""

import llvmlite.binding as llvm
import ml_dtypes
import numpy as np
import pytest

from graphfuse.gpu.emulator import Buffer, Emulator, EmulatorError, TensorMap

RNG = np.random.default_rng(9)
BF16 = np.dtype(ml_dtypes.bfloat16)
TRIPLE = "nvptx64-nvidia-cuda"
TID = "%tid = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()\n%cta = call i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()\n"
DECLARE = """
declare i32 @llvm.nvvm.read.ptx.sreg.tid.x()
declare i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
declare void @llvm.nvvm.barrier.cta.sync.aligned.all(i32)
declare float @llvm.fma.f32(float, float, float)
declare float @llvm.maxnum.f32(float, float)
"""


@pytest.fixture(scope="module")
def compile_():
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()

    def run(ir, *, optimise=2):
        machine = llvm.Target.from_triple(TRIPLE).create_target_machine(cpu="sm_90a", features="+ptx86", opt=3)
        module = llvm.parse_assembly(f'target triple = "{TRIPLE}"\n{DECLARE}{ir}')
        module.verify()
        if optimise:
            options = llvm.create_pipeline_tuning_options(speed_level=optimise)
            options.loop_unrolling = False
            llvm.create_pass_builder(machine, options).getModulePassManager().run(
                module, llvm.create_pass_builder(machine, options)
            )
        return machine.emit_assembly(module)

    return run


@pytest.mark.parametrize("optimise", [0, 2])
def test_vector_add(compile_, optimise):
    ptx = compile_(
        f"""
define ptx_kernel void @add(ptr addrspace(1) %a, ptr addrspace(1) %b, ptr addrspace(1) %c, i32 %n) {{
  {TID}
  %base = mul i32 %cta, 128
  %i = add i32 %base, %tid
  %in = icmp ult i32 %i, %n
  br i1 %in, label %body, label %end
body:
  %pa = getelementptr <4 x float>, ptr addrspace(1) %a, i32 %i
  %pb = getelementptr <4 x float>, ptr addrspace(1) %b, i32 %i
  %pc = getelementptr <4 x float>, ptr addrspace(1) %c, i32 %i
  %x = load <4 x float>, ptr addrspace(1) %pa, align 16
  %y = load <4 x float>, ptr addrspace(1) %pb, align 16
  %z = fadd <4 x float> %x, %y
  store <4 x float> %z, ptr addrspace(1) %pc, align 16
  br label %end
end:
  ret void
}}""",
        optimise=optimise,
    )
    assert "ld.global.v4" in ptx
    a, b = RNG.standard_normal((2, 4 * 300)).astype(np.float32)
    c = np.zeros_like(a)
    report = Emulator(ptx).launch("add", (3,), (128,), [a, b, Buffer(c, initialised=False), 300])
    assert (c == a + b).all()
    assert report.global_bytes == 3 * a.nbytes
    assert not report.uncoalesced
    with pytest.raises(
        EmulatorError, match=r"ld.global.v4.\w+: out of bounds: element 1200 of add_param_0 \(1200 elements\), 16 bytes"
    ):
        Emulator(ptx).launch("add", (3,), (128,), [a, b, c, 301])


SOFTMAX = f"""
@part = internal addrspace(3) global [8 x float] undef, align 16
define ptx_kernel void @softmax(ptr addrspace(1) %x, ptr addrspace(1) %y, i32 %n) {{
entry:
  {TID}
  %row = mul i32 %cta, %n
  %lane = and i32 %tid, 31
  %warp = lshr i32 %tid, 5
  %slot = getelementptr float, ptr addrspace(3) @part, i32 %warp
  br label %max
max:
  %i = phi i32 [ %tid, %entry ], [ %i2, %max ]
  %m = phi float [ 0xFFF0000000000000, %entry ], [ %m2, %max ]
  %at = add i32 %row, %i
  %p = getelementptr float, ptr addrspace(1) %x, i32 %at
  %v = load float, ptr addrspace(1) %p
  %m2 = call float @llvm.maxnum.f32(float %m, float %v)
  %i2 = add i32 %i, 128
  %more = icmp slt i32 %i2, %n
  br i1 %more, label %max, label %maxed
maxed:
  %top = call float @reduce_max(float %m2)
  store float %top, ptr addrspace(3) %slot
  call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0)
  %w0 = load <4 x float>, ptr addrspace(3) @part, align 16
  %a0 = extractelement <4 x float> %w0, i32 0
  %a1 = extractelement <4 x float> %w0, i32 1
  %a2 = extractelement <4 x float> %w0, i32 2
  %a3 = extractelement <4 x float> %w0, i32 3
  %b0 = call float @llvm.maxnum.f32(float %a0, float %a1)
  %b1 = call float @llvm.maxnum.f32(float %a2, float %a3)
  %mx = call float @llvm.maxnum.f32(float %b0, float %b1)
  %neg = fmul float %mx, 0xBFF7154760000000
  br label %sum
sum:
  %j = phi i32 [ %tid, %maxed ], [ %j2, %sum ]
  %s = phi float [ 0.0, %maxed ], [ %s2, %sum ]
  %jat = add i32 %row, %j
  %jp = getelementptr float, ptr addrspace(1) %x, i32 %jat
  %jv = load float, ptr addrspace(1) %jp
  %arg = call float @llvm.fma.f32(float %jv, float 0x3FF7154760000000, float %neg)
  %e = call float asm "ex2.approx.ftz.f32 $0, $1;", "=f,f"(float %arg)
  %jq = getelementptr float, ptr addrspace(1) %y, i32 %jat
  store float %e, ptr addrspace(1) %jq
  %s2 = fadd float %s, %e
  %j2 = add i32 %j, 128
  %jmore = icmp slt i32 %j2, %n
  br i1 %jmore, label %sum, label %summed
summed:
  %total = call float @reduce_add(float %s2)
  %slot2 = getelementptr float, ptr addrspace(3) %slot, i32 4
  store float %total, ptr addrspace(3) %slot2
  call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0)
  %tail = getelementptr float, ptr addrspace(3) @part, i32 4
  %w1 = load <4 x float>, ptr addrspace(3) %tail, align 16
  %c0 = extractelement <4 x float> %w1, i32 0
  %c1 = extractelement <4 x float> %w1, i32 1
  %c2 = extractelement <4 x float> %w1, i32 2
  %c3 = extractelement <4 x float> %w1, i32 3
  %d0 = fadd float %c0, %c1
  %d1 = fadd float %c2, %c3
  %sm = fadd float %d0, %d1
  br label %scale
scale:
  %k = phi i32 [ %tid, %summed ], [ %k2, %scale ]
  %kat = add i32 %row, %k
  %kq = getelementptr float, ptr addrspace(1) %y, i32 %kat
  %kv = load float, ptr addrspace(1) %kq
  %r = fdiv float %kv, %sm
  store float %r, ptr addrspace(1) %kq
  %k2 = add i32 %k, 128
  %kmore = icmp slt i32 %k2, %n
  br i1 %kmore, label %scale, label %end
end:
  ret void
}}
"""


def asm(text):
    """A template of inline assembly as LLVM's text has it, with a new line at each `|`."""
    return text.replace("|", "\\0A")


def butterfly(name, combine):
    lines, value = [], "%v0"
    for step, by in enumerate((16, 8, 4, 2, 1)):
        lines.append(
            f'%g{step} = call float asm sideeffect "shfl.sync.bfly.b32 $0, $1, {by}, 31, -1;", "=f,f"(float {value})'
        )
        lines.append(f"%v{step + 1} = {combine.format(value, f'%g{step}')}")
        value = f"%v{step + 1}"
    return (
        f"define internal float @{name}(float %v0) alwaysinline {{\n" + "\n".join(lines) + f"\nret float {value}\n}}\n"
    )


@pytest.fixture(scope="module")
def softmax(compile_):
    return compile_(
        butterfly("reduce_max", "call float @llvm.maxnum.f32(float {}, float {})")
        + butterfly("reduce_add", "fadd float {}, {}")
        + SOFTMAX
    )


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_softmax(softmax, seed):
    x = (RNG.standard_normal((5, 300)) * 5).astype(np.float32)
    y = np.zeros_like(x)
    report = Emulator(softmax, seed=seed).launch("softmax", (5,), (128,), [x, Buffer(y, initialised=False), 300])
    wide = np.exp(x.astype(np.float64) - x.max(1, keepdims=True))
    want = wide / wide.sum(1, keepdims=True)
    assert np.abs(y / want - 1).max() < 4e-6
    assert report.warps == 20
    assert report.instructions["bar.sync"] == 40
    assert not report.conflicts


def test_softmax_without_a_barrier(softmax):
    lines = softmax.splitlines()
    first, second = (i for i, line in enumerate(lines) if "bar.sync" in line)
    for dropped in (first, second):
        text = "\n".join(line if i != dropped else "" for i, line in enumerate(lines))
        x = RNG.standard_normal((2, 128)).astype(np.float32)
        for seed in range(4):
            with pytest.raises(
                EmulatorError, match=r"race: read of shared byte|read of uninitialised shared memory"
            ) as e:
                Emulator(text, seed=seed).launch("softmax", (2,), (128,), [x, np.zeros_like(x), 128])
            assert e.value.loc
            assert "ld.shared.v4" in lines[e.value.loc.line - 1]


def test_halves_and_conversions(compile_):
    ptx = compile_(
        f"""
define ptx_kernel void @gate(ptr addrspace(1) %a, ptr addrspace(1) %y, i32 %unused) {{
  {TID}
  %pa = getelementptr <2 x bfloat>, ptr addrspace(1) %a, i32 %tid
  %x = load <2 x bfloat>, ptr addrspace(1) %pa
  %two = fmul contract <2 x bfloat> %x, %x
  %three = fadd contract <2 x bfloat> %two, %x
  %w = fpext <2 x bfloat> %three to <2 x float>
  %h = fptrunc <2 x float> %w to <2 x half>
  %i = fptosi <2 x half> %h to <2 x i32>
  %s = sitofp <2 x i32> %i to <2 x float>
  %sum = fadd <2 x float> %s, %w
  %b = fptrunc <2 x float> %sum to <2 x bfloat>
  %py = getelementptr <2 x bfloat>, ptr addrspace(1) %y, i32 %tid
  store <2 x bfloat> %b, ptr addrspace(1) %py
  ret void
}}"""
    )
    assert "bf16x2" in ptx
    a = (RNG.standard_normal(64) * 3).astype(BF16)
    y = np.zeros_like(a)
    Emulator(ptx).launch("gate", (1,), (32,), [a, y, 0])
    wide = a.astype(np.float64)
    fused = (wide * wide + wide).astype(np.float32).astype(BF16).astype(np.float32)
    want = (np.trunc(fused.astype(np.float16).astype(np.float32)) + fused).astype(BF16)
    assert (y == want).all()


def test_allocas_and_64_bit_arithmetic(compile_):
    ptx = compile_(
        f"""
define ptx_kernel void @spill(ptr addrspace(1) %y, i64 %scale) {{
entry:
  {TID}
  %box = alloca [8 x i64]
  br label %fill
fill:
  %i = phi i64 [ 0, %entry ], [ %i2, %fill ]
  %p = getelementptr [8 x i64], ptr %box, i64 0, i64 %i
  %wide = zext i32 %tid to i64
  %v = mul i64 %i, %scale
  %w = add i64 %v, %wide
  store volatile i64 %w, ptr %p
  %i2 = add i64 %i, 1
  %c = icmp ult i64 %i2, 8
  br i1 %c, label %fill, label %out
out:
  %which = and i64 %wide, 7
  %q = getelementptr [8 x i64], ptr %box, i64 0, i64 %which
  %r = load volatile i64, ptr %q
  %d = sdiv i64 %r, 3
  %o = getelementptr i64, ptr addrspace(1) %y, i64 %wide
  store i64 %d, ptr addrspace(1) %o
  ret void
}}"""
    )
    assert "__local_depot" in ptx
    y = np.zeros(32, np.int64)
    Emulator(ptx).launch("spill", (1,), (32,), [y, -(1 << 40)])
    t = np.arange(32)
    want = [int(x) // 3 if x >= 0 else -(-int(x) // 3) for x in (t & 7) * -(1 << 40) + t]
    assert y.tolist() == want


# a whole matrix product: TMA, mbarriers, wgmma, stmatrix, bulk store

WGMMA = "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16"
STAGES, TILE = 2, 64 * 64 * 2
FULL = 2 * STAGES * TILE
C_AT = FULL + 1024


def gemm_ir():
    """One CTA of a producer warpgroup and a consumer for each 64 x 64 tile, k in steps of 64."""
    accumulators = [f"%acc{i}" for i in range(32)]
    struct = "{ " + ", ".join(["float"] * 32) + " }"
    outs = ", ".join(f"${i}" for i in range(32))
    product = "{|.reg .pred p, q;|.reg .b64 da, db;|setp.ne.b32 p, $66, 0;|setp.eq.b32 q, 0, 0;|"
    product += "wgmma.fence.sync.aligned;|"
    for k in range(4):
        scale = "p" if k == 0 else "q"
        product += f"add.s64 da, $64, {2 * k};|add.s64 db, $65, {2 * k};|"
        product += f"{WGMMA} {{{outs}}}, da, db, {scale}, 1, 1, 0, 0;|"
    product = asm(product + "wgmma.commit_group.sync.aligned;|}")
    tied = ",".join(["=f"] * 32 + [str(i) for i in range(32)])
    acc_args = ", ".join(f"float {a}" for a in accumulators)
    high = 1 << 62 | 64 << 32 | 1 << 16
    phis = "\n".join(f"{a} = phi float [ undef, %cons ], [ %new{i}, %ck ]" for i, a in enumerate(accumulators))
    takes = "\n".join(f"%new{i} = extractvalue {struct} %prod, {i}" for i in range(32))
    done = "\n".join(f"%d{i} = extractvalue {struct} %fin, {i}" for i in range(32))
    stores = ""
    for j in range(0, 8, 2):
        for q, first in enumerate((4 * j, 4 * j + 2, 4 * j + 4, 4 * j + 6)):
            stores += f"""
  %v{first} = insertelement <2 x float> poison, float %d{first}, i32 0
  %v{first}b = insertelement <2 x float> %v{first}, float %d{first + 1}, i32 1
  %h{first} = fptrunc <2 x float> %v{first}b to <2 x bfloat>
  %w{j}_{q} = bitcast <2 x bfloat> %h{first} to i32"""
        stores += f"""
  %x{j} = xor i32 %chunk, {16 * j}
  %at{j} = add i32 %rowbase, %x{j}
  call void asm sideeffect "stmatrix.sync.aligned.m8n8.x4.shared.b16 [$0], {{$1, $2, $3, $4}};",
    "r,r,r,r,r,~{{memory}}"(i32 %at{j}, i32 %w{j}_0, i32 %w{j}_1, i32 %w{j}_2, i32 %w{j}_3)"""
    wait = "{|.reg .pred p;|W${:uid}:|mbarrier.try_wait.parity.shared::cta.b64 p, [$0], $1;|@!p bra.uni W${:uid};|}"
    wait = f'"{asm(wait)}", "r,r,~{{memory}}"'
    release = asm("{|.reg .pred p;|setp.ne.b32 p, $1, 0;|@p mbarrier.arrive.shared::cta.b64 _, [$0];|}")
    store = "cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [$1, {$2, $3}], [$0];"
    store = asm(store + "|cp.async.bulk.commit_group;|cp.async.bulk.wait_group 0;")
    in_flight = ", ".join(f"float %t{i}" for i in range(32))
    load = (
        "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [$0], [$1, {$2, $3}], [$4];"
    )
    init = "\n".join(
        f'call void asm sideeffect "mbarrier.init.shared::cta.b64 [$0], 1;", "r,~{{memory}}"(i32 %b{kind}{s})'
        for kind in "fe"
        for s in range(STAGES)
    )
    address = "\n".join(
        f"  %bf{s} = add i32 %smem, {FULL + 8 * s}\n  %be{s} = add i32 %smem, {FULL + 64 + 8 * s}"
        for s in range(STAGES)
    )
    map_ = 'ptr byval([128 x i8]) align 64 "nvvm.grid_constant"'
    return f"""
@smem_ = external addrspace(3) global [0 x i8], align 1024
define ptx_kernel void @gemm({map_} %ma, {map_} %mb, {map_} %mc, i32 %steps) "nvvm.maxntid"="256" "nvvm.minctasm"="1" {{
entry:
  {TID}
  %ctay = call i32 asm "mov.u32 $0, %ctaid.y;", "=r"()
  %smem = ptrtoint ptr addrspace(3) @smem_ to i32
{address}
  %m0 = shl i32 %cta, 6
  %n0 = shl i32 %ctay, 6
  %first = icmp eq i32 %tid, 0
  br i1 %first, label %init, label %ready
init:
  {init}
  call void asm sideeffect "fence.mbarrier_init.release.cluster;", "~{{memory}}"()
  br label %ready
ready:
  call void asm sideeffect "bar.sync 0;", "~{{memory}}"()
  %warp = lshr i32 %tid, 5
  %group = lshr i32 %tid, 7
  %producer = icmp eq i32 %group, 0
  br i1 %producer, label %prod, label %cons
prod:
  call void asm sideeffect "setmaxnreg.dec.sync.aligned.u32 40;", "~{{memory}}"()
  br i1 %first, label %pk, label %end
pk:
  %pi = phi i32 [ 0, %prod ], [ %pi2, %pk ]
  %ps = urem i32 %pi, {STAGES}
  %pround = udiv i32 %pi, {STAGES}
  %pphase = and i32 %pround, 1
  %pfree = xor i32 %pphase, 1
  %poff = shl i32 %ps, 3
  %pe = add i32 %be0, %poff
  %pf = add i32 %bf0, %poff
  call void asm sideeffect {wait}(i32 %pe, i32 %pfree)
  call void asm sideeffect "mbarrier.arrive.expect_tx.shared::cta.b64 _, [$0], {2 * TILE};", "r,~{{memory}}"(i32 %pf)
  %pa0 = mul i32 %ps, {TILE}
  %pa = add i32 %smem, %pa0
  %pb = add i32 %pa, {STAGES * TILE}
  %k0 = shl i32 %pi, 6
  call void asm sideeffect "{load}", "r,l,r,r,r,~{{memory}}"(i32 %pa, ptr %ma, i32 %k0, i32 %m0, i32 %pf)
  call void asm sideeffect "{load}", "r,l,r,r,r,~{{memory}}"(i32 %pb, ptr %mb, i32 %k0, i32 %n0, i32 %pf)
  %pi2 = add i32 %pi, 1
  %pmore = icmp ult i32 %pi2, %steps
  br i1 %pmore, label %pk, label %end
cons:
  call void asm sideeffect "setmaxnreg.inc.sync.aligned.u32 232;", "~{{memory}}"()
  %thread = and i32 %tid, 127
  %leads = icmp eq i32 %thread, 0
  %lead = zext i1 %leads to i32
  br label %ck
ck:
  %ci = phi i32 [ 0, %cons ], [ %ci2, %ck ]
  {phis}
  %cs = urem i32 %ci, {STAGES}
  %cround = udiv i32 %ci, {STAGES}
  %cphase = and i32 %cround, 1
  %coff = shl i32 %cs, 3
  %cf = add i32 %bf0, %coff
  %ce = add i32 %be0, %coff
  call void asm sideeffect {wait}(i32 %cf, i32 %cphase)
  %ca0 = mul i32 %cs, {TILE}
  %ca = add i32 %smem, %ca0
  %ca1 = lshr i32 %ca, 4
  %ca2 = zext i32 %ca1 to i64
  %da = or i64 %ca2, {high}
  %db = add i64 %da, {STAGES * TILE >> 4}
  %prod_ = call {struct} asm sideeffect "{product}", "{tied},l,l,r,~{{memory}}"({acc_args}, i64 %da, i64 %db, i32 %ci)
  %prod1 = call {struct} asm sideeffect "wgmma.wait_group.sync.aligned 0;", "{tied},~{{memory}}"({in_flight})
  {takes.replace("%prod,", "%prod1,")}
  call void asm sideeffect "{release}", "r,r,~{{memory}}"(i32 %ce, i32 %lead)
  %ci2 = add i32 %ci, 1
  %cmore = icmp ult i32 %ci2, %steps
  br i1 %cmore, label %ck, label %epilogue
epilogue:
  {done.replace("extractvalue " + struct + " %fin,", "extractvalue " + struct + " %prod1,")}
  %lane = and i32 %tid, 31
  %quarter = and i32 %warp, 3
  %r16 = and i32 %lane, 15
  %wrow = shl i32 %quarter, 4
  %row = add i32 %wrow, %r16
  %rowoff = shl i32 %row, 7
  %ctile = add i32 %smem, {C_AT}
  %rowbase = add i32 %ctile, %rowoff
  %half = lshr i32 %lane, 4
  %r8 = and i32 %lane, 7
  %c8 = xor i32 %half, %r8
  %chunk = shl i32 %c8, 4
  {stores}
  call void asm sideeffect "fence.proxy.async.shared::cta;\\0Abar.sync 1, 128;", "~{{memory}}"()
  br i1 %leads, label %write, label %end
write:
  call void asm sideeffect "{store}", "r,l,r,r,~{{memory}}"(i32 %ctile, ptr %mc, i32 %n0, i32 %m0)
  br label %end
end:
  ret void
}}""".replace(
        "  %prod1 = call",
        "\n".join(f"  %t{i} = extractvalue {struct} %prod_, {i}" for i in range(32)) + "\n  %prod1 = call",
    )


@pytest.fixture(scope="module")
def gemm(compile_):
    return compile_(gemm_ir())


def run_gemm(ptx, seed=0, m=100, n=128, k=200, **kw):
    a, b = RNG.standard_normal((m, k)).astype(BF16), RNG.standard_normal((n, k)).astype(BF16)
    c = np.zeros((m, n), BF16)
    box = (64, 64)
    args = [TensorMap(a, box, 128), TensorMap(b, box, 128), TensorMap(c, box, 128, initialised=False), -(-k // 64)]
    grid = (-(-m // 64), -(-n // 64))
    report = Emulator(ptx, seed=seed, name="gemm.ptx", **kw).launch(
        "gemm", grid, (256,), args, shared_bytes=C_AT + TILE
    )
    want = a.astype(np.float32) @ b.astype(np.float32).T
    assert np.abs(c.astype(np.float32) - want).max() <= 2.0**-8 * np.abs(want).max()
    return report


@pytest.mark.parametrize("seed", range(4))
def test_gemm(gemm, seed):
    report = run_gemm(gemm, seed)
    assert report.flops["bf16"] == 2 * 128 * 128 * 256
    assert not report.conflicts


def test_gemm_without_checks(gemm):
    run_gemm(gemm, checks=False)


BUGS = {
    "proxy fence": (r"fence\.proxy\.async\.shared::cta;", "", "with no fence.proxy.async since"),
    "barrier before the store": (r"bar\.sync 1, 128;", "", "race: read of shared byte|fence.proxy.async|uninitialised"),
    "wgmma fence": (r"wgmma\.fence\.sync\.aligned;", "", "no wgmma.fence before the first"),
    "wgmma wait": (
        r"wgmma\.wait_group\.sync\.aligned 0;",
        "",
        "of a wgmma not waited for|is not ordered after its read by a wgmma",
    ),
    "wgmma commit": (
        r"wgmma\.commit_group\.sync\.aligned;",
        "",
        "of a wgmma not waited for|is not ordered after its read by a wgmma",
    ),
    "full barrier": (
        r"(try_wait\.parity\.shared::cta\.b64 p, \[%r\d+\], %r\d+;\n@!p bra\.uni W\d+;\n(?=\}[^$]*wgmma))",
        "",
        "in flight|is not ordered|uninitialised",
    ),
    "barrier behind the inits": (r"bar\.sync 0;", "", "race: read of shared byte|no mbarrier was initialised"),
    "bulk wait": (r"cp\.async\.bulk\.wait_group 0;", "", "expected cp.async.bulk.wait_group"),
    "too few bytes expected": (r"\[(%r\d+)\], 16384;", r"[\1], 16368;", "deadlock|is not ordered|in flight"),
    "release": (r"@p mbarrier\.arrive\.shared::cta\.b64 _, \[%r\d+\];", "", "deadlock"),
    "bar.sync of a wrong count": (r"bar\.sync 1, 128;", "bar.sync 1, 160;", "deadlock"),
}


@pytest.mark.parametrize("bug", BUGS)
def test_gemm_bugs(gemm, bug):
    """Each is found whatever the schedule, by a check and not by luck."""
    pattern, replacement, message = BUGS[bug]
    text = __import__("re").sub(pattern, replacement, gemm, count=1)
    if bug == "full barrier":
        at = gemm.index(WGMMA)
        start = gemm.rindex("mbarrier.try_wait", 0, at)
        text = gemm[:start] + gemm[gemm.index(";", gemm.index("bra.uni", start)) + 1 :]
    assert text != gemm
    for seed in range(3):
        with pytest.raises(EmulatorError, match=message) as e:
            run_gemm(text, seed)
        assert e.value.loc
        assert e.value.loc.line > 30
