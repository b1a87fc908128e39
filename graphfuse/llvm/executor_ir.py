"""The native launch loop: owns the LLVM IR of the thread pool and of the order of launches.

It does not compile, load or call that IR, and it knows nothing of kernels beyond their signature.

Symbols (C ABI), see `executor_ir`:

| symbol | does |
|---|---|
| `ptr gf_pool_create(i64 threads)` | a pool of `threads` (the caller is one); null on failure |
| `void gf_pool_destroy(ptr pool)` | stops, joins and frees; after a fork only frees |
| `void gf_pool_scratch(ptr pool, ptr base, i64 stride)` | thread t gets `base + t * stride` |
| `i64 gf_run(ptr pool, ptr launches, i64 n)` | the launches in order; returns 0 |
| `i64 gf_run_profiled(ptr pool, ptr launches, i64 n, ptr ns_out)` | also n times, in ns |

A launch is `{ ptr fn; ptr args; i64 grid; i64 chunk }` (`LAUNCH_BYTES`), and `fn` is
`void (ptr args, i64 begin, i64 end, ptr scratch)`. A launch with `chunk >= grid`, or in a pool of
one thread, is one direct call on the caller. Any other is dealt out in chunks to all threads, and
ends before the next begins, with everything it wrote visible to the next.

One pool serves one `gf_run` at a time: the caller holds a lock around it. `gf_pool_scratch` and
`gf_pool_destroy` are also for the holder of that lock.

How chunks are claimed. `work` holds the number of unclaimed chunks. To publish a launch the caller
writes the launch's fields, then `pending = chunks`, then `work = chunks` (release). To claim, a
thread subtracts one: the old value is its ticket, and only a positive ticket is a claim. So
whether a claim is valid is decided by that one atomic alone, never by a field that may be stale.
A holder of a ticket keeps its launch alive, as the caller waits for `pending == 0` and a ticket is
only taken off `pending` after its chunk ran; therefore the fields read after a valid claim are
those of its own launch. A thread that comes late to launch i finds no positive value, or takes a
valid ticket of launch i+1. No thread has to check in: a worker that the system has not scheduled
delays nobody.

Which chunk a ticket is for. Each thread has a part of the chunks, side by side, of which `taken`
counts the claimed ones; when its own is done it goes on to the part behind. There are as many tickets
as chunks, so that a holder finds one. So what a thread reads lies in one run of memory, and what it
asks for ahead at the end of a chunk is its own next one. Programs may wait for those before them: the
caller, whose part is the first, leaves none behind.

How workers wait. They spin on `work` for `SPIN_NS`, then look at it between yields of the processor
for `LINGER_NS`, then sleep, off the caller's processor (`executor_place_ir`). Sleepers raise `asleep`
*before* a last look at `work`, and the caller looks at `asleep` *after* it published; both are
sequentially consistent, so one of them sees the other. `generation` is what they sleep on, and it is
read before `asleep` is raised, so a wake between the two is not lost.
"""

from string import Template
from typing import Final

from graphfuse.llvm.executor_place_ir import place_ir
from graphfuse.llvm.fields import with_fields

LAUNCH_BYTES: Final = 32
"""Of `%gf.launch`: four slots."""
SPIN_NS: Final = 40_000
"""Chosen: longer than most gaps between the launches of a run, far shorter than a time slice."""
LINGER_NS: Final = 2_000_000
"""Chosen: longer than a long launch on one thread, and than what a caller does between two runs. To wake a thread takes
50 us and more, as long as many a run. OpenMP's threads spin for milliseconds, too, and yield to nobody."""

# futex(2); an architecture that is not listed sleeps on a condition variable.
_FUTEX_NUMBER: Final = {"x86_64": 202, "aarch64": 98, "riscv64": 98}
_X86: Final = frozenset({"x86_64", "x86", "i386", "i686"})

