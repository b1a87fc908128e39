"""Native code that gives a plan to a GPU's driver, as a loop over launches or as a graph: its LLVM IR, and it here.

| symbol | does |
|---|---|
| `i64 gf_cuda_launch(ptr launch, ptr copy, ptr records, i64 n, ptr stream, ptr failed)` | the records in order |
| `i64 gf_cuda_replay(ptr table, ptr graph, ptr stream)` | a CUDA graph, in a context that need not be the current one |

`launch` and `copy` are the addresses of `cuLaunchKernelEx` and `cuMemcpyDtoDAsync`. A record is
`{ ptr config; ptr function; ptr params }` (`RECORD_BYTES`), `config` being a CUlaunchConfig whose stream is filled in
here. Without a config it is a copy, and `params` has its source, destination and size. The result is the first CUresult
that is not 0; `failed` then gets the number of its record. `table` has the addresses of `cuCtxPushCurrent`,
`cuCtxPopCurrent` and `cuGraphLaunch`, and the context.
"""

from __future__ import annotations

import functools
from typing import Final

from graphfuse.llvm import codegen
from graphfuse.llvm.fields import with_fields
from graphfuse.llvm.host import host_target
from graphfuse.llvm.loader import Library, load_object

SYMBOL: Final = "gf_cuda_launch"
REPLAY: Final = "gf_cuda_replay"
RECORD_BYTES: Final = 24
"""Of `%gf.record`: three slots."""
CONFIG_BYTES: Final = 56
"""A CUlaunchConfig: grid and block (u32 each), bytes of shared memory, stream, attributes, their number."""
STREAM_OFFSET: Final = 32
"""Of `hStream` in a CUlaunchConfig."""

IR: Final = f"""
%gf.record = type {{ config: ptr, function: ptr, params: ptr }}

define i64 @{SYMBOL}(ptr %launch, ptr %copy, ptr %records, i64 %n, ptr %stream, ptr %failed) nounwind {{
entry:
head:
  %i = phi i64 [ 0, %entry ], [ %i_next, %next ]
  br i1 (icmp slt i64 %i, %n), label %body, label %done
body:
  %record = getelementptr %gf.record, ptr %records, i64 %i
  %config = load ptr, ptr %record->config
  %params = load ptr, ptr %record->params
  br i1 (icmp eq ptr %config, null), label %copying, label %launching
launching:
  %function = load ptr, ptr %record->function
  store ptr %stream, ptr %config[i8 {STREAM_OFFSET}]
  %launched = call i32 %launch(ptr %config, ptr %function, ptr %params, ptr null)
  br label %next
copying:
  %source = load i64, ptr %params
  %to = load i64, ptr %params[i64 1]
  %copied = call i32 %copy(i64 %to, i64 %source, i64 (load i64, ptr %params[i64 2]), ptr %stream)
next:
  %result = phi i32 [ %launched, %launching ], [ %copied, %copying ]
  %i_next = add i64 %i, 1
  br i1 (icmp eq i32 %result, 0), label %head, label %wrong
wrong:
  store i64 %i, ptr %failed
  ret i64 (zext i32 %result to i64)
done:
  ret i64 0
}}

define i64 @{REPLAY}(ptr %table, ptr %graph, ptr %stream) nounwind {{
entry:
  %before = alloca ptr
  %push = load ptr, ptr %table
  %pop = load ptr, ptr %table[ptr 1]
  %launch = load ptr, ptr %table[ptr 2]
  %pushed = call i32 %push(ptr (load ptr, ptr %table[ptr 3]))
  br i1 (icmp eq i32 %pushed, 0), label %launching, label %done
launching:
  %launched = call i32 %launch(ptr %graph, ptr %stream)
  %popped = call i32 %pop(ptr %before)
done:
  %result = phi i32 [ %pushed, %entry ], [ %launched, %launching ]
  ret i64 (zext i32 %result to i64)
}}
"""


@functools.cache
def launch_loop() -> Library:
    """Made once for each process."""
    return load_object(codegen.object_code(with_fields(IR), host_target()), [SYMBOL, REPLAY])
