// Metrics of an evaluation, summed batch by batch by the loss layers, compared with their definitions over all samples.
#include "metrics/metrics.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "../model/test_call.h"
#include "trireme/layers/mean_squared_error.h"
#include "trireme/layers/pixel_cross_entropy.h"
#include "trireme/layers/softmax_cross_entropy.h"

namespace trireme {
namespace {

using test_support::TestCall;

class Metrics : public ::testing::Test {
 protected:
  Metrics() { at::manual_seed(seed_); }

  /// Gives the samples to the loss in batches of three, like an evaluation.
  EvaluationSums sums_of(const Layer& loss, const at::Tensor& output, const at::Tensor& target) {
    EvaluationSums sums;
    for (int64_t first = 0; first < output.size(0); first += 3) {
      const int64_t n = std::min<int64_t>(3, output.size(0) - first);
      TestCall call;
      call.training = false;
      const std::vector<at::Tensor> inputs{output.narrow(0, first, n), target.narrow(0, first, n)};
      sums.loss += loss.forward(call, inputs).sum().item<double>();
      for (const auto& [name, value] : call.metrics) sums.reported[name] += value;
      sums.samples += n;
    }
    return sums;
  }

  static double value(const std::vector<Metric>& metrics, const std::string& name) {
    const Metric* metric = find_metric(metrics, name);
    EXPECT_NE(metric, nullptr) << name;
    return metric ? metric->value : std::numeric_limits<double>::quiet_NaN();
  }