_CORE: Final = Template("""\
; graphfuse executor: thread pool and launch loop

%gf.launch = type { fn: ptr, args: ptr, grid: i64, chunk: i64 }
; 128 bytes apart: two cache lines, as the adjacent-line prefetcher couples pairs of them
%gf.pool = type {
  work: i64, [120 x i8],        ; chunks not yet claimed (<= 0: none)
  pending: i64, [120 x i8],     ; chunks not yet finished
  launch: ptr, chunks: i64, chunk_size: i64, [104 x i8],
  generation: i32, asleep: i32, stop: i32, home: i32, [112 x i8], ; home: where the caller runs
  base: ptr, stride: i64, threads: i64, pid: i64, [96 x i8], ; of scratch memory; of the pool
  mutex: [128 x i8],            ; where sleeping needs one
  condition: [128 x i8],
  woken: i64, taken: ptr, [112 x i8] ; when sleepers were last woken, in ns; how many chunks of each part are claimed
}
; one per worker, after the pool: its pool, its number, its pthread_t, until when it sleeps anywhere, in ns
%gf.worker = type { pool: ptr, number: i64, handle: i64, anywhere: i64 }
%gf.time = type { seconds: i64, part: i64 }

declare i32 @pthread_create(ptr, ptr, ptr, ptr)
declare i32 @pthread_join(i64, ptr)
declare i32 @sched_yield()
declare i32 @getpid()
declare i32 @posix_memalign(ptr, i64, i64)
declare void @free(ptr)
declare i32 @clock_gettime(i32, ptr)
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
declare i64 @llvm.smax.i64(i64, i64)
declare i64 @llvm.smin.i64(i64, i64)
$wait_declarations

define internal i64 @gf.now() nounwind {
  %time = alloca %gf.time
  %status = call i32 @clock_gettime(i32 $clock, ptr %time)
  %seconds = load i64, ptr %time->seconds
  %part = load i64, ptr %time->part
  ret i64 (add i64 (mul i64 %seconds, 1000000000), %part)
}

define internal void @gf.pause() alwaysinline nounwind {
  $pause
  ret void
}

$wait_functions

$place_functions

define internal ptr @gf.scratch(ptr %pool, i64 %thread) alwaysinline nounwind {
  %base = load ptr, ptr %pool->base
  %offset = mul i64 (load i64, ptr %pool->stride), %thread
  ret ptr (getelementptr i8, ptr %base, i64 %offset)
}

; the first chunk of a thread's part of a launch
define internal i64 @gf.part(i64 %chunks, i64 %threads, i64 %thread) alwaysinline nounwind {
  ret i64 (udiv i64 (mul i64 %chunks, %thread), %threads)
}

; claim the next chunk of a thread's own part, then of those behind it; for a holder of a ticket
define internal i64 @gf.next(ptr %pool, i64 %chunks, i64 %thread) nounwind {
entry:
  %threads = load i64, ptr %pool->threads
  %taken = load ptr, ptr %pool->taken
look:
  %part = phi i64 [ %thread, %entry ], [ %part_next, %behind ]
  %first = call i64 @gf.part(i64 %chunks, i64 %threads, i64 %part)
  %after = add i64 %part, 1
  %end = call i64 @gf.part(i64 %chunks, i64 %threads, i64 %after)
  %size = sub i64 %end, %first
  %at = getelementptr i64, ptr %taken, i64 %part
  %seen = load atomic i64, ptr %at monotonic, align 8
  br i1 (icmp slt i64 %seen, %size), label %take, label %behind
take:
  %old = atomicrmw add ptr %at, i64 1 monotonic
  br i1 (icmp slt i64 %old, %size), label %found, label %behind
behind:
  %part_next = select i1 (icmp eq i64 %after, %threads), i64 0, i64 %after
  br label %look
found:
  ret i64 (add i64 %first, %old)
}

; claim and run chunks until none is left, then report how many were run
define internal void @gf.participate(ptr %pool, i64 %thread) nounwind {
entry:
look:
  %finished = phi i64 [ 0, %entry ], [ %finished_next, %run ]
  ; a look costs no ownership of the line, a failed subtraction would
  %left = load atomic i64, ptr %pool->work monotonic, align 8
  br i1 (icmp sgt i64 %left, 0), label %claim, label %report
claim:
  %ticket = atomicrmw sub ptr %pool->work, i64 1 acquire
  br i1 (icmp sgt i64 %ticket, 0), label %run, label %report
run:
  %launch = load ptr, ptr %pool->launch
  %chunks = load i64, ptr %pool->chunks
  %chunk = load i64, ptr %pool->chunk_size
  %fn = load ptr, ptr %launch->fn
  %args = load ptr, ptr %launch->args
  %grid = load i64, ptr %launch->grid
  %begin = mul i64 (call i64 @gf.next(ptr %pool, i64 %chunks, i64 %thread)), %chunk
  %end = add i64 %begin, (call i64 @llvm.smin.i64(i64 %chunk, i64 (sub i64 %grid, %begin)))
  call void %fn(ptr %args, i64 %begin, i64 %end, ptr (call ptr @gf.scratch(ptr %pool, i64 %thread)))
  %finished_next = add i64 %finished, 1
  br label %look
report:
  br i1 (icmp ne i64 %finished, 0), label %subtract, label %done
subtract:
  %before = atomicrmw sub ptr %pool->pending, i64 %finished acq_rel
done:
  ret void
}

; returns on work, on stop, or after the spin bound; the three are told apart by the caller
define internal void @gf.spin(ptr %pool) nounwind {
entry:
look:
  %count = phi i64 [ 0, %entry ], [ %count_next, %pause ], [ 0, %clock ]
  ; zero until the clock was first read: between two short launches it never is
  %deadline = phi i64 [ 0, %entry ], [ %deadline, %pause ], [ %deadline_set, %clock ]
  %left = load atomic i64, ptr %pool->work monotonic, align 8
  br i1 (icmp sgt i64 %left, 0), label %done, label %pause
pause:
  call void @gf.pause()
  %count_next = add i64 %count, 1
  br i1 (icmp ult i64 %count_next, 32), label %look, label %clock
clock:
  %stop = load atomic i32, ptr %pool->stop monotonic, align 4
  %now = call i64 @gf.now()
  %deadline_first = add i64 %now, $spin_ns
  %deadline_set = select i1 (icmp eq i64 %deadline, 0), i64 %deadline_first, i64 %deadline
  %early = icmp slt i64 %now, %deadline_set
  br i1 (and i1 %early, (icmp eq i32 %stop, 0)), label %look, label %done
done:
  ret void
}

define internal ptr @gf.work(ptr %worker) nounwind {
entry:
  %pool = load ptr, ptr %worker->pool
  %thread = load i64, ptr %worker->number
spin:
  call void @gf.spin(ptr %pool)
  %until = add i64 (call i64 @gf.now()), $linger_ns
look:
  %left = load atomic i64, ptr %pool->work monotonic, align 8
  br i1 (icmp sgt i64 %left, 0), label %participate, label %idle
participate:
  call void @gf.participate(ptr %pool, i64 %thread)
  br label %spin
idle:
  %stop = load atomic i32, ptr %pool->stop monotonic, align 4
  br i1 (icmp ne i32 %stop, 0), label %done, label %tired
tired:
  %now = call i64 @gf.now()
  %well_placed = call i1 @gf.is_well_placed(ptr %pool, ptr %worker, i64 %now)
  br i1 (and i1 %well_placed, (icmp slt i64 %now, %until)), label %yield, label %lie_down
yield:
  %yielded = call i32 @sched_yield()
  br label %look
lie_down:
  %generation = load atomic i32, ptr %pool->generation seq_cst, align 4
  store atomic i32 1, ptr %pool->asleep seq_cst, align 4
  %left_last = load atomic i64, ptr %pool->work seq_cst, align 8
  %stop_last = load atomic i32, ptr %pool->stop seq_cst, align 4
  br i1 (or i1 (icmp sgt i64 %left_last, 0), (icmp ne i32 %stop_last, 0)), label %spin, label %sleep
sleep:
  call void @gf.lie_down(ptr %pool, ptr %worker, i32 %generation)
  br label %spin
done:
  ret ptr null
}

; wake all sleepers, if any sleeps
define internal void @gf.rouse(ptr %pool) nounwind {
entry:
  %asleep = load atomic i32, ptr %pool->asleep seq_cst, align 4
  br i1 (icmp ne i32 %asleep, 0), label %take, label %done
take:
  ; lowered here, not by the woken: they take tens of us, and each launch would wake again
  %was = atomicrmw xchg ptr %pool->asleep, i32 0 seq_cst
  store atomic i64 (call i64 @gf.now()), ptr %pool->woken monotonic, align 8
  call void @gf.wake(ptr %pool)
done:
  ret void
}

define internal i1 @gf.is_shared(ptr %launch, i64 %threads) alwaysinline nounwind {
  %grid = load i64, ptr %launch->grid
  %chunk = call i64 @llvm.smax.i64(i64 (load i64, ptr %launch->chunk), i64 1)
  %several_chunks = icmp slt i64 %chunk, %grid
  ret i1 (and i1 %several_chunks, (icmp sgt i64 %threads, 1))
}

define internal void @gf.launch_shared(ptr %pool, ptr %launch) nounwind {
entry:
  %grid = load i64, ptr %launch->grid
  %chunk = call i64 @llvm.smax.i64(i64 (load i64, ptr %launch->chunk), i64 1)
  %chunks = add i64 (udiv i64 (sub i64 %grid, 1), %chunk), 1
  store ptr %launch, ptr %pool->launch
  store i64 %chunks, ptr %pool->chunks
  store i64 %chunk, ptr %pool->chunk_size
  %parts = mul i64 (load i64, ptr %pool->threads), 8
  call void @llvm.memset.p0.i64(ptr (load ptr, ptr %pool->taken), i8 0, i64 %parts, i1 false)
  store atomic i64 %chunks, ptr %pool->pending monotonic, align 8
  store atomic i64 %chunks, ptr %pool->work seq_cst, align 8
  call void @gf.rouse(ptr %pool)
  call void @gf.participate(ptr %pool, i64 0)
wait:
  %spins = phi i64 [ 0, %entry ], [ %spins_next, %pause ], [ %spins, %yield ]
  %pending = load atomic i64, ptr %pool->pending acquire, align 8
  br i1 (icmp eq i64 %pending, 0), label %done, label %more
more:
  br i1 (icmp ult i64 %spins, $caller_spins), label %pause, label %yield
pause:
  call void @gf.pause()
  %spins_next = add i64 %spins, 1
  br label %wait
yield:
  ; whoever holds the last chunk may be waiting for this very processor
  %yielded = call i32 @sched_yield()
  br label %wait
done:
  ret void
}

define internal void @gf.launch_direct(ptr %pool, ptr %launch) nounwind {
entry:
  %grid = load i64, ptr %launch->grid
  br i1 (icmp sgt i64 %grid, 0), label %run, label %done
run:
  %fn = load ptr, ptr %launch->fn
  %args = load ptr, ptr %launch->args
  call void %fn(ptr %args, i64 0, i64 %grid, ptr (call ptr @gf.scratch(ptr %pool, i64 0)))
done:
  ret void
}

; wake sleepers ahead of the first shared launch, if there is one
define internal void @gf.prepare(ptr %pool, ptr %launches, i64 %n, i64 %threads) nounwind {
entry:
scan:
  %i = phi i64 [ 0, %entry ], [ %i_next, %next ]
  br i1 (icmp slt i64 %i, %n), label %next, label %done
next:
  %launch = getelementptr %gf.launch, ptr %launches, i64 %i
  %shared = call i1 @gf.is_shared(ptr %launch, i64 %threads)
  %i_next = add i64 %i, 1
  br i1 %shared, label %found, label %scan
found:
  call void @gf.note_home(ptr %pool)
  call void @gf.rouse(ptr %pool)
done:
  ret void
}

define internal void @gf.execute(ptr %pool, ptr %launches, i64 %n, ptr %ns_out) nounwind {
entry:
  %threads = load i64, ptr %pool->threads
  %profiled = icmp ne ptr %ns_out, null
  call void @gf.prepare(ptr %pool, ptr %launches, i64 %n, i64 %threads)
head:
  %i = phi i64 [ 0, %entry ], [ %i_next, %next ]
  br i1 (icmp slt i64 %i, %n), label %body, label %done
body:
  %launch = getelementptr %gf.launch, ptr %launches, i64 %i
  br i1 %profiled, label %start_clock, label %choose
start_clock:
  %now = call i64 @gf.now()
choose:
  %start = phi i64 [ 0, %body ], [ %now, %start_clock ]
  br i1 (call i1 @gf.is_shared(ptr %launch, i64 %threads)), label %all, label %one
all:
  call void @gf.launch_shared(ptr %pool, ptr %launch)
  br label %ran
one:
  call void @gf.launch_direct(ptr %pool, ptr %launch)
ran:
  br i1 %profiled, label %stop_clock, label %next
stop_clock:
  store i64 (sub i64 (call i64 @gf.now()), %start), ptr %ns_out[i64 %i]
next:
  %i_next = add i64 %i, 1
  br label %head
done:
  ret void
}

define i64 @gf_run(ptr %pool, ptr %launches, i64 %n) nounwind {
  call void @gf.execute(ptr %pool, ptr %launches, i64 %n, ptr null)
  ret i64 0
}

define i64 @gf_run_profiled(ptr %pool, ptr %launches, i64 %n, ptr %ns_out) nounwind {
  call void @gf.execute(ptr %pool, ptr %launches, i64 %n, ptr %ns_out)
  ret i64 0
}

define void @gf_pool_scratch(ptr %pool, ptr %base, i64 %stride) nounwind {
  store ptr %base, ptr %pool->base
  store i64 %stride, ptr %pool->stride
  ret void
}

define ptr @gf_pool_create(i64 %threads) nounwind {
entry:
  %pool_at = alloca ptr
  br i1 (icmp sgt i64 %threads, 0), label %allocate, label %failed
allocate:
  %workers = sub i64 %threads, 1
  %pool_bytes = ptrtoint ptr (getelementptr %gf.pool, ptr null, i64 1) to i64
  %workers_bytes = ptrtoint ptr (getelementptr %gf.worker, ptr null, i64 %workers) to i64
  %records = add i64 %pool_bytes, %workers_bytes
  %bytes = add i64 %records, (mul i64 %threads, 8)
  %status = call i32 @posix_memalign(ptr %pool_at, i64 128, i64 %bytes)
  br i1 (icmp eq i32 %status, 0), label %fill, label %failed
fill:
  %pool = load ptr, ptr %pool_at
  call void @llvm.memset.p0.i64(ptr %pool, i8 0, i64 %bytes, i1 false)
  store ptr (getelementptr i8, ptr %pool, i64 %records), ptr %pool->taken
  call void @gf.wait_init(ptr %pool)
  ; workers lie down before the first run
  call void @gf.note_home(ptr %pool)
  store i64 (zext i32 (call i32 @getpid()) to i64), ptr %pool->pid
  ; counts the threads that exist, so that a failure half way can be undone by destroy
  store i64 1, ptr %pool->threads
  %first = getelementptr %gf.pool, ptr %pool, i64 1
head:
  %i = phi i64 [ 0, %fill ], [ %i_next, %created ]
  br i1 (icmp slt i64 %i, %workers), label %start, label %done
start:
  %worker = getelementptr %gf.worker, ptr %first, i64 %i
  store ptr %pool, ptr %worker
  %i_next = add i64 %i, 1
  store i64 %i_next, ptr %worker->number
  %started = call i32 @pthread_create(ptr %worker->handle, ptr null, ptr @gf.work, ptr %worker)
  br i1 (icmp eq i32 %started, 0), label %created, label %undo
created:
  store i64 (add i64 %i_next, 1), ptr %pool->threads
  br label %head
undo:
  call void @gf_pool_destroy(ptr %pool)
failed:
  ret ptr null
done:
  ret ptr %pool
}

define void @gf_pool_destroy(ptr %pool) nounwind {
entry:
  br i1 (icmp eq ptr %pool, null), label %done, label %whose
whose:
  %pid = load i64, ptr %pool->pid
  %is_own = icmp eq i64 %pid, (zext i32 (call i32 @getpid()) to i64)
  ; in a forked child the workers do not exist: joining one would never return
  br i1 %is_own, label %stop, label %release
stop:
  store atomic i32 1, ptr %pool->stop seq_cst, align 4
  call void @gf.wake(ptr %pool)
  %workers = sub i64 (load i64, ptr %pool->threads), 1
  %first = getelementptr %gf.pool, ptr %pool, i64 1
head:
  %i = phi i64 [ 0, %stop ], [ %i_next, %join ]
  br i1 (icmp slt i64 %i, %workers), label %join, label %release
join:
  %worker = getelementptr %gf.worker, ptr %first, i64 %i
  %joined = call i32 @pthread_join(i64 (load i64, ptr %worker->handle), ptr null)
  %i_next = add i64 %i, 1
  br label %head
release:
  call void @free(ptr %pool)
done:
  ret void
}
""")

