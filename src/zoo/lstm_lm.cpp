// A word-level language model of LSTM layers (Zaremba, Sutskever, Vinyals, "Recurrent Neural Network Regularization",
// 2014), with the parameter names of PyTorch's example word_language_model.
#include <fmt/format.h>

#include "trireme/error.h"
#include "trireme/layers/dropout.h"
#include "trireme/layers/embedding.h"
#include "trireme/layers/linear.h"
#include "trireme/layers/lstm.h"
#include "trireme/zoo.h"
#include "zoo/builders.h"
#include "zoo/token_builder.h"

namespace trireme {
namespace {

constexpr double kEmbeddingDeviation = 0.1;

Model make_lstm_lm(const ModelSpec& spec, const ModelOptions& options) {
  if (spec.sample_shape.size() != 1)
    fail_user({.where = fmt::format("model \"{}\"", spec.name),
               .what = fmt::format("samples of shape {}", to_string(spec.sample_shape)),
               .why = "it reads token ids [steps]",
               .next = "use it with a text, for example data.name = \"generated-text\""});
  const auto width = int64_t(options.at("width")), layers = int64_t(options.at("layers"));
  const double probability = options.at("probability");
  const bool stateful = options.at("stateful") != 0;
  ModelBuilder b(spec.name);
  NodeId end = b.input("data", spec.sample_shape);
  const NodeId target = b.input("target", spec.sample_shape);
  auto drop = [&](const std::string& name) {
    if (probability > 0) end = b.layer<Dropout>({end}, name, probability);
  };
  end = b.layer<Embedding>({end}, "encoder", spec.classes, width, EmbeddingOptions{.deviation = kEmbeddingDeviation});
  drop("drop.encoder");
  for (int64_t i = 0; i < layers; ++i) {
    end = b.layer<Lstm>({end}, fmt::format("rnn.{}", i), width, width,
                        LstmOptions{.stateful = stateful, .module = "rnn", .index = int(i)});
    drop(fmt::format("drop.{}", i));
  }
  const NodeId logits = b.layer<Linear>({end}, "decoder", width, spec.classes);
  return finish_with_loss(b, logits, target, spec);
}

}  // namespace

/// Options. probability: of dropout. stateful = 0: every sample starts from zeros.
std::vector<NamedModel> lstm_lm_models() {
  using enum ModelOption::Kind;
  return {{"lstm-lm",
           "language model of LSTM layers over a stream of text",
           make_lstm_lm,
           {{"layers", 2, count}, {"width", 200}, {"probability", 0, share}, {"stateful", 1, flag}, kVocabularyOption},
           {{LearningTask::language}, /*tokens=*/true}}};
}

}  // namespace trireme
