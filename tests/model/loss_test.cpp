// Losses: reported metrics, ignored labels, evaluation, wrong use. Values and gradients are in layers_oracle_test.cpp.
#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <set>

#include "../base/expect_error.h"
#include "layer_cases.h"
#include "support/ranks.h"
#include "trireme/error.h"
#include "trireme/layers/mean_squared_error.h"
#include "trireme/layers/pixel_cross_entropy.h"
#include "trireme/layers/sampled_softmax.h"
#include "trireme/layers/softmax_cross_entropy.h"
#include "trireme/layers/weighted_sum.h"

namespace trireme::test_support {
namespace {

using ::testing::HasSubstr;

constexpr double kTolerance = 1e-12;

/// Two images of 2x2 pixels, three classes; the largest logit of each pixel is 5 at the given class.
at::Tensor logits_for(const at::Tensor& predicted) {
  return at::one_hot(predicted, 3)
      .to(at::kDouble)
      .mul(5)
      .permute({0, 3, 1, 2})
      .contiguous(at::MemoryFormat::ChannelsLast);
}

TEST(PixelCrossEntropy, CountsClassesAndLeavesNegativeLabelsOut) {
  const at::Tensor predicted = at::tensor({0, 1, 1, 2, 2, 2, 0, 0}, at::kLong).view({2, 2, 2});
  const at::Tensor labels = at::tensor({0, 1, 2, -1, -1, -1, 0, 1}, at::kLong).view({2, 2, 2});
  const PixelCrossEntropy loss("loss");
  TestCall call;
  call.wanted_inputs = {true, false};
  const at::Tensor losses = loss.forward(call, std::vector{logits_for(predicted), labels});
  const double right = std::log(std::exp(5.0) + 2) - 5, wrong = right + 5;
  EXPECT_NEAR(losses[0].item<double>(), (2 * right + wrong) / 3, kTolerance);
  EXPECT_NEAR(losses[1].item<double>(), (right + wrong) / 2, kTolerance);
  const std::map<std::string, double> expected{
      {"intersection.0", 2}, {"union.0", 3}, {"intersection.1", 1},     {"union.1", 3},
      {"intersection.2", 0}, {"union.2", 1}, {"correct", 2.0 / 3 + 0.5}};
  EXPECT_EQ(call.metrics, expected);
  const at::Tensor gradient = loss.backward(call, at::ones({2}, at::kDouble)).at(0);
  EXPECT_EQ(gradient.permute({0, 2, 3, 1})[0][1][1].abs().max().item<double>(), 0);
  EXPECT_EQ(gradient.permute({0, 2, 3, 1})[1][0].abs().max().item<double>(), 0);
  EXPECT_LT(gradient.sum(1).abs().max().item<double>(), kTolerance);
}

TEST(PixelCrossEntropy, AnImageWithoutLabelsCostsNothing) {
  const PixelCrossEntropy loss("loss");
  TestCall call;
  call.wanted_inputs = {true, false};
  const at::Tensor losses =
      loss.forward(call, std::vector{random_tensor({2, 3, 2, 2}, 1), at::full({2, 2, 2}, -1, at::kLong)});
  EXPECT_EQ(losses.abs().max().item<double>(), 0);
  EXPECT_EQ(loss.backward(call, at::ones({2}, at::kDouble)).at(0).abs().max().item<double>(), 0);
}

TEST(PixelCrossEntropy, RowsOnSeveralWorkersCountOnce) {
  const PixelCrossEntropy loss("loss");
  const at::Tensor logits = random_tensor({3, 4, 6, 5}, 1);
  const at::Tensor labels = random_tensor({3, 6, 5}, 2).mul(1000).to(at::kLong).remainder(5) - 1;  // -1 to 3
  TestCall whole;
  const at::Tensor losses = loss.forward(whole, std::vector{logits, labels});
  const auto options = loss.sharding_options(std::vector<Shape>{{4, 6, 5}, {6, 5}}, 3);
  ASSERT_EQ(options.back().name, "height");
  run_ranks(3, [&](Communicator& group) {
    TestCall call;
    call.option = &options.back();
    call.tensor_degree = 3;
    call.tensor_index = group.rank();
    call.tensor = &group;
    auto part = [&](const at::Tensor& t, int input) {
      return shard_of(t, options.back().inputs[size_t(input)], 3, group.rank());
    };
    const at::Tensor own = loss.forward(call, std::vector{part(logits, 0), part(labels, 1)});
    EXPECT_LT((own - losses).abs().max().item<double>(), kTolerance);
    for (const auto& [name, value] : whole.metrics) EXPECT_NEAR(call.metrics.at(name), value, kTolerance) << name;
  });
}

TEST(MeanSquaredError, ReportsWhatTheScoresAreMadeOf) {
  const at::Tensor output = at::tensor({1.0, 2.0, 3.0, 5.0}, at::kDouble).view({2, 2});
  const at::Tensor target = at::tensor({2.0, 2.5, 3.0, 1.0}, at::kDouble).view({2, 2});
  TestCall call;
  const at::Tensor losses = MeanSquaredError("loss").forward(call, std::vector{output, target});
  EXPECT_DOUBLE_EQ(losses[0].item<double>(), (1 + 0.25) / 2);
  EXPECT_DOUBLE_EQ(losses[1].item<double>(), 8);
  const std::map<std::string, double> expected{
      {"squared_error", 17.25}, {"absolute_error", 5.5}, {"squared_error.0", 1},  {"squared_error.1", 16.25},
      {"target.0", 5},          {"target.1", 3.5},       {"target_square.0", 13}, {"target_square.1", 7.25}};
  EXPECT_EQ(call.metrics, expected);
}

TEST(WeightedSum, EvaluationHasWeightsOfItsOwn) {
  const WeightedSum loss("loss", {1, 0.4}, {1, 0});
  const std::vector<at::Tensor> losses{at::full({2}, 3.0, at::kDouble), at::full({2}, 5.0, at::kDouble)};
  TestCall call;
  EXPECT_DOUBLE_EQ(loss.forward(call, losses)[0].item<double>(), 5);
  EXPECT_DOUBLE_EQ(loss.backward(call, at::ones({2}, at::kDouble))[1][0].item<double>(), 0.4);
  call.training = false;
  EXPECT_DOUBLE_EQ(loss.forward(call, losses)[0].item<double>(), 3);
}

/// Logits [4, 8]; in sample i the largest are those of classes i, i + 1, i + 2, ...
at::Tensor ordered_logits() {
  at::Tensor logits = at::empty({4, 8}, at::kDouble);
  for (int64_t i = 0; i < 4; ++i)
    for (int64_t rank = 0; rank < 8; ++rank) logits[i][(i + rank) % 8] = -double(rank);
  return logits;
}

TEST(SoftmaxCrossEntropy, CountsTheLabelAmongTheLargestFive) {
  const at::Tensor labels = at::tensor({0, 5, 7, 0}, at::kLong);  // positions 0, 4, 5, 5 in the order
  TestCall call;
  SoftmaxCrossEntropy("loss").forward(call, std::vector{ordered_logits(), labels});
  EXPECT_EQ(call.metrics, (std::map<std::string, double>{{"correct", 1}, {"top5", 2}}));
  TestCall ties;
  SoftmaxCrossEntropy("loss").forward(ties,
                                      std::vector{at::zeros({3, 7}, at::kDouble), at::tensor({0, 4, 5}, at::kLong)});
  EXPECT_EQ(ties.metrics, (std::map<std::string, double>{{"correct", 1}, {"top5", 2}}))
      << "the first among equals come first";
  TestCall few, silent;
  SoftmaxCrossEntropy("loss").forward(few, std::vector{at::zeros({1, 5}, at::kDouble), at::tensor({4}, at::kLong)});
  EXPECT_EQ(few.metrics, (std::map<std::string, double>{{"correct", 0}}));
  SoftmaxCrossEntropy("loss", {.reports = false}).forward(silent, std::vector{ordered_logits(), labels});
  EXPECT_TRUE(silent.metrics.empty());
}

/// The maximum of a worker must not lose a NaN either.
TEST(SoftmaxCrossEntropy, NothingIsRightWhereLogitsAreNaN) {
  const double nan = std::nan("");
  const at::Tensor labels = at::tensor({0, 0, 5, 3}, at::kLong);
  at::Tensor logits = ordered_logits();
  logits[0].fill_(nan);
  logits[1][0] = nan;  // the logit of the label
  logits[2][1] = nan;  // another class: now the label is second
  logits[3][3] = 1;
  const SoftmaxCrossEntropy loss("loss");
  const auto options = loss.sharding_options(std::vector<Shape>{{8}, {}}, 4);
  ASSERT_EQ(options.back().name, "vocabulary");
  for (int degree : {1, 4})
    run_ranks(degree, [&](Communicator& group) {
      TestCall call;
      call.option = degree == 1 ? nullptr : &options.back();
      call.tensor_degree = degree;
      call.tensor_index = group.rank();
      call.tensor = &group;
      const at::Tensor own = degree == 1 ? logits : shard_of(logits, Placement::shard(1), degree, group.rank());
      loss.forward(call, std::vector{own, labels});
      EXPECT_EQ(call.metrics.at("correct"), 1) << "of " << degree;
    });
  TestCall few;
  loss.forward(few, std::vector{at::full({3, 2}, nan), at::tensor({0, 1, 0}, at::kLong)});
  EXPECT_EQ(few.metrics.at("correct"), 0);
}

TEST(PixelCrossEntropy, NothingIsRightWhereLogitsAreNaN) {
  at::Tensor logits = logits_for(at::zeros({1, 2, 2}, at::kLong)).clone();
  logits.select(2, 0).fill_(std::nan(""));  // the upper row
  TestCall call;
  PixelCrossEntropy("loss").forward(call, std::vector{logits, at::zeros({1, 2, 2}, at::kLong)});
  EXPECT_EQ(call.metrics.at("correct"), 0.5);
  EXPECT_EQ(call.metrics.at("intersection.0"), 2);
}

TEST(SoftmaxCrossEntropy, TokensCountAlikeOverAllPositions) {
  const at::Tensor logits = random_tensor({2, 4, 6}, 1),
                   labels = at::tensor({1, 2, 3, 4, 5, 0, 0, 0}, at::kLong).view({2, 4});
  const at::Tensor each = at::cross_entropy_loss(logits.transpose(1, 2), labels, {}, at::Reduction::None, 0);
  TestCall by_token, by_sample;
  const auto all_positions = SoftmaxCrossEntropyOptions::Mean::all_positions;
  const at::Tensor tokens =
      SoftmaxCrossEntropy("loss", {.ignore_index = 0, .label_smoothing = 0.3, .mean = all_positions, .reports = true})
          .forward(by_token, std::vector{logits, labels});
  const SoftmaxCrossEntropy unsmoothed("loss", {.ignore_index = 0, .mean = all_positions});
  const at::Tensor plain = unsmoothed.forward(by_sample, std::vector{logits, labels});
  EXPECT_LT((plain - each.sum(1) / 4).abs().max().item<double>(), kTolerance);
  EXPECT_GT((plain - tokens).abs().max().item<double>(), 1e-3);
  for (const TestCall* call : {&by_token, &by_sample}) {
    EXPECT_NEAR(call->metrics.at("token_loss"), each.sum().item<double>(), kTolerance) << "without smoothing";
    EXPECT_EQ(call->metrics.at("counted"), 5);
  }
}

/// Labels that mix two classes each; whole, split by classes and split by positions.
TEST(SoftmaxCrossEntropy, SharesOfLabelsEqualATensOnEveryPlan) {
  for (double smoothing : {0.0, 0.1}) {
    SCOPED_TRACE(smoothing);
    const at::Tensor logits = random_tensor({3, 6, 12}, 1), weights = random_tensor({3}, 2);
    const at::Tensor shares = at::softmax(3 * random_tensor({3, 6, 12}, 3), 2);
    const SoftmaxCrossEntropy loss("loss", {.label_smoothing = smoothing});
    const at::Tensor leaf = logits.clone().requires_grad_();
    const at::Tensor expected =
        at::cross_entropy_loss(leaf.transpose(1, 2), shares.transpose(1, 2), {}, at::Reduction::None, -100, smoothing)
            .mean(1);
    (expected * weights).sum().backward();
    const at::Tensor right = logits.argmax(2).eq(shares.argmax(2)).to(at::kDouble).mean(1).sum();
    const std::vector<Shape> shapes{{6, 12}, {6, 12}};
    for (int degree : {1, 2, 3})
      for (const ShardingOption& option : loss.sharding_options(shapes, degree)) {
        SCOPED_TRACE(option.name + " x " + std::to_string(degree));
        std::vector<at::Tensor> gradients(static_cast<size_t>(degree));
        run_ranks(degree, [&](Communicator& group) {
          TestCall call;
          call.option = &option;
          call.tensor_degree = degree;
          call.tensor_index = group.rank();
          call.tensor = &group;
          auto part = [&](const at::Tensor& t) { return shard_of(t, option.inputs[0], degree, group.rank()); };
          EXPECT_EQ(option.inputs[0], option.inputs[1]);
          const at::Tensor losses = loss.forward(call, std::vector{part(logits), part(shares)});
          EXPECT_LT((losses - expected.detach()).abs().max().item<double>(), kTolerance);
          EXPECT_NEAR(call.metrics.at("correct"), right.item<double>(), kTolerance);
          gradients[size_t(group.rank())] = loss.backward(call, weights).at(0);
        });
        EXPECT_LT((assemble(gradients, option.inputs[0]) - leaf.grad()).abs().max().item<double>(), kTolerance);
      }
  }
}

struct Sampling {
  SampledSoftmax layer{"loss", {.width = 6, .classes = 60, .samples = 12}};
  at::Tensor states = random_tensor({4, 5, 6}, 1),
             labels = random_tensor({4, 5}, 2).mul(1000).to(at::kLong).remainder(60);
  std::vector<at::Tensor> parameters{random_tensor({60, 6}, 3), random_tensor({60}, 4)};

