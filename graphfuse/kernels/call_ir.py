"""Two functions of Python's, made by LLVM: what reads the arguments of a call, and what launches with them.

| function | gives |
|---|---|
| `read(grid, args)` | what they are, as bytes (`Seen`), or None, or False, or raises |
| `launch(seen)` | None, after all programs ran on this thread, without the GIL |

Both are builtins whose `self` is a table, a bytes object. False is what `read` says of a grid that is no tuple of one
to three numbers (exactly int), and of arguments that are no tuple, too many or too few. Arrays of numpy are read
through `__array_struct__`, tensors of torch through their attributes, numbers through Python's C API. A parameter's
`ask` is called with what is of another type or does not fit, and gives a slot and the end of its memory, or raises, or
gives None, which is what `read` gives then; also for a tensor on a GPU, and for arrays that must lie apart and may not.
Nothing is used but functions of the stable ABI and one fact: the last field of an object's head
(`object.__basicsize__`) is its type.

`Seen` is, in 8 bytes each, the number of programs, what kernels take (a slot for each parameter, then `AXES` sizes),
and where the memory of each parameter ends; then, in a byte each, the number of axes without ones at the end, and what
code for each parameter is told apart by (`specialise.Facts`): the power of two that divides it, up to `MOST`, and 8 if
positive.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable, Sequence
from string import Template
from typing import Any, Final, TypeAlias

import numpy as np

from graphfuse.blockopt.grid import AXES
from graphfuse.dialects.block import MOST_PROGRAMS
from graphfuse.kernels.specialise import MOST
from graphfuse.llvm import codegen
from graphfuse.llvm.fields import with_fields
from graphfuse.llvm.host import host_target
from graphfuse.llvm.loader import Library, load_object

READ: Final = "gf_read"
LAUNCH: Final = "gf_launch"
ARRAY, INTEGER, F32, F64 = range(4)
"""Kinds of parameters."""
NOT_SWAPPED, WRITEABLE = 0x200, 0x400
"""Flags of a PyArrayInterface."""
Seen: TypeAlias = bytes
MOST_SCRATCH: Final = 1 << 16
"""Bytes of scratch memory that `launch` has for a kernel: the stack's."""

_NAMES: Final = ("__array_struct__", "dtype", "is_cpu", "layout", "is_neg", "data_ptr", "is_contiguous", "nbytes")
"""Which the code looks up: they live as long as it does."""

