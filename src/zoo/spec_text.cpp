#include "zoo/spec_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "base/text.h"
#include "trireme/error.h"

namespace trireme {
namespace {

using nlohmann::json;

constexpr LearningTask kTasks[] = {LearningTask::classification, LearningTask::segmentation, LearningTask::language,
                                   LearningTask::translation, LearningTask::regression};

/// Returns the given options, and the present defaults of the others, because defaults may change.
std::map<std::string, double> all_options(const ModelSpec& spec) {
  const auto names = model_names();
  if (std::find(names.begin(), names.end(), spec.name) == names.end()) return spec.options;
  std::map<std::string, double> options = model_options(spec.name);
  for (const auto& [name, value] : spec.options) options[name] = value;
  return options;
}

}  // namespace

void to_json(json& j, LearningTask task) { j = name_of(task); }
void from_json(const json& j, LearningTask& task) {
  const auto name = j.get<std::string>();
  const auto found = std::ranges::find(kTasks, name, [](LearningTask t) { return name_of(t); });
  if (found == std::end(kTasks)) throw std::invalid_argument(fmt::format("\"{}\" is not a task", name));
  task = *found;
}
// label_smoothing and the fields after it belong to the training and are not in the text.
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(ModelSpec, name, options, sample_shape, classes, target_shape, vocabulary, task)

std::string to_text(const ModelSpec& spec) {
  json j = spec;
  j["options"] = all_options(spec);
  return j.dump(-1, ' ', false, json::error_handler_t::replace);
}

ModelSpec spec_from_text(const std::string& text, const std::string& where) {
  try {
    return json::parse(text).get<ModelSpec>();
  } catch (const std::exception& error) {
    fail_user({.where = where,
               .what = "its description of the model cannot be read",
               .why = first_line(error),
               .next = "use an experiment whose model.weights is this file"});
  }
}

}  // namespace trireme
