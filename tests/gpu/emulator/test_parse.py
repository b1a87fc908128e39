import numpy as np
import pytest

from graphfuse.gpu.emulator import EmulatorError
from graphfuse.gpu.emulator.parse import parse
from tests.gpu.emulator.ptx import HEAD, entry, launch, line_of


def test_module():
    module = parse(
        HEAD
        + """
.const .align 4 .f32 half = 0f3F000000;
.global .align 4 .u32 table[3] = {1, 0x10, 3};
.extern .shared .align 1024 .b8 smem[];
.visible .entry k(
    .param .align 64 .b8 map[128], // a comment; with { braces }
    .param .u64 .ptr .global .align 16 out,
    .param .u32 n
)
.reqntid 128, 1, 1
.minnctapersm 1
{
    .reg .b32 %r<3>;
    .shared .align 16 .b8 scratch[64];
    .loc 1 5 3
    .pragma "nounroll";
$L1:
    @!%p1 bra $L1;
    {
        .reg .pred p;
        .reg .b32 x<2>;
        again: setp.ne.b32 p, %r1, 0;
        mov.b32 x1, %r1;
        @p bra again;
    }
    {
        .reg .pred p;
        again: @p bra again;
    }
    ret;
}
""".replace("%p1", "%r1"),
        "m.ptx",
    )
    kernel = module.kernels["k"]
    assert (module.version, module.target) == ("8.6", "sm_90a")
    assert module.variables["half"].initial == np.float32(0.5).tobytes()
    assert module.variables["table"].initial == np.array([1, 16, 3], np.uint32).tobytes()
    assert module.variables["smem"].bytes == 0
    assert [(p.name, p.bytes, p.align) for p in kernel.params] == [("map", 128, 64), ("out", 8, 8), ("n", 4, 4)]
    assert kernel.limits == {"reqntid": (128, 1, 1), "minnctapersm": (1,)}
    assert kernel.variables["scratch"].bytes == 64
    assert kernel.labels["$L1"] == 0
    assert {"again#1", "again#2"} <= set(kernel.labels)
    assert kernel.registers["x1#1"].bits == 32
    assert kernel.code[0].guard_negated
    assert [i.guard for i in kernel.code if i.name == "bra"] == ["%r1", "p#1", "p#2"]
    assert kernel.code[1].line == 25


def test_operands():
    ptx = entry("\tld.global.v2.b32 {%r1, %r2}, [%p0+-8];\n\tshfl.sync.idx.b32 %r1|%q1, %r2, 0b11, 017, -1;", ["p0"])
    load, shuffle = parse(ptx).kernels["k"].code[-3:-1]
    assert [o.name for o in load.operands[0].items] == ["%r1", "%r2"]
    assert (load.operands[1].items[0].name, load.operands[1].number) == ("%p0", -8)
    assert [o.kind for o in shuffle.operands] == ["pair", "reg", "int", "int", "int"]
    assert [o.number for o in shuffle.operands[2:]] == [3, 15, -1]


@pytest.mark.parametrize(
    ("body", "line", "message"),
    [
        ("\tadd.s32 %r1, %nosuch, 1;", 0, "unknown register '%nosuch'"),
        ("\tadd.s32 %r1, %r2 %r3;", 0, "operand '%r2 %r3': expected a register, a number, an address or a name"),
        ("\tbra $nowhere;", 0, "bra: unknown label '$nowhere'"),
        ("$L:\n$L:\n\tadd.s32 %r1, %r2, 1;", 1, "label '$L' is defined twice"),
        ("\t.reg .b33 %x;", 0, "unknown register type '.b33'"),
        ("\t.nonsense 1;", 0, "unknown directive '.nonsense 1'"),
        ("\t?;", 0, "not an instruction: '?'"),
    ],
)
def test_text_errors(body, line, message):
    with pytest.raises(EmulatorError) as e:
        parse(entry(body), "t.ptx")
    assert e.value.message == message
    assert e.value.loc
    assert e.value.loc.line == line_of(entry("\tHERE"), "HERE") + line


