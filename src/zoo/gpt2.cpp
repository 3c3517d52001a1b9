// GPT-2 (Radford et al., "Language Models are Unsupervised Multitask Learners", 2019), with the names of Hugging Face's
// GPT2LMHeadModel. Queries, keys and values are one projection; weights of projections are [in, out]. Initial values as
// in the paper's code: normal with deviation 0.02; projections to the residual stream have a smaller deviation, which
// decreases with their number.
#include <fmt/format.h>

#include <cmath>

#include "trireme/layers/activation.h"
#include "trireme/layers/add.h"
#include "trireme/layers/attention.h"
#include "trireme/layers/embedding.h"
#include "trireme/layers/layer_norm.h"
#include "trireme/layers/linear.h"
#include "trireme/layers/position_embedding.h"
#include "trireme/zoo.h"
#include "zoo/builders.h"
#include "zoo/token_builder.h"

namespace trireme {
namespace {

constexpr double kGpt2Deviation = 0.02;

class Gpt2 {
 public:
  Gpt2(ModelBuilder& b, int64_t width, int64_t heads, int64_t layers, double dropout)
      : b_(b), width_(width), heads_(heads), layers_(layers), dropout_(dropout) {}

  NodeId block(NodeId x, const std::string& name) {
    x = b_.layer<Add>({x, attention(norm(x, name + ".ln_1"), name + ".attn")}, name + ".add_1");
    return b_.layer<Add>({x, perceptron(norm(x, name + ".ln_2"), name + ".mlp")}, name + ".add_2");
  }
  NodeId norm(NodeId x, const std::string& name) { return b_.layer<LayerNorm>({x}, name, width_); }
  NodeId drop(NodeId x, const std::string& name) { return dropout_after(b_, x, name, dropout_); }

 private:
  NodeId attention(NodeId x, const std::string& name) {
    x = projection(x, name + ".c_attn", width_, kGpt2Deviation, 3);
    x = b_.layer<Attention>({x}, name + ".heads",
                            AttentionOptions{.heads = heads_, .causal = true, .dropout = dropout_, .fused = true});
    return drop(projection(x, name + ".c_proj", width_, residual_deviation()), name + ".resid_dropout");
  }
  NodeId perceptron(NodeId x, const std::string& name) {
    x = projection(x, name + ".c_fc", kHiddenPerWidth * width_, kGpt2Deviation);
    x = b_.layer<Activation>({x}, name + ".act", Function::gelu_tanh);
    return drop(projection(x, name + ".c_proj", width_, residual_deviation()), name + ".dropout");
  }
  /// A linear layer in the form of Hugging Face's Conv1D.
  NodeId projection(NodeId x, const std::string& name, int64_t out, double deviation, int64_t parts = 0) {
    return b_.layer<Linear>({x}, name, b_.shape(x).back(), out,
                            LinearOptions{.deviation = deviation, .parts = parts, .transposed = true});
  }
  double residual_deviation() const { return kGpt2Deviation / std::sqrt(2.0 * double(layers_)); }

  ModelBuilder& b_;
  int64_t width_, heads_, layers_;
  double dropout_;
};

Model make_gpt2(const ModelSpec& spec, const ModelOptions& options) {
  require_tokens(spec);
  const auto size = [&](const char* key) { return int64_t(options.at(key)); };
  const int64_t width = size("width"), vocabulary = vocabulary_of(spec);
  ModelBuilder b(spec.name);
  Gpt2 net(b, width, size("heads"), size("layers"), options.at("probability"));
  NodeId x = b.input("data", spec.sample_shape);
  const NodeId target = b.input("target", spec.target_shape);
  x = b.layer<Embedding>({x}, "transformer.wte", vocabulary, width, EmbeddingOptions{kGpt2Deviation});
  x = net.drop(b.layer<PositionEmbedding>({x}, "transformer.wpe", size("positions"), width, kGpt2Deviation),
               "transformer.drop");
  for (int64_t i = 0; i < size("layers"); ++i) x = net.block(x, fmt::format("transformer.h.{}", i));
  x = net.norm(x, "transformer.ln_f");
  const NodeId logits = b.layer<Linear>(
      {x}, "lm_head", width, vocabulary,
      LinearOptions{.bias = false, .weight_name = "transformer.wte.weight", .deviation = kGpt2Deviation});
  return finish_with_loss(b, logits, target, spec);
}

}  // namespace

std::vector<NamedModel> gpt2_models() {
  using enum ModelOption::Kind;
  return {{"gpt2",
           "Hugging Face's GPT2LMHeadModel (Radford et al., 2019)",
           make_gpt2,
           {{"layers", 12, count},
            {"width", 768},
            {"heads", 12},
            {"positions", 1024},
            {"probability", 0.1, share},
            kVocabularyOption},
           {{LearningTask::language}, /*tokens=*/true}}};
}

}  // namespace trireme
