// Layers on sequences, linear ones among them.
#include "cost/declared_kinds.h"

namespace trireme::declared {
namespace {

bool flag(const CallShapes& call, const char* name) { return std::get<bool>(call.layer->attributes().at(name)); }
double real(const CallShapes& call, const char* name) { return std::get<double>(call.layer->attributes().at(name)); }
int64_t number(const CallShapes& call, const char* name) { return std::get<int64_t>(call.layer->attributes().at(name)); }

LayerMemory linear(const CallShapes& call) {
  LayerMemory memory = plain(call);
  memory.keeps_input[0] = true;
  if (call.parameters.size() > 1) memory.backward_workspace = call.parameters[1].bytes();
  return memory;
}

LayerMemory embedding(const CallShapes& call) {
  LayerMemory memory = plain(call);
  memory.keeps_input[0] = true;
  memory.input_gradients = {0};
  if (call.option->output.is_partial()) memory.forward_workspace = 2 * call.inputs[0].bytes() + call.inputs[0].count();
  if (call.compute == 2) memory.backward_workspace = 4 * call.output.count();  // its gradient in float
  return memory;
}

/// Sums into a table of positions; the input's gradient is the output's.
LayerMemory position_embedding(const CallShapes& call) {
  LayerMemory memory = plain(call);
  memory.input_gradients = {0};
  memory.backward_workspace = call.samples == 0 ? 0 : call.output.bytes() / call.samples;
  return memory;
}

/// By autograd, which reads its inputs again through what the call keeps; the row's gradient is one of the whole table.
LayerMemory first_row(const CallShapes& call) {
  LayerMemory memory = plain(call);
  memory.keeps_input[0] = true;
  memory.input_gradients = {0};
  const int64_t row = call.output.shape.back() * call.compute;
  memory.backward_workspace = call.parameters[0].bytes() + 2 * row;
  return memory;
}

LayerMemory class_token(const CallShapes& call) {
  LayerMemory memory = plain(call);
  memory.backward_workspace = 0;
  return memory;
}

LayerMemory select_position(const CallShapes& call) {
  LayerMemory memory = plain(call);
  memory.saved = shape_bytes(call.inputs[0]);
  return memory;
}

LayerMemory mean_sequence(const CallShapes& call) {
  LayerMemory memory = select_position(call);
  memory.backward_workspace = call.output.bytes();
  return memory;
}

/// The weights of a sample's positions.
LayerMemory masked_mean_sequence(const CallShapes& call) {
  LayerMemory memory = plain(call);
  const int64_t positions = call.inputs[1].count(), own = call.samples * call.inputs[0].shape[1];
  const bool is_view = call.compute == call.master;  // of the weights of all positions
  memory.saved = is_view ? positions * call.master : own * call.compute;
  set_forward_peak(memory, {positions * (1 + call.master), positions * call.master + call.samples * call.master,
                            memory.saved + memory.output});
  return memory;
}

LayerMemory image_tokens(const CallShapes& call) { return renamed(call, shape_bytes(call.inputs[0])); }

LayerMemory layer_norm(const CallShapes& call) {
  LayerMemory memory = plain(call);
  const CallTensor& x = call.inputs[0];
  const int64_t rows = x.count() / x.shape.back(), floats = x.count() * call.master;
  memory.keeps_input[0] = true;
  memory.saved = 2 * rows * call.master;
  const int64_t sums = 4 * x.shape.back() * call.master;
  memory.backward_workspace = sums;
  if (call.compute == call.master) return memory;
  set_forward_peak(memory, {memory.saved + 2 * floats, memory.saved + floats + memory.output});
  set_backward_peak(memory, {3 * floats + sums, floats + x.bytes() + sums});
  return memory;
}

LayerMemory softmax(const CallShapes& call) {
  LayerMemory memory = plain(call);
  memory.keeps_output = true;
  if (call.output.shape.size() == 4) memory.forward_workspace = call.output.bytes();  // ATen gives images in another order
  memory.backward_workspace = 2 * call.output.bytes();
  return memory;
}

struct AttentionSizes {
  int64_t queries, keys, weights;  ///< bytes of each; keys as many as values
  int64_t elements;                ///< of the weights
  bool copies;                     ///< heads are brought apart by a copy
};

AttentionSizes attention_sizes(const CallShapes& call) {
  const bool fused = flag(call, "fused"), split_heads = call.option->output == Placement::shard(2);
  const int64_t heads = number(call, "heads") / (split_heads ? call.tensor : 1);
  const int64_t positions = call.output.shape[1], keys = fused ? positions : call.inputs[1].shape[1];
  const int64_t elements = call.samples * heads * positions * keys;
  return {.queries = call.output.bytes(), .keys = fused ? call.output.bytes() : call.inputs[1].bytes(), .weights = elements * call.compute,
          .elements = elements, .copies = fused || (heads > 1 && positions > 1)};
}

LayerMemory attention(const CallShapes& call) {
  LayerMemory memory = plain(call);
  const AttentionSizes s = attention_sizes(call);
  const bool drops = real(call, "dropout") > 0;
  const int64_t parts = s.queries + 2 * s.keys, causal = flag(call, "causal") ? s.elements / std::max<int64_t>(call.samples, 1) : 0;
  const int64_t joined = s.copies ? s.queries : 0;
  memory.saved = s.weights + (s.copies ? parts : 0) + (drops ? s.elements : 0);
  if (!s.copies)
    for (size_t i = 0; i < 3; ++i) memory.keeps_input[i] = true;
  // scores beside the weights; the dropped weights (and the mask in their type) beside all that is saved; the average by heads
  const int64_t dropped = drops ? s.weights : 0;
  set_forward_peak(memory, {(s.copies ? parts : 0) + 2 * s.weights + causal / std::max<int64_t>(number(call, "heads"), 1),
                            memory.saved + 2 * dropped, memory.saved + dropped + joined + s.queries});
  if (flag(call, "padding")) memory.input_gradients.back() = 0;
  // values, then scores' and weights' gradients with queries, then with keys; fused: all three stacked
  const int64_t g = joined, after = g + s.keys, both = 2 * s.weights;
  const int64_t stacked = flag(call, "fused") ? parts + s.queries * 3 : 0;
  set_backward_peak(memory, {g + dropped * 2, g + dropped + s.keys + (s.copies ? s.keys : 0), after + both,
                             after + both + s.queries + joined, after + both + s.queries + s.keys + (s.copies ? s.keys : 0),
                             g + stacked});
  return memory;
}

/// By autograd: tanh of all pairs [n, t, s, units], the weights [n, t, s], the projected memory's and queries' inputs.
LayerMemory additive_attention(const CallShapes& call) {
  LayerMemory memory = plain(call);
  memory.keeps_input.assign(call.inputs.size(), true);
  const int64_t n = call.samples, queries = call.inputs[0].shape[1], keys = call.inputs[1].shape[1], units = call.parameters[0].shape[0];
  const int64_t pairs = n * queries * keys * call.compute, mask = n * keys, small = (n * queries + n * keys) * units * call.compute;
  memory.saved = pairs * units + pairs + mask + 2 * units * call.compute;
  set_forward_peak(memory, {2 * pairs * units + small + pairs, memory.saved + pairs + call.output.bytes()});
  memory.input_gradients[2] = 0;
  // gradients of the tanh and of what it was taken of; the weights have been let go by then, the memory's first summand is there
  set_backward_peak(memory, {2 * pairs * units - pairs + memory.input_gradients[1]});
  return memory;
}

LayerMemory lstm(const CallShapes& call) {
  LayerMemory memory = plain(call);
  const int64_t n = call.samples, steps = call.inputs[0].shape[1], units = call.parameters[0].shape[1];
  const int64_t width = call.parameters[1].shape[2];  // of h, whole
  const bool projects = number(call, "projection") > 0;
  const int64_t gates = n * steps * 4 * units * call.compute, step = n * units * call.master;
  memory.keeps_input[0] = true;
  memory.saved = gates + n * steps * width * call.compute + (steps + 1) * step;
  if (projects) memory.saved += n * steps * units * call.compute;
  if (flag(call, "padding")) {
    memory.saved += n * steps;
    memory.input_gradients[1] = 0;
  }
  const int64_t biases = 4 * units * call.compute;
  memory.forward_workspace = biases + 2 * step;
  const int64_t projected = projects ? call.output.bytes() : 0;
  const int64_t x = call.wanted[0] ? call.inputs[0].bytes() : 0;
  set_backward_peak(memory, {gates + projected + 5 * step + n * width * call.compute, gates + projected + x + biases});
  return memory;
}

}  // namespace

const DeclarationTable& sequence_layers() {
  static const DeclarationTable table{
      {"linear", linear}, {"embedding", embedding}, {"position_embedding", position_embedding}, {"first_row", first_row},
      {"class_token", class_token}, {"select_position", select_position}, {"mean_sequence", mean_sequence},
      {"masked_mean_sequence", masked_mean_sequence}, {"image_tokens", image_tokens}, {"layer_norm", layer_norm}, {"softmax", softmax},
      {"attention", attention}, {"additive_attention", additive_attention}, {"lstm", lstm}, {"stateful_lstm", lstm}};
  return table;
}

}  // namespace trireme::declared