def test_module_errors():
    with pytest.raises(EmulatorError, match=r"the text ends inside a statement: expected ';'"):
        parse(HEAD + ".global .u32 x")
    with pytest.raises(EmulatorError, match=r"malformed \.func"):
        parse(HEAD + ".func f()")
    with pytest.raises(EmulatorError, match="malformed .entry"):
        parse(HEAD + ".visible .entry ;")
    with pytest.raises(EmulatorError, match=r"kernel 'k': the text ends before its '}'"):
        parse(HEAD + ".visible .entry k() { ret;")
    assert parse(HEAD + ".extern .func (.param .b32 r) vprintf (.param .b64 a);").kernels == {}


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("\tfrobnicate.b32 %r1, %r2;", "frobnicate.b32: unknown instruction"),
        ("\tadd.odd.s32 %r1, %r2, 1;", "add.odd.s32: unknown modifier '.odd'"),
        ("\tadd.s32 %r1, %r2;", "add.s32: 2 operands: expected 3"),
        ("\tadd.s32 %r1, nothing, 1;", "add.s32: unknown name 'nothing'"),
        (
            "\tmma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%d1,%d2}, {%d3}, {%d4}, {%d5,%d6};",
            "only m16n8k* is emulated",
        ),
        ("\tcall.uni other, ();", "call.uni: expected a call of vprintf or __assertfail"),
        ("\ttcgen05.fence::before_thread_sync;", "unknown instruction"),
        ("\tadd.s32 %r1, [%r2], 1;", "an operand is a mem: expected a register or a number"),
        ("\tld.global.u32 %r1, %r2;", "an operand is a reg: expected an address in brackets"),
        ("\tld.global.b128 %d1, [%d1];", "128-bit registers are not emulated: load .v2.b64"),
        ("\tst.global.b128 [%d1], %d1;", "128-bit registers are not emulated: store .v2.b64"),
        ("\tld.param.u32 %r1, [%r2];", "ld.param of an address that is none of a parameter"),
        ("\t@%nothing ret;", "unknown guard predicate '%nothing'"),
        ("\tadd.rz.f64 %d1, %d1, %d1;", "only .rn is emulated for f64"),
        ("\tcvt.s32.f32 %r1, %f1;", "expected .rni, .rzi, .rmi or .rpi"),
        ("\tcvta.to.b64 %d1, %d1;", "expected a state space and a 64-bit type"),
        ("\tadd.sat.u32 %r1, %r1, %r1;", "unknown modifier '.sat'"),
        ("\tsetp.s32 %q1, %r1, %r2;", "expected a comparison"),
        ("\tsetp.ltu.s32 %q1, %r1, %r2;", "no comparison of integers is 'ltu'"),
        ("\tshfl.sync.bfly.b32 %r1|%r2|%r3, %r1, 1, 31, -1;", "'%r1|%r2|%r3': expected two registers"),
        ("\tsetp.eq.f16x2 %q1, %r1, %r2;", "comparison of packed numbers is not emulated"),
        ("\tldmatrix.sync.aligned.m8n8.x1.shared.b8 {%r1}, [%r3];", "only .m8n8 of .b16 is emulated"),
        ("\tred.async.add.u32 [%r1], %r2, [%r3];", "red.async is not emulated"),
        ("\telect.sync %r1, -1;", "expected lane|predicate"),
        ("\tbar.arrive 0;", "bar.arrive needs a thread count"),
        ("\ttestp.f32 %q1, %f1;", "expected a class of numbers"),
    ],
)
def test_what_is_unknown_is_said(body, message):
    with pytest.raises(EmulatorError) as e:
        launch(entry(body), [])
    assert message in e.value.message
    assert str(e.value.loc) == f"t.ptx:{line_of(entry('HERE'), 'HERE')}:2"


FUNCTIONS = """
.func (.param .b32 r) twice(.param .b32 x);
.func (.param .b32 r) more(.param .b32 x, .param .b32 y)
{
\t.reg .pred %q<2>;
\t.reg .b32 %r<9>;
\tld.param.u32 %r1, [x];
\tld.param.u32 %r2, [y];
\tsetp.lt.u32 %q1, %r1, 16;
\t@%q1 bra SMALL;
\t{ .param .b32 a; .param .b32 b;
\tst.param.b32 [a+0], %r1;
\tcall.uni (b), twice, (a);
\tld.param.b32 %r3, [b+0]; }
\tadd.u32 %r4, %r3, %r2;
\tst.param.b32 [r+0], %r4;
\tret;
SMALL:
\tst.param.b32 [r+0], %r2;
\tret;
}
.func (.param .b32 r) twice(.param .b32 x)
{
\t.reg .b32 %r<3>;
\tld.param.u32 %r1, [x];
\tshl.b32 %r2, %r1, 1;
\tst.param.b32 [r+0], %r2;
\tret;
}
"""
CALL = """\t{ .param .b32 a; .param .b32 b; .param .b32 c;
\tst.param.b32 [a+0], %t;
\tst.param.b32 [b+0], 100;
\tst.param.b32 [c+0], 7;
\tGUARDcall (c), more, (a, b);
\tld.param.b32 %r5, [c+0]; }
\tmad.wide.u32 %d1, %t, 4, %p0;
\tst.global.u32 [%d1], %r5;
"""


@pytest.mark.parametrize("guard", ["", "@%q5 "])
def test_functions_are_part_of_their_callers(guard):
    """Lanes part in one, one calls another, a guard keeps some from the call."""
    body = "\tsetp.ge.u32 %q5, %t, 8;\n" + CALL.replace("GUARD", guard) + CALL.replace("GUARD", guard)
    t = np.arange(32)
    want = np.where(t < 16, 100, 2 * t + 100)
    want = np.where(t < 8, 7, want) if guard else want
    for seed in range(3):
        out = np.zeros(32, np.uint32)
        launch(entry(body, ["p0"], module=FUNCTIONS), [out], seed=seed)
        np.testing.assert_array_equal(out, want)


def test_calls_that_are_not_emulated():
    again = FUNCTIONS.replace("shl.b32 %r2, %r1, 1;", "call (r), more, (x, x);")
    with pytest.raises(EmulatorError, match="call of 'more' by itself: a function that calls itself is not emulated"):
        parse(entry(CALL.replace("GUARD", ""), ["p0"], module=again))
    with pytest.raises(EmulatorError, match="call of 'more': expected 2 arguments, each a .param of 32 or 64 bits"):
        parse(entry(CALL.replace("GUARDcall (c), more, (a, b)", "call (c), more, (a)"), ["p0"], module=FUNCTIONS))
