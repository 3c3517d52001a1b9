// Compares layers on images, layers on sequences and losses with libtorch's operators and autograd.
#include <cmath>
#include <set>

#include "base/random.h"
#include "oracle.h"

namespace trireme::test_support {
namespace {

constexpr double kTolerance = 1e-12;

at::Tensor additive_attention(Tensors x, Tensors p) {
  std::vector<at::Tensor> samples;
  for (int64_t i = 0; i < x[0].size(0); ++i) {
    std::vector<at::Tensor> contexts;
    for (int64_t t = 0; t < x[0].size(1); ++t) {
      at::Tensor context = at::zeros({x[1].size(2)}, at::kDouble), total = at::zeros({}, at::kDouble);
      for (int64_t s = 0; s < x[1].size(1); ++s) {
        const bool padding = x[2][i][s].item<int64_t>() == 0;
        const at::Tensor inner = at::tanh(at::mv(p[0], x[0][i][t]) + at::mv(p[1], x[1][i][s]) + p[4]);
        const at::Tensor e =
            padding ? at::zeros({}, at::kDouble) : at::exp(p[3][0] * at::dot(p[2], inner) / p[2].norm());
        context = context + e * x[1][i][s];
        total = total + e;
      }
      contexts.push_back(context / total);
    }
    samples.push_back(at::stack(contexts));
  }
  return at::stack(samples);
}

/// Means over tokens other than 0, one sample at a time.
at::Tensor masked_mean(Tensors x, Tensors) {
  std::vector<at::Tensor> means;
  for (int64_t i = 0; i < x[0].size(0); ++i) {
    const at::Tensor kept = x[1][i].ne(0).nonzero().squeeze(1);
    means.push_back(kept.numel() == 0 ? x[0][i].sum(0) * 0 : x[0][i].index_select(0, kept).mean(0));
  }
  return at::stack(means);
}

/// Unpools with ATen's operator, which takes positions in the whole plane.
at::Tensor unpool(Tensors x, int64_t window_height, int64_t window_width, int64_t height, int64_t width) {
  const at::Tensor rows =
      at::arange(x[0].size(2), at::kLong).view({-1, 1}) * window_height + at::floor_divide(x[1], window_width);
  const at::Tensor columns = at::arange(x[0].size(3), at::kLong) * window_width + x[1].remainder(window_width);
  return at::max_unpool2d(x[0].contiguous(), (rows * width + columns).contiguous(), {height, width});
}

/// By the definition in SampledSoftmax's header, class by class; seed and step are those of fill_call.
at::Tensor sampled_softmax(Tensors x, Tensors p, int64_t classes, size_t samples) {
  const Philox random(random_key(5, "layer:sampled_softmax"));
  const double range = std::log(double(classes + 1));
  std::set<int64_t> drawn;
  int tries = 0;
  for (; drawn.size() < samples; ++tries)
    drawn.insert(int64_t(std::exp(random.uniform(uint64_t(tries), 3) * range)) - 1);
  auto corrected = [&](const at::Tensor& state, int64_t c) {
    const double missed = std::pow(1 - (std::log(double(c + 2)) - std::log(double(c + 1))) / range, tries);
    return at::dot(p[0][c], state) + p[1][c] - std::log(1 - missed);
  };
  const at::Tensor states = x[0].reshape({-1, x[0].size(-1)}), labels = x[1].reshape({-1});
  std::vector<at::Tensor> losses;
  for (int64_t i = 0; i < states.size(0); ++i) {
    const auto label = labels[i].item<int64_t>();
    std::vector<at::Tensor> logits{corrected(states[i], label)};
    for (int64_t c : drawn)
      if (c != label) logits.push_back(corrected(states[i], c));
    losses.push_back(at::logsumexp(at::stack(logits), 0) - logits[0]);
  }
  return at::stack(losses).view({x[0].size(0), -1}).mean(1);
}

/// The result [n, t, parts, out] for a weight [parts * out, in], as in PyTorch.
at::Tensor linear_parts(Tensors x, const at::Tensor& weight, const at::Tensor& bias, int64_t parts) {
  const at::Tensor y = at::linear(x[0], weight, bias);
  Shape shape = y.sizes().vec();
  shape.back() /= parts;
  shape.insert(shape.end() - 1, parts);
  return y.view(shape);
}

at::Tensor attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, int64_t heads,
                     const at::Tensor& hidden) {
  auto split = [&](const at::Tensor& x) { return x.reshape({x.size(0), x.size(1), heads, -1}).permute({0, 2, 1, 3}); };
  at::Tensor scores = at::einsum("nhtd,nhsd->nhts", {split(q), split(k)}) / std::sqrt(double(q.size(2) / heads));
  if (hidden.defined()) scores = scores.masked_fill(hidden, -1e30);
  return at::einsum("nhts,nhsd->nthd", {at::softmax(scores, -1), split(v)}).reshape(q.sizes());
}

/// One query at a time, over the keys up to it.
at::Tensor fused_causal_attention(Tensors x, Tensors) {
  const int64_t t = x[0].size(1);
  const at::Tensor q = x[0].select(2, 0), k = x[0].select(2, 1), v = x[0].select(2, 2);
  std::vector<at::Tensor> samples;
  for (int64_t i = 0; i < q.size(0); ++i) {
    std::vector<at::Tensor> rows;
    for (int64_t p = 0; p < t; ++p) {
      auto part = [&](const at::Tensor& y, int64_t begin, int64_t end) {
        return y.narrow(0, i, 1).slice(1, begin, end);
      };
      const at::Tensor padding = part(x[1], 0, p + 1).eq(0).view({1, 1, 1, -1});
      rows.push_back(attention(part(q, p, p + 1), part(k, 0, p + 1), part(v, 0, p + 1), 4, padding));
    }
    samples.push_back(at::cat(rows, 1));
  }
  return at::cat(samples);
}

/// Each head of keys and values stands for `repeats` heads.
at::Tensor repeated_heads(const at::Tensor& x, int64_t features, int64_t repeats) {
  return x.unflatten(2, {-1, 1, features}).expand({x.size(0), x.size(1), -1, repeats, features}).flatten(2);
}

at::Tensor causal_key_heads(Tensors x, Tensors) {
  const at::Tensor later = at::ones({6, 6}, at::kBool).triu(1);
  return attention(x[0], repeated_heads(x[1], 2, 2), repeated_heads(x[2], 2, 2), 8, later);
}

/// Features i and i + d / 2 of a head as one complex number, which the position turns. Llama 3.1's rule as Meta wrote
/// it down: by wave length.
at::Tensor turned_positions(const at::Tensor& x, int64_t heads, double factor, double original) {
  const at::Tensor parts = x.unflatten(2, {heads, 2, -1});
  const int64_t pairs = parts.size(4);
  at::Tensor angles = at::empty({x.size(1), 1, pairs}, at::kDouble);
  for (int64_t i = 0; i < pairs; ++i) {
    double speed = 1 / std::pow(10000.0, 2.0 * double(i) / double(2 * pairs));
    const double length = 2 * M_PI / speed, smooth = (original / length - 1) / (4 - 1);
    if (length > original) speed /= factor;
    else if (length >= original / 4) speed = (1 - smooth) * speed / factor + smooth * speed;
    for (int64_t p = 0; p < x.size(1); ++p) angles[p][0][i] = double(p) * speed;
  }
  const at::Tensor z = at::complex(parts.select(3, 0), parts.select(3, 1)) * at::polar(at::ones_like(angles), angles);
  return at::stack({at::real(z), at::imag(z)}, 3).flatten(2);
}

/// ATen's LSTM with PyTorch's matrices; its state begins with zeros.
at::Tensor lstm(Tensors x, Tensors p, bool reverse) {
  const bool projects = p.size() == 5;
  std::vector<at::Tensor> matrices;
  for (size_t i = 0; i < p.size(); ++i) matrices.push_back(i < 4 ? p[i].flatten(0, 1) : p[i]);
  const int64_t n = x[0].size(0), hidden = p[0].size(1), width = projects ? p[4].size(0) : hidden;
  const std::vector<at::Tensor> first{at::zeros({1, n, width}, at::kDouble), at::zeros({1, n, hidden}, at::kDouble)};
  const at::Tensor input = reverse ? x[0].flip(1) : x[0];
  const at::Tensor output = std::get<0>(at::lstm(input, first, matrices, true, 1, 0, true, false, true));
  return reverse ? output.flip(1) : output;
}

at::Tensor token_entropy(Tensors x, Tensors) {
  const at::Tensor logits = x[0].transpose(1, 2);
  return at::cross_entropy_loss(logits, x[1], {}, at::Reduction::None, /*ignore_index=*/0, /*label_smoothing=*/0.2)
      .mean(1);
}

const Oracles& oracles() {
  static const Oracles all{
      {"conv_row",
       [](Tensors x, Tensors p) {
         return at::conv2d(x[0], p[0], p[1], {1, 1}, at::IntArrayRef({0, 2}));
       }},
      {"conv_column_strides",
       [](Tensors x, Tensors p) {
         return at::conv2d(x[0], p[0], p[1], {2, 1}, {1, 0});
       }},
      {"conv_dilated",
       [](Tensors x, Tensors p) {
         return at::conv2d(x[0], p[0], p[1], {2, 1}, {2, 1}, {2, 1});
       }},
      {"conv_depthwise", [](Tensors x, Tensors p) { return at::conv2d(x[0], p[0], p[1], 1, 1, 1, 8); }},
      {"max_pool_ceil", [](Tensors x, Tensors) { return at::max_pool2d(x[0], 3, 2, 0, 1, true); }},
      {"max_pool_row",
       [](Tensors x, Tensors) {
         return at::max_pool2d(x[0], {1, 3}, {1, 2}, {0, 1});
       }},
      {"avg_pool_ceil", [](Tensors x, Tensors) { return at::avg_pool2d(x[0], 3, 2, 1, true); }},
      {"avg_pool_own_pixels",
       [](Tensors x, Tensors) {
         return at::avg_pool2d(x[0], {3, 2}, 2, 1, false, false);
       }},
      {"silu", [](Tensors x, Tensors) { return x[0] / (1 + (-x[0]).exp()); }},
      {"hardsigmoid", [](Tensors x, Tensors) { return (x[0] / 6 + 0.5).clamp(0, 1); }},
      {"hardswish", [](Tensors x, Tensors) { return x[0] * (x[0] / 6 + 0.5).clamp(0, 1); }},
      {"relu6", [](Tensors x, Tensors) { return x[0].clamp(0, 6); }},
      {"linear_parts",
       [](Tensors x, Tensors p) {
         return linear_parts(x, p[0].reshape({12, 8}), p[1].flatten(), 3);
       }},
      {"linear_parts_features",
       [](Tensors x, Tensors p) {
         return linear_parts(x, p[0].reshape({8, 8}), {}, 2);
       }},
      {"linear_transposed", [](Tensors x, Tensors p) { return at::addmm(p[1], x[0], p[0]); }},
      {"linear_parts_transposed",
       [](Tensors x, Tensors p) {
         return linear_parts(x, p[0].reshape({8, 12}).t(), p[1].flatten(), 3);
       }},
      {"attention_fused",
       [](Tensors x, Tensors) { return attention(x[0].select(2, 0), x[0].select(2, 1), x[0].select(2, 2), 8, {}); }},
      {"attention_fused_causal", fused_causal_attention},
      {"attention_padding",
       [](Tensors x, Tensors) {
         return attention(x[0], x[1], x[2], 8, x[3].eq(0).view({-1, 1, 1, 5}));
       }},
      {"attention_key_heads", causal_key_heads},
      {"rms_norm", [](Tensors x, Tensors p) { return x[0] / (x[0] * x[0]).mean(2, true).add(1e-5).sqrt() * p[0]; }},
      {"swiglu", [](Tensors x, Tensors) { return x[0] / (1 + (-x[0]).exp()) * x[1]; }},
      {"rotary_embedding", [](Tensors x, Tensors) { return turned_positions(x[0], 4, 1, 8192); }},
      {"rotary_embedding_long", [](Tensors x, Tensors) { return turned_positions(x[0], 2, 8, 64); }},
      {"position_embedding_table", [](Tensors x, Tensors p) { return x[0] + p[0].slice(0, 0, 8); }},
      {"position_embedding_batch_dim", [](Tensors x, Tensors p) { return x[0] + p[0]; }},
      {"lstm_projection", [](Tensors x, Tensors p) { return lstm(x, p, false); }},
      {"lstm_reverse", [](Tensors x, Tensors p) { return lstm(x, p, true); }},
      {"lstm_projection_reverse", [](Tensors x, Tensors p) { return lstm(x, p, true); }},
      {"cross_entropy_top5",
       [](Tensors x, Tensors) { return at::cross_entropy_loss(x[0], x[1], {}, at::Reduction::None); }},
      {"cross_entropy_smoothing",
       [](Tensors x, Tensors) { return at::cross_entropy_loss(x[0], x[1], {}, at::Reduction::None, -100, 0.1); }},
      {"cross_entropy_tokens", token_entropy},
      {"conv_transpose", [](Tensors x, Tensors p) { return at::conv_transpose2d(x[0], p[0], p[1], 2); }},
      {"conv_transpose_overlap",
       [](Tensors x, Tensors p) {
         return at::conv_transpose2d(x[0], p[0], {}, {2, 1}, {1, 0}, {1, 0});
       }},
      {"conv_transpose_groups",
       [](Tensors x, Tensors p) { return at::conv_transpose2d(x[0], p[0], p[1], 2, 1, 1, /*groups=*/4); }},
      {"upsample_nearest", [](Tensors x, Tensors) { return x[0].repeat_interleave(2, 2).repeat_interleave(3, 3); }},
      {"upsample_nearest_size",
       [](Tensors x, Tensors) {
         return at::upsample_nearest2d(x[0], {7, 2});
       }},
      {"upsample_bilinear",
       [](Tensors x, Tensors) {
         return at::upsample_bilinear2d(x[0], {8, 6}, false);
       }},
      {"upsample_bilinear_corners",
       [](Tensors x, Tensors) {
         return at::upsample_bilinear2d(x[0], {9, 2}, true);
       }},
      {"adaptive_avg_pool",
       [](Tensors x, Tensors) {
         return at::adaptive_avg_pool2d(x[0], {3, 2});
       }},
      {"adaptive_avg_pool_larger",
       [](Tensors x, Tensors) {
         return at::adaptive_avg_pool2d(x[0], {7, 5});
       }},
      {"adaptive_avg_pool_same",
       [](Tensors x, Tensors) {
         return at::adaptive_avg_pool2d(x[0], {4, 3});
       }},
      {"max_unpool", [](Tensors x, Tensors) { return unpool(x, 2, 2, 8, 6); }},
      {"max_unpool_size", [](Tensors x, Tensors) { return unpool(x, 2, 3, 9, 10); }},
      {"softmax_channels", [](Tensors x, Tensors) { return x[0].exp() / x[0].exp().sum(1, true); }},
      {"softmax", [](Tensors x, Tensors) { return x[0].exp() / x[0].exp().sum(2, true); }},
      {"slice_channels", [](Tensors x, Tensors) { return x[0].slice(1, 1, 4); }},
      {"slice", [](Tensors x, Tensors) { return x[0].slice(1, 2, 5); }},
      {"select_position", [](Tensors x, Tensors) { return x[0].select(1, 2); }},
      {"select_last", [](Tensors x, Tensors) { return x[0].select(1, -1); }},
      {"class_token",
       [](Tensors x, Tensors p) {
         return at::cat({p[0].expand({x[0].size(0), 1, 12}), x[0]}, 1);
       }},
      {"masked_mean_sequence", masked_mean},
      {"additive_attention", additive_attention},
      {"pixel_cross_entropy",
       [](Tensors x, Tensors) {
         return at::cross_entropy_loss(x[0], x[1], {}, at::Reduction::None).mean(at::IntArrayRef{1, 2});
       }},
      {"mean_squared_error", [](Tensors x, Tensors) { return at::mse_loss(x[0], x[1], at::Reduction::None).mean(1); }},
      {"weighted_sum", [](Tensors x, Tensors) { return x[0] + 0.4 * x[1]; }},
      {"sampled_softmax", [](Tensors x, Tensors p) { return sampled_softmax(x, p, 24, 10); }},
      {"sampled_softmax_features", [](Tensors x, Tensors p) { return sampled_softmax(x, p, 8, 3); }},
  };
  return all;
}

class LayersOracle : public ::testing::TestWithParam<Oracles::value_type> {};

TEST_P(LayersOracle, OutputAndGradientsAgree) {
  expect_equals_autograd(case_named(GetParam().first), GetParam().second, kTolerance);
}

INSTANTIATE_TEST_SUITE_P(Layers, LayersOracle, ::testing::ValuesIn(oracles()),
                         [](const auto& info) { return info.param.first; });

}  // namespace
}  // namespace trireme::test_support
