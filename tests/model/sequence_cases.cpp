// Cases of layers for sequences that transformer_cases.cpp does not have.
#include "layer_cases.h"
#include "trireme/layers/additive_attention.h"
#include "trireme/layers/attention.h"
#include "trireme/layers/class_token.h"
#include "trireme/layers/linear.h"
#include "trireme/layers/lstm.h"
#include "trireme/layers/masked_mean_sequence.h"
#include "trireme/layers/position_embedding.h"
#include "trireme/layers/select_position.h"
#include "trireme/layers/slice.h"
#include "trireme/layers/softmax.h"

namespace trireme::test_support {

std::vector<LayerCase> sequence_cases() {
  const Shape sequence{8, 12};
  auto linear = [](LinearOptions o) { return std::make_shared<const Linear>("layer", 8, 4, o); };
  auto attention = [](AttentionOptions o) { return std::make_shared<const Attention>("layer", o); };
  auto positions = [](int64_t rows, PositionEmbeddingOptions o) {
    return std::make_shared<const PositionEmbedding>("layer", rows, 12, 0.02, o);
  };
  auto lstm = [](LstmOptions o) { return std::make_shared<const Lstm>("layer", 6, 8, o); };
  auto additive = [](AdditiveAttentionOptions o) { return std::make_shared<const AdditiveAttention>("layer", o); };
  return {
      {"softmax", std::make_shared<const Softmax>("layer"), {sequence}},
      {"slice", std::make_shared<const Slice>("layer", SliceOptions{.begin = 2, .end = 5}), {sequence}},
      {"select_position", std::make_shared<const SelectPosition>("layer", 2), {sequence}},
      {"select_last", std::make_shared<const SelectPosition>("layer", -1), {sequence}},
      {"class_token", std::make_shared<const ClassToken>("layer", 12), {{7, 12}}},
      {"masked_mean_sequence", std::make_shared<const MaskedMeanSequence>("layer"), {sequence, {8}}, 3},
      {"linear_parts", linear({.parts = 3}), {{5, 8}}},
      {"linear_parts_features", linear({.bias = false, .parts = 2}), {{8}}},
      {"linear_transposed", linear({.transposed = true}), {{8}}},
      {"linear_parts_transposed", linear({.parts = 3, .transposed = true}), {{4, 8}}},
      {"attention_fused", attention({.heads = 8, .fused = true}), {{6, 3, 16}}},
      {"attention_fused_causal",
       attention({.heads = 4, .causal = true, .fused = true, .padding = true}),
       {{6, 3, 8}, {6}},
       0,
       0,
       3},
      {"attention_padding", attention({.heads = 8, .padding = true}), {{8, 16}, {5, 16}, {5, 16}, {5}}, 0, 0, 3},
      {"position_embedding_table", positions(10, {}), {sequence}},
      {"position_embedding_batch_dim", positions(8, {.parameter_name = "table", .batch_dim = true}), {sequence}},
      {"lstm_projection", lstm({.projection = 3}), {{5, 6}}},
      {"lstm_reverse", lstm({.reverse = true}), {{5, 6}}},
      {"lstm_projection_reverse", lstm({.projection = 4, .reverse = true}), {{4, 6}}},
      {"lstm_padding", lstm({.padding = true, .reverse = true}), {{5, 6}, {5}}, 3},
      {"lstm_padding_projection", lstm({.projection = 4, .padding = true}), {{5, 6}, {5}}, 3},
      {"additive_attention",
       additive({.query_width = 6, .memory_width = 4, .units = 5}),
       {{8, 6}, {5, 4}, {5}},
       0,
       0,
       3},
  };
}

}  // namespace trireme::test_support