# FUTEX_WAIT_PRIVATE is 128, FUTEX_WAKE_PRIVATE is 129.
_FUTEX: Final = Template("""\
define internal void @gf.wait_init(ptr %pool) alwaysinline nounwind {
  ret void
}

define internal void @gf.sleep(ptr %pool, i32 %generation) nounwind {
  %status = call i64 (i64, ...) @syscall(i64 $number, ptr %pool->generation, i64 128, i32 %generation, ptr null)
  ret void
}

define internal void @gf.wake(ptr %pool) nounwind {
  %before = atomicrmw add ptr %pool->generation, i32 1 seq_cst
  %status = call i64 (i64, ...) @syscall(i64 $number, ptr %pool->generation, i64 129, i64 2147483647)
  ret void
}""")

_CONDITION: Final = """\
define internal void @gf.wait_init(ptr %pool) nounwind {
  %mutex_status = call i32 @pthread_mutex_init(ptr %pool->mutex, ptr null)
  %condition_status = call i32 @pthread_cond_init(ptr %pool->condition, ptr null)
  ret void
}

define internal void @gf.sleep(ptr %pool, i32 %generation) nounwind {
entry:
  %locked = call i32 @pthread_mutex_lock(ptr %pool->mutex)
look:
  %now = load atomic i32, ptr %pool->generation monotonic, align 4
  br i1 (icmp eq i32 %now, %generation), label %wait, label %done
wait:
  %waited = call i32 @pthread_cond_wait(ptr %pool->condition, ptr %pool->mutex)
  br label %look
done:
  %unlocked = call i32 @pthread_mutex_unlock(ptr %pool->mutex)
  ret void
}

define internal void @gf.wake(ptr %pool) nounwind {
  %locked = call i32 @pthread_mutex_lock(ptr %pool->mutex)
  %before = atomicrmw add ptr %pool->generation, i32 1 seq_cst
  %woken = call i32 @pthread_cond_broadcast(ptr %pool->condition)
  %unlocked = call i32 @pthread_mutex_unlock(ptr %pool->mutex)
  ret void
}"""

