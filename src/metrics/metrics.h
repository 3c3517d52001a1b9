// What an evaluation tells besides its loss: named numbers, made from the sums that the loss layers report.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/task.h"

namespace trireme {

/// One number about a test set. Its name, as it stands in files, says what it is:
///   accuracy        share of samples (language, translation: of tokens) whose largest logit is the target's
///   top5_accuracy   the same for the five largest logits
///   auc             area under the ROC curve of two classes (metrics/auc.h)
///   mean_iou        mean of the classes' IoU
///   pixel_accuracy  share of counted pixels that are right
///   iou.<k>         intersection over union of class k: pixels labelled and predicted k over pixels labelled or
///   predicted k perplexity      exp of the mean over tokens of -log(probability of the right one) bleu            0 to
///   100 (metrics/bleu.h) rmse, mae       root mean squared, mean absolute error over samples and values r2 coefficient
///   of determination: mean over the values of 1 - sum of (target - output)^2 / sum of (target - mean)^2
struct Metric {
  std::string name;
  double value = 0;  ///< NaN where there is none: the IoU of a class that no pixel is labelled or predicted as

  friend bool operator==(const Metric&, const Metric&) = default;
};

/// Null where there is none of that name.
const Metric* find_metric(const std::vector<Metric>& metrics, std::string_view name);

/// How a metric is read and written.
struct MetricKind {
  std::string title;  ///< "accuracy", "mean IoU", "IoU of class 3"
  bool higher_is_better = true;
  bool is_share = false;      ///< of a whole, 0 to 1: written in percent
  bool is_per_class = false;  ///< one of many: shown in a table of its own
};

/// Of any name; one that Trireme does not know reads as itself.
MetricKind kind_of_metric(std::string_view name);

/// "98.7 %", "152.3", "0.5531", "not finite". `decimals` are those of percentages.
std::string metric_text(const Metric& metric, int decimals = 1);

/// What was added up over a test set.
struct EvaluationSums {
  std::map<std::string, double> reported;  ///< by the layers, see LayerCall::report
  double loss = 0;                         ///< sum over samples
  int64_t samples = 0;
  int64_t classes = 0;  ///< of the data set
};

/// The task's metrics as far as their sums were reported; the first is the main one.
/// classification: accuracy, with more than five classes top5_accuracy; segmentation: mean_iou, pixel_accuracy, iou.0,
/// iou.1, ...; language and translation: perplexity, accuracy; regression: rmse, mae, r2.
std::vector<Metric> evaluation_metrics(LearningTask task, const EvaluationSums& sums);

/// Names of what evaluation_metrics gives for a data set of so many classes, but for those per class.
std::vector<std::string> metric_names(LearningTask task, int64_t classes);

/// Mean over samples; NaN where none of them has anything that counts (all pixels are to be ignored).
double mean_loss(LearningTask task, const EvaluationSums& sums);

/// The name of the first of evaluation_metrics: what `target` is about.
std::string main_metric(LearningTask task);

/// Whether `metric` is at least as good as `target`.
bool reaches(const Metric& metric, double target);

}  // namespace trireme
