// What a model learns. Decides the loss at its end and the metrics of an evaluation.
#pragma once

namespace trireme {

enum class LearningTask {
  classification,  ///< logits [n, classes], target int64 [n] (mixed samples: float32 [n, classes], a share per class)
  segmentation,    ///< logits [n, classes, h, w], target int64 [n, h, w]
  language,        ///< logits [n, t, vocabulary], target int64 [n, t]: the token that comes next
  translation,     ///< logits [n, t, vocabulary], target int64 [n, t], kPadding where a sentence has ended
  regression,      ///< output [n, values], target float32 [n, values]
};

/// "classification", ...
const char* name_of(LearningTask task);

constexpr int kPadding = 0;  ///< token id, and target, of positions past the end of a sample

}  // namespace trireme