_CONDITION_DECLARATIONS: Final = """\
declare i32 @pthread_mutex_init(ptr, ptr)
declare i32 @pthread_mutex_lock(ptr)
declare i32 @pthread_mutex_unlock(ptr)
declare i32 @pthread_cond_init(ptr, ptr)
declare i32 @pthread_cond_wait(ptr, ptr)
declare i32 @pthread_cond_broadcast(ptr)"""


def executor_ir(arch: str = "x86_64", os: str = "linux") -> str:
    """Return the LLVM IR of the executor for a 64-bit POSIX system.

    Args:
        arch: the first part of the target triple; it picks the pause instruction.
        os: `linux` sleeps on a futex, any other name on a POSIX condition variable.
    """
    is_x86 = arch in _X86
    uses_futex = os == "linux" and arch in _FUTEX_NUMBER
    declarations = "declare i64 @syscall(i64, ...)" if uses_futex else _CONDITION_DECLARATIONS
    if is_x86:
        declarations += "\ndeclare void @llvm.x86.sse2.pause()"
        pause = "call void @llvm.x86.sse2.pause()"
    else:
        pause = 'fence syncscope("singlethread") seq_cst'
    functions = _CONDITION
    if uses_futex:
        functions = _FUTEX.substitute(number=_FUTEX_NUMBER[arch])
    text = _CORE.substitute(
        wait_declarations=declarations,
        wait_functions=functions,
        place_functions=place_ir(os),
        pause=pause,
        clock=6 if os == "darwin" else 1,
        spin_ns=SPIN_NS,
        linger_ns=LINGER_NS,
        # about SPIN_NS: a pause is 10 to 50 ns, a fence that emits nothing about 1
        caller_spins=1_000 if is_x86 else 20_000,
    )
    return with_fields(text)
