// What replicas send in fewer bytes, with error feedback: the codes by themselves, and every policy that knows them.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "../base/expect_error.h"
#include "toy.h"
#include "update/async_average.h"
#include "update/codec.h"
#include "update/diloco.h"
#include "update/downpour.h"
#include "update/easgd.h"
#include "update/error_feedback.h"
#include "update/fedbuff.h"
#include "update/federated.h"
#include "update/gossip.h"
#include "update/hub/thread_world.h"
#include "update/hub/virtual_world.h"
#include "update/local_sgd.h"
#include "update/partial.h"
#include "update/registry.h"
#include "update/shat.h"
#include "worlds.h"

namespace trireme {
namespace {

using Kind = Codec::Kind;

const std::vector<Codec> kCodecs = {{.kind = Kind::topk, .share = 0.1},
                                    {.kind = Kind::topk, .share = 1},
                                    {.kind = Kind::sign},
                                    {.kind = Kind::e3m0},
                                    {.kind = Kind::bf16}};

at::Tensor drawn(int64_t n, uint64_t seed, at::ScalarType dtype = at::kDouble) {
  at::Tensor values = at::empty({n}, at::kDouble);
  const Philox draw(random_key(seed, "values"));
  for (int64_t i = 0; i < n; ++i) values.data_ptr<double>()[i] = draw.normal(uint64_t(i));
  return values.to(dtype);
}

at::Tensor decoded(const Codec& codec, const at::Tensor& values) {
  at::Tensor sum = at::zeros_like(values);
  EXPECT_TRUE(add_decoded(codec, encode(codec, values), sum));
  return sum;
}

std::string name_of(const Codec& codec) { return text_of(std::optional(codec)); }

TEST(Codes, HaveTheSizeThatIsAnnounced) {
  for (const Codec& codec : kCodecs)
    for (const int64_t n : {0, 1, 7, 8, 1023, 1024, 1025, 5000})
      for (const at::ScalarType dtype : {at::kFloat, at::kDouble}) {
        const at::Tensor code = encode(codec, drawn(n, 3, dtype));
        EXPECT_EQ(code.scalar_type(), at::kByte);
        EXPECT_EQ(code.numel(), encoded_bytes(codec, n, dtype)) << name_of(codec) << " of " << n;
      }
  EXPECT_EQ(encoded_bytes({.kind = Kind::topk, .share = 0.01}, 1000, at::kFloat), 10 * (4 + 4));
  EXPECT_EQ(encoded_bytes({.kind = Kind::topk, .share = 0.01}, 20, at::kFloat), 4 + 4) << "at least one element";
  EXPECT_EQ(encoded_bytes({.kind = Kind::sign}, 2048, at::kFloat), 2 * (4 + 128));
}

TEST(Codes, TopkKeepsTheLargestMagnitudes) {
  for (const at::ScalarType dtype : {at::kFloat, at::kDouble}) {
    const at::Tensor values = drawn(997, 5, dtype);
    const at::Tensor kept = decoded({.kind = Kind::topk, .share = 0.1}, values);
    std::vector<std::pair<double, int64_t>> order;
    for (int64_t i = 0; i < values.numel(); ++i) order.emplace_back(-std::abs(values[i].item<double>()), i);
    std::sort(order.begin(), order.end());
    for (size_t rank = 0; rank < order.size(); ++rank) {
      const int64_t i = order[rank].second;
      EXPECT_EQ(kept[i].item<double>(), rank < 100 ? values[i].item<double>() : 0) << rank;
    }
  }
}

TEST(Codes, SignHasTheMeanMagnitudeOfEachBlock) {
  const at::Tensor values = drawn(1500, 7);
  const at::Tensor kept = decoded({.kind = Kind::sign}, values);
  for (int64_t i = 0; i < values.numel(); ++i) {
    const at::Tensor block = i < 1024 ? values.narrow(0, 0, 1024) : values.narrow(0, 1024, 476);
    const double mean = block.abs().mean().item<double>(), value = values[i].item<double>();
    EXPECT_NEAR(kept[i].item<double>(), value < 0 ? -mean : mean, 1e-6);
  }
}

TEST(Codes, AreAddedWithAFactor) {
  for (const Codec& codec : kCodecs) {
    const at::Tensor values = drawn(1100, 9), before = drawn(1100, 10);
    at::Tensor sum = before.clone();
    ASSERT_TRUE(add_decoded(codec, encode(codec, values), sum, -0.5));
    EXPECT_LT((sum - (before - decoded(codec, values) * 0.5)).abs().max().item<double>(), 1e-12) << name_of(codec);
  }
}

TEST(Codes, OfOtherPartiesAreChecked) {
  at::Tensor sum = at::zeros({100}, at::kFloat);
  for (const Codec& codec : kCodecs) {
    const at::Tensor code = encode(codec, drawn(100, 11, at::kFloat));
    EXPECT_FALSE(add_decoded(codec, code.narrow(0, 0, code.numel() - 1), sum));
    EXPECT_FALSE(add_decoded(codec, code.to(at::kFloat), sum));
    EXPECT_FALSE(add_decoded(codec, code.view({1, -1}), sum));
  }
  const Codec sparse{.kind = Kind::topk, .share = 0.02};  // two elements: their numbers, then their values
  for (const int32_t number : {-1, 100, std::numeric_limits<int32_t>::max()}) {
    const at::Tensor numbers = at::full({2}, int64_t(number), at::kInt), values = at::ones({2}, at::kFloat);
    EXPECT_FALSE(add_decoded(sparse, at::cat({numbers.view(at::kByte), values.view(at::kByte)}), sum)) << number;
  }
  EXPECT_EQ(sum.abs().max().item<float>(), 0) << "nothing has changed";
}

TEST(ErrorFeedbacks, LoseNothing) {
  for (const Codec& codec : kCodecs) {
    ErrorFeedback feedback(codec, "test");
    const std::vector<at::Tensor> like = {at::zeros({1300}, at::kDouble)};
    at::Tensor wanted = at::zeros_like(like[0]), got = at::zeros_like(like[0]);
    for (uint64_t k = 0; k < 20; ++k) {
      const at::Tensor values = drawn(1300, 20 + k);
      const at::Tensor kept = values.clone();
      wanted.add_(values);
      ASSERT_TRUE(add_decoded(codec, feedback.encode(values, feedback.errors(like)[0]), got));
      EXPECT_TRUE(at::equal(values, kept)) << "what is sent stays as it is";
    }
    EXPECT_LT((got + feedback.errors(like)[0] - wanted).abs().max().item<double>(), 1e-9) << name_of(codec);
  }
}

TEST(ErrorFeedbacks, RecoverFromValuesThatAreNotFinite) {
  for (const Codec& codec : kCodecs) {
    ErrorFeedback feedback(codec, "test");
    at::Tensor values = drawn(50, 31);
    values[7] = std::numeric_limits<double>::quiet_NaN();
    values[8] = std::numeric_limits<double>::infinity();
    const at::Tensor error = feedback.errors(std::vector<at::Tensor>{values})[0];
    at::Tensor sum = at::zeros_like(values);
    ASSERT_TRUE(add_decoded(codec, feedback.encode(values, error), sum));
    EXPECT_FALSE(at::isfinite(sum).all().item<bool>()) << "the receiver sees it: " << name_of(codec);
    EXPECT_TRUE(at::isfinite(error).all().item<bool>()) << name_of(codec);
  }
}

// -- policies

struct Subject {
  std::string name;
  std::function<std::unique_ptr<UpdatePolicy>(std::optional<Codec>)> make;
};

constexpr int kReplicas = 3;

std::vector<Subject> subjects() {
  using Code = std::optional<Codec>;
  const RoundOptions rounds{.clients = kReplicas, .rounds = 20, .fraction = 0.7, .seed = 9};
  const AggregateOptions equal{.kind = AggregateOptions::Kind::equal};
  return {
      {"local-sgd", [](Code c) { return local_sgd({.every = steps(3), .compression = c}); }},
      {"gossip",
       [](Code c) { return gossip({.every = steps(2), .compression = c, .gamma = c ? usual_gamma(*c) : 1}); }},
      {"diloco", [](Code c) { return diloco({.every = 4, .compression = c}); }},
      {"streaming-diloco",
       [](Code c) { return diloco({.every = 6, .fragments = 3, .overlap = 2, .mix = 0.5, .compression = c}); }},
      {"async-average", [](Code c) { return async_average({.every = steps(2), .shards = 2, .compression = c}); }},
      {"async-average by samples",
       [](Code c) {
         return async_average({.every = steps(2), .share = AsyncAverageOptions::Share::by_samples, .compression = c});
       }},
      {"partial",
       [](Code c) { return partial_average({.every = steps(2), .quorum = 2, .compression = c}, kReplicas); }},
      {"easgd", [](Code c) { return easgd({.period = 2, .shards = 3, .compression = c}, kReplicas); }},
      {"eamsgd", [](Code c) { return easgd({.period = 2, .momentum = 0.5, .compression = c}, kReplicas); }},
      {"shat", [](Code c) { return shat({.period = 2, .shards = 2, .compression = c}, kReplicas); }},
      {"downpour", [](Code c) { return downpour({.shards = 2, .push_every = 2, .compression = c}, kReplicas); }},
      {"fedbuff", [](Code c) { return fedbuff({.local = steps(2), .buffer = 2, .compression = c}); }},
      {"fedavg", [=](Code c) { return federated({.rounds = rounds, .local = steps(3), .compression = c}); }},
      {"scaffold",
       [=](Code c) {
         return federated(
             {.rounds = rounds, .local = steps(3), .aggregate = equal, .control_variates = true, .compression = c});
       }},
  };
}

ToyProblem problem() { return {.seed = 77, .dims = 40, .samples = {12, 8, 9}}; }

std::vector<ToyResult> train(const Subject& subject, std::optional<Codec> codec, int64_t steps = 24,
                             double rate = kRate) {
  const std::unique_ptr<UpdatePolicy> policy = subject.make(codec);
  const FixedTimes times({1, 1.37, 0.81});
  VirtualWorld world(kReplicas, times, {}, policy->server());
  return train_toy(world, *policy, problem(), {.steps = {steps}, .learning_rate = rate});
}

double distance(const Vector& a, const Vector& b) {
  double squares = 0;
  for (size_t d = 0; d < a.size(); ++d) squares += (a[d] - b[d]) * (a[d] - b[d]);
  return std::sqrt(squares);
}

/// All elements are sent, so nothing is lost: the weights must be those of a run without a code.
TEST(CompressedPolicies, AreThePoliciesWhereNothingIsLost) {
  for (const Subject& subject : subjects()) {
    const auto wanted = train(subject, std::nullopt), got = train(subject, Codec{.kind = Kind::topk, .share = 1});
    for (size_t r = 0; r < wanted.size(); ++r) {
      EXPECT_LT(distance(got[r].weights, wanted[r].weights), 1e-11) << subject.name << ", replica " << r;
      EXPECT_EQ(got[r].steps, wanted[r].steps);
      EXPECT_EQ(got[r].counts.staleness, wanted[r].counts.staleness) << subject.name;
    }
    EXPECT_GT(distance(wanted[0].weights, problem().initial()), 0.1) << subject.name << " trains";
  }
}

/// Loss of all replicas' samples.
double loss(const Vector& weights) {
  double sum = 0;
  for (int r = 0; r < kReplicas; ++r)
    for (int64_t i = 0; i < problem().samples_of(r); ++i) {
      const double error = problem().error(r, i, weights);
      sum += error * error / 2;
    }
  return sum;
}

TEST(CompressedPolicies, ComeAsFarInTheEnd) {
  constexpr int64_t kLong = 600;
  constexpr double kSmall = 0.01;
  const double initial = loss(problem().initial());
  for (const Subject& subject : subjects()) {
    // its run is counted in rounds, of 3 steps for two of the clients
    const bool in_rounds = subject.name == "fedavg" || subject.name == "scaffold";
    const double plain = loss(train(subject, std::nullopt, kLong, kSmall)[0].weights);
    for (const Codec& codec : {Codec{.kind = Kind::topk, .share = 0.2}, Codec{.kind = Kind::sign}}) {
      const double compressed = loss(train(subject, codec, kLong, kSmall)[0].weights);
      EXPECT_LT(compressed - plain, (in_rounds ? 0.3 : 0.1) * (initial - plain)) << subject.name << name_of(codec);
    }
  }
}

TEST(CompressedPolicies, SendFewerBytes) {
  const Codec sparse{.kind = Kind::topk, .share = 0.1};
  for (const Subject& subject : subjects()) {
    const int64_t plain = train(subject, std::nullopt)[1].counts.bytes_sent,
                  compressed = train(subject, sparse)[1].counts.bytes_sent;
    EXPECT_LT(compressed, plain) << subject.name;
    EXPECT_GT(compressed, 0) << subject.name;
  }
}

/// Qsparse-local-SGD (Basu et al., 2019, algorithm 1) in plain loops. At the end nothing that a code has lost is
/// missing.
Vector qsparse_local_sgd(const Codec& codec, int64_t every, int64_t length) {
  const ToyProblem toy = problem();
  const auto n = size_t(toy.dims);
  Vector common = toy.initial();
  std::vector<Vector> weights(kReplicas, common), errors(kReplicas, Vector(n));
  // in the buckets of toy_state: 4 elements, none, and the rest
  const auto largest = [&](const Vector& values) {
    Vector kept(n);
    for (const auto& [begin, end] : {std::pair<size_t, size_t>{0, 4}, {4, n}}) {
      std::vector<size_t> order(end - begin);
      std::iota(order.begin(), order.end(), begin);
      std::sort(order.begin(), order.end(),
                [&](size_t a, size_t b) { return std::abs(values[a]) > std::abs(values[b]); });
      order.resize(size_t(std::llround(codec.share * double(end - begin))));
      for (const size_t d : order) kept[d] = values[d];
    }
    return kept;
  };
  for (int64_t k = 0; k < length; ++k) {
    for (int r = 0; r < kReplicas; ++r) {
      const Vector g = toy.gradient(r, k, weights[size_t(r)]);
      for (size_t d = 0; d < n; ++d) weights[size_t(r)][d] -= kRate * g[d];
    }
    if ((k + 1) % every != 0) continue;
    Vector sum(n);
    for (size_t r = 0; r < kReplicas; ++r) {
      Vector moved(n);
      for (size_t d = 0; d < n; ++d) moved[d] = weights[r][d] - common[d] + errors[r][d];
      const Vector sent = largest(moved);
      for (size_t d = 0; d < n; ++d) {
        errors[r][d] = moved[d] - sent[d];
        sum[d] += sent[d];
      }
    }
    for (size_t d = 0; d < n; ++d) common[d] += sum[d] / kReplicas;
    for (Vector& w : weights) w = common;
  }
  Vector mean(n);
  for (size_t r = 0; r < kReplicas; ++r)
    for (size_t d = 0; d < n; ++d) mean[d] += (weights[r][d] + errors[r][d]) / kReplicas;
  return mean;
}

/// Of the lengths one ends with an exchange of codes and one between two of them.
TEST(CompressedPolicies, LocalSgdFollowsThePaperToAnExactEnd) {
  constexpr int64_t kEvery = 3;
  const Codec codec{.kind = Kind::topk, .share = 0.25};
  for (const int64_t length : {12, 13}) {
    const Vector wanted = qsparse_local_sgd(codec, kEvery, length);
    const std::unique_ptr<UpdatePolicy> policy = local_sgd({.every = steps(kEvery), .compression = codec});
    ThreadWorld world(kReplicas, nullptr);
    std::vector<Vector> evaluated(kReplicas);
    const auto watch = [&](int r, int64_t step, ReplicaState& state, ReplicaPolicy& part, Hub&) {
      if (step == length - 1) evaluated[size_t(r)] = to_vector(part.values_for_evaluation(state).weights);
    };
    const auto results =
        train_toy(world, *policy, problem(), {.steps = {length}, .learning_rate = kRate, .watch = watch});
    for (size_t r = 0; r < kReplicas; ++r) {
      EXPECT_LT(distance(results[r].weights, wanted), 1e-12) << length << " steps, replica " << r;
      EXPECT_EQ(evaluated[r], results[r].weights) << "the evaluation after the last step, of replica " << r;
    }
  }
}

TEST(CompressedPolicies, AnswerBadOptions) {
  const RunFacts facts{.replicas = 3, .seed = 1, .plain_sgd = true};
  const auto read = [&](const std::string& text) {
    return make_update_policy(ConfigTable::from_string(text, "e.toml"), facts);
  };
  EXPECT_NE(read("policy = \"fedavg\"\ncompression = \"topk\"")->description().find(",compression=topk:0.01"),
            std::string::npos);
  EXPECT_EQ(read("policy = \"fedavg\"\ncompression = \"none\"")->description(),
            read("policy = \"fedavg\"")->description());
  for (const char* text : {"\"zip\"", "\"topk:0\"", "\"topk:1.5\"", "\"topk:nan\"", "\"topk:\""})
    expect_error(Blame::user, {"compression"}, [&] { read(std::string("policy = \"easgd\"\ncompression = ") + text); });
  for (const char* policy : {"hogwild", "synchronous", "streaming-diloco"})
    expect_error(Blame::user, {"compression"},
                 [&] { read(std::string("policy = \"") + policy + "\"\ncompression = \"sign\""); });
  expect_error(Blame::user, {"compression"},
               [&] { read("policy = \"local-sgd\"\nweights = \"samples\"\ncompression = \"sign\""); });
}

}  // namespace
}  // namespace trireme
