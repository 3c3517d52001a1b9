// A bag of words: the mean of the words' vectors and a linear layer (Joulin et al., "Bag of Tricks for Efficient Text
// Classification", 2016: fastText without n-grams), with the parameter names of PyTorch's tutorial on text
// classification.
#include "trireme/layers/embedding.h"
#include "trireme/layers/linear.h"
#include "trireme/layers/masked_mean_sequence.h"
#include "trireme/model.h"
#include "trireme/zoo.h"
#include "zoo/builders.h"
#include "zoo/token_builder.h"

namespace trireme {
namespace {

constexpr double kBagOfWordsDeviation = 0.1;  // of the initial word vectors

Model make_bag_of_words(const ModelSpec& spec, const ModelOptions& options) {
  require_tokens(spec);
  const auto width = int64_t(options.at("width"));
  ModelBuilder b(spec.name);
  const NodeId tokens = b.input("data", spec.sample_shape), target = b.input("target", spec.target_shape);
  const NodeId words = b.layer<Embedding>({tokens}, "embedding", vocabulary_of(spec), width,
                                          EmbeddingOptions{kBagOfWordsDeviation, kPadding});
  const NodeId mean = b.layer<MaskedMeanSequence>({words, tokens}, "mean");
  return finish_with_loss(b, b.layer<Linear>({mean}, "fc", width, spec.classes), target, spec);
}

}  // namespace

std::vector<NamedModel> bag_of_words_models() {
  return {{"bag-of-words",
           "the mean of the words' vectors, and a linear layer (Joulin et al., 2016)",
           make_bag_of_words,
           {{"width", 100}, kVocabularyOption},
           {{LearningTask::classification, LearningTask::regression}, /*tokens=*/true}}};
}

}  // namespace trireme
