"""The rows of the language's description that `cases/` covers, section by section."""

from __future__ import annotations

_SECTIONS = {
    "1.1": "comments splice digraphs identifiers integers binary-literal floats hex-floats chars strings "
    "at-and-ellipsis masked-deref digits-ellipsis contextual-names reserved bool-macros other",
    "1.2": "object-macro function-macro variadic stringize paste rescan conditionals unknown-is-zero undef line error "
    "pragma unknown-directive include predefined value-token-list prelude define-forms unused-define "
    "unset-macro glued-defines redefinition limits",
    "1.3": "unit function param const-pool decl declarator decl-spec attr type-name stmt subscript cexpr "
    "unbraced-declaration nesting",
    "1.4": "integers floats pointers tiles aggregates enumerations typedef sizeof generic static-assert power-of-two "
    "positive-dims too-large unit-dims nested-shape void",
    "1.5": "uninitialised self-initialised initialiser-conversion initialiser-broadcast brace-initialiser "
    "mutable-parameters scoping redeclared const storage own-shapes const-dims constexpr",
    "1.6": "multipleof pointer-attributes restrict attribute-spelling unknown optional-global local-constant "
    "false-promise",
    "1.7": "postfix unary range-level dot-level multiplicative additive relational bitwise logical conditional "
    "assignment comma range-operand-warning arithmetic unary-operators increment pointer-arithmetic "
    "logical-operators shifts comparisons compound-assignment assignment-value assignment-errors "
    "gnu-conditional times-one null-pointers",
    "1.8": "ranges constant-ends not-constant empty power-of-two too-large",
    "1.9": "operand index newaxis all-axes reductions argmax transposition scans slices elements by-a-function",
    "1.10": "transpose dot dot-batched dot-types dot-errors dot-function",
    "1.11": "usual-conversions weak-literals binary-broadcast assignment-reshape scalar-cast tile-cast pointer-cast "
    "signedness pointer-offset bitcast comparison-type",
    "1.12": "load store masked ternary",
    "1.13": "if for while do switch goto break return calls empty-body kernels any-shape",
    "1.14": "program-ids exp-log-sqrt min-max select atomics barrier infinities calloc maths printf assert "
    "moves order folds",
    "1.15": "grid-rank several-kernels no-threads",
    "1.16": "invalid-suffix arithmetic-type remainder broadcast cast-elements cast-to-scalar tile-power-of-two "
    "range-power-of-two range-negative range-integers constant-expression shape-negative scalar-elements "
    "tile-expected subscript-symbol all-axes transposition-axes unknown-axis reduction-operand dot-tiles "
    "dot-incompatible masked-pointer masked-bool deref-pointer bitcast-width address-of-tile undefined "
    "expected-but-got unknown-attribute const-assignment lvalue expect-scalar static-assertion "
    "ellipsis-between-variables unary-operators label non-void-return function-calls initializer-list "
    "program-id-constant",
}
_QUIRKS = (*range(1, 13), 15, 16, 17, 18)
"""Section 2; 13 and 14 are about the documents."""

ROWS = (
    *(f"{section}.{row}" for section, rows in _SECTIONS.items() for row in rows.split()),
    *(f"2.{n}" for n in _QUIRKS),
)