_IR: Final = Template("""\
; python type, ask, kind; of arrays: typekind, itemsize, flags; of integers: least, greatest
; then the divisor that is promised, what facts are kept (0 none, 1 of a signed number, 2 of any other), torch's dtype,
; whether it is written: then elements must lie apart
%gf.param = type {
  type: ptr, ask: ptr, kind: i64, elem: i64, item: i64, flags: i64, low: i64, high: i64,
  divisor: i64, facts_kept: i64, dtype: ptr, written: i64
}
; number of parameters, torch.Tensor or null, torch.strided, number of pairs that must lie apart
; the parameters follow, then the pairs
%gf.head = type { count: i64, tensor: ptr, strided: ptr, pairs: i64 }
%gf.pair = type { first: i64, second: i64 }
; PyArrayInterface
%gf.array = type {
  two: i32, nd: i32, typekind: i8, itemsize: i32, array_flags: i32, shape: ptr, strides: ptr, data: ptr
}

declare ptr @PyBytes_AsString(ptr)
declare ptr @PyBytes_FromStringAndSize(ptr, i64)
declare ptr @PyTuple_GetItem(ptr, i64)
declare i64 @PyTuple_Size(ptr)
declare ptr @PyObject_GetAttr(ptr, ptr)
declare ptr @PyObject_CallFunctionObjArgs(ptr, ...)
declare ptr @PyObject_CallMethodObjArgs(ptr, ptr, ...)
declare i32 @PyType_IsSubtype(ptr, ptr)
declare void @PyErr_Clear()
declare ptr @PyCapsule_GetPointer(ptr, ptr)
declare i64 @PyLong_AsLongLongAndOverflow(ptr, ptr)
declare i64 @PyLong_AsUnsignedLongLongMask(ptr)
declare double @PyFloat_AsDouble(ptr)
declare ptr @PyEval_SaveThread()
declare void @PyEval_RestoreThread(ptr)
declare void @Py_IncRef(ptr)
declare void @Py_DecRef(ptr)
declare i64 @llvm.cttz.i64(i64, i1)
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)

; an object's attribute, or what its method gives; null where that raises
define internal ptr @gf.get(ptr %object, ptr %name, i1 %is_method) nounwind {
  br i1 %is_method, label %method, label %attribute
method:
  %given = call ptr (ptr, ptr, ...) @PyObject_CallMethodObjArgs(ptr %object, ptr %name, ptr null)
  br i1 (icmp eq ptr %given, null), label %raised, label %done
attribute:
  %held = call ptr @PyObject_GetAttr(ptr %object, ptr %name)
  br i1 (icmp eq ptr %held, null), label %raised, label %done
raised:
  call void @PyErr_Clear()
  ret ptr null
done:
  %found = phi ptr [ %given, %method ], [ %held, %attribute ]
  ret ptr %found
}

define internal i1 @gf.is(ptr %object, ptr %name, i1 %is_method, ptr %wanted) nounwind {
  %found = call ptr @gf.get(ptr %object, ptr %name, i1 %is_method)
  call void @Py_DecRef(ptr %found)
  ret i1 (icmp eq ptr %found, %wanted)
}

; 0 where that raises
define internal i64 @gf.number(ptr %object, ptr %name, i1 %is_method) nounwind {
  %found = call ptr @gf.get(ptr %object, ptr %name, i1 %is_method)
  br i1 (icmp ne ptr %found, null), label %read, label %done
read:
  %number = call i64 @PyLong_AsUnsignedLongLongMask(ptr %found)
  call void @Py_DecRef(ptr %found)
  ret i64 %number
done:
  ret i64 0
}

define ptr @$read(ptr %self, ptr %given, i64 %given_count) nounwind {
entry:
  %overflow = alloca i32
  %axes = alloca [$axes x i64]
  store [$axes x i64] $ones, ptr %axes
  %table = call ptr @PyBytes_AsString(ptr %self)
  %n = load i64, ptr %table->count
  %grid = load ptr, ptr %given
  %args = load ptr, ptr %given[ptr 1]
  br i1 (icmp eq $tuple, (load ptr, ptr %args[i8 $type_at])), label %args_counted, label %not_so
args_counted:
  br i1 (icmp eq i64 (call i64 @PyTuple_Size(ptr %args)), %n), label %grid_given, label %not_so
grid_given:
  br i1 (icmp eq $tuple, (load ptr, ptr %grid[i8 $type_at])), label %grid_counted, label %not_so
grid_counted:
  %axis_count = call i64 @PyTuple_Size(ptr %grid)
  br i1 (icmp ult i64 (sub i64 %axis_count, 1), $axes), label %axis, label %not_so
axis:
  %a = phi i64 [ 0, %grid_counted ], [ %a_next, %axis_store ]
  %used = phi i64 [ 1, %grid_counted ], [ %used_next, %axis_store ]
  %programs = phi i64 [ 1, %grid_counted ], [ %programs_next, %axis_store ]
  br i1 (icmp slt i64 %a, %axis_count), label %axis_read, label %grid_read
axis_read:
  %axis_object = call ptr @PyTuple_GetItem(ptr %grid, i64 %a)
  br i1 (icmp eq $int, (load ptr, ptr %axis_object[i8 $type_at])), label %axis_number, label %not_so
axis_number:
  %axis_size = call i64 @PyLong_AsLongLongAndOverflow(ptr %axis_object, ptr %overflow)
  %axis_in_range = and i1 (icmp ule i64 %axis_size, $most_programs), (icmp eq i32 (load i32, ptr %overflow), 0)
  %programs_next = mul i64 %programs, %axis_size
  %is_axis = select i1 %axis_in_range, i1 (icmp ule i64 %programs_next, $most_programs), i1 false
  br i1 %is_axis, label %axis_store, label %not_so
axis_store:
  store i64 %axis_size, ptr %axes[i64 %a]
  %a_next = add i64 %a, 1
  ; ones at its end are no axes
  %used_next = select i1 (icmp eq i64 %axis_size, 1), i64 %used, i64 %a_next
  br label %axis
grid_read:
  %tensor = load ptr, ptr %table->tensor
  %pair_count = load i64, ptr %table->pairs
  %no_torch = icmp eq ptr %tensor, null
  %params = getelementptr %gf.head, ptr %table, i64 1
  %seen = call ptr @PyBytes_FromStringAndSize(ptr null, i64 (add i64 (mul i64 %n, 17), $fixed))
  br i1 (icmp ne ptr %seen, null), label %begin, label %raise_at_once
begin:
  %seen_bytes = call ptr @PyBytes_AsString(ptr %seen)
  store i64 %programs, ptr %seen_bytes
  %slots = getelementptr i64, ptr %seen_bytes, i64 1
  %seen_axes = getelementptr i64, ptr %slots, i64 %n
  call void @llvm.memcpy.p0.p0.i64(ptr %seen_axes, ptr %axes, i64 $axes_bytes, i1 false)
  %ends = getelementptr i64, ptr %seen_axes, i64 $axes
  %used_at = getelementptr i64, ptr %ends, i64 %n
  %used_byte = trunc i64 %used to i8
  store i8 %used_byte, ptr %used_at
  %facts = getelementptr i8, ptr %used_at, i64 1
head:
  %i = phi i64 [ 0, %begin ], [ %i_next, %next ]
  br i1 (icmp slt i64 %i, %n), label %body, label %all_read
body:
  %param = getelementptr %gf.param, ptr %params, i64 %i
  %value = call ptr @PyTuple_GetItem(ptr %args, i64 %i)
  %type = load ptr, ptr %value[i8 $type_at]
  %is_type = icmp eq ptr %type, (load ptr, ptr %param->type)
  %kind = load i64, ptr %param->kind
  br i1 %is_type, label %typed, label %untyped
untyped:
  br i1 (select i1 %no_torch, i1 false, i1 (icmp eq i64 %kind, 0)), label %of_torch, label %asking
of_torch:
  %is_tensor = icmp ne i32 (call i32 @PyType_IsSubtype(ptr %type, ptr %tensor)), 0
  br i1 %is_tensor, label %of_tensor, label %asking
typed:
  switch i64 %kind, label %asking [
    i64 0, label %of_array
    i64 1, label %of_integer
    i64 2, label %of_f32
    i64 3, label %of_f64
  ]

of_array:
  %capsule = call ptr @PyObject_GetAttr(ptr %value, $__array_struct__)
  br i1 (icmp ne ptr %capsule, null), label %array_read, label %raise
array_read:
  %array = call ptr @PyCapsule_GetPointer(ptr %capsule, ptr null)
  %nd_wide = sext i32 (load i32, ptr %array->nd) to i64
  %item_wide = sext i32 (load i32, ptr %array->itemsize) to i64
  %shape = load ptr, ptr %array->shape
  %strides = load ptr, ptr %array->strides
  %data = load i64, ptr %array->data
  %is_elem = icmp eq i64 (zext i8 (load i8, ptr %array->typekind) to i64), (load i64, ptr %param->elem)
  %is_item = icmp eq i64 %item_wide, (load i64, ptr %param->item)
  %wanted_flags = load i64, ptr %param->flags
  %held_flags = and i64 (zext i32 (load i32, ptr %array->array_flags) to i64), %wanted_flags
  %is_flags = icmp eq i64 %held_flags, %wanted_flags
  %is_array1 = and i1 (and i1 %is_elem, %is_item), %is_flags
  %is_only_read = icmp eq i64 (load i64, ptr %param->written), 0
dim:
  %d = phi i64 [ %nd_wide, %array_read ], [ %d_next, %dim_body ]
  %is_right = phi i1 [ %is_array1, %array_read ], [ %is_right_next, %dim_body ]
  %extent = phi i64 [ %item_wide, %array_read ], [ %extent_next, %dim_body ]
  br i1 (icmp sgt i64 %d, 0), label %dim_body, label %array_end_known
dim_body:
  %d_next = sub i64 %d, 1
  %size = load i64, ptr %shape[i64 %d_next]
  %stride = load i64, ptr %strides[i64 %d_next]
  %last = sub i64 %size, 1
  %reach = mul i64 %last, %stride
  %extent_next = add i64 %extent, %reach
  ; what has no elements, what goes back, and what is written and does not step over all dims behind, is asked about
  %is_some_forward = and i1 (icmp sge i64 %last, 0), (icmp sge i64 %reach, 0)
  %is_apart = or i1 (or i1 (icmp sge i64 %stride, %extent), (icmp eq i64 %last, 0)), %is_only_read
  %is_right_next = and i1 (and i1 %is_right, %is_some_forward), %is_apart
  br label %dim
array_end_known:
  %array_end = add i64 %data, %extent
  call void @Py_DecRef(ptr %capsule)
  br i1 %is_right, label %found, label %asking

of_tensor:
  br i1 (call i1 @gf.is(ptr %value, $is_cpu, i1 false, $true)), label %tensor_typed, label %otherwise
tensor_typed:
  %is_dtype = call i1 @gf.is(ptr %value, $dtype, i1 false, ptr (load ptr, ptr %param->dtype))
  br i1 %is_dtype, label %tensor_laid_out, label %asking
tensor_laid_out:
  %is_strided = call i1 @gf.is(ptr %value, $layout, i1 false, ptr (load ptr, ptr %table->strided))
  br i1 %is_strided, label %tensor_signed, label %asking
tensor_signed:
  br i1 (call i1 @gf.is(ptr %value, $is_neg, i1 true, $false)), label %tensor_read, label %asking
tensor_read:
  %tensor_data = call i64 @gf.number(ptr %value, $data_ptr, i1 true)
  br i1 (icmp ne i64 %tensor_data, 0), label %tensor_spanned, label %asking
tensor_spanned:
  %any_strides = and i1 (icmp eq i64 %pair_count, 0), (icmp eq i64 (load i64, ptr %param->written), 0)
  br i1 %any_strides, label %found, label %tensor_dense
tensor_dense:
  %is_dense = call i1 @gf.is(ptr %value, $is_contiguous, i1 true, $true)
  %tensor_end = add i64 %tensor_data, (call i64 @gf.number(ptr %value, $nbytes, i1 false))
  br i1 %is_dense, label %found, label %asking

of_integer:
  %number = call i64 @PyLong_AsLongLongAndOverflow(ptr %value, ptr %overflow)
  %is_low_enough = icmp sle i64 %number, (load i64, ptr %param->high)
  %in_range = and i1 (icmp sge i64 %number, (load i64, ptr %param->low)), %is_low_enough
  br i1 (and i1 %in_range, (icmp eq i32 (load i32, ptr %overflow), 0)), label %found, label %asking
of_f32:
  %rounded = fptrunc double (call double @PyFloat_AsDouble(ptr %value)) to float
  %bits = bitcast float %rounded to i32
  %bits_wide = zext i32 %bits to i64
  br label %found
of_f64:
  %double_bits = bitcast double (call double @PyFloat_AsDouble(ptr %value)) to i64
  br label %found

asking:
  %answer = call ptr (ptr, ...) @PyObject_CallFunctionObjArgs(ptr (load ptr, ptr %param->ask), ptr %value, ptr null)
  br i1 (icmp ne ptr %answer, null), label %answered, label %raise
answered:
  br i1 (icmp eq $none, %answer), label %answered_none, label %known
answered_none:
  call void @Py_DecRef(ptr %answer)
  br label %otherwise
known:
  %slot_said = call i64 @PyLong_AsUnsignedLongLongMask(ptr (call ptr @PyTuple_GetItem(ptr %answer, i64 0)))
  %end_said = call i64 @PyLong_AsUnsignedLongLongMask(ptr (call ptr @PyTuple_GetItem(ptr %answer, i64 1)))
  call void @Py_DecRef(ptr %answer)
  br label %store

found:
  %slot_found = phi i64 [ %data, %array_end_known ],
    [ %tensor_data, %tensor_spanned ], [ %tensor_data, %tensor_dense ],
    [ %number, %of_integer ], [ %bits_wide, %of_f32 ], [ %double_bits, %of_f64 ]
  %end_found = phi i64 [ %array_end, %array_end_known ], [ 0, %tensor_spanned ], [ %tensor_end, %tensor_dense ],
    [ 0, %of_integer ], [ 0, %of_f32 ], [ 0, %of_f64 ]
  %rest = srem i64 %slot_found, (load i64, ptr %param->divisor)
  br i1 (icmp eq i64 %rest, 0), label %store, label %asking
store:
  %slot = phi i64 [ %slot_found, %found ], [ %slot_said, %known ]
  %end = phi i64 [ %end_found, %found ], [ %end_said, %known ]
  store i64 %slot, ptr %slots[i64 %i], align 1
  store i64 %end, ptr %ends[i64 %i], align 1
  %facts_kept = load i64, ptr %param->facts_kept
  %power = call i64 @llvm.cttz.i64(i64 (or i64 %slot, $most), i1 true)
  %positive = select i1 (icmp eq i64 %facts_kept, 1), i1 (icmp sgt i64 %slot, 0), i1 (icmp ne i64 %slot, 0)
  %facts_of_it = or i64 %power, (select i1 %positive, i64 8, i64 0)
  %fact = trunc i64 (select i1 (icmp ne i64 %facts_kept, 0), i64 %facts_of_it, i64 0) to i8
  store i8 %fact, ptr %facts[i8 %i]
next:
  %i_next = add i64 %i, 1
  br label %head

all_read:
  %pairs = getelementptr %gf.param, ptr %params, i64 %n
pair:
  %k = phi i64 [ 0, %all_read ], [ %k_next, %pair_body ]
  br i1 (icmp slt i64 %k, %pair_count), label %pair_body, label %done
pair_body:
  %pair_at = getelementptr %gf.pair, ptr %pairs, i64 %k
  %first = load i64, ptr %pair_at->first
  %second = load i64, ptr %pair_at->second
  %is_before = icmp ule i64 (load i64, ptr %ends[i64 %first]), (load i64, ptr %slots[i64 %second])
  %is_behind = icmp ule i64 (load i64, ptr %ends[i64 %second]), (load i64, ptr %slots[i64 %first])
  %k_next = add i64 %k, 1
  br i1 (or i1 %is_before, %is_behind), label %pair, label %otherwise
done:
  ret ptr %seen
otherwise:
  call void @Py_DecRef(ptr %seen)
  call void @Py_IncRef($none)
  ret $none
raise:
  call void @Py_DecRef(ptr %seen)
raise_at_once:
  ret ptr null
not_so:
  call void @Py_IncRef($false)
  ret $false
}

define ptr @$launch(ptr %self, ptr %seen) nounwind {
entry:
  %table = call ptr @PyBytes_AsString(ptr %self)
  %kernel = load ptr, ptr %table
  %scratch = alloca i8, i64 (load i64, ptr %table[i64 1]), align 64
  %seen_bytes = call ptr @PyBytes_AsString(ptr %seen)
  %programs = load i64, ptr %seen_bytes
  br i1 (icmp sgt i64 %programs, 0), label %run, label %done
run:
  %args = getelementptr i64, ptr %seen_bytes, i64 1
  %state = call ptr @PyEval_SaveThread()
  call void %kernel(ptr %args, i64 0, i64 %programs, ptr %scratch)
  call void @PyEval_RestoreThread(ptr %state)
done:
  call void @Py_IncRef($none)
  ret $none
}
""")


