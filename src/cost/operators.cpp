#include "cost/operators.h"

#include <algorithm>
#include <map>
#include <string_view>

namespace trireme {
namespace {

struct KindOfWork {
  double operators = 1;
  bool multiplies = false;
};

/// Kinds that are not one memory-bound operator. Fused ones (batch norm with its ReLU and sum) count as one, as they are in this
/// program and in cuDNN.
const std::map<std::string_view, KindOfWork>& kinds_of_work() {
  static const std::map<std::string_view, KindOfWork> kinds{
      {"conv2d", {1, true}},
      {"conv_transpose2d", {1, true}},
      {"linear", {1, true}},
      {"attention", {4, true}},              // scores, softmax with mask and scale, dropout, average
      {"additive_attention", {7, true}},     // two projections, sum, tanh, energies, softmax, average
      {"sampled_softmax", {8, true}},        // two look-ups, two products, corrections, maximum, exponentials, sum
      {"softmax_cross_entropy", {3, false}}, // maximum, exponentials and sum, look-up
      {"pixel_cross_entropy", {3, false}},
      {"mean_squared_error", {3, false}},
      {"flatten", {0, false}},               // another name for the same bytes
      {"image_tokens", {0, false}},
  };
  return kinds;
}

constexpr double kFlopsPerElementOfProducts = 16;  ///< more than elementwise operators and poolings do; for kinds not listed

double bytes_of(const std::vector<CallTensor>& tensors) {
  double bytes = 0;
  for (const CallTensor& tensor : tensors) bytes += double(tensor.bytes());
  return bytes;
}

bool is_lstm(std::string_view kind) { return kind == "lstm" || kind == "stateful_lstm"; }

}  // namespace

OperatorWork operator_work(const CallShapes& call, double flops) {
  const std::string_view kind = call.layer->kind();
  const double activations = bytes_of(call.inputs) + double(call.output.bytes());
  OperatorWork work{.operators = 1, .flops = flops, .bytes = activations + bytes_of(call.parameters)};
  if (is_lstm(kind)) {
    // all steps' products with the inputs are one; then a product and the cell in each step
    const double steps = double(call.inputs[0].shape[1]);
    work.operators = 1 + 2 * steps;
    work.multiplies = true;
    work.bytes += (steps - 1) * double(call.parameters[1].bytes());
    return work;
  }
  if (kind == "embedding") work.bytes = activations + double(call.output.bytes());
  if (kind == "sampled_softmax") {  // per element of the states two FLOPs for each class that it meets
    const double width = double(call.parameters[0].shape[1]), rows = double(call.inputs[0].count()) / width;
    const double classes = rows == 0 ? 0 : flops / (2 * rows * width);
    work.bytes = activations + (classes + rows) * width * double(call.compute);
  }
  if (const auto found = kinds_of_work().find(kind); found != kinds_of_work().end()) {
    work.operators = found->second.operators;
    work.multiplies = found->second.multiplies;
  } else {
    work.multiplies = flops > kFlopsPerElementOfProducts * double(std::max<int64_t>(call.output.count(), 1));
  }
  return work;
}

double seconds_of(const OperatorWork& work, const DeviceKind& device, const DeviceSpeed& speed) {
  if (work.operators == 0) return 0;
  const double flops = work.flops / work.operators, bytes = work.bytes / work.operators;
  // w / (peak * greatest * w / (w + half)), without the division by zero
  const double computing = work.multiplies ? (flops + speed.half_work) / (speed.peak_flops * speed.greatest_efficiency)
                                           : flops / speed.peak_flops;
  return work.operators * (device.launch + std::max(computing, bytes / device.memory_bandwidth));
}

}  // namespace trireme
