// Transformers: a language model in the style of GPT-2 (Radford et al., "Language Models are Unsupervised Multitask
// Learners", 2019) and a classifier of images by patches (Dosovitskiy et al., "An Image is Worth 16x16 Words", 2020;
// with the mean of the positions in place of a class token). Norms precede their branches. Queries, keys and values
// have separate projections, so that each can be split by heads. Keys have no bias: a bias would add the same to all
// scores of a query, which the softmax cancels. Its gradient would be only rounding errors, with which Adam would
// change it.
#include <fmt/format.h>

#include <cmath>

#include "trireme/error.h"
#include "trireme/layers/activation.h"
#include "trireme/layers/add.h"
#include "trireme/layers/attention.h"
#include "trireme/layers/conv2d.h"
#include "trireme/layers/dropout.h"
#include "trireme/layers/embedding.h"
#include "trireme/layers/image_tokens.h"
#include "trireme/layers/layer_norm.h"
#include "trireme/layers/linear.h"
#include "trireme/layers/mean_sequence.h"
#include "trireme/layers/position_embedding.h"
#include "trireme/zoo.h"
#include "zoo/builders.h"
#include "zoo/token_builder.h"

namespace trireme {
namespace {

constexpr double kTransformerDeviation = 0.02;  // of initial weights, GPT-2's

struct BlockOptions {
  int64_t layers, width, heads;
  double dropout;
  bool causal;
  Function activation;
};

BlockOptions block_options(const ModelOptions& options, bool causal, Function activation) {
  return {int64_t(options.at("layers")),
          int64_t(options.at("width")),
          int64_t(options.at("heads")),
          options.at("probability"),
          causal,
          activation};
}

class TransformerBuilder {
 public:
  TransformerBuilder(ModelBuilder& builder, const BlockOptions& options) : b_(builder), o_(options) {}

  NodeId dropout(NodeId x, const std::string& name) {
    return o_.dropout > 0 ? b_.layer<Dropout>({x}, name, o_.dropout) : x;
  }

  /// Adds all blocks, "h.0", "h.1", ..., and the norm `last` after them.
  NodeId blocks(NodeId x, const std::string& last) {
    for (int64_t i = 0; i < o_.layers; ++i) {
      const std::string name = fmt::format("h.{}", i);
      NodeId attended = attention(b_.layer<LayerNorm>({x}, name + ".ln_1", o_.width), name + ".attn");
      x = b_.layer<Add>({x, attended}, name + ".add_1");
      NodeId expanded = perceptron(b_.layer<LayerNorm>({x}, name + ".ln_2", o_.width), name + ".mlp");
      x = b_.layer<Add>({x, expanded}, name + ".add_2");
    }
    return b_.layer<LayerNorm>({x}, last, o_.width);
  }

 private:
  NodeId attention(NodeId x, const std::string& name) {
    NodeId q = linear(x, name + ".q", o_.width), v = linear(x, name + ".v", o_.width);
    NodeId k = b_.layer<Linear>({x}, name + ".k", o_.width, o_.width,
                                LinearOptions{.bias = false, .deviation = kTransformerDeviation});
    NodeId heads = b_.layer<Attention>({q, k, v}, name + ".heads",
                                       AttentionOptions{.heads = o_.heads, .causal = o_.causal, .dropout = o_.dropout});
    return dropout(residual(heads, name + ".c_proj"), name + ".drop");
  }

  NodeId perceptron(NodeId x, const std::string& name) {
    NodeId hidden = linear(x, name + ".c_fc", kHiddenPerWidth * o_.width);
    hidden = b_.layer<Activation>({hidden}, name + ".gelu", o_.activation);
    return dropout(residual(hidden, name + ".c_proj"), name + ".drop");
  }

  NodeId linear(NodeId x, const std::string& name, int64_t out, double deviation = kTransformerDeviation) {
    return b_.layer<Linear>({x}, name, b_.shape(x).back(), out, LinearOptions{.deviation = deviation});
  }
  /// Adds a projection to the residual stream. The deviation of its weights decreases with the number of these
  /// projections.
  NodeId residual(NodeId x, const std::string& name) {
    return linear(x, name, o_.width, kTransformerDeviation / std::sqrt(2.0 * double(o_.layers)));
  }