  const uint64_t seed_ = std::random_device()();
};

TEST_F(Metrics, Classification) {
  SCOPED_TRACE(fmt::format("seed {}", seed_));
  const at::Tensor logits = at::randn({20, 5}), labels = at::randint(5, {20}, at::kLong);
  const auto metrics =
      evaluation_metrics(LearningTask::classification, sums_of(SoftmaxCrossEntropy("loss"), logits, labels));
  ASSERT_FALSE(metrics.empty());
  EXPECT_EQ(metrics.front().name, main_metric(LearningTask::classification));
  EXPECT_DOUBLE_EQ(value(metrics, "accuracy"), logits.argmax(1).eq(labels).sum().item<double>() / 20);
}

TEST_F(Metrics, FiveLargestOfManyClasses) {
  SCOPED_TRACE(fmt::format("seed {}", seed_));
  const at::Tensor logits = at::randn({40, 25}), labels = at::randint(25, {40}, at::kLong);
  EvaluationSums sums = sums_of(SoftmaxCrossEntropy("loss"), logits, labels);
  sums.classes = 25;
  auto metrics = evaluation_metrics(LearningTask::classification, sums);
  const at::Tensor five = std::get<1>(at::topk(logits, 5, 1));
  EXPECT_DOUBLE_EQ(value(metrics, "top5_accuracy"), five.eq(labels.unsqueeze(1)).any(1).sum().item<double>() / 40);
  EXPECT_EQ(metrics.front().name, "accuracy");
  sums.classes = 6;
  EXPECT_NE(find_metric(evaluation_metrics(LearningTask::classification, sums), "top5_accuracy"), nullptr);
  sums.classes = 5;
  EXPECT_EQ(evaluation_metrics(LearningTask::classification, sums).size(), 1u)
      << "all five of five classes say nothing";
  sums.reported.clear();
  EXPECT_TRUE(evaluation_metrics(LearningTask::classification, sums).empty())
      << "a loss of one's own need not report anything";
}

TEST_F(Metrics, Segmentation) {
  SCOPED_TRACE(fmt::format("seed {}", seed_));
  constexpr int64_t kClasses = 5, kAbsent = 4;  // class 4 is neither a label nor a prediction
  at::Tensor logits = at::randn({7, kClasses, 6, 4});
  logits.select(1, kAbsent).fill_(-100);
  const at::Tensor labels = at::randint(-1, kAbsent, {7, 6, 4}, at::kLong);  // -1: an ignored pixel
  const auto metrics =
      evaluation_metrics(LearningTask::segmentation, sums_of(PixelCrossEntropy("loss"), logits, labels));
  const at::Tensor counted = labels.ge(0), predicted = logits.argmax(1);
  double sum = 0;
  for (int64_t k = 0; k < kClasses; ++k) {
    const at::Tensor is = labels.eq(k), says = predicted.eq(k).logical_and(counted);
    const double both = is.logical_and(says).sum().item<double>(), either = is.logical_or(says).sum().item<double>();
    if (k == kAbsent) {
      EXPECT_TRUE(std::isnan(value(metrics, "iou.4")));
    } else {
      EXPECT_DOUBLE_EQ(value(metrics, fmt::format("iou.{}", k)), both / either);
    }
    if (k != kAbsent) sum += both / either;
  }
  EXPECT_EQ(metrics.front().name, main_metric(LearningTask::segmentation));
  EXPECT_NEAR(value(metrics, "mean_iou"), sum / 4, 1e-12) << "of the classes that there are";
  const double right = predicted.eq(labels).logical_and(counted).sum().item<double>();
  EXPECT_NEAR(value(metrics, "pixel_accuracy"), right / counted.sum().item<double>(), 1e-12);
}

TEST_F(Metrics, OfIgnoredPixelsThereIsNoLoss) {
  at::Tensor labels = at::full({4, 6, 4}, -1, at::kLong);
  EvaluationSums sums = sums_of(PixelCrossEntropy("loss"), at::randn({4, 3, 6, 4}), labels);
  EXPECT_TRUE(std::isnan(mean_loss(LearningTask::segmentation, sums)));
  EXPECT_TRUE(std::isnan(value(evaluation_metrics(LearningTask::segmentation, sums), "pixel_accuracy")));
  labels[2][3][1] = 0;
  sums = sums_of(PixelCrossEntropy("loss"), at::randn({4, 3, 6, 4}), labels);
  EXPECT_DOUBLE_EQ(mean_loss(LearningTask::segmentation, sums), sums.loss / 4);
}

TEST_F(Metrics, Language) {
  SCOPED_TRACE(fmt::format("seed {}", seed_));
  const at::Tensor logits = at::randn({8, 6, 11}, at::kDouble), labels = at::randint(11, {8, 6}, at::kLong);
  const auto metrics = evaluation_metrics(LearningTask::language, sums_of(SoftmaxCrossEntropy("loss"), logits, labels));
  const at::Tensor logarithms = at::_log_softmax(logits, 2, false).gather(2, labels.unsqueeze(2));
  EXPECT_EQ(metrics.front().name, main_metric(LearningTask::language));
  EXPECT_NEAR(value(metrics, "perplexity"), std::exp(-logarithms.mean().item<double>()), 1e-9);
  EXPECT_NEAR(value(metrics, "accuracy"), logits.argmax(2).eq(labels).to(at::kDouble).mean().item<double>(), 1e-12);
}

TEST_F(Metrics, TranslationCountsTokensAndNoPadding) {
  SCOPED_TRACE(fmt::format("seed {}", seed_));
  const at::Tensor logits = at::randn({9, 6, 7}, at::kDouble);
  at::Tensor labels = at::randint(1, 7, {9, 6}, at::kLong);
  for (int64_t i = 0; i < 9; ++i) labels[i].narrow(0, 1 + i % 6, 5 - i % 6).fill_(kPadding);
  const at::Tensor counted = labels.ne(kPadding),
                   logarithms = at::_log_softmax(logits, 2, false).gather(2, labels.unsqueeze(2)).squeeze(2);
  const double expected = std::exp(-logarithms.masked_select(counted).mean().item<double>());
  for (double smoothing : {0.0, 0.2}) {  // smoothing changes the loss, not the perplexity
    const SoftmaxCrossEntropy loss("loss", {.ignore_index = kPadding, .label_smoothing = smoothing});
    const auto metrics = evaluation_metrics(LearningTask::translation, sums_of(loss, logits, labels));
    EXPECT_EQ(metrics.front().name, main_metric(LearningTask::translation));
    EXPECT_NEAR(value(metrics, "perplexity"), expected, 1e-9);
    const at::Tensor right = logits.argmax(2).eq(labels).logical_and(counted);
    EXPECT_NEAR(value(metrics, "accuracy"), right.sum().item<double>() / counted.sum().item<double>(), 1e-12)
        << "of tokens";
  }
}

TEST_F(Metrics, Regression) {
  SCOPED_TRACE(fmt::format("seed {}", seed_));
  const at::Tensor output = at::randn({23, 3}, at::kDouble) + 2, target = at::randn({23, 3}, at::kDouble) + 2;
  const auto metrics = evaluation_metrics(LearningTask::regression, sums_of(MeanSquaredError("loss"), output, target));
  const at::Tensor error = target - output;
  EXPECT_EQ(metrics.front().name, main_metric(LearningTask::regression));
  EXPECT_NEAR(value(metrics, "rmse"), std::sqrt(error.square().mean().item<double>()), 1e-12);
  EXPECT_NEAR(value(metrics, "mae"), error.abs().mean().item<double>(), 1e-12);
  const at::Tensor r2 = 1 - error.square().sum(0) / (target - target.mean(0)).square().sum(0);
  EXPECT_NEAR(value(metrics, "r2"), r2.mean().item<double>(), 1e-10);
  const auto constant = evaluation_metrics(LearningTask::regression,
                                           sums_of(MeanSquaredError("loss"), output, at::ones({23, 3}, at::kDouble)));
  EXPECT_TRUE(std::isnan(value(constant, "r2"))) << "there is nothing to explain";
}

/// Targets near a million with a deviation of 1: float32 keeps four bits after the point.
TEST_F(Metrics, RegressionFarFromZero) {
  SCOPED_TRACE(fmt::format("seed {}", seed_));
  const at::Tensor target = (at::randn({3000, 1}) + 1e6), output = target + 0.5 * at::randn({3000, 1});
  const at::Tensor t = target.to(at::kDouble), error = output.to(at::kDouble) - t;
  const double expected = 1 - error.square().sum().item<double>() / (t - t.mean()).square().sum().item<double>();
  const double found = value(
      evaluation_metrics(LearningTask::regression, sums_of(MeanSquaredError("loss", {1e6 - 0.3}), output, target)),
      "r2");
  EXPECT_NEAR(found, expected, 1e-9);
}

TEST_F(Metrics, OfNoSamplesThereAreNone) {
  for (LearningTask task :
       {LearningTask::classification, LearningTask::segmentation, LearningTask::language, LearningTask::regression})
    EXPECT_TRUE(evaluation_metrics(task, {}).empty());
}

TEST(MetricKinds, SayHowToRead) {
  EXPECT_EQ(metric_text({"accuracy", 0.98741}), "98.7 %");
  EXPECT_EQ(metric_text({"accuracy", 0.98741}, 2), "98.74 %");
  EXPECT_EQ(metric_text({"mean_iou", 0.35}), "35.0 %");
  EXPECT_EQ(metric_text({"perplexity", 152.349}), "152.3");
  EXPECT_EQ(metric_text({"bleu", 5.5}), "5.50");
  EXPECT_EQ(metric_text({"rmse", 0.55314}), "0.5531");
  EXPECT_EQ(metric_text({"r2", std::nan("")}), "not finite");
  EXPECT_EQ(kind_of_metric("iou.12").title, "IoU of class 12");
  EXPECT_TRUE(kind_of_metric("iou.12").is_per_class);
  EXPECT_EQ(kind_of_metric("of_a_later_version").title, "of_a_later_version");
  for (const char* name : {"accuracy", "top5_accuracy", "auc", "mean_iou", "bleu", "r2"})
    EXPECT_TRUE(kind_of_metric(name).higher_is_better) << name;
  for (const char* name : {"perplexity", "rmse", "mae"}) EXPECT_FALSE(kind_of_metric(name).higher_is_better) << name;
}

TEST(MetricKinds, TargetsHaveADirection) {
  EXPECT_TRUE(reaches({"accuracy", 0.98}, 0.98));
  EXPECT_FALSE(reaches({"accuracy", 0.97}, 0.98));
  EXPECT_TRUE(reaches({"perplexity", 160}, 160));
  EXPECT_FALSE(reaches({"perplexity", 161}, 160));
  EXPECT_FALSE(reaches({"rmse", std::nan("")}, 1));
  EXPECT_FALSE(reaches({"accuracy", std::nan("")}, 0));
}

}  // namespace
}  // namespace trireme
