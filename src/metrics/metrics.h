// The metrics of an evaluation besides its loss: named numbers, computed from the sums that the loss layers report.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/model.h"

namespace trireme {

/// One metric of a test set. Its name, as used in files, states what it is:
///    accuracy        share of samples (language, translation: of tokens) whose largest logit is the target's
///    top5_accuracy   the same for the five largest logits
///    auc             area under the ROC curve of two classes (metrics/auc.h)
///    mean_iou        mean of the classes' IoU
///    pixel_accuracy  share of counted pixels that are right
///    iou.<k>         intersection over union of class k: pixels both labelled and predicted k over pixels labelled or
///                    predicted k
///    perplexity      exp of the mean over tokens of -log(probability of the right one)
///    bleu            0 to 100 (metrics/bleu.h)
///    rmse, mae       root mean squared, mean absolute error over samples and values
///    r2              coefficient of determination: mean over the values of 1 - sum of (target - output)^2 / sum of
///                    (target - mean)^2
struct Metric {
  std::string name;
  /// NaN if undefined: the IoU of a class that no pixel is labelled or predicted as.
  double value = 0;

  friend bool operator==(const Metric&, const Metric&) = default;
};

/// Null if no metric has that name.
const Metric* find_metric(const std::vector<Metric>& metrics, std::string_view name);

/// How to read and print a metric.
struct MetricKind {
  std::string title;  ///< "accuracy", "mean IoU", "IoU of class 3"
  bool higher_is_better = true;
  bool is_share = false;      ///< a share of a whole, 0 to 1: printed in percent
  bool is_per_class = false;  ///< one of many: printed in a separate table
};

/// For any name. The title of an unknown metric is its name.
MetricKind kind_of_metric(std::string_view name);

/// Returns "98.7 %", "152.3", "0.5531" or "not finite". `decimals`: decimal places of percentages.
std::string metric_text(const Metric& metric, int decimals = 1);

/// Sums over a test set.
struct EvaluationSums {
  std::map<std::string, double> reported;  ///< by the layers, see LayerCall::report
  double loss = 0;                         ///< sum over samples
  int64_t samples = 0;
  int64_t classes = 0;  ///< of the data set
};

/// Returns the task's metrics for which sums were reported; the first is the main one.
/// classification: accuracy, and with more than five classes top5_accuracy; segmentation: mean_iou, pixel_accuracy,
/// iou.0, iou.1, ...; language and translation: perplexity, accuracy; regression: rmse, mae, r2.
std::vector<Metric> evaluation_metrics(LearningTask task, const EvaluationSums& sums);

/// Returns the names of the metrics that evaluation_metrics returns for a data set with this number of classes, except
/// those per class.
std::vector<std::string> metric_names(LearningTask task, int64_t classes);

/// Returns the mean over samples; NaN if no sample has anything that counts (all pixels are ignored).
double mean_loss(LearningTask task, const EvaluationSums& sums);

/// Returns the name of the first of evaluation_metrics, to which `target` refers.
std::string main_metric(LearningTask task);

/// True if `metric` is at least as good as `target`.
bool reaches(const Metric& metric, double target);

}  // namespace trireme
