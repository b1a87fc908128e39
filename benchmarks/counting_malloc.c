/* A malloc that counts: the bytes of live blocks of at least LEAST bytes, and the most there have been.

   cc -O2 -shared -fPIC -o counting_malloc.so counting_malloc.c
   LD_PRELOAD=./counting_malloc.so python ...      ctypes.CDLL(None).counted_peak()

Of glibc, whose own functions do the work. Small blocks are left out: those are objects of interpreters and compilers,
of which a process keeps as many as it has compiled; tensors, buffers and copies are large. */

#include <errno.h>
#include <malloc.h>
#include <stdatomic.h>
#include <stddef.h>

#define LEAST (64 * 1024)

extern void *__libc_malloc(size_t);
extern void *__libc_calloc(size_t, size_t);
extern void *__libc_realloc(void *, size_t);
extern void *__libc_memalign(size_t, size_t);
extern void __libc_free(void *);

static atomic_llong live, peak;

static void count(long long bytes) {
    long long now = atomic_fetch_add(&live, bytes) + bytes;
    long long most = atomic_load(&peak);
    while (now > most && !atomic_compare_exchange_weak(&peak, &most, now)) {}
}

static long long counted(void *block) {
    size_t bytes = block ? malloc_usable_size(block) : 0;
    return bytes >= LEAST ? (long long)bytes : 0;
}

static void *made(void *block) {
    long long bytes = counted(block);
    if (bytes) count(bytes);
    return block;
}

void *malloc(size_t bytes) { return made(__libc_malloc(bytes)); }

void *calloc(size_t n, size_t bytes) { return made(__libc_calloc(n, bytes)); }

void *memalign(size_t alignment, size_t bytes) { return made(__libc_memalign(alignment, bytes)); }

void *aligned_alloc(size_t alignment, size_t bytes) { return made(__libc_memalign(alignment, bytes)); }

int posix_memalign(void **out, size_t alignment, size_t bytes) {
    void *block = made(__libc_memalign(alignment, bytes));
    if (!block) return ENOMEM;
    *out = block;
    return 0;
}

void *realloc(void *block, size_t bytes) {
    long long before = counted(block);
    void *moved = __libc_realloc(block, bytes);
    if (moved || !bytes) {
        long long change = counted(moved) - before;
        if (change) count(change);
    }
    return moved;
}

void free(void *block) {
    long long bytes = counted(block);
    if (bytes) atomic_fetch_sub(&live, bytes);
    __libc_free(block);
}

/* Bytes that are live now. */
long long counted_live(void) { return atomic_load(&live); }

/* The most bytes that were live since the last `counted_forget`. */
long long counted_peak(void) { return atomic_load(&peak); }

/* Begin a new peak with what is live now. */
void counted_forget(void) { atomic_store(&peak, atomic_load(&live)); }
