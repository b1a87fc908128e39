// Kernels in CUDA C++, as people write them: `make.py` compiles them to the PTX in this folder by NVRTC.
#include <cuda_fp16.h>


extern "C" __global__ void saxpy(float *y, const float *__restrict__ x, float a, int n) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) y[i] += a * x[i];
}

// A tree in shared memory, then one atomic a block.
extern "C" __global__ void total(float *out, const float *x, int n) {
  __shared__ float part[128];
  float sum = 0;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) sum += x[i];
  part[threadIdx.x] = sum;
  __syncthreads();
  for (int half = blockDim.x / 2; half > 0; half /= 2) {
    if (threadIdx.x < half) part[threadIdx.x] += part[threadIdx.x + half];
    __syncthreads();
  }
  if (threadIdx.x == 0) atomicAdd(out, part[0]);
}

// Tiles of 32 by 32, a column of padding against bank conflicts.
extern "C" __global__ void transpose(float *out, const float *x, int rows, int columns) {
  __shared__ float tile[32][33];
  int c = blockIdx.x * 32 + threadIdx.x, r = blockIdx.y * 32 + threadIdx.y;
  for (int i = 0; i < 32; i += blockDim.y)
    if (r + i < rows && c < columns) tile[threadIdx.y + i][threadIdx.x] = x[(r + i) * columns + c];
  __syncthreads();
  c = blockIdx.y * 32 + threadIdx.x, r = blockIdx.x * 32 + threadIdx.y;
  for (int i = 0; i < 32; i += blockDim.y)
    if (r + i < columns && c < rows) out[(r + i) * rows + c] = tile[threadIdx.x][threadIdx.y + i];
}

extern "C" __global__ void product(__half *out, const __half *a, const __half *b, int m, int n, int k) {
  __shared__ __half left[16][16], right[16][16];
  int r = blockIdx.y * 16 + threadIdx.y, c = blockIdx.x * 16 + threadIdx.x;
  float sum = 0;
  for (int begin = 0; begin < k; begin += 16) {
    left[threadIdx.y][threadIdx.x] = r < m && begin + threadIdx.x < k ? a[r * k + begin + threadIdx.x] : __half(0);
    right[threadIdx.y][threadIdx.x] = begin + threadIdx.y < k && c < n ? b[(begin + threadIdx.y) * n + c] : __half(0);
    __syncthreads();
    for (int i = 0; i < 16; i++) sum += __half2float(left[threadIdx.y][i]) * __half2float(right[i][threadIdx.x]);
    __syncthreads();
  }
  if (r < m && c < n) out[r * n + c] = __float2half(sum);
}

// A row a warp, by shuffles.
extern "C" __global__ void rows(float *out, const float *x, int rows, int columns) {
  int row = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32, lane = threadIdx.x % 32;
  if (row >= rows) return;
  float most = __int_as_float(0xff800000), sum = 0;
  for (int i = lane; i < columns; i += 32) most = fmaxf(most, x[row * columns + i]);
  for (int d = 16; d > 0; d /= 2) most = fmaxf(most, __shfl_xor_sync(~0u, most, d));
  for (int i = lane; i < columns; i += 32) sum += expf(x[row * columns + i] - most);
  for (int d = 16; d > 0; d /= 2) sum += __shfl_xor_sync(~0u, sum, d);
  for (int i = lane; i < columns; i += 32) out[row * columns + i] = expf(x[row * columns + i] - most) / sum;
}

// The last block to arrive adds up what all have left.
__device__ unsigned arrived;
extern "C" __global__ void last_block(double *out, double *parts, const float *x, int n) {
  __shared__ double part[128];
  __shared__ bool is_last;
  double sum = 0;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) sum += sqrt((double)fabsf(x[i]));
  part[threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.x == 0) {
    for (int i = 1; i < blockDim.x; i++) sum += part[i];
    parts[blockIdx.x] = sum;
    __threadfence();
    is_last = atomicAdd(&arrived, 1u) == gridDim.x - 1;
    __threadfence();
  }
  __syncthreads();
  if (is_last && threadIdx.x == 0) {
    double all = 0;
    for (int i = 0; i < gridDim.x; i++) all += parts[i];
    *out = all;
  }
}

__device__ __noinline__ float smooth(const float *x, int i, int n) {
  float sum = 0;
  for (int d = -2; d <= 2; d++) sum += x[min(max(i + d, 0), n - 1)];
  return sum / 5;
}
extern "C" __global__ void called(float *out, const float *x, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = smooth(x, i, n) + sinf(x[i]) * powf(fabsf(x[i]), 1.5f);
}

// Memory of a thread's own, found by an index, and a switch.
extern "C" __global__ void local(int *out, const int *x, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x, seen[8];
  for (int k = 0; k < 8; k++) seen[k] = k * k;
  if (i >= n) return;
  switch (x[i] % 6) {
    case 0: seen[x[i] & 7] = 1; break;
    case 1: seen[x[i] & 7] += 5; break;
    case 2: seen[(x[i] >> 1) & 7] = __popc(x[i]); break;
    case 3: seen[0] = __clz(x[i]); break;
    case 4: seen[x[i] & 3] = x[i] / 7; break;
    default: seen[7] = x[i] % 11;
  }
  int sum = 0;
  for (int k = 0; k < 8; k++) sum += seen[k] * (k + 1);
  out[i] = sum;
}

extern "C" __global__ void ballots(int *counts, unsigned *masks, const int *x, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  bool odd = i < n && x[i] % 2;
  unsigned mask = __ballot_sync(~0u, odd);
  if (threadIdx.x % 32 == 0) masks[i / 32] = mask;
  if (odd) atomicAdd(&counts[x[i] % 10], 1);
  if (__any_sync(~0u, odd) && threadIdx.x % 32 == 0) atomicMax(&counts[10], __popc(mask));
}
