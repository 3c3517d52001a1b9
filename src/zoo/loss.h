// The loss at the end of every model, determined by its task.
#pragma once

#include "trireme/model.h"
#include "zoo/zoo.h"

namespace trireme {

/// Adds the loss of `spec.task` as layer "loss":
/// - classification, language: SoftmaxCrossEntropy of logits [classes] or [positions, classes], with
///   spec.label_smoothing.
/// - translation: the same, with kPadding positions ignored. Every token has the same weight, in sentences of any
///   length.
/// - segmentation: PixelCrossEntropy of logits [classes, height, width].
/// - regression: MeanSquaredError of outputs [values].
/// Throws a user error for label smoothing in a task without classes over which a target could be spread, and the loss
/// layer's errors about shapes.
NodeId add_loss(ModelBuilder& builder, NodeId output, NodeId target, const ModelSpec& spec);

/// Calls add_loss and finishes the model.
Model finish_with_loss(ModelBuilder& builder, NodeId output, NodeId target, const ModelSpec& spec);

}  // namespace trireme
