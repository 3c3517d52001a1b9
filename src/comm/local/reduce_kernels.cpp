#include "comm/local/reduce_kernels.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "base/vector_code.h"
#include "trireme/error.h"

namespace trireme {
namespace {

// Elements added in a buffer before they are stored. Buffer and inputs fit in the first-level cache.
constexpr int64_t kBlock = 1024;

struct Bits16 {
  uint16_t bits;
};

TRIREME_INLINE float load(Bits16 value) { return float_of_bfloat16(value.bits); }
template <class T>
TRIREME_INLINE T load(T value) {
  return value;
}

TRIREME_INLINE void store(Bits16& out, float value) { out.bits = bfloat16_of_float(value); }
template <class T>
TRIREME_INLINE void store(T& out, T value) {
  out = value;
}

// Integers are added as unsigned: overflow wraps round, as in libtorch.
struct Sum {
  TRIREME_INLINE static float of(float a, float b) { return a + b; }
  TRIREME_INLINE static double of(double a, double b) { return a + b; }
  TRIREME_INLINE static int32_t of(int32_t a, int32_t b) {
    return static_cast<int32_t>(static_cast<uint32_t>(a) + static_cast<uint32_t>(b));
  }
  TRIREME_INLINE static int64_t of(int64_t a, int64_t b) {
    return static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
  }
};
struct Max {
  template <class T>
  TRIREME_INLINE static T of(T a, T b) {
    return (b > a || b != b) ? b : a;
  }
};

template <class T, class Op>
TRIREME_INLINE void reduce_pair(const T* a, const T* b, T* out_a, T* out_b, int64_t count) {
#pragma GCC ivdep
  for (int64_t i = 0; i < count; ++i) {
    T result;
    store(result, Op::of(load(a[i]), load(b[i])));
    out_a[i] = result;
    out_b[i] = result;
  }
}

template <class T, class Op>
TRIREME_INLINE void reduce_block(std::span<const void* const> inputs, std::span<void* const> outputs, int64_t begin,
                                 int64_t count) {
  using Wide = decltype(load(T{}));
  Wide sum[kBlock];
  T result[kBlock];
  const T* first = static_cast<const T*>(inputs[0]) + begin;
#pragma GCC ivdep
  for (int64_t i = 0; i < count; ++i) sum[i] = load(first[i]);
  for (const void* input : inputs.subspan(1)) {
    const T* next = static_cast<const T*>(input) + begin;
#pragma GCC ivdep
    for (int64_t i = 0; i < count; ++i) sum[i] = Op::of(sum[i], load(next[i]));
  }
#pragma GCC ivdep
  for (int64_t i = 0; i < count; ++i) store(result[i], sum[i]);
  for (void* output : outputs) std::memcpy(static_cast<T*>(output) + begin, result, count * sizeof(T));
}

template <class T, class Op>
TRIREME_INLINE void reduce_all(std::span<const void* const> inputs, std::span<void* const> outputs, int64_t count) {
  if (inputs.size() == 2 && outputs.size() == 2) {
    reduce_pair<T, Op>(static_cast<const T*>(inputs[0]), static_cast<const T*>(inputs[1]), static_cast<T*>(outputs[0]),
                       static_cast<T*>(outputs[1]), count);
    return;
  }
  for (int64_t begin = 0; begin < count; begin += kBlock)
    reduce_block<T, Op>(inputs, outputs, begin, std::min(kBlock, count - begin));
}

using Inputs = std::span<const void* const>;
using Outputs = std::span<void* const>;

template <class T>
TRIREME_INLINE void reduce_as(ReduceOp op, Inputs inputs, Outputs outputs, int64_t count) {
  if (op == ReduceOp::sum) {
    reduce_all<T, Sum>(inputs, outputs, count);
  } else {
    reduce_all<T, Max>(inputs, outputs, count);
  }
}

TRIREME_CLONES void reduce_float(ReduceOp op, Inputs inputs, Outputs outputs, int64_t count) {
  reduce_as<float>(op, inputs, outputs, count);
}
TRIREME_CLONES void reduce_double(ReduceOp op, Inputs inputs, Outputs outputs, int64_t count) {
  reduce_as<double>(op, inputs, outputs, count);
}
TRIREME_CLONES void reduce_bfloat16(ReduceOp op, Inputs inputs, Outputs outputs, int64_t count) {
  reduce_as<Bits16>(op, inputs, outputs, count);
}
TRIREME_CLONES void reduce_int64(ReduceOp op, Inputs inputs, Outputs outputs, int64_t count) {
  reduce_as<int64_t>(op, inputs, outputs, count);
}
TRIREME_CLONES void reduce_int32(ReduceOp op, Inputs inputs, Outputs outputs, int64_t count) {
  reduce_as<int32_t>(op, inputs, outputs, count);
}

using Kernel = void (*)(ReduceOp, Inputs, Outputs, int64_t);

Kernel kernel_of(at::ScalarType dtype) {
  switch (dtype) {
    case at::kFloat: return reduce_float;
    case at::kDouble: return reduce_double;
    case at::kBFloat16: return reduce_bfloat16;
    case at::kLong: return reduce_int64;
    case at::kInt: return reduce_int32;
    default: return nullptr;
  }
}

}  // namespace

bool can_reduce(at::ScalarType dtype) { return kernel_of(dtype) != nullptr; }

void reduce(at::ScalarType dtype, ReduceOp op, std::span<const void* const> inputs, std::span<void* const> outputs,
            int64_t count) {
  const Kernel kernel = kernel_of(dtype);
  check_internal(kernel != nullptr, std::string("reductions are over float, double, bfloat16, int64 or int32, not ") +
                                        c10::toString(dtype));
  kernel(op, inputs, outputs, count);
}

}  // namespace trireme