  ModelBuilder& b_;
  BlockOptions o_;
};

[[noreturn]] void fail_samples(const ModelSpec& spec, std::string why, std::string next) {
  fail_user({.where = fmt::format("model \"{}\"", spec.name),
             .what = fmt::format("samples of shape {}", to_string(spec.sample_shape)),
             .why = std::move(why),
             .next = std::move(next)});
}

/// Returns [patches, width] from images cut into squares of `patch` pixels, or [positions, width] from sequences of
/// vectors.
NodeId embed(ModelBuilder& b, const ModelSpec& spec, NodeId x, int64_t width, int64_t patch) {
  const Shape& shape = spec.sample_shape;
  if (shape.size() == 2) return b.layer<Linear>({x}, "embed", shape[1], width);
  if (shape.size() != 3)
    fail_samples(spec, "it reads images [channels, height, width] or sequences [positions, features]",
                 "use another dataset or model");
  if (shape[1] % patch != 0 || shape[2] % patch != 0)
    fail_samples(spec, fmt::format("patches of {0}x{0} pixels do not cover it", patch),
                 "choose a patch that divides height and width");
  x = b.layer<Conv2d>({x}, "embed", Conv2dOptions{.in = shape[0], .out = width, .kernel = patch, .stride = patch});
  return b.layer<ImageTokens>({x}, "tokens");
}

Model make_transformer_lm(const ModelSpec& spec, const ModelOptions& options) {
  if (spec.sample_shape.size() != 1)
    fail_samples(spec, "it reads token ids [positions]",
                 "use it with a text, for example data.name = \"generated-text\"");
  const BlockOptions o = block_options(options, /*causal=*/true, Function::gelu_tanh);
  const bool tied = options.at("tied") != 0;
  ModelBuilder b(spec.name);
  TransformerBuilder transformer(b, o);
  NodeId x = b.input("data", spec.sample_shape);
  const NodeId target = b.input("target", spec.sample_shape);
  x = b.layer<Embedding>({x}, "wte", spec.classes, o.width, EmbeddingOptions{.deviation = kTransformerDeviation});
  x = b.layer<PositionEmbedding>({x}, "wpe", spec.sample_shape[0], o.width, kTransformerDeviation);
  x = transformer.blocks(transformer.dropout(x, "drop"), "ln_f");
  const NodeId logits = b.layer<Linear>(
      {x}, "lm_head", o.width, spec.classes,
      LinearOptions{.bias = false, .weight_name = tied ? "wte.weight" : "", .deviation = kTransformerDeviation});
  return finish_with_loss(b, logits, target, spec);
}

Model make_transformer_classifier(const ModelSpec& spec, const ModelOptions& options) {
  const BlockOptions o = block_options(options, /*causal=*/false, Function::gelu);
  ModelBuilder b(spec.name);
  TransformerBuilder transformer(b, o);
  NodeId x = b.input("data", spec.sample_shape);
  const NodeId target = b.input("target", spec.target_shape);
  x = embed(b, spec, x, o.width, int64_t(options.at("patch")));
  x = b.layer<PositionEmbedding>({x}, "wpe", b.shape(x)[0], o.width, kTransformerDeviation);
  x = transformer.blocks(transformer.dropout(x, "drop"), "ln_f");
  x = b.layer<MeanSequence>({x}, "pool");
  const NodeId logits = b.layer<Linear>({x}, "head", o.width, spec.classes);
  return finish_with_loss(b, logits, target, spec);
}

}  // namespace

/// Its number of positions is that of the samples. Option tied: the head's weight is the embedding's.
std::vector<NamedModel> transformer_lm_models() {
  using enum ModelOption::Kind;
  return {{"transformer-lm",
           "a language model in the style of GPT-2; its positions are those of the samples",
           make_transformer_lm,
           {{"layers", 4, count},
            {"width", 128},
            {"heads", 4},
            {"probability", 0, share},
            {"tied", 1, flag},
            kVocabularyOption},
           {{LearningTask::language}, /*tokens=*/true}}};
}

/// An encoder over an image's patches (or a sequence of vectors) and the mean of its positions. Option patch: side of a
/// patch, in pixels.
std::vector<NamedModel> transformer_classifier_models() {
  using enum ModelOption::Kind;
  return {{"transformer-classifier",
           "an encoder over an image's patches and the mean of its positions",
           make_transformer_classifier,
           {{"layers", 4, count}, {"width", 64}, {"heads", 4}, {"patch", 4}, {"probability", 0, share}}}};
}

}  // namespace trireme
