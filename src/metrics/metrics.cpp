#include "metrics/metrics.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace trireme {
namespace {

constexpr double kUndefined = std::numeric_limits<double>::quiet_NaN();
constexpr int64_t kTop = 5;  // with at most this number of classes all are among the five largest
constexpr std::string_view kClassIou = "iou.";

struct Known {
  const char* name;
  MetricKind kind;
};

const Known kKnown[] = {
    {"accuracy", {.title = "accuracy", .is_share = true}},
    {"top5_accuracy", {.title = "top-5 accuracy", .is_share = true}},
    {"auc", {.title = "AUC"}},
    {"mean_iou", {.title = "mean IoU", .is_share = true}},
    {"pixel_accuracy", {.title = "pixel accuracy", .is_share = true}},
    {"perplexity", {.title = "perplexity", .higher_is_better = false}},
    {"bleu", {.title = "BLEU"}},
    {"rmse", {.title = "RMSE", .higher_is_better = false}},
    {"mae", {.title = "MAE", .higher_is_better = false}},
    {"r2", {.title = "R2"}},
};

/// Returns a sum by name; nullopt if no layer reported it.
std::optional<double> sum_of(const EvaluationSums& sums, const std::string& name) {
  const auto it = sums.reported.find(name);
  return it == sums.reported.end() ? std::nullopt : std::optional(it->second);
}

/// Adds the mean over samples of a reported sum as a metric.
void add_share(const EvaluationSums& sums, const std::string& reported, const char* name,
               std::vector<Metric>& metrics) {
  if (const auto sum = sum_of(sums, reported)) metrics.push_back({name, *sum / double(sums.samples)});
}

/// Number of counted pixels of a test set, and how many of them are right.
struct CountedPixels {
  double counted = 0, right = 0;
};

CountedPixels count_pixels(const EvaluationSums& sums) {
  double right = 0, unions = 0;
  for (int64_t k = 0;; ++k) {
    const auto intersection = sum_of(sums, fmt::format("intersection.{}", k)),
               both = sum_of(sums, fmt::format("union.{}", k));
    if (!intersection || !both) break;
    right += *intersection;
    unions += *both;
  }
  // every counted pixel is labelled once and predicted once: the unions count right pixels once and wrong pixels twice
  return {(unions + right) / 2, right};
}

void add_segmentation(const EvaluationSums& sums, std::vector<Metric>& metrics) {
  std::vector<Metric> by_class;
  double iou_sum = 0;
  int64_t seen = 0;
  for (int64_t k = 0;; ++k) {
    const auto intersection = sum_of(sums, fmt::format("intersection.{}", k)),
               both = sum_of(sums, fmt::format("union.{}", k));
    if (!intersection || !both) break;
    const double iou = *both > 0 ? *intersection / *both : kUndefined;
    by_class.push_back({fmt::format("{}{}", kClassIou, k), iou});
    if (*both > 0) iou_sum += iou, ++seen;
  }
  if (by_class.empty()) return;
  const auto [counted, right] = count_pixels(sums);
  metrics.push_back({"mean_iou", seen > 0 ? iou_sum / double(seen) : kUndefined});
  metrics.push_back({"pixel_accuracy", counted > 0 ? right / counted : kUndefined});
  metrics.insert(metrics.end(), by_class.begin(), by_class.end());
}

/// Per token if the loss reports tokens (sentences differ in length, and a smoothed loss is not a likelihood), else per
/// sample.
void add_language(const EvaluationSums& sums, std::vector<Metric>& metrics) {
  const auto loss = sum_of(sums, "token_loss"), tokens = sum_of(sums, "counted");
  const bool by_token = loss && tokens && *tokens > 0;
  metrics.push_back({"perplexity", std::exp(by_token ? *loss / *tokens : sums.loss / double(sums.samples))});
  const auto right = sum_of(sums, "correct_tokens");
  if (by_token && right) metrics.push_back({"accuracy", *right / *tokens});
  else add_share(sums, "correct", "accuracy", metrics);
}

void add_regression(const EvaluationSums& sums, std::vector<Metric>& metrics) {
  const auto n = double(sums.samples);
  double r2 = 0;
  int64_t values = 0;
  for (;; ++values) {
    const auto error = sum_of(sums, fmt::format("squared_error.{}", values)),
               target = sum_of(sums, fmt::format("target.{}", values)),
               squares = sum_of(sums, fmt::format("target_square.{}", values));
    if (!error || !target || !squares) break;
    const double spread = *squares - *target * *target / n;
    r2 += spread > 0 ? 1 - *error / spread : kUndefined;
  }
  const auto squared = sum_of(sums, "squared_error"), absolute = sum_of(sums, "absolute_error");
  if (values == 0 || !squared || !absolute) return;
  metrics.push_back({"rmse", std::sqrt(*squared / (n * double(values)))});
  metrics.push_back({"mae", *absolute / (n * double(values))});
  metrics.push_back({"r2", r2 / double(values)});
}

}  // namespace

