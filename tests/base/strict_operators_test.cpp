// The strict device has the CPU's results for the operators that layers, losses and optimizers use.
#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>
#include <gtest/gtest.h>

#include <tuple>
#include <vector>

#include "base/strict_operator.h"

namespace trireme::test {
namespace {

at::Tensor channels_last(const at::Tensor& t) { return t.contiguous(at::MemoryFormat::ChannelsLast); }

Tensors list(const std::tuple<at::Tensor, at::Tensor, at::Tensor>& t) {
  return {std::get<0>(t), std::get<1>(t), std::get<2>(t)};
}
Tensors list(const std::tuple<at::Tensor, at::Tensor>& t) { return {std::get<0>(t), std::get<1>(t)}; }

std::vector<OperatorCase> creation_cases() {
  const at::Tensor a = rand({4, 6});
  return {
      {"zeros, ones, full",
       {a},
       [](Ts t) -> Tensors {
         return {at::zeros({2, 3}, t[0].options()), at::ones({4}, t[0].options().dtype(at::kLong)),
                 at::full({2}, 1.5, t[0].options()), at::zeros_like(t[0]), at::full_like(t[0], 3)};
       }},
      {"arange, eye, linspace",
       {a},
       [](Ts t) -> Tensors {
         return {at::arange(7, t[0].options().dtype(at::kLong)), at::eye(3, t[0].options()),
                 at::linspace(0, 1, 5, t[0].options()), at::tril_indices(3, 3, 0, t[0].options().dtype(at::kLong))};
       }},
      {"zero_, fill_",
       {a, a},
       [](Ts t) -> Tensors {
         return {t[0].zero_(), t[1].fill_(2)};
       }},
      {"clone, contiguous",
       {a},
       [](Ts t) -> Tensors {
         return {t[0].clone(), t[0].t().contiguous(), t[0].t().clone(), t[0].t().reshape({-1})};
       }},
      {"types",
       {a},
       [](Ts t) -> Tensors {
         return {t[0].to(at::kDouble),     t[0].to(at::kBFloat16), t[0].to(at::kLong),
                 t[0].abs().to(at::kByte), t[0].to(at::kBool),     t[0].to(at::kBFloat16).to(at::kFloat)};
       }},
  };
}

std::vector<OperatorCase> view_cases() {
  const at::Tensor a = rand({4, 6});
  return {
      {"narrow, slice, select",
       {a},
       [](Ts t) -> Tensors {
         return {t[0].narrow(1, 2, 3), t[0].slice(1, 0, 6, 2), t[0].select(0, 2), t[0].diagonal()};
       }},
      {"view, expand, permute",
       {a},
       [](Ts t) -> Tensors {
         return {t[0].view({3, 8}),
                 t[0].unsqueeze(1).expand({4, 2, 6}),
                 t[0].view({2, 2, 6}).permute({2, 0, 1}),
                 t[0].unfold(1, 3, 2),
                 t[0].flatten(),
                 t[0].view(at::kInt)};
       }},
      {"write through views",
       {a},
       [](Ts t) -> Tensors {
         t[0].narrow(1, 2, 3).mul_(2);
         t[0].select(0, 1).copy_(t[0].select(0, 2));
         t[0].t()[3].add_(1);
         t[0].view({-1}).slice(0, 1, 24, 5).zero_();
         return {};
       }},
      {"split, chunk, unbind",
       {a},
       [](Ts t) -> Tensors {
         Tensors parts = t[0].split(4, 1);
         for (const at::Tensor& part : t[0].chunk(2)) parts.push_back(part);
         for (const at::Tensor& part : t[0].unbind(1)) parts.push_back(part);
         return parts;
       }},
      {"cat, stack",
       {a, a},
       [](Ts t) -> Tensors {
         return {at::cat({t[0], t[1]}, 1), at::stack({t[0], t[1]}, 2)};
       }},
      {"set_",
       {a, a},
       [](Ts t) -> Tensors {
         t[1].set_(t[0]);
         at::Tensor part = at::empty({0}, t[0].options()).set_(t[0].storage(), 3, {2, 2}, {6, 1});
         return {part.add_(1), at::empty({0}, t[0].options()).set_(t[0].storage())};
       }},
      {"resize_",
       {a, a},
       [](Ts t) -> Tensors {
         t[0].resize_({2, 3});
         t[1].resize_({10, 6}).narrow(0, 4, 6).fill_(4);
         return {};
       }},
  };
}

std::vector<OperatorCase> elementwise_cases() {
  const at::Tensor a = rand({4, 6}), b = rand({4, 6}), row = rand({6}), positive = rand({4, 6}).abs() + 0.1;
  const at::Tensor big = rand({64, 129});
  return {
      {"arithmetic",
       {a, b, row},
       [](Ts t) -> Tensors {
         return {t[0] + t[1], t[0] * t[2], t[0] / 3, 2 - t[0], t[0] - t[1].t().t(), t[0] + at::scalar_tensor(2.5)};
       }},
      {"large, strided",
       {big, big},
       [](Ts t) -> Tensors {
         return {t[0].t() + t[1].t(), t[0].t().exp()};
       }},
      {"in place",
       {a, b, positive},
       [](Ts t) -> Tensors {
         return {t[0].add_(t[1], 0.5).mul_(3).lerp_(t[1], 0.3).addcmul_(t[1], t[2], 0.1).addcdiv_(t[1], t[2], 2)};
       }},
      {"functions",
       {a, positive},
       [](Ts t) -> Tensors {
         return {t[1].sqrt(),          t[1].rsqrt(),   t[1].pow(1.7),  t[0].pow(2),
                 t[0].tanh(),          t[0].sigmoid(), t[0].exp(),     t[1].log(),
                 t[0].relu(),          at::gelu(t[0]), at::silu(t[0]), t[0].clamp(-1, 1),
                 t[0].isfinite(),      t[0].round(),   t[0].neg(),     at::maximum(t[0], t[1]),
                 at::leaky_relu(t[0]), at::elu(t[0])};
       }},
      {"backward functions",
       {a, b},
       [](Ts t) -> Tensors {
         return {at::gelu_backward(t[0], t[1]), at::threshold_backward(t[0], t[1], 0), at::tanh_backward(t[0], t[1]),
                 at::sigmoid_backward(t[0], t[1]), at::silu_backward(t[0], t[1])};
       }},
      {"masks",
       {a, b},
       [](Ts t) -> Tensors {
         const at::Tensor mask = t[0] < t[1];
         return {t[0].eq(t[1]),
                 mask,
                 at::where(mask, t[0], t[1]),
                 t[0].masked_fill(mask, -1),
                 mask.logical_not(),
                 mask & (t[0] > 0),
                 t[0].triu(1),
                 t[0].tril(),
                 at::where(mask, t[0], at::scalar_tensor(0.f)),
                 t[0].masked_select(mask),
                 t[0].nonzero(),
                 t[0].index({mask})};
       }},
  };
}

std::vector<OperatorCase> optimizer_and_type_cases() {
  const at::Tensor a = rand({4, 6}), b = rand({4, 6});
  return {
      {"foreach",
       {a, b},
       [](Ts t) -> Tensors {
         at::_foreach_mul_(t, 0.5);
         at::_foreach_add_(t, {t[1], t[0]}, 2);
         at::_foreach_addcdiv_(t, t, {t[1], t[0]}, 0.1);
         Tensors all = at::_foreach_sqrt(t);
         all.push_back(at::_foreach_norm(t)[0]);
         return all;
       }},
      {"out",
       {a, b, rand({0}), rand({40}), rand({4, 12})},
       [](Ts t) -> Tensors {
         at::add_out(t[2], t[0], t[1]);
         t[3].resize_({0});
         at::matmul_out(t[3], t[0], t[1].t());
         at::Tensor half = t[4].narrow(1, 3, 6);
         at::mul_out(half, t[0], t[1]);
         at::cumsum_out(t[1], t[0], 1);
         return {at::empty({0}, t[0].options()).set_(t[2])};
       }},
      {"bfloat16",
       {a.to(at::kBFloat16), b.to(at::kBFloat16)},
       [](Ts t) -> Tensors {
         return {t[0] + t[1], t[0].matmul(t[1].t()), t[0].softmax(1), t[0].sum(), at::linear(t[0], t[1])};
       }},
      {"integers",
       {at::randint(0, 9, {4, 6}, at::kLong), at::randint(0, 9, {4, 6}, at::kByte)},
       [](Ts t) -> Tensors {
         return {t[0] + t[1], t[0].remainder(3), t[0].sum(), t[1].to(at::kFloat), t[0].bitwise_and(3), t[0].max()};
       }},
  };
}

std::vector<OperatorCase> reduction_and_index_cases() {
  const at::Tensor a = rand({4, 6}), b = rand({4, 6}), rows = at::tensor({2, 0, 3}, at::kLong);
  const at::Tensor index = at::randint(0, 4, {2, 6}, at::kLong);
  return {
      {"reductions",
       {a},
       [](Ts t) -> Tensors {
         return {t[0].sum(),  t[0].sum(1, true), t[0].mean(0),    std::get<0>(at::var_mean(t[0], 1)),
                 t[0].std(),  t[0].norm(),       t[0].norm(2, 1), at::linalg_vector_norm(t[0]),
                 t[0].max(),  t[0].argmax(1),    t[0].prod(),     t[0].logsumexp(1),
                 t[0].all(),  t[0].any(1),       t[0].cumsum(1),  at::linalg_norm(t[0]),
                 t[0].amax(1)};
       }},
      {"sort, topk",
       {a},
       [](Ts t) -> Tensors {
         Tensors all = list(t[0].sort(1, true));
         for (const at::Tensor& result : list(t[0].topk(2))) all.push_back(result);
         for (const at::Tensor& result : list(t[0].max(1))) all.push_back(result);
         return all;
       }},
      {"gather, index",
       {a, index, rows},
       [](Ts t) -> Tensors {
         return {t[0].gather(0, t[1]),
                 t[0].index_select(0, t[2]),
                 t[0].index({t[2]}),
                 t[0].index({{}, t[2]}),
                 at::embedding(t[0], t[1]),
                 t[0].index({at::tensor({1, 2}, at::kLong)}),
                 t[0].flip(0),
                 t[0].roll(1)};
       }},
      {"scatter, index_put_",
       {a, b, index, rows, a},
       [](Ts t) -> Tensors {
         t[0].scatter_add_(0, t[2], t[1]).scatter_(0, t[2], 7.0);
         t[0].index_put_({t[3]}, t[1].narrow(0, 0, 3), true);
         t[4].index_add_(0, t[3], t[1].narrow(0, 1, 3)).index_copy_(0, t[3], t[1].narrow(0, 0, 3));
         t[4].index_fill_(1, t[3], 2);
         return {at::embedding_dense_backward(t[1], t[3].narrow(0, 0, 1).expand({4}), 5, -1, false)};
       }},
  };
}

std::vector<OperatorCase> matrix_and_norm_cases() {
  const at::Tensor a = rand({4, 6}), b = rand({6, 5}), bias = rand({5}), batch = rand({3, 4, 6});
  const at::Tensor gain = rand({6}), offset = rand({6}), x = image();
  return {
      {"products",
       {a, b, bias, batch},
       [](Ts t) -> Tensors {
         return {t[0].mm(t[1]),
                 at::addmm(t[2], t[0], t[1]),
                 t[3].bmm(t[3].transpose(1, 2)),
                 t[3].matmul(t[1]),
                 at::einsum("bij,jk->bik", {t[3], t[1]}),
                 at::linear(t[3], t[1].t(), t[2]),
                 t[0].mv(t[0][0]),
                 t[0][0].dot(t[0][1]),
                 at::outer(t[2], t[2])};
       }},
      {"softmax",
       {a, b},
       [](Ts t) -> Tensors {
         const at::Tensor log = t[0].log_softmax(1), soft = t[0].softmax(0);
         return {log, soft, at::_log_softmax_backward_data(t[0], log, 1, at::kFloat),
                 at::_softmax_backward_data(t[0], soft, 0, at::kFloat)};
       }},
      {"layer norm",
       {batch, gain, offset},
       [](Ts t) -> Tensors {
         Tensors all = list(at::native_layer_norm(t[0], {6}, t[1], t[2], 1e-5));
         for (const at::Tensor& result :
              list(at::native_layer_norm_backward(t[0] + 1, t[0], {6}, all[1], all[2], t[1], t[2], {true, true, true})))
           all.push_back(result);
         return all;
       }},
      {"batch norm",
       {x, gain, offset, gain, offset.abs()},
       [](Ts t) -> Tensors {
         Tensors all = list(at::native_batch_norm(t[0], t[1], t[2], t[3], t[4], true, 0.1, 1e-5));
         for (const at::Tensor& result : list(at::native_batch_norm_backward(t[0] + 1, t[0], t[1], t[3], t[4], all[1],
                                                                             all[2], true, 1e-5, {true, true, true})))
           all.push_back(result);
         all.push_back(at::batch_norm(t[0], t[1], t[2], t[3], t[4], false, 0.1, 1e-5, false));
         return all;
       }},
      {"group norm",
       {x, gain, offset},
       [](Ts t) -> Tensors {
         Tensors all = list(at::native_group_norm(t[0], t[1], t[2], 2, 6, 64, 3, 1e-5));
         for (const at::Tensor& result : list(at::native_group_norm_backward(t[0] + 1, t[0], all[1], all[2], t[1], 2, 6,
                                                                             64, 3, {true, true, true})))
           all.push_back(result);
         return all;
       }},
  };
}

Tensors convolve(Ts t) {
  Tensors all = {at::conv2d(t[0], t[1], t[2], 1, 1), at::conv2d(t[0], t[1], {}, 2)};
  for (const at::Tensor& result : list(at::convolution_backward(all[0], t[0], t[1], at::IntArrayRef({4}), {1, 1},
                                                                {1, 1}, {1, 1}, false, {0, 0}, 1, {true, true, true})))
    all.push_back(result);
  for (const at::Tensor& result : list(at::convolution_backward(
           all[0], t[0], t[1], at::IntArrayRef({4}), {1, 1}, {1, 1}, {1, 1}, false, {0, 0}, 1, {false, true, false})))
    all.push_back(result);
  return all;
}

Tensors pool(Ts t) {
  Tensors all = list(at::max_pool2d_with_indices(t[0], {2, 2}));
  all.push_back(at::max_pool2d_with_indices_backward(all[0] + 1, t[0], {2, 2}, {2, 2}, {0, 0}, {1, 1}, false, all[1]));
  all.push_back(at::avg_pool2d(t[0], {3, 3}, {2, 2}));
  all.push_back(at::avg_pool2d_backward(all.back(), t[0], {3, 3}, {2, 2}, {0, 0}, false, true, {}));
  all.push_back(at::adaptive_avg_pool2d(t[0], {3, 3}));
  all.push_back(at::adaptive_avg_pool2d(t[0], {1, 1}));
  all.push_back(at::upsample_nearest2d(t[0], {16, 16}));
  all.push_back(at::upsample_bilinear2d(t[0], {11, 16}, false));
  all.push_back(at::constant_pad_nd(t[0], {1, 2, 0, 1}, 3));
  all.push_back(at::reflection_pad2d(t[0], {1, 1, 1, 1}));
  return all;
}

std::vector<OperatorCase> image_cases() {
  const at::Tensor x = image(), w = rand({4, 6, 3, 3}), bias = rand({4}), depthwise = rand({6, 1, 3, 3});
  return {
      {"convolution", {x, w, bias}, convolve},
      {"convolution, channels last", {channels_last(x), channels_last(w), bias}, convolve},
      {"pools", {x}, pool},
      {"pools, channels last", {channels_last(x)}, pool},
      {"grouped, transposed, 1-d",
       {x, depthwise, w, rand({2, 6, 9}), rand({3, 6, 3})},
       [](Ts t) -> Tensors {
         return {at::conv2d(t[0], t[1], {}, 1, 1, 1, 6), at::conv_transpose2d(t[0], t[2].transpose(0, 1)),
                 at::conv1d(t[3], t[4])};
       }},
      {"im2col, col2im",
       {x},
       [](Ts t) -> Tensors {
         const at::Tensor columns = at::im2col(t[0], {3, 3}, {1, 1}, {1, 1}, {1, 1});
         return {columns, at::col2im(columns, {8, 8}, {3, 3}, {1, 1}, {1, 1}, {1, 1})};
       }},
      {"losses",
       {rand({4, 6}), at::tensor({1, 5, 0, 2}, at::kLong), rand({4, 6})},
       [](Ts t) -> Tensors {
         return {at::cross_entropy_loss(t[0], t[1]), at::mse_loss(t[0], t[2]), at::smooth_l1_loss(t[0], t[2]),
                 at::binary_cross_entropy_with_logits(t[0], t[2].sigmoid()), at::one_hot(t[1], 6)};
       }},
  };
}

using Cases = std::vector<OperatorCase> (*)();

class StrictOperators : public StrictDevice, public testing::WithParamInterface<Cases> {};

TEST_P(StrictOperators, EqualTheCpuBitByBit) {
  for (const OperatorCase& op : GetParam()()) check(op);
}

TEST_P(StrictOperators, WorkInInferenceMode) {
  const c10::InferenceMode mode;
  for (const OperatorCase& op : GetParam()()) check(op);
}

INSTANTIATE_TEST_SUITE_P(All, StrictOperators,
                         testing::Values(&creation_cases, &view_cases, &elementwise_cases, &optimizer_and_type_cases,
                                         &reduction_and_index_cases, &matrix_and_norm_cases, &image_cases));

}  // namespace
}  // namespace trireme::test
