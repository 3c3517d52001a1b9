// BERT's encoder with a classification head (Devlin et al., "BERT: Pre-training of Deep Bidirectional Transformers for
// Language Understanding", 2018), with the names of Hugging Face's BertForSequenceClassification. Padding is masked;
// all tokens have type 0.
#include <fmt/format.h>

#include "trireme/layers/activation.h"
#include "trireme/layers/add.h"
#include "trireme/layers/attention.h"
#include "trireme/layers/embedding.h"
#include "trireme/layers/first_row.h"
#include "trireme/layers/layer_norm.h"
#include "trireme/layers/linear.h"
#include "trireme/layers/position_embedding.h"
#include "trireme/layers/select_position.h"
#include "trireme/zoo.h"
#include "zoo/builders.h"
#include "zoo/token_builder.h"

namespace trireme {
namespace {

constexpr double kBertDeviation = 0.02, kBertEpsilon = 1e-12;
constexpr int64_t kTokenTypes = 2;

class Bert {
 public:
  Bert(ModelBuilder& b, NodeId tokens, int64_t width, int64_t heads, double dropout)
      : b_(b), tokens_(tokens), width_(width), heads_(heads), dropout_(dropout) {}

  NodeId embed(int64_t vocabulary, int64_t positions) {
    const std::string name = "bert.embeddings";
    NodeId x =
        b_.layer<Embedding>({tokens_}, name + ".word_embeddings", vocabulary, width_, EmbeddingOptions{kBertDeviation});
    x = b_.layer<PositionEmbedding>({x}, name + ".position_embeddings", positions, width_, kBertDeviation);
    x = b_.layer<FirstRow>({x}, name + ".token_type_embeddings", kTokenTypes, width_, kBertDeviation);
    return drop(norm(x, name + ".LayerNorm"), name + ".dropout");
  }

  NodeId layer(NodeId x, const std::string& name) {
    const std::string self = name + ".attention.self";
    NodeId heads =
        b_.layer<Attention>({linear(x, self + ".query", width_), linear(x, self + ".key", width_, /*idle_bias=*/true),
                             linear(x, self + ".value", width_), tokens_},
                            self + ".heads", AttentionOptions{.heads = heads_, .dropout = dropout_, .padding = true});
    x = join(x, heads, name + ".attention.output");
    NodeId hidden = linear(x, name + ".intermediate.dense", kHiddenPerWidth * width_);
    return join(x, b_.layer<Activation>({hidden}, name + ".intermediate.gelu", Function::gelu), name + ".output");
  }

  /// Returns the state of the first token, after the pooler.
  NodeId pool(NodeId x) {
    x = b_.layer<SelectPosition>({x}, "bert.pooler.first");
    x = b_.layer<Activation>({linear(x, "bert.pooler.dense", width_)}, "bert.pooler.tanh", Function::tanh);
    return drop(x, "dropout");
  }

  NodeId linear(NodeId x, const std::string& name, int64_t out, bool idle_bias = false) {
    return b_.layer<Linear>({x}, name, b_.shape(x).back(), out,
                            LinearOptions{.deviation = kBertDeviation, .idle_bias = idle_bias});
  }

 private:
  /// Projection, sum and norm, in this order.
  NodeId join(NodeId x, NodeId branch, const std::string& name) {
    branch = drop(linear(branch, name + ".dense", width_), name + ".dropout");
    return norm(b_.layer<Add>({x, branch}, name + ".add"), name + ".LayerNorm");
  }
  NodeId norm(NodeId x, const std::string& name) {
    return b_.layer<LayerNorm>({x}, name, width_, LayerNormOptions{kBertEpsilon});
  }
  NodeId drop(NodeId x, const std::string& name) { return dropout_after(b_, x, name, dropout_); }

  ModelBuilder& b_;
  NodeId tokens_;
  int64_t width_, heads_;
  double dropout_;
};

Model make_bert(const ModelSpec& spec, const ModelOptions& options) {
  require_tokens(spec);
  const auto size = [&](const char* key) { return int64_t(options.at(key)); };
  ModelBuilder b(spec.name);
  const NodeId tokens = b.input("data", spec.sample_shape), target = b.input("target", spec.target_shape);
  Bert net(b, tokens, size("width"), size("heads"), options.at("probability"));
  NodeId x = net.embed(vocabulary_of(spec), size("positions"));
  for (int64_t i = 0; i < size("layers"); ++i) x = net.layer(x, fmt::format("bert.encoder.layer.{}", i));
  return finish_with_loss(b, net.linear(net.pool(x), "classifier", spec.classes), target, spec);
}

}  // namespace

std::vector<NamedModel> bert_models() {
  using enum ModelOption::Kind;
  return {{"bert",
           "Hugging Face's BertForSequenceClassification (Devlin et al., 2018)",
           make_bert,
           {{"layers", 12, count},
            {"width", 768},
            {"heads", 12},
            {"positions", 512},
            {"probability", 0.1, share},
            kVocabularyOption},
           {{LearningTask::classification, LearningTask::regression}, /*tokens=*/true}}};
}

}  // namespace trireme