const Metric* find_metric(const std::vector<Metric>& metrics, std::string_view name) {
  const auto it =
      std::find_if(metrics.begin(), metrics.end(), [&](const Metric& metric) { return metric.name == name; });
  return it == metrics.end() ? nullptr : &*it;
}

MetricKind kind_of_metric(std::string_view name) {
  for (const Known& known : kKnown)
    if (name == known.name) return known.kind;
  if (name.starts_with(kClassIou))
    return {
        .title = fmt::format("IoU of class {}", name.substr(kClassIou.size())), .is_share = true, .is_per_class = true};
  return {.title = std::string(name)};
}

std::string metric_text(const Metric& metric, int decimals) {
  const bool is_share = kind_of_metric(metric.name).is_share;
  if (!std::isfinite(metric.value)) return "not finite";
  if (is_share) return fmt::format("{:.{}f} %", 100 * metric.value, decimals);
  return metric.name == "bleu" ? fmt::format("{:.2f}", metric.value) : fmt::format("{:.4g}", metric.value);
}

std::vector<Metric> evaluation_metrics(LearningTask task, const EvaluationSums& sums) {
  std::vector<Metric> metrics;
  if (sums.samples == 0) return metrics;
  switch (task) {
    case LearningTask::classification:
      add_share(sums, "correct", "accuracy", metrics);
      if (sums.classes > kTop) add_share(sums, "top5", "top5_accuracy", metrics);
      break;
    case LearningTask::segmentation: add_segmentation(sums, metrics); break;
    case LearningTask::language:
    case LearningTask::translation: add_language(sums, metrics); break;
    case LearningTask::regression: add_regression(sums, metrics); break;
  }
  return metrics;
}

std::vector<std::string> metric_names(LearningTask task, int64_t classes) {
  switch (task) {
    case LearningTask::classification:
      if (classes > kTop) return {"accuracy", "top5_accuracy"};
      return {"accuracy"};
    case LearningTask::segmentation: return {"mean_iou", "pixel_accuracy"};
    case LearningTask::language:
    case LearningTask::translation: return {"perplexity", "accuracy"};
    case LearningTask::regression: return {"rmse", "mae", "r2"};
  }
  return {};
}

double mean_loss(LearningTask task, const EvaluationSums& sums) {
  const bool says_pixels = task == LearningTask::segmentation && sum_of(sums, "union.0");
  if (says_pixels && count_pixels(sums).counted == 0) return kUndefined;
  return sums.loss / double(sums.samples);
}

std::string main_metric(LearningTask task) {
  switch (task) {
    case LearningTask::classification: return "accuracy";
    case LearningTask::segmentation: return "mean_iou";
    case LearningTask::language:
    case LearningTask::translation: return "perplexity";
    case LearningTask::regression: return "rmse";
  }
  return "";
}

bool reaches(const Metric& metric, double target) {
  return kind_of_metric(metric.name).higher_is_better ? metric.value >= target : metric.value <= target;
}

}  // namespace trireme
