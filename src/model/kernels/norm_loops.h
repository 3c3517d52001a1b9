// The loops of norm.h in GCC's portable vector types. Included once per instruction set, by a file that has set the
// target and has opened a namespace of its own, so that nothing compiled here is shared with another target. Requires
// TRIREME_VECTOR_BYTES, the width of a vector register. No include guard on purpose.

namespace {

typedef float FloatVector __attribute__((vector_size(TRIREME_VECTOR_BYTES)));
typedef uint32_t WordVector __attribute__((vector_size(TRIREME_VECTOR_BYTES)));
typedef uint16_t HalfWordVector __attribute__((vector_size(TRIREME_VECTOR_BYTES / 2)));
typedef double DoubleVector __attribute__((vector_size(TRIREME_VECTOR_BYTES)));

/// Loads and stores vectors of elements, converted to the arithmetic type.
template <class Element>
struct Lanes {
  using Scalar = Element;
  using Vector = std::conditional_t<std::is_same_v<Element, float>, FloatVector, DoubleVector>;
  static constexpr int kCount = TRIREME_VECTOR_BYTES / int(sizeof(Element));
  static Vector load(const Element* from) {
    Vector v;
    __builtin_memcpy(&v, from, sizeof(v));
    return v;
  }
  static void store(Element* to, Vector v) { __builtin_memcpy(to, &v, sizeof(v)); }
};

template <>
struct Lanes<BFloat16Bits> {
  using Scalar = float;
  using Vector = FloatVector;
  static constexpr int kCount = TRIREME_VECTOR_BYTES / 4;
  static Vector load(const BFloat16Bits* from) {
    HalfWordVector half;
    __builtin_memcpy(&half, from, sizeof(half));
    return Vector(__builtin_convertvector(half, WordVector) << 16);
  }
  /// Rounds to nearest, ties to even. NaN stays NaN.
  static void store(BFloat16Bits* to, Vector v) {
    WordVector word = WordVector(v);
    WordVector rounded = (word + 0x7fff + ((word >> 16) & 1)) >> 16;
    rounded = v == v ? rounded : WordVector{} + 0x7fc0;
    HalfWordVector half = __builtin_convertvector(rounded, HalfWordVector);
    __builtin_memcpy(to, &half, sizeof(half));
  }
};

/// Loads or stores the first `count` lanes (all lanes if Full).
template <class Element, bool Full>
typename Lanes<Element>::Vector load(const Element* from, int64_t count) {
  if constexpr (Full) return Lanes<Element>::load(from);
  Element buffer[Lanes<Element>::kCount] = {};
  for (int64_t i = 0; i < count; ++i) buffer[i] = from[i];
  return Lanes<Element>::load(buffer);
}

template <class Element, bool Full>
void store(Element* to, typename Lanes<Element>::Vector v, int64_t count) {
  if constexpr (Full) return Lanes<Element>::store(to, v);
  Element buffer[Lanes<Element>::kCount];
  Lanes<Element>::store(buffer, v);
  for (int64_t i = 0; i < count; ++i) to[i] = buffer[i];
}

/// Calls body.template operator()<Width, Full>(first channel, channels): for groups of Width vectors, then for single
/// vectors, then for the remaining channels.
template <class Element, int Width, class Body>
void for_channel_runs(int64_t channels, const Body& body) {
  constexpr int kLanes = Lanes<Element>::kCount;
  int64_t c = 0;
  for (; c + Width * kLanes <= channels; c += Width * kLanes) body.template operator()<Width, true>(c, Width * kLanes);
  for (; c + kLanes <= channels; c += kLanes) body.template operator()<1, true>(c, kLanes);
  if (c < channels) body.template operator()<1, false>(c, channels - c);
}

/// Number of rows in a block that stays in the first-level cache, so that its second read is fast.
template <class Element>
int64_t rows_per_block(int64_t channels) {
  constexpr int64_t kBlockBytes = 24 * 1024, kLeast = 16, kMost = 1024;
  int64_t rows = kBlockBytes / (channels * int64_t(sizeof(Element)));
  return rows < kLeast ? kLeast : rows > kMost ? kMost : rows;
}

template <class Element>
void moments(const Element* input, int64_t rows, int64_t channels, double* mean, double* m2) {
  using L = Lanes<Element>;
  for (int64_t c = 0; c < channels; ++c) mean[c] = m2[c] = 0;
  int64_t block_rows = rows_per_block<Element>(channels);
  for (int64_t first = 0; first < rows; first += block_rows) {
    int64_t count = rows - first < block_rows ? rows - first : block_rows;
    double share = double(count) / double(first + count), weight = double(first) * share;
    for_channel_runs<Element, 4>(channels, [&]<int W, bool Full>(int64_t c, int64_t width) {
      const Element* block = input + first * channels + c;
      typename L::Vector sum[W] = {}, squares[W] = {}, rest[W] = {};
      for (int64_t r = 0; r < count; ++r)
        for (int w = 0; w < W; ++w) sum[w] += load<Element, Full>(block + r * channels + w * L::kCount, width);
      for (int w = 0; w < W; ++w) sum[w] = sum[w] / typename L::Scalar(count);
      for (int64_t r = 0; r < count; ++r)
        for (int w = 0; w < W; ++w) {
          auto centred = load<Element, Full>(block + r * channels + w * L::kCount, width) - sum[w];
          squares[w] += centred * centred;
          rest[w] += centred;  // error of the block's mean, from rounding
        }
      for (int64_t i = 0; i < width; ++i) {
        double left = double(rest[i / L::kCount][i % L::kCount]);
        double block_mean = double(sum[i / L::kCount][i % L::kCount]) + left / double(count);
        double block_m2 = double(squares[i / L::kCount][i % L::kCount]) - left * left / double(count);
        double delta = block_mean - mean[c + i];
        mean[c + i] += delta * share;
        m2[c + i] += block_m2 + delta * delta * weight;
      }
    });
  }
}

template <class Element, bool Relu, bool Residual>
void normalize_rows(const NormalizeArguments<Element>& a) {
  using L = Lanes<Element>;
  const auto [mean, scale, shift] = a.coefficients;
  for (int64_t r = 0; r < a.rows; ++r) {
    int64_t row = r * a.channels;
    for_channel_runs<Element, 1>(a.channels, [&]<int, bool Full>(int64_t c, int64_t width) {
      using S = typename L::Scalar;
      auto v = load<Element, Full>(a.input + row + c, width) - load<S, Full>(mean + c, width);
      v = v * load<S, Full>(scale + c, width) + load<S, Full>(shift + c, width);
      if constexpr (Residual) v += load<Element, Full>(a.residual + row + c, width);
      if constexpr (Relu) v = v < 0 ? typename L::Vector{} : v;  // a NaN passes
      store<Element, Full>(a.output + row + c, v, width);
    });
  }
}

template <class Element>
void normalize(const NormalizeArguments<Element>& a) {
  if (a.relu && a.residual) return normalize_rows<Element, true, true>(a);
  if (a.relu) return normalize_rows<Element, true, false>(a);
  if (a.residual) return normalize_rows<Element, false, true>(a);
  normalize_rows<Element, false, false>(a);
}

/// The output gradient where the ReLU passed the value, else 0. `centred` is input - mean.
template <class Element, Mask M, bool Full>
typename Lanes<Element>::Vector masked_gradient(const NormBackwardArguments<Element>& a, int64_t at, int64_t width,
                                                typename Lanes<Element>::Vector centred,
                                                typename Lanes<Element>::Vector scale,
                                                typename Lanes<Element>::Vector shift) {
  auto gradient = load<Element, Full>(a.output_gradient + at, width);
  typename Lanes<Element>::Vector zero{};
  if constexpr (M == Mask::from_input) gradient = centred * scale + shift > 0 ? gradient : zero;
  if constexpr (M == Mask::from_output) gradient = load<Element, Full>(a.output + at, width) > 0 ? gradient : zero;
  return gradient;
}

template <class Element, Mask M, bool Residual>
void backward_sums_of(const NormBackwardArguments<Element>& a, double* sum, double* sum_centred) {
  using L = Lanes<Element>;
  using S = typename L::Scalar;
  const auto [mean, scale, shift] = a.coefficients;
  for (int64_t c = 0; c < a.channels; ++c) sum[c] = sum_centred[c] = 0;
  int64_t block_rows = rows_per_block<Element>(a.channels);
  for (int64_t first = 0; first < a.rows; first += block_rows) {
    int64_t last = first + block_rows < a.rows ? first + block_rows : a.rows;
    for_channel_runs<Element, 4>(a.channels, [&]<int W, bool Full>(int64_t c, int64_t width) {
      typename L::Vector s[W] = {}, sx[W] = {}, m[W], k[W], b[W];
      for (int w = 0; w < W; ++w) {
        m[w] = load<S, Full>(mean + c + w * L::kCount, width);
        k[w] = load<S, Full>(scale + c + w * L::kCount, width);
        b[w] = load<S, Full>(shift + c + w * L::kCount, width);
      }
      for (int64_t r = first; r < last; ++r)
        for (int w = 0; w < W; ++w) {
          int64_t at = r * a.channels + c + w * L::kCount;
          auto centred = load<Element, Full>(a.input + at, width) - m[w];
          auto g = masked_gradient<Element, M, Full>(a, at, width, centred, k[w], b[w]);
          if constexpr (Residual) store<Element, Full>(a.residual_gradient + at, g, width);
          s[w] += g;
          sx[w] += g * centred;
        }
      for (int64_t i = 0; i < width; ++i) {
        sum[c + i] += double(s[i / L::kCount][i % L::kCount]);
        sum_centred[c + i] += double(sx[i / L::kCount][i % L::kCount]);
      }
    });
  }
}

template <class Element, Mask M>
void backward_sums_masked(const NormBackwardArguments<Element>& a, double* sum, double* sum_centred) {
  if (a.residual_gradient) return backward_sums_of<Element, M, true>(a, sum, sum_centred);
  backward_sums_of<Element, M, false>(a, sum, sum_centred);
}

template <class Element>
void backward_sums(const NormBackwardArguments<Element>& a, double* sum, double* sum_centred) {
  switch (a.mask) {
    case Mask::none: return backward_sums_masked<Element, Mask::none>(a, sum, sum_centred);
    case Mask::from_input: return backward_sums_masked<Element, Mask::from_input>(a, sum, sum_centred);
    case Mask::from_output: return backward_sums_masked<Element, Mask::from_output>(a, sum, sum_centred);
  }
}

template <class Element, Mask M>
void input_gradient_of(const NormBackwardArguments<Element>& a) {
  using L = Lanes<Element>;
  using S = typename L::Scalar;
  const auto [mean, scale, shift] = a.coefficients;
  for (int64_t r = 0; r < a.rows; ++r) {
    int64_t row = r * a.channels;
    for_channel_runs<Element, 1>(a.channels, [&]<int, bool Full>(int64_t c, int64_t width) {
      auto k = load<S, Full>(scale + c, width);
      auto centred = load<Element, Full>(a.input + row + c, width) - load<S, Full>(mean + c, width);
      auto b = M == Mask::from_input ? load<S, Full>(shift + c, width) : typename L::Vector{};
      auto g = masked_gradient<Element, M, Full>(a, row + c, width, centred, k, b);
      auto dx = k * (g - load<S, Full>(a.mean_gradient + c, width) - centred * load<S, Full>(a.slope + c, width));
      store<Element, Full>(a.input_gradient + row + c, dx, width);
    });
  }
}

template <class Element>
void input_gradient(const NormBackwardArguments<Element>& a) {
  switch (a.mask) {
    case Mask::none: return input_gradient_of<Element, Mask::none>(a);
    case Mask::from_input: return input_gradient_of<Element, Mask::from_input>(a);
    case Mask::from_output: return input_gradient_of<Element, Mask::from_output>(a);
  }
}

template <class Element>
constexpr NormKernels<Element> kTable{&moments<Element>, &normalize<Element>, &backward_sums<Element>,
                                      &input_gradient<Element>};

}  // namespace

template <class Element>
const NormKernels<Element>& table() {
  return kTable<Element>;
}

template const NormKernels<float>& table<float>();
template const NormKernels<double>& table<double>();
template const NormKernels<BFloat16Bits>& table<BFloat16Bits>();
