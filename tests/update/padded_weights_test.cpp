// Weights with padding between the parameters: it stays 0 in all that a policy keeps, and no code counts it.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "../base/expect_error.h"
#include "toy.h"
#include "update/async_average.h"
#include "update/diloco.h"
#include "update/downpour.h"
#include "update/easgd.h"
#include "update/fedbuff.h"
#include "update/federated.h"
#include "update/gossip.h"
#include "update/hub/virtual_world.h"
#include "update/local_parts.h"
#include "update/local_sgd.h"
#include "update/padding.h"
#include "update/partial.h"
#include "update/privacy.h"
#include "update/shat.h"
#include "worlds.h"

namespace trireme {
namespace {

constexpr int kPaddedReplicas = 3;
constexpr int64_t kPaddedSteps = 19, kPaddedStop = 7;
const Codec kPaddedSigns{.kind = Codec::Kind::sign};

ToyProblem padded_problem() {
  return {.seed = 77, .dims = 40, .samples = {12, 8, 9}, .padding = {{0, 3, 1}, {2, 10, 6}, {2, 29, 3}}};
}

struct PaddedPolicy {
  std::string name;
  std::function<std::unique_ptr<UpdatePolicy>(const Codec&)> make;
};

std::vector<PaddedPolicy> padded_policies() {
  constexpr int kAll = kPaddedReplicas;
  return {
      {"local-sgd", [](const Codec& c) { return local_sgd({.every = steps(3), .compression = c}); }},
      {"post-local sgd",
       [](const Codec& c) { return local_sgd({.every = steps(4), .post_local_after = steps(5), .compression = c}); }},
      {"gossip", [](const Codec& c) { return gossip({.every = steps(2), .compression = c, .gamma = usual_gamma(c)}); }},
      {"diloco", [](const Codec& c) { return diloco({.every = 4, .compression = c}); }},
      {"streaming-diloco",
       [](const Codec& c) { return diloco({.every = 6, .fragments = 3, .overlap = 2, .mix = 0.5, .compression = c}); }},
      {"async-average",
       [](const Codec& c) { return async_average({.every = steps(2), .shards = 2, .compression = c}); }},
      {"partial", [](const Codec& c) { return partial_average({.every = steps(2), .compression = c}, kAll); }},
      {"easgd", [](const Codec& c) { return easgd({.period = 2, .shards = 3, .compression = c}, kAll); }},
      {"eamsgd", [](const Codec& c) { return easgd({.period = 2, .momentum = 0.5, .compression = c}, kAll); }},
      {"shat", [](const Codec& c) { return shat({.period = 2, .shards = 2, .compression = c}, kAll); }},
      {"downpour", [](const Codec& c) { return downpour({.shards = 2, .push_every = 2, .compression = c}, kAll); }},
      {"fedbuff", [](const Codec& c) { return fedbuff({.local = steps(2), .buffer = 2, .compression = c}); }},
  };
}

std::vector<ToyResult> train_padded(UpdatePolicy& policy, ToyOptions options) {
  if (options.steps.front() != kMoreThanEnough) options.steps = {kPaddedSteps};
  const FixedTimes times({1, 1.37, 0.81});
  VirtualWorld world(kPaddedReplicas, times, {}, policy.server());
  return train_toy(world, policy, padded_problem(), options);
}

bool stops_padded(int, int64_t step) { return step == kPaddedStop; }

/// `values`: as many as there are weights, in their order.
void expect_empty_padding(const std::vector<at::Tensor>& values, const std::string& what) {
  const Vector all = to_vector(values);
  const ToyProblem problem = padded_problem();
  ASSERT_EQ(int64_t(all.size()), problem.dims) << what;
  bool is_empty = true;
  for (size_t d = 0; d < all.size(); ++d) is_empty &= !problem.is_padding(d) || all[d] == 0;
  EXPECT_TRUE(is_empty) << what;
}

void expect_empty_padding_in(const PolicyState& state, const std::string& what) {
  for (const auto& [name, values] : state.weights) expect_empty_padding({values}, what + ": " + name);
}

TEST(PaddedWeights, HaveZerosInTheStateOfEveryPolicy) {
  for (const Codec& codec : {kPaddedSigns, Codec{.kind = Codec::Kind::e3m0}, Codec{.kind = Codec::Kind::bf16},
                             Codec{.kind = Codec::Kind::topk, .share = 0.9}})
    for (const PaddedPolicy& padded : padded_policies()) {
      const std::string what = padded.name + text_of(std::optional(codec));
      const std::unique_ptr<UpdatePolicy> policy = padded.make(codec);
      ToyCheckpoint checkpoint;
      train_padded(*policy, {.stops = stops_padded, .checkpoint = &checkpoint});
      expect_empty_padding_in(checkpoint.policy, what);
      for (size_t r = 0; r < checkpoint.parts.size(); ++r) {
        expect_empty_padding_in(checkpoint.parts[r], what);
        expect_empty_padding(checkpoint.replicas[r].weights, what + ": weights");
      }
    }
}

TEST(PaddedWeights, OfAResumedRunAreThoseOfTheUninterruptedOneBitForBit) {
  for (const PaddedPolicy& padded : padded_policies()) {
    const std::unique_ptr<UpdatePolicy> undisturbed = padded.make(kPaddedSigns);
    const std::vector<ToyResult> wanted = train_padded(*undisturbed, {.stops = stops_padded});
    const std::unique_ptr<UpdatePolicy> first = padded.make(kPaddedSigns), second = padded.make(kPaddedSigns);
    ToyCheckpoint checkpoint;
    train_padded(*first, {.stops = stops_padded, .checkpoint = &checkpoint});
    const std::vector<ToyResult> got = train_padded(*second, {.from = &checkpoint});
    for (size_t r = 0; r < wanted.size(); ++r) {
      EXPECT_EQ(got[r].steps, wanted[r].steps) << padded.name;
      EXPECT_EQ(got[r].weights, wanted[r].weights) << padded.name << ", replica " << r;
    }
  }
}

TEST(PaddedWeights, OfFederatedRoundsHaveNeitherSignsNorNoise) {
  FederatedOptions coded{.rounds = {.clients = kPaddedReplicas, .rounds = 4},
                         .local = steps(2),
                         .aggregate = {.kind = AggregateOptions::Kind::equal},
                         .control_variates = true,
                         .compression = kPaddedSigns};
  FederatedOptions noisy{.rounds = {.clients = kPaddedReplicas, .rounds = 4},
                         .local = steps(2),
                         .clip_norm = 0.05,
                         .aggregate = {.kind = AggregateOptions::Kind::equal},
                         .privacy = {.noise = 0.3, .delta = 1e-3, .seed = 5}};
  noisy.rounds.secret = secret_of(noisy.privacy);
  for (const FederatedOptions& options : {coded, noisy}) {
    const std::unique_ptr<FederatedPolicy> policy = federated(options);
    policy->on_round = [](const RoundRecord&, const ModelValues& values) {
      expect_empty_padding(values.weights, "the server's weights");
    };
    for (const ToyResult& result : train_padded(*policy, {.steps = {kMoreThanEnough}})) EXPECT_EQ(result.steps, 8);
    expect_empty_padding_in(policy->state(0), "the server's state");
  }
}

TEST(PaddedWeights, KeepTheirPaddingWhereSomeStayLocal) {
  ReplicaState state = toy_state(padded_problem().initial());
  state.padding = padded_problem().padding;
  const LocalParts parts{.runs = {{0, 0, 2, false}, {0, 2, 2, true}, {2, 0, 12, true}, {2, 12, 24, false}},
                         .statistics = {}};
  const std::vector<Padding> padding = padding_by_bucket(shared_part(parts, state));
  EXPECT_EQ(padding, (std::vector<Padding>{{}, {{0, 4}, {17, 20}}}));
}

TEST(PaddedWeights, AreNotCountedInScales) {
  const Padding padding = {{5, 16}, {1020, 1030}, {1490, 1500}};
  const auto is_padding = [&](int64_t i) {
    return std::any_of(padding.begin(), padding.end(),
                       [&](const Range& range) { return range.begin <= i && i < range.end; });
  };
  const Philox draw(random_key(7, "values"));
  at::Tensor values = at::zeros({1500}, at::kDouble);
  for (int64_t i = 0; i < values.numel(); ++i)
    if (!is_padding(i)) values.data_ptr<double>()[i] = draw.normal(uint64_t(i));
  at::Tensor got = at::zeros_like(values);
  ASSERT_TRUE(add_decoded(kPaddedSigns, encode(kPaddedSigns, values, padding), got, 1, padding));
  const int64_t real[] = {1024 - 11 - 4, 476 - 6 - 10};
  for (int64_t i = 0; i < values.numel(); ++i) {
    const at::Tensor block = i < 1024 ? values.narrow(0, 0, 1024) : values.narrow(0, 1024, 476);
    const double scale = block.abs().sum().item<double>() / double(real[i < 1024 ? 0 : 1]);
    const double sign = values[i].item<double>() < 0 ? -1 : 1;
    EXPECT_NEAR(got[i].item<double>(), is_padding(i) ? 0 : sign * scale, 1e-6) << i;
  }
  values[3] = std::numeric_limits<double>::quiet_NaN();
  for (const Codec& codec : {kPaddedSigns, Codec{.kind = Codec::Kind::e3m0}}) {
    got.zero_();
    ASSERT_TRUE(add_decoded(codec, encode(codec, values, padding), got, 1, padding));
    EXPECT_EQ(got[7].item<double>(), 0) << "beside a value that is not finite";
  }
}

TEST(PaddedWeights, OfOtherPartiesAreChecked) {
  const std::vector<Vector> wrong = {{0, 6, 9},   {1, 0, 2},          {0, -1, 2}, {0, 3, 3},
                                     {0, 1.5, 3}, {0, 4, 6, 0, 5, 7}, {0, 1}};
  for (const Vector& padding : wrong) {
    const std::unique_ptr<UpdatePolicy> policy = easgd({.compression = kPaddedSigns}, 2);
    Request start{.operation = 0, .tensors = {at::zeros({8})}, .numbers = {1, 0}};
    start.numbers.insert(start.numbers.end(), padding.begin(), padding.end());
    expect_error(Blame::run, {"replica 1", "padding"}, [&] { policy->server()->serve(0, 1, start, 0); });
  }
}

}  // namespace
}  // namespace trireme
