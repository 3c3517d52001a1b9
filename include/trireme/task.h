// What a model learns. The task determines the loss at the model's end and the metrics of an evaluation.
#pragma once

namespace trireme {

enum class LearningTask {
  classification,  ///< logits [n, classes], target int64 [n] (mixed samples: float32 [n, classes], a share per class)
  segmentation,    ///< logits [n, classes, h, w], target int64 [n, h, w]
  language,        ///< logits [n, t, vocabulary], target int64 [n, t]: the next token
  translation,     ///< logits [n, t, vocabulary], target int64 [n, t], kPadding after the end of a sentence
  regression,      ///< output [n, values], target float32 [n, values]
};

/// "classification", ...
const char* name_of(LearningTask task);

constexpr int kPadding = 0;  ///< token id, and target, of positions after the end of a sample

}  // namespace trireme
