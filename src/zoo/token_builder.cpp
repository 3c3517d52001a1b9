#include "zoo/token_builder.h"

#include <fmt/format.h>

#include "trireme/error.h"
#include "trireme/layers/dropout.h"

namespace trireme {

void require_tokens(const ModelSpec& spec) {
  if (spec.sample_shape.size() == 1 && vocabulary_of(spec) > 0) return;
  fail_user({.where = fmt::format("model \"{}\"", spec.name),
             .what = fmt::format("samples of shape {}", to_string(spec.sample_shape)),
             .why = "it reads token ids [positions]",
             .next = "use it with a text"});
}

int64_t vocabulary_of(const ModelSpec& spec) { return spec.vocabulary > 0 ? spec.vocabulary : spec.classes; }

ModelSpec with_own_vocabulary(ModelSpec spec, const ModelOptions& options) {
  const auto own = options.find(kVocabularyOption.name);
  if (own == options.end() || own->second == 0) return spec;
  const auto vocabulary = int64_t(own->second);
  if (const int64_t of_data = vocabulary_of(spec); vocabulary < of_data)
    fail_user({.where = fmt::format("model \"{}\"", spec.name),
               .what = fmt::format("option \"vocabulary\" = {}", vocabulary),
               .why = fmt::format("the data have {} different tokens", of_data),
               .next = "use at least that many, or 0 for those of the data"});
  spec.vocabulary = vocabulary;
  if (spec.task == LearningTask::language) spec.classes = vocabulary;
  return spec;
}

NodeId dropout_after(ModelBuilder& b, NodeId x, const std::string& name, double probability) {
  return probability > 0 ? b.layer<Dropout>({x}, name, probability) : x;
}

}  // namespace trireme