  at::Tensor losses(TestCall& call) {
    call.parameters = parameters;
    call.wanted_inputs = {true, false};
    return layer.forward(call, std::vector{states, labels});
  }
  at::Tensor full() const {
    const at::Tensor logits = at::matmul(states, parameters[0].t()) + parameters[1];
    return at::cross_entropy_loss(logits.transpose(1, 2), labels, {}, at::Reduction::None).mean(1);
  }
};

TEST(SampledSoftmax, EvaluationComparesWithAllClasses) {
  Sampling s;
  TestCall call;
  call.training = false;
  EXPECT_LT((s.losses(call) - s.full()).abs().max().item<double>(), kTolerance);
  const at::Tensor predicted = (at::matmul(s.states, s.parameters[0].t()) + s.parameters[1]).argmax(2);
  EXPECT_DOUBLE_EQ(call.metrics.at("correct"), predicted.eq(s.labels).sum().item<double>() / 5);
  EXPECT_TRUE(call.saved.empty());
  const auto options = s.layer.sharding_options(std::vector<Shape>{{5, 6}, {5}}, 3);
  ASSERT_EQ(options.back().name, "vocabulary");
  run_ranks(3, [&](Communicator& group) {
    TestCall own;
    own.training = false;
    own.option = &options.back();
    own.tensor_degree = 3;
    own.tensor_index = group.rank();
    own.tensor = &group;
    Sampling share = s;
    for (at::Tensor& p : share.parameters) p = shard_of(p, Placement::shard(0), 3, group.rank());
    EXPECT_LT((share.losses(own) - s.full()).abs().max().item<double>(), kTolerance);
    EXPECT_DOUBLE_EQ(own.metrics.at("correct"), call.metrics.at("correct"));
  });
}

TEST(SampledSoftmax, NothingIsRightWhereAWeightIsNaN) {
  Sampling s;
  s.parameters[0][17].fill_(std::nan(""));
  const auto options = s.layer.sharding_options(std::vector<Shape>{{5, 6}, {5}}, 3);
  for (int degree : {1, 3})
    run_ranks(degree, [&](Communicator& group) {
      TestCall call;
      call.training = false;
      call.option = degree == 1 ? nullptr : &options.back();
      call.tensor_degree = degree;
      call.tensor_index = group.rank();
      call.tensor = &group;
      Sampling share = s;
      if (degree > 1)
        for (at::Tensor& p : share.parameters) p = shard_of(p, Placement::shard(0), degree, group.rank());
      share.losses(call);
      EXPECT_EQ(call.metrics.at("correct"), 0) << "of " << degree;
    });
}

TEST(SampledSoftmax, TheSampleChangesWithStepAndSeedOnly) {
  Sampling s;
  auto drawn = [&](uint64_t seed, int64_t step, int64_t first_sample) {
    TestCall call;
    call.seed = seed;
    call.step = step;
    call.first_sample = first_sample;
    s.losses(call);
    return call.saved.at(2).clone();
  };
  const at::Tensor usual = drawn(1, 1, 0);
  EXPECT_EQ(usual.numel(), 12);
  EXPECT_TRUE(at::equal(drawn(1, 1, 40), usual));
  EXPECT_FALSE(at::equal(drawn(1, 2, 0), usual));
  EXPECT_FALSE(at::equal(drawn(2, 1, 0), usual));
}

/// Compares how often each class is drawn with sampling by inversion of the distribution function with another
/// generator.
TEST(SampledSoftmax, DrawsAsTheLogUniformDistributionDoes) {
  constexpr int64_t kClasses = 30;
  constexpr size_t kSamples = 6;
  constexpr int kRounds = 1000, kReferenceRounds = 10000;
  const SampledSoftmax layer("loss", {.width = 1, .classes = kClasses, .samples = kSamples});
  at::Tensor drawn = at::zeros({kClasses}, at::kDouble), expected = at::zeros({kClasses}, at::kDouble);
  for (int step = 0; step < kRounds; ++step) {
    TestCall call;
    call.step = step;
    call.parameters = {at::zeros({kClasses, 1}, at::kDouble), at::zeros({kClasses}, at::kDouble)};
    layer.forward(call, std::vector{at::zeros({1, 1}, at::kDouble), at::zeros({1}, at::kLong)});
    drawn.index_add_(0, call.saved.at(2), at::ones({int64_t(kSamples)}, at::kDouble));
  }
  std::mt19937_64 generator(7);
  std::vector<double> weights;
  for (int64_t c = 0; c < kClasses; ++c) weights.push_back(std::log(double(c + 2) / double(c + 1)));
  std::discrete_distribution<int64_t> draw(weights.begin(), weights.end());
  for (int round = 0; round < kReferenceRounds; ++round) {
    std::set<int64_t> found;
    while (found.size() < kSamples) found.insert(draw(generator));
    for (int64_t c : found) expected.data_ptr<double>()[c] += 1;
  }
  expected.div_(kReferenceRounds);
  const at::Tensor deviation = (expected * (1 - expected) / kRounds).sqrt();
  EXPECT_LT(((drawn / kRounds - expected) / deviation).abs().max().item<double>(), 4.5);
}

TEST(Losses, WrongUseIsNamed) {
  auto shape = [](const Layer& layer, std::vector<Shape> inputs) {
    return message_of(Blame::user, [&] { layer.output_shape(inputs); });
  };
  const PixelCrossEntropy pixels("pixels");
  EXPECT_THAT(shape(pixels, {{3, 4, 4}, {4, 5}}), HasSubstr("one number per pixel"));
  TestCall call;
  EXPECT_THAT(
      message_of(Blame::user,
                 [&] {
                   pixels.forward(call, std::vector{at::zeros({1, 3, 2, 2}), at::full({1, 2, 2}, 3, at::kLong)});
                 }),
      ::testing::AllOf(HasSubstr("\"pixels\""), HasSubstr("label 3"), HasSubstr("0 to 2")));
  EXPECT_THAT(shape(MeanSquaredError("mse"), {{3}, {2}}), HasSubstr("as many outputs"));
  EXPECT_THAT(message_of(Blame::user, [] { WeightedSum("sum", {1, 2}, {1}); }), HasSubstr("one of each per input"));
  EXPECT_THAT(message_of(Blame::user, [] { SampledSoftmax("loss", {.width = 4, .classes = 8, .samples = 8}); }),
              HasSubstr("fewer than the classes"));
  EXPECT_THAT(shape(SampledSoftmax("loss", {.width = 4, .classes = 8, .samples = 2}), {{5, 3}, {5}}),
              HasSubstr("[positions, 4]"));
  EXPECT_THAT(message_of(Blame::user, [] { SoftmaxCrossEntropy("loss", {.label_smoothing = 1}); }),
              HasSubstr("label_smoothing 1"));
  EXPECT_THAT(shape(SoftmaxCrossEntropy("loss"), {{5, 8}, {8}}), HasSubstr("one per class of it"));
  Sampling s;
  s.labels.fill_(60);
  EXPECT_THAT(message_of(Blame::user, [&] { s.losses(call); }),
              ::testing::AllOf(HasSubstr("label 60"), HasSubstr("0 to 59")));
}

}  // namespace
}  // namespace trireme::test_support
