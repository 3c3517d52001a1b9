#include "cli/usual_models.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "base/text.h"
#include "data/open.h"
#include "data/text/text_sets.h"
#include "trireme/error.h"
#include "zoo/imported.h"
#include "zoo/zoo.h"

namespace trireme {
namespace {

constexpr int64_t kWords = 10000, kPieces = 8000;  // sizes of vocabularies that are otherwise counted in a data set

ModelSpec samples(Shape shape, int64_t classes, LearningTask task = LearningTask::classification, Shape target = {},
                  int64_t vocabulary = 0) {
  return {"", std::move(shape), classes, {}, task, std::move(target), vocabulary};
}

/// Samples for which models are built without an experiment: those of the known data sets.
const std::vector<ModelSpec>& known_samples() {
  static const std::vector<ModelSpec> known{
      samples({3, 32, 32}, 10),
      samples({1, 28, 28}, 10),
      samples({3, 64, 64}, 200),
      samples({3, 224, 224}, 1000),
      samples({3, 299, 299}, 1000),
      samples({kDefaultSequence}, 64, LearningTask::language, {kDefaultSequence}, 64),
      samples({kDefaultSequence}, kWords, LearningTask::language, {kDefaultSequence}, kWords),
      samples({kDefaultSentence}, 2, LearningTask::classification, {}, kWords),
      samples({2 * kDefaultTranslation}, kPieces, LearningTask::translation, {kDefaultTranslation}, kPieces),
      samples({3, 256, 256}, 81, LearningTask::segmentation, {256, 256})};
  return known;
}

void check_name(const std::string& name) {
  const auto names = model_names();
  if (std::find(names.begin(), names.end(), name) != names.end()) return;
  const std::string near = closest_match(name, names);
  fail_user({"--model", name, "is not known",
             near.empty() ? fmt::format("known are {}", join(names)) : fmt::format("did you mean \"{}\"?", near)});
}

ImportedModel model_of_file(const PlanShowOptions& options, const std::string& file) {
  std::error_code ignored;
  if (std::filesystem::is_directory(file, ignored))
    fail_user({"plan show", file, "it is a folder", "name a file in it"});
  if (!std::filesystem::is_regular_file(file, ignored))
    fail_user({"plan show", file, "there is no such file", "check the path"});
  if (options.sample.empty())
    fail_user({file, "its samples' shape", "a TorchScript file does not state it",
               "give it, --sample 3,224,224 (token ids: --sample 128 --vocabulary 30000), or name an experiment"});
  options.experiment.check_trust(file);
  return import_model(file,
                      {.name = file, .sample_shape = options.sample, .options = {}, .vocabulary = options.vocabulary});
}

}  // namespace

std::vector<Model> usual_models(const std::string& name) {
  std::vector<Model> models;
  for (ModelSpec spec : known_samples()) {
    if (!does(name, spec.task, spec.vocabulary > 0)) continue;
    spec.name = name;
    try {
      models.push_back(make_model(spec));
    } catch (const Error&) {  // these samples do not suit the model
    }
  }
  check_internal(!models.empty(), fmt::format("model {} takes the samples of a known data set", name));
  return models;
}

ImportedModel model_of_options(const PlanShowOptions& options, const std::string& name) {
  if (names_script_file(name)) return model_of_file(options, name);
  check_name(name);
  if (options.sample.empty()) {
    ImportedModel usual{.model = std::move(usual_models(name).front())};
    usual.notes.push_back(
        fmt::format("samples of {} are assumed; --sample states others", to_string(usual.model.node(0).sample_shape)));
    return usual;
  }
  constexpr int64_t kImageNetClasses = 1000;
  return {.model =
              make_model({name, options.sample, options.vocabulary > 0 ? options.vocabulary : kImageNetClasses, {}})};
}

}  // namespace trireme
