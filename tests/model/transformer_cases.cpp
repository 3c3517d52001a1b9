// Cases of the layers of transformers. Of the degrees 2, 3, 4 and 8 each divides some size.
#include "layer_cases.h"
#include "trireme/layers/activation.h"
#include "trireme/layers/add.h"
#include "trireme/layers/attention.h"
#include "trireme/layers/dropout.h"
#include "trireme/layers/embedding.h"
#include "trireme/layers/group_norm.h"
#include "trireme/layers/image_tokens.h"
#include "trireme/layers/layer_norm.h"
#include "trireme/layers/linear.h"
#include "trireme/layers/mean_sequence.h"
#include "trireme/layers/position_embedding.h"
#include "trireme/layers/rms_norm.h"
#include "trireme/layers/rotary_embedding.h"
#include "trireme/layers/softmax_cross_entropy.h"
#include "trireme/layers/swiglu.h"

namespace trireme::test_support {

std::vector<LayerCase> transformer_cases() {
  const Shape sequence{8, 12};
  auto attention = [](AttentionOptions o) { return std::make_shared<const Attention>("layer", o); };
  auto activation = [](Function f) { return std::make_shared<const Activation>("layer", f); };
  auto group_norm = [](int64_t c, int64_t g) {
    return std::make_shared<const GroupNorm>("layer", c, GroupNormOptions{.groups = g});
  };
  auto loss = [](SoftmaxCrossEntropyOptions o) { return std::make_shared<const SoftmaxCrossEntropy>("layer", o); };
  const AttentionOptions twelve{.heads = 12}, causal{.heads = 4, .causal = true},
      drops{.heads = 8, .causal = true, .dropout = 0.3};
  return {
      {"linear_long_sequence", std::make_shared<const Linear>("layer", 24, 8), {{12, 24}}},
      {"embedding", std::make_shared<const Embedding>("layer", 24, 8), {{}}, 0, 24},
      {"embedding_sequence", std::make_shared<const Embedding>("layer", 8, 12), {{24}}, 0, 8},
      {"embedding_padding",
       std::make_shared<const Embedding>("layer", 8, 12, EmbeddingOptions{.padding = 5}),
       {{24}},
       0,
       8},
      {"position_embedding", std::make_shared<const PositionEmbedding>("layer", 8, 12), {sequence}},
      {"layer_norm", std::make_shared<const LayerNorm>("layer", 12), {sequence}},
      {"layer_norm_twelve", std::make_shared<const LayerNorm>("layer", 7), {{12, 7}}},
      {"group_norm", group_norm(24, 8), {{24, 3, 2}}},
      {"group_norm_features", group_norm(24, 4), {{24}}},
      {"attention", attention(twelve), {{8, 24}, {8, 24}, {8, 24}}},
      {"attention_cross", attention({.heads = 8}), {{6, 16}, {5, 16}, {5, 16}}},
      {"attention_causal", attention(causal), {{12, 8}, {12, 8}, {12, 8}}},
      {"attention_dropout", attention(drops), {{8, 24}, {8, 24}, {8, 24}}},
      {"attention_key_heads", attention({.heads = 8, .causal = true, .key_heads = 4}), {{6, 16}, {6, 8}, {6, 8}}},
      {"attention_one_key_head", attention({.heads = 4, .dropout = 0.3, .key_heads = 1}), {{8, 16}, {5, 4}, {5, 4}}},
      {"rms_norm", std::make_shared<const RmsNorm>("layer", 12), {sequence}},
      {"rms_norm_twelve", std::make_shared<const RmsNorm>("layer", 7), {{12, 7}}},
      {"rotary_embedding",
       std::make_shared<const RotaryEmbedding>("layer", RotaryEmbeddingOptions{.heads = 4}),
       {{12, 16}}},
      {"rotary_embedding_long",
       std::make_shared<const RotaryEmbedding>(
           "layer", RotaryEmbeddingOptions{.heads = 2, .factor = 8, .original_positions = 64}),
       {{8, 24}}},
      {"swiglu", std::make_shared<const SwiGlu>("layer"), {sequence, sequence}},
      {"gelu", activation(Function::gelu), {sequence}},
      {"gelu_tanh", activation(Function::gelu_tanh), {sequence}},
      {"tanh", activation(Function::tanh), {{8}}},
      {"sigmoid", activation(Function::sigmoid), {{8, 5, 4}}},
      {"add_sequence", std::make_shared<const Add>("layer"), {sequence, sequence}},
      {"dropout_sequence", std::make_shared<const Dropout>("layer", 0.4), {sequence}},
      {"mean_sequence", std::make_shared<const MeanSequence>("layer"), {sequence}},
      {"image_tokens", std::make_shared<const ImageTokens>("layer"), {{8, 12, 2}}},
      {"cross_entropy_sequence", loss({}), {{8, 24}, {8}}, 24},
      {"cross_entropy_ignore", loss({.ignore_index = 2}), {{12, 8}, {12}}, 8},
  };
}

}  // namespace trireme::test_support
