#include "zoo/spec_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "trireme/error.h"

namespace trireme {
namespace {

constexpr LearningTask kTasks[] = {LearningTask::classification, LearningTask::segmentation, LearningTask::language,
                                   LearningTask::translation, LearningTask::regression};

LearningTask task_of(const std::string& name) {
  for (LearningTask task : kTasks)
    if (name == name_of(task)) return task;
  throw std::invalid_argument(fmt::format("\"{}\" is not a task", name));
}

/// Returns the given options, and the present defaults of the others, because defaults may change.
std::map<std::string, double> all_options(const ModelSpec& spec) {
  const auto names = model_names();
  if (std::find(names.begin(), names.end(), spec.name) == names.end()) return spec.options;
  std::map<std::string, double> options = model_options(spec.name);
  for (const auto& [name, value] : spec.options) options[name] = value;
  return options;
}

}  // namespace

std::string to_text(const ModelSpec& spec) {
  return nlohmann::json{
      {"name", spec.name},         {"options", all_options(spec)},      {"sample_shape", spec.sample_shape},
      {"classes", spec.classes},   {"target_shape", spec.target_shape}, {"vocabulary", spec.vocabulary},
      {"task", name_of(spec.task)}}
      .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

ModelSpec spec_from_text(const std::string& text, const std::string& where) {
  try {
    const nlohmann::json j = nlohmann::json::parse(text);
    return {.name = j.at("name").get<std::string>(),
            .sample_shape = j.at("sample_shape").get<Shape>(),
            .classes = j.at("classes").get<int64_t>(),
            .options = j.at("options").get<std::map<std::string, double>>(),
            .task = task_of(j.at("task").get<std::string>()),
            .target_shape = j.at("target_shape").get<Shape>(),
            .vocabulary = j.at("vocabulary").get<int64_t>()};
  } catch (const std::exception& error) {
    fail_user({.where = where,
               .what = "its description of the model cannot be read",
               .why = first_line(error),
               .next = "use an experiment whose model.weights is this file"});
  }
}

}  // namespace trireme
