#include "cost/calibration/calibrate.h"

#include <gmock/gmock.h>

#include <cmath>
#include <random>

namespace trireme {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

/// Steps of compute, memory, launches and a network: seconds = flops / (efficiency) + bytes / (share) + launches *
/// launch
/// + traffic / network, with values of about 1.
struct Row {
  double flops = 0, bytes = 0, launches = 0, traffic = 0;
};
enum Name : size_t { kEfficiency, kShare, kLaunch, kNetwork };

std::vector<FreeConstant> constants() {
  return {{"efficiency", 0.5, 0.01, 1}, {"share", 0.8, 0.01, 1}, {"launch", 1, 0.01, 100}, {"network", 1, 0.05, 1.25}};
}

RowSeconds seconds_of(const std::vector<Row>& rows) {
  return [rows](size_t row, const std::vector<double>& c) {
    const Row& r = rows[row];
    return std::max(r.flops / c[kEfficiency] + r.bytes / c[kShare], r.launches * c[kLaunch]) + r.traffic / c[kNetwork];
  };
}

std::vector<double> measured(const std::vector<Row>& rows, const std::vector<double>& truth) {
  std::vector<double> seconds;
  for (size_t row = 0; row < rows.size(); ++row) seconds.push_back(seconds_of(rows)(row, truth));
  return seconds;
}

std::vector<size_t> fitted(const CalibrationFit& fit) {
  std::vector<size_t> all;
  for (const FittedConstant& one : fit.fitted) all.push_back(one.constant);
  std::sort(all.begin(), all.end());
  return all;
}

const LeftConstant& left(const CalibrationFit& fit, size_t constant) {
  for (const LeftConstant& one : fit.left)
    if (one.constant == constant) return one;
  throw std::runtime_error("it is not left");
}

TEST(Calibrate, FindsTheConstantsThatMadeTheRows) {
  const std::vector<Row> rows{{10, 1, 1, 0}, {1, 10, 1, 0}, {1, 1, 20, 0}, {5, 5, 1, 0}, {2, 2, 1, 20}, {1, 1, 30, 20}};
  const std::vector<double> truth{0.7, 0.55, 2.5, 0.6};
  const CalibrationFit fit = calibrate(constants(), measured(rows, truth), seconds_of(rows));
  EXPECT_THAT(fitted(fit), ElementsAre(kEfficiency, kShare, kLaunch, kNetwork));
  for (size_t i = 0; i < truth.size(); ++i) EXPECT_NEAR(fit.values[i] / truth[i], 1, 1e-3) << i;
  ASSERT_THAT(fit.left_out, SizeIs(rows.size()));
  EXPECT_THAT(fit.left, IsEmpty());
}

TEST(Calibrate, LeavesWhatNoRowDependsOn) {
  // Nothing is sent, and no launch lasts longer than the device's work.
  const std::vector<Row> rows{{10, 1, 0, 0}, {1, 10, 0, 0}, {5, 5, 0, 0}, {3, 1, 0, 0}};
  const CalibrationFit fit = calibrate(constants(), measured(rows, {0.7, 0.55, 9, 0.6}), seconds_of(rows));
  EXPECT_THAT(fitted(fit), ElementsAre(kEfficiency, kShare));
  EXPECT_NEAR(fit.values[kEfficiency], 0.7, 1e-3);
  EXPECT_NEAR(fit.values[kShare], 0.55, 1e-3);
  EXPECT_EQ(fit.values[kNetwork], 1);
  EXPECT_EQ(left(fit, kNetwork).reason, LeftOut::no_effect);
  EXPECT_EQ(left(fit, kLaunch).reason, LeftOut::no_effect);
}

TEST(Calibrate, NamesConstantsThatRowsCannotTellApart) {
  // Work and bytes grow together in all rows, so only one of the two is fitted.
  const std::vector<Row> rows{{10, 4, 0, 1}, {20, 8, 0, 20}, {30, 12, 0, 2}, {5, 2, 0, 9}};
  const CalibrationFit fit = calibrate(constants(), measured(rows, {0.4, 0.8, 1, 0.7}), seconds_of(rows));
  EXPECT_THAT(fitted(fit), ElementsAre(kEfficiency, kNetwork));
  EXPECT_NEAR(fit.values[kEfficiency], 0.4, 0.004);
  EXPECT_NEAR(fit.values[kNetwork], 0.7, 0.007);
  EXPECT_EQ(left(fit, kShare).reason, LeftOut::alike);
  EXPECT_THAT(left(fit, kShare).others, ElementsAre(kEfficiency));
}

TEST(Calibrate, OneRowDeterminesOneConstant) {
  const std::vector<Row> rows{{10, 1, 1, 0}};
  const CalibrationFit fit = calibrate(constants(), measured(rows, {0.8, 0.8, 1, 1}), seconds_of(rows));
  EXPECT_THAT(fitted(fit), ElementsAre(kEfficiency));
  EXPECT_NEAR(fit.values[kEfficiency], 0.8, 1e-3);
  EXPECT_THAT(fit.left_out, IsEmpty());
  EXPECT_FALSE(fit.fitted.front().error);
}

TEST(Calibrate, StaysWithinTheBoundsAndSaysSo) {
  const std::vector<Row> rows{{10, 1, 0, 0}, {10, 2, 0, 0}, {20, 1, 0, 0}};
  std::vector<double> twice_as_fast = measured(rows, {1, 1, 1, 1});
  for (double& seconds : twice_as_fast) seconds /= 2;
  const CalibrationFit fit = calibrate(constants(), twice_as_fast, seconds_of(rows));
  EXPECT_EQ(fit.values[kEfficiency], 1);
  EXPECT_TRUE(fit.fitted.front().is_at_bound);
}

/// Rows of work and launches, with noise of 3 % in the seconds.
TEST(Calibrate, RowsWithNoise) {
  std::vector<Row> rows;
  for (int i = 0; i < 12; ++i) rows.push_back({double(1 + i % 4), 0.5, double(i % 3) * 6, 0});
  const std::vector<double> truth{0.7, 0.8, 1.6, 1};
  std::vector<double> seconds = measured(rows, truth);
  std::mt19937 random(7);
  std::normal_distribution<double> noise(0, 0.03);
  for (double& second : seconds) second *= std::exp(noise(random));
  const CalibrationFit fit = calibrate(constants(), seconds, seconds_of(rows));
  ASSERT_THAT(fitted(fit), ::testing::IsSupersetOf({size_t(kEfficiency), size_t(kLaunch)}));
  for (const FittedConstant& one : fit.fitted) {
    ASSERT_TRUE(one.error);
    EXPECT_LT(std::abs(std::log(fit.values[one.constant] / truth[one.constant])), 4 * *one.error) << one.constant;
  }
  EXPECT_NEAR(fit.values[kEfficiency], 0.7, 0.07);
  EXPECT_NEAR(fit.values[kLaunch], 1.6, 0.16);
  double unseen = 0;
  for (size_t row = 0; row < rows.size(); ++row) unseen += std::abs(fit.left_out[row] / seconds[row] - 1);
  EXPECT_LT(unseen / double(rows.size()), 0.05);
}

/// The weights of rows are those of a linear fit: with one constant that all seconds are proportional to, each row
/// counts the same.
TEST(Calibrate, WeightsSayWhichRowsCount) {
  const std::vector<Row> rows{{1, 0, 0, 0}, {2, 0, 0, 0}, {3, 0, 0, 0}, {0, 0, 0, 5}};
  const CalibrationFit fit = calibrate(constants(), measured(rows, {0.6, 0.8, 1, 0.9}), seconds_of(rows));
  for (const FittedConstant& one : fit.fitted)
    for (size_t row = 0; row < rows.size(); ++row) {
      const bool counts = (one.constant == kNetwork) == (row == 3);
      EXPECT_NEAR(one.weights[row], !counts ? 0 : one.constant == kNetwork ? -1 : -1.0 / 3, 0.02);
    }
}

/// A row that alone determines a constant is predicted without it by the value before the fit.
TEST(Calibrate, ARowLeftOutDoesNotTeach) {
  const std::vector<Row> rows{{10, 0, 0, 0}, {20, 0, 0, 0}, {30, 0, 0, 0}, {0, 0, 0, 5}};
  const CalibrationFit fit = calibrate(constants(), measured(rows, {0.6, 0.8, 1, 0.5}), seconds_of(rows));
  EXPECT_NEAR(fit.after[3], 10, 0.01);
  EXPECT_NEAR(fit.left_out[3], 5, 0.01);
  EXPECT_NEAR(fit.left_out[0], 10 / 0.6, 0.05);
}

TEST(Calibrate, AllOfThoseAPersonChose) {
  const std::vector<Row> rows{{10, 1, 1, 0}, {1, 10, 1, 0}};
  const CalibrationFit fit = calibrate({constants()[0], constants()[1], constants()[2], constants()[3]},
                                       measured(rows, {0.7, 0.55, 1, 1}), seconds_of(rows), {.all = true});
  EXPECT_THAT(fitted(fit), ElementsAre(kEfficiency, kShare));
  EXPECT_NEAR(fit.values[kEfficiency], 0.7, 1e-3);
  EXPECT_NEAR(fit.values[kShare], 0.55, 1e-3);
}

}  // namespace
}  // namespace trireme
