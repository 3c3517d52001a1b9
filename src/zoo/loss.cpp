#include "trireme/zoo.h"

#include <fmt/format.h>

#include "trireme/error.h"
#include "trireme/layers/mean_squared_error.h"
#include "trireme/layers/pixel_cross_entropy.h"
#include "trireme/layers/softmax_cross_entropy.h"

namespace trireme {
namespace {

constexpr const char* kName = "loss";

void check_label_smoothing(const ModelSpec& spec) {
  const bool has_classes = spec.task != LearningTask::regression && spec.task != LearningTask::segmentation;
  if (spec.label_smoothing == 0 || has_classes) return;
  fail_user({.where = "label_smoothing",
             .what = fmt::format("{:g}", spec.label_smoothing),
             .why = fmt::format("the loss of {} does not support it", name_of(spec.task)),
             .next = "leave it out"});
}

}  // namespace

NodeId add_loss(ModelBuilder& builder, NodeId output, NodeId target, const ModelSpec& spec) {
  check_label_smoothing(spec);
  switch (spec.task) {
    case LearningTask::segmentation: return builder.layer<PixelCrossEntropy>({output, target}, kName);
    case LearningTask::regression: return builder.layer<MeanSquaredError>({output, target}, kName, spec.target_offsets);
    case LearningTask::classification:
    case LearningTask::language:
    case LearningTask::translation: break;
  }
  SoftmaxCrossEntropyOptions options{.label_smoothing = spec.label_smoothing};
  if (spec.task == LearningTask::translation) {
    options.ignore_index = kPadding;
    options.mean = SoftmaxCrossEntropyOptions::Mean::all_positions;
    options.positions = spec.padded_positions;
  }
  return builder.layer<SoftmaxCrossEntropy>({output, target}, kName, options);
}

Model finish_with_loss(ModelBuilder& builder, NodeId output, NodeId target, const ModelSpec& spec) {
  return builder.finish(output, add_loss(builder, output, target, spec));
}

}  // namespace trireme
