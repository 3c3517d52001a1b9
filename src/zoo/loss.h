// The end of every model: its task's loss.
#pragma once

#include "trireme/model.h"
#include "zoo/zoo.h"

namespace trireme {

/// Adds the loss of `spec.task` as layer "loss":
///   classification, language  SoftmaxCrossEntropy of logits [classes] or [positions, classes], with
///   spec.label_smoothing translation               the same, positions of kPadding left out; every token counts alike,
///   in however long a sentence segmentation              PixelCrossEntropy of logits [classes, height, width]
///   regression                MeanSquaredError of outputs [values]
/// Errors (user): label smoothing where the task has no classes to spread a target over; the loss layer's own about
/// shapes.
NodeId add_loss(ModelBuilder& builder, NodeId output, NodeId target, const ModelSpec& spec);

/// add_loss, and the model is finished.
Model finish_with_loss(ModelBuilder& builder, NodeId output, NodeId target, const ModelSpec& spec);

}  // namespace trireme
