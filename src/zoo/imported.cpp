#include "zoo/imported.h"

#include <fmt/format.h>

#include <algorithm>

#include "trireme/error.h"
#include "trireme/zoo.h"

namespace trireme {
namespace {

/// Returns the shape of a sample's output that the task's loss requires.
Shape expected_output(const ModelSpec& spec) {
  Shape shape;
  switch (spec.task) {
    case LearningTask::segmentation:
      shape = spec.target_shape;
      shape.insert(shape.begin(), spec.classes);
      return shape;
    case LearningTask::language:
    case LearningTask::translation: shape = spec.target_shape; break;
    case LearningTask::classification:
    case LearningTask::regression: break;
  }
  shape.push_back(spec.classes);
  return shape;
}

/// True for a language model that knows more tokens than the data have.
bool has_more_tokens(const Shape& output, const ModelSpec& spec) {
  const Shape expected = expected_output(spec);
  return spec.task == LearningTask::language && output.size() == expected.size() &&
         std::equal(output.begin(), output.end() - 1, expected.begin()) && output.back() > expected.back();
}

void check_output(const std::filesystem::path& file, const Shape& output, const ModelSpec& spec) {
  const Shape expected = expected_output(spec);
  if (output == expected) return;
  const bool only_classes = output.size() == 1 && expected.size() == 1;
  const char* more = spec.task == LearningTask::language ? ", or more tokens as padding" : "";
  fail_user({.where = file.string(),
             .what = fmt::format("its output is {} for a sample", to_string(output)),
             .why = fmt::format("{} with this data set needs {}{}", name_of(spec.task), to_string(expected), more),
             .next = only_classes
                         ? fmt::format("give the module a last layer of {} features in Python and save it again",
                                       spec.classes)
                         : "change what forward returns and save the module again"});
}

/// Without data: sets the task that most often has such an output.
void guess_task(ModelSpec& spec, const Shape& output) {
  if (output.empty()) return;
  spec.classes = output.size() == 3 ? output.front() : output.back();
  spec.task = output.size() == 3   ? LearningTask::segmentation
              : output.size() == 2 ? LearningTask::language
                                   : LearningTask::classification;
  if (output.size() == 3) spec.target_shape = {output[1], output[2]};
  if (output.size() == 2) spec.target_shape = {output[0]};
}

}  // namespace

bool names_script_file(const std::string& name) {
  const std::string extension = std::filesystem::path(name).extension();
  return extension == ".pt" || extension == ".pth" || extension == ".ts";
}

ImportedModel import_model(const std::filesystem::path& file, ModelSpec spec) {
  std::string padding;
  const auto target_shape = [&](const Shape& output) {
    if (spec.classes == 0) guess_task(spec, output);
    if (has_more_tokens(output, spec)) {
      padding = fmt::format("it knows {} tokens, the data {}: the others are padding, which it learns not to predict",
                            output.back(), spec.classes);
      spec.classes = output.back();
    }
    check_output(file, output, spec);
    return spec.target_shape;
  };
  const auto add = [&](ModelBuilder& builder, NodeId output, NodeId target) {
    return add_loss(builder, output, target, spec);
  };
  ImportedModel imported = import_torchscript(file, {spec.sample_shape, spec.vocabulary}, {target_shape, add});
  if (!padding.empty()) imported.notes.push_back(padding);
  return imported;
}

}  // namespace trireme
