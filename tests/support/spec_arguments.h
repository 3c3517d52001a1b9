// Reads models from the command lines of programs that Python tests start.
#pragma once

#include <cstdlib>
#include <sstream>
#include <stdexcept>
#include <string>

#include "zoo/zoo.h"

namespace trireme::test_support {

/// Reads a shape such as "3,32,32".
inline Shape parse_shape(const std::string& text) {
  Shape shape;
  std::istringstream stream(text);
  for (std::string size; std::getline(stream, size, ',');) shape.push_back(std::atoll(size.c_str()));
  return shape;
}

inline LearningTask parse_task(const std::string& name) {
  using enum LearningTask;
  for (LearningTask task : {classification, segmentation, language, translation, regression})
    if (name == name_of(task)) return task;
  throw std::runtime_error("no such task: " + name);
}

/// `args`: MODEL SHAPE CLASSES. From `options` on: OPTION=VALUE, an option of the model, or target=SHAPE of a sample's
/// target, vocabulary=N, task=NAME.
inline ModelSpec parse_spec(char** args, char** options, char** end) {
  ModelSpec spec{.name = args[0], .sample_shape = parse_shape(args[1]), .classes = std::atoi(args[2]), .options = {}};
  if (reads_tokens(spec.name)) {
    spec.task = LearningTask::language;
    spec.target_shape = spec.sample_shape;
  }
  for (; options != end; ++options) {
    const std::string option = *options;
    const size_t equals = option.find('=');
    const std::string key = option.substr(0, equals), value = option.substr(equals + 1);
    if (key == "target") spec.target_shape = parse_shape(value);
    else if (key == "vocabulary") spec.vocabulary = std::atoll(value.c_str());
    else if (key == "task") spec.task = parse_task(value);
    else spec.options[key] = std::atof(value.c_str());
  }
  return spec;
}

}  // namespace trireme::test_support
