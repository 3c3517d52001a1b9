// GNMT (Wu et al., "Google's Neural Machine Translation System", 2016): a stack of LSTM layers as encoder, the first in
// both directions, and one as decoder; residuals from the third layer on. The output of the decoder's first layer is
// the attention's query. All layers above it read the attention's result for the same position. (Later implementations
// do so too, because layers can then run one after the other over a whole sentence. In the paper the first layer reads
// the result for the previous position.)
#include <fmt/format.h>

#include "trireme/error.h"
#include "trireme/layers/add.h"
#include "trireme/layers/additive_attention.h"
#include "trireme/layers/concat.h"
#include "trireme/layers/embedding.h"
#include "trireme/layers/linear.h"
#include "trireme/layers/lstm.h"
#include "trireme/layers/slice.h"
#include "trireme/zoo.h"
#include "zoo/builders.h"
#include "zoo/token_builder.h"

namespace trireme {
namespace {

constexpr int kFeatures = 2;            // the dim of features of [samples, positions, features]
constexpr int kFirstResidual = 2;       // first layer with a residual
constexpr double kGnmtDeviation = 0.1;  // of the initial embeddings

class Gnmt {
 public:
  Gnmt(ModelBuilder& b, int64_t width, int layers, double dropout)
      : b_(b), width_(width), layers_(layers), dropout_(dropout) {}

  NodeId embed(NodeId tokens, const std::string& side, int64_t vocabulary) {
    return b_.layer<Embedding>({tokens}, side + ".embedder", vocabulary, width_, EmbeddingOptions{kGnmtDeviation});
  }

  NodeId encode(NodeId x, NodeId source) {
    const auto direction = [&](const char* name, bool reverse) {
      return b_.layer<Lstm>({x, source}, name, width_, width_,
                            LstmOptions{.module = "encoder.rnn_layers.0", .padding = true, .reverse = reverse});
    };
    x = b_.layer<Concat>({direction("encoder.rnn_layers.0", false), direction("encoder.rnn_layers.0.reverse", true)},
                         "encoder.concat", kFeatures);
    for (int i = 1; i < layers_; ++i) x = residual(x, lstm(drop(x, "encoder", i), "encoder", i), "encoder", i);
    return x;
  }

  NodeId decode(NodeId x, NodeId memory, NodeId source) {
    x = lstm(drop(x, "decoder", 0), "decoder", 0);
    const NodeId read = b_.layer<AdditiveAttention>(
        {x, memory, source}, "decoder.attention",
        AdditiveAttentionOptions{.query_width = width_, .memory_width = width_, .units = width_});
    for (int i = 1; i < layers_; ++i) {
      const NodeId both =
          b_.layer<Concat>({drop(x, "decoder", i), read}, fmt::format("decoder.concat.{}", i), kFeatures);
      x = residual(x, lstm(both, "decoder", i), "decoder", i);
    }
    return x;
  }

 private:
  NodeId lstm(NodeId x, const std::string& side, int i) {
    return b_.layer<Lstm>({x}, fmt::format("{}.rnn_layers.{}", side, i), b_.shape(x).back(), width_);
  }
  NodeId residual(NodeId x, NodeId y, const std::string& side, int i) {
    return i < kFirstResidual ? y : b_.layer<Add>({x, y}, fmt::format("{}.add.{}", side, i));
  }
  NodeId drop(NodeId x, const std::string& side, int i) {
    return dropout_after(b_, x, fmt::format("{}.dropout.{}", side, i), dropout_);
  }

  ModelBuilder& b_;
  int64_t width_;
  int layers_;
  double dropout_;
};

Model make_gnmt(const ModelSpec& spec, const ModelOptions& options) {
  require_tokens(spec);
  if (spec.task != LearningTask::translation)
    fail_user({.where = fmt::format("model \"{}\"", spec.name),
               .what = fmt::format("a data set for {}", name_of(spec.task)),
               .why = "it is a model for translation",
               .next = "use a data set of parallel text"});
  if (options.at("layers") < 2)
    fail_user({.where = fmt::format("model \"{}\"", spec.name),
               .what = fmt::format("options.layers = {}", options.at("layers")),
               .why = "its second layer joins both directions of the first",
               .next = "use at least 2"});
  const int64_t width = int64_t(options.at("width")), all = spec.sample_shape[0], ahead = all - spec.target_shape[0];
  ModelBuilder b(spec.name);
  Gnmt net(b, width, int(options.at("layers")), options.at("probability"));
  const NodeId tokens = b.input("data", spec.sample_shape), target = b.input("target", spec.target_shape);
  const NodeId source = b.layer<Slice>({tokens}, "source", SliceOptions{.begin = 0, .end = ahead});
  const NodeId given = b.layer<Slice>({tokens}, "given", SliceOptions{.begin = ahead, .end = all});
  const NodeId memory = net.encode(net.embed(source, "encoder", vocabulary_of(spec)), source);
  NodeId x = net.decode(net.embed(given, "decoder", spec.classes), memory, source);
  return finish_with_loss(b, b.layer<Linear>({x}, "decoder.classifier", width, spec.classes), target, spec);
}

}  // namespace

/// Translation (Wu et al., 2016). Option layers: the number of encoder layers, and of decoder layers.
std::vector<NamedModel> gnmt_models() {
  using enum ModelOption::Kind;
  return {{"gnmt",
           "translation by LSTMs with attention (Wu et al., 2016)",
           make_gnmt,
           {{"layers", 8, count}, {"width", 1024}, {"probability", 0.2, share}},
           {{LearningTask::translation}, /*tokens=*/true}}};
}

}  // namespace trireme
