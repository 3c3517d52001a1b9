// Losses and what follows them.
#include "cost/declared_kinds.h"

namespace trireme::declared {
namespace {

constexpr int64_t kRowSums = 5, kSampleSums = 5, kDouble = 8;  // as softmax_cross_entropy's

/// Probabilities in the loss's type; labels are kept as they came.
LayerMemory softmax_cross_entropy(const CallShapes& call) {
  LayerMemory memory = plain(call);
  const CallTensor& logits = call.inputs[0];
  const int64_t rows = logits.count() / logits.shape.back(), floats = logits.count() * call.master;
  const bool has_shares = call.inputs[1].shape == logits.shape;
  memory.keeps_input[1] = true;
  memory.saved = floats + call.samples * call.master + shape_bytes(logits);
  if (has_shares) memory.saved += rows * (8 + call.master);
  memory.input_gradients[1] = 0;
  const int64_t sums = rows * (2 + kRowSums) * call.master;
  set_forward_peak(memory, {floats + sums + rows * kRowSums * kDouble + call.samples * (kSampleSums + 3) * kDouble,
                            floats + sums + (has_shares ? floats : 0)});
  const int64_t converted = call.compute == call.master ? 0 : logits.bytes();
  set_backward_peak(memory, {floats + converted + call.samples * call.master});
  return memory;
}

LayerMemory pixel_cross_entropy(const CallShapes& call) {
  LayerMemory memory = plain(call);
  const CallTensor& logits = call.inputs[0];
  const bool mixed = call.compute != call.master;
  const int64_t floats = logits.count() * call.master;
  memory.keeps_input[1] = true;
  memory.saved = floats + call.samples * call.master + shape_bytes(logits);
  memory.input_gradients[1] = 0;
  const int64_t classes = logits.shape[1], sums = (3 * classes + 5 * call.samples) * kDouble;
  set_forward_peak(memory, {floats + (mixed ? floats : 0) + sums});
  set_backward_peak(memory, {floats + (mixed ? logits.bytes() : 0)});
  return memory;
}

/// Its metrics are sums of doubles: errors and their squares.
LayerMemory mean_squared_error(const CallShapes& call) {
  LayerMemory memory = plain(call);
  const int64_t count = call.inputs[0].count(), floats = count * call.master;
  const int64_t converted = call.compute == call.master ? 0 : floats, doubles = call.master == kDouble ? 0 : count * kDouble;
  memory.saved = floats;
  set_forward_peak(memory, {floats + converted, floats + doubles + count * kDouble});
  set_backward_peak(memory, {floats + (converted > 0 ? call.inputs[0].bytes() : 0)});
  return memory;
}

/// The number of classes drawn is told by the FLOPs. Split by vocabulary a worker may have drawn all of them.
LayerMemory sampled_softmax(const CallShapes& call) {
  LayerMemory memory = plain(call);
  const CallTensor &states = call.inputs[0], &weight = call.parameters[0];
  const int64_t width = weight.shape[1], rows = states.count() / width;
  const Shape sample(states.shape.begin() + 1, states.shape.end()), label(sample.begin(), sample.end() - 1);
  const std::vector<Shape> shapes{sample, label};
  const auto drawn = int64_t(call.layer->forward_flops(shapes) / (2 * double(element_count(sample))) + 0.5) - 1;
  const int64_t classes = std::min(drawn, weight.shape[0]);
  const int64_t table = classes * width * call.compute, picked = rows * width * call.compute, pairs = rows * classes * call.master;
  const bool mixed = call.compute != call.master;
  memory.keeps_input = {true, true};
  memory.saved = pairs + classes * 8 + rows * call.master + shape_bytes(states);
  memory.input_gradients[1] = 0;
  const int64_t few = classes * 24 + rows * 32;
  set_forward_peak(memory, {pairs + table + (mixed ? rows * classes * call.compute : 0) + few, pairs + 2 * picked + few});
  const int64_t gradient = rows * classes * call.compute;  // of the logits
  const int64_t x = call.wanted[0] ? states.bytes() : 0;
  set_backward_peak(memory, {gradient + (mixed ? pairs : 0) + few, gradient + x + std::max(table, 2 * picked) + few,
                             gradient + x + table + picked + few});
  return memory;
}

LayerMemory weighted_sum(const CallShapes& call) { return plain(call); }

}  // namespace

const DeclarationTable& losses() {
  static const DeclarationTable table{{"softmax_cross_entropy", softmax_cross_entropy}, {"pixel_cross_entropy", pixel_cross_entropy},
                                      {"mean_squared_error", mean_squared_error}, {"sampled_softmax", sampled_softmax},
                                      {"weighted_sum", weighted_sum}};
  return table;
}

}  // namespace trireme::declared
