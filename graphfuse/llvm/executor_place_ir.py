"""Where the executor's threads wake: owns the LLVM IR that lets workers sleep off the caller's processor.

It is about the processors of threads, not about what they run (`executor_ir`).

The caller wakes the workers and goes to work itself, so each needs a processor. Linux often wakes a thread on its
waker's processor although the one where it last ran is idle, most of all in virtual machines, where a halted processor
counts as one that the host took away. The two then share a processor for milliseconds: two threads are slower than one.
So a worker that lies down takes the caller's processor off the set that it may run on, and puts it back once it is up.
Nothing stays pinned, a set that somebody else changed meanwhile stays as it is, and where the set has no other
processor, or more than 1,024, nothing is done. The caller notes its processor when it wakes others; when it has moved,
a worker may be woken beside it once.

Where other programs keep the other processors busy, a worker waits there for its turn, and the caller for what the
worker took: then beside the caller is the better place, as the caller yields. So a worker that was up more than
`BUSY_NS` after it was woken sleeps anywhere for `ANYWHERE_NS`. Until then it may wait beside the caller for the next
run, afterwards it lies down as soon as it finds itself there.
"""

from string import Template
from typing import Final

BUSY_NS: Final = 200_000
"""An idle processor takes some 50 us, a busy one a time slice of 3 ms."""
ANYWHERE_NS: Final = 50_000_000
"""Chosen: some time slices, of which one is lost when it is tried again whether the other processors are still busy.
OpenMP's idle threads, which spin behind an operator of somebody else's, are gone by then."""

_LINUX: Final = Template("""\
declare i32 @sched_getcpu()
declare i32 @sched_getaffinity(i32, i64, ptr)
declare i32 @sched_setaffinity(i32, i64, ptr)
declare i32 @memcmp(ptr, ptr, i64)

; the caller notes its processor
define internal void @gf.note_home(ptr %pool) nounwind {
  store atomic i32 (call i32 @sched_getcpu()), ptr %pool->home monotonic, align 4
  ret void
}

; copy a set of 1,024 processors without one of them: whether any other is left
define internal i1 @gf.set_without(ptr %set, ptr %rest, i32 %processor) nounwind {
entry:
  %word = zext i32 (lshr i32 %processor, 6) to i64
  %place = zext i32 (and i32 %processor, 63) to i64
  %others = xor i64 (shl i64 1, %place), -1
each:
  %i = phi i64 [ 0, %entry ], [ %i_next, %each ]
  %any = phi i64 [ 0, %entry ], [ %any_next, %each ]
  %bits = load i64, ptr %set[i64 %i]
  %kept = select i1 (icmp eq i64 %i, %word), i64 %others, i64 -1
  %left = and i64 %bits, %kept
  store i64 %left, ptr %rest[i64 %i]
  %any_next = or i64 %any, %left
  %i_next = add i64 %i, 1
  br i1 (icmp ult i64 %i_next, 16), label %each, label %done
done:
  ret i1 (icmp ne i64 %any_next, 0)
}

; whether others were seen on the other processors not long ago
define internal i1 @gf.is_crowded(ptr %worker, i64 %now) alwaysinline nounwind {
  ret i1 (icmp slt i64 %now, (load i64, ptr %worker->anywhere))
}

; whether a worker waits where the caller does not want to run
define internal i1 @gf.is_well_placed(ptr %pool, ptr %worker, i64 %now) nounwind {
  %home = load atomic i32, ptr %pool->home monotonic, align 4
  %is_apart = icmp ne i32 %home, (call i32 @sched_getcpu())
  ret i1 (or i1 %is_apart, (call i1 @gf.is_crowded(ptr %worker, i64 %now)))
}

; sleep, off the caller's processor if others leave room there
define internal void @gf.lie_down(ptr %pool, ptr %worker, i32 %generation) nounwind {
entry:
  %allowed = alloca [16 x i64]
  %elsewhere = alloca [16 x i64]
  %found = alloca [16 x i64]
  br i1 (call i1 @gf.is_crowded(ptr %worker, i64 (call i64 @gf.now()))), label %stay, label %look
look:
  %home = load atomic i32, ptr %pool->home monotonic, align 4
  br i1 (icmp ult i32 %home, 1024), label %ask, label %stay
ask:
  %asked = call i32 @sched_getaffinity(i32 0, i64 128, ptr %allowed)
  br i1 (icmp eq i32 %asked, 0), label %choose, label %stay
choose:
  br i1 (call i1 @gf.set_without(ptr %allowed, ptr %elsewhere, i32 %home)), label %go, label %stay
go:
  %gone = call i32 @sched_setaffinity(i32 0, i64 128, ptr %elsewhere)
  call void @gf.sleep(ptr %pool, i32 %generation)
  %asked_again = call i32 @sched_getaffinity(i32 0, i64 128, ptr %found)
  %difference = call i32 @memcmp(ptr %found, ptr %elsewhere, i64 128)
  br i1 (icmp eq i32 %difference, 0), label %return, label %up
return:
  %returned = call i32 @sched_setaffinity(i32 0, i64 128, ptr %allowed)
up:
  %woken = load atomic i64, ptr %pool->woken monotonic, align 8
  %now = call i64 @gf.now()
  br i1 (icmp sgt i64 (sub i64 %now, %woken), $busy_ns), label %crowded, label %done
crowded:
  store i64 (add i64 %now, $anywhere_ns), ptr %worker->anywhere
  br label %done
stay:
  call void @gf.sleep(ptr %pool, i32 %generation)
done:
  ret void
}""")

_ELSEWHERE: Final = """\
define internal void @gf.note_home(ptr %pool) alwaysinline nounwind {
  ret void
}

define internal i1 @gf.is_well_placed(ptr %pool, ptr %worker, i64 %now) alwaysinline nounwind {
  ret i1 true
}

define internal void @gf.lie_down(ptr %pool, ptr %worker, i32 %generation) alwaysinline nounwind {
  call void @gf.sleep(ptr %pool, i32 %generation)
  ret void
}"""


def place_ir(os: str) -> str:
    """Return `gf.note_home`, `gf.is_well_placed` and `gf.lie_down`, to go with `executor_ir`'s types and `gf.sleep`.

    Args:
        os: `linux`, or another, where threads sleep wherever they are.
    """
    if os != "linux":
        return _ELSEWHERE
    return _LINUX.substitute(busy_ns=BUSY_NS, anywhere_ns=ANYWHERE_NS)
