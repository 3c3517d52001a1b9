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

struct AttentionBytes {
  double queries = 0;  ///< as many as of the output
  double keys = 0;     ///< as many as of the values
  double scores = 0;   ///< also of the weights that the softmax makes of them
  double mask = 0;     ///< of dropout, a byte for each weight; 0: none
};

AttentionBytes attention_bytes(const CallShapes& call) {
  const Attributes attributes = call.layer->attributes();
  const bool split_heads = call.option->output == Placement::shard(2), fused = std::get<bool>(attributes.at("fused"));
  const int64_t heads = std::get<int64_t>(attributes.at("heads")) / (split_heads ? call.tensor : 1);
  const int64_t queries = call.output.shape[1], keys = fused ? queries : call.inputs[1].shape[1];
  const auto weights = double(call.samples * heads * queries * keys);
  const bool drops = std::get<double>(attributes.at("dropout")) > 0;
  return {double(call.output.bytes()), fused ? double(call.output.bytes()) : double(call.inputs[1].bytes()), weights * double(call.compute),
          drops ? weights : 0};
}

/// Scores, softmax (with scale and causal mask), dropout, average; backward the gradients of both factors of both products.
std::vector<OperatorWork> attention_work(const CallShapes& call, double flops, Pass pass) {
  const AttentionBytes b = attention_bytes(call);
  const auto product = [&](double bytes) { return OperatorWork{.flops = flops / 2, .bytes = bytes, .multiplies = true}; };
  const auto through = [](double bytes) { return OperatorWork{.bytes = bytes}; };
  const OperatorWork with_keys = product(b.queries + b.keys + b.scores);  // or with values, which are as many
  std::vector<OperatorWork> work;
  if (pass == Pass::forward) {
    work = {with_keys, through(2 * b.scores), with_keys};
    if (b.mask > 0) work.insert(work.begin() + 2, through(2 * b.scores + b.mask));
  } else if (pass == Pass::input_gradients) {
    // of the weights and the values; of the scores from those of the weights and the weights; of queries and keys
    work = {with_keys, with_keys, through(3 * b.scores), with_keys, with_keys};
    if (b.mask > 0) work.insert(work.begin() + 2, through(2 * b.scores + b.mask));
  }
  return work;
}

OperatorWork one_pass(const CallShapes& call, double flops) {
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

}  // namespace

std::vector<OperatorWork> operator_work(const CallShapes& call, double flops, Pass pass) {
  if (call.layer->kind() == "attention") return attention_work(call, flops, pass);
  return {one_pass(call, flops)};
}

double seconds_of(const OperatorWork& work, const DeviceKind& device, const DeviceSpeed& speed) {
  if (work.operators == 0) return 0;
  const double flops = work.flops / work.operators, bytes = work.bytes / work.operators;
  // w / (peak * greatest * w / (w + half)), without the division by zero
  const double computing = work.multiplies ? (flops + speed.half_work) / (speed.peak_flops * speed.greatest_efficiency)
                                           : flops / speed.peak_flops;
  return work.operators * (device.launch + std::max(computing, bytes / device.memory_bandwidth));
}

double seconds_of(const std::vector<OperatorWork>& work, const DeviceKind& device, const DeviceSpeed& speed) {
  double seconds = 0;
  for (const OperatorWork& part : work) seconds += seconds_of(part, device, speed);
  return seconds;
}

}  // namespace trireme