class _Method(ctypes.Structure):
    """A PyMethodDef. Functions own it as the module that they are from, and it the code."""

    library: Library
    _fields_ = (
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


_FLAGS = {READ: 0x80, LAUNCH: 0x8}
"""METH_FASTCALL and METH_O."""


def reader(table: bytes) -> Callable[[Any, Sequence[Any]], Any]:
    """`read` of a table: `%gf.head`, `%gf.param` for each parameter, `%gf.pair`s. What it names it does not own."""
    return _builtin(table, _method(READ))


def launcher(kernel: int, scratch_bytes: int) -> Callable[[Seen], None]:
    """`launch` of the kernel at an address."""
    assert scratch_bytes <= MOST_SCRATCH, "stacks are small"
    return _builtin(np.array([kernel, scratch_bytes], np.int64).tobytes(), _method(LAUNCH))


def _builtin(table: bytes, method: _Method) -> Callable[..., Any]:
    return _new(ctypes.byref(method), table, method)


_new = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.py_object, ctypes.py_object)(
    ("PyCFunction_NewEx", ctypes.pythonapi)
)


@functools.cache
def _method(name: str) -> _Method:
    # threads that come first at the same time have one each, of which one is kept here
    library = _library()
    method = _Method(name.encode(), library.address(name), _FLAGS[name], None)
    method.library = library
    return method


@functools.cache
def _library() -> Library:
    objects = {name: name for name in _NAMES} | {"none": None, "true": True, "false": False, "int": int, "tuple": tuple}
    known = {name: f"ptr inttoptr (i64 {id(value)} to ptr)" for name, value in objects.items()}
    type_at = object.__basicsize__ - ctypes.sizeof(ctypes.c_void_p)
    assert ctypes.c_void_p.from_address(id(object) + type_at).value == id(type), "an object's head ends with its type"
    text = _IR.substitute(
        known, read=READ, launch=LAUNCH, type_at=type_at, most=MOST, most_programs=MOST_PROGRAMS,
        axes=len(AXES), axes_bytes=8 * len(AXES), fixed=8 + 8 * len(AXES) + 1,
        ones=f"[{', '.join(['i64 1'] * len(AXES))}]",
    )  # fmt: skip
    return load_object(codegen.object_code(with_fields(text), host_target()), [READ, LAUNCH])
