// BigLSTM (Jozefowicz et al., "Exploring the Limits of Language Modeling", 2016): LSTM layers with projections,
// residuals between them, and a softmax over a large vocabulary, which can be sampled in training.
#include <fmt/format.h>

#include "trireme/error.h"
#include "trireme/layers/add.h"
#include "trireme/layers/embedding.h"
#include "trireme/layers/linear.h"
#include "trireme/layers/lstm.h"
#include "trireme/layers/sampled_softmax.h"
#include "trireme/zoo.h"
#include "zoo/builders.h"
#include "zoo/token_builder.h"

namespace trireme {
namespace {

Model make_big_lstm(const ModelSpec& spec, const ModelOptions& options) {
  require_tokens(spec);
  const auto size = [&](const char* key) { return int64_t(options.at(key)); };
  const int64_t projection = size("projection"), vocabulary = vocabulary_of(spec), samples = size("samples");
  const double probability = options.at("probability");
  if (samples >= vocabulary)
    fail_user({.where = fmt::format("model \"{}\"", spec.name),
               .what = fmt::format("option \"samples\" = {}", samples),
               .why = fmt::format("the vocabulary has {} words", vocabulary),
               .next = "use fewer, or 0 for the whole softmax"});
  ModelBuilder b(spec.name);
  NodeId x = b.input("data", spec.sample_shape);
  const NodeId target = b.input("target", spec.target_shape);
  x = b.layer<Embedding>({x}, "encoder", vocabulary, projection);
  x = dropout_after(b, x, "drop.0", probability);
  for (int i = 0; i < int(size("layers")); ++i) {
    const NodeId y = b.layer<Lstm>(
        {x}, fmt::format("rnn.{}", i), projection, size("hidden"),
        LstmOptions{.stateful = options.at("stateful") != 0, .module = "rnn", .index = i, .projection = projection});
    const NodeId dropped = dropout_after(b, y, fmt::format("drop.{}", i + 1), probability);
    x = b.layer<Add>({x, dropped}, fmt::format("add.{}", i));
  }
  if (samples == 0) return finish_with_loss(b, b.layer<Linear>({x}, "decoder", projection, vocabulary), target, spec);
  const NodeId loss = b.layer<SampledSoftmax>(
      {x, target}, "loss",
      SampledSoftmaxOptions{.width = projection, .classes = vocabulary, .samples = samples, .module = "decoder"});
  return b.finish(x, loss);
}

}  // namespace

/// Option samples: number of classes in the sample of a training step; 0: all.
std::vector<NamedModel> big_lstm_models() {
  using enum ModelOption::Kind;
  return {{"big-lstm",
           "language model of LSTMs with projections (Jozefowicz et al., 2016)",
           make_big_lstm,
           {{"layers", 2, count},
            {"hidden", 8192},
            {"projection", 1024},
            {"samples", 8192, size_or_none},
            {"probability", 0.1, share},
            {"stateful", 1, flag},
            kVocabularyOption},
           {{LearningTask::language}, /*tokens=*/true}}};
}

}  // namespace trireme
