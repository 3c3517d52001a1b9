// Update policies that are stopped and resumed from their state: equal to the undisturbed run, bit for bit.
#include "update/policy_state.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>

#include "toy_run.h"
#include "update/async_average.h"
#include "update/diloco.h"
#include "update/downpour.h"
#include "update/easgd.h"
#include "update/fedbuff.h"
#include "update/federated.h"
#include "update/gossip.h"
#include "update/hogwild.h"
#include "update/local_sgd.h"
#include "update/partial.h"
#include "update/shat.h"
#include "update/synchronous.h"

namespace trireme {
namespace {

const Length kEachEpoch{1, Length::Unit::epochs};
const Codec kSparse{.kind = Codec::Kind::topk, .share = 0.3}, kSigns{.kind = Codec::Kind::sign};

// -- through bytes

struct RawTensor {
  std::string name, bytes;
  std::vector<int64_t> sizes;
  at::ScalarType dtype;
};

/// Converts the state to a file's content and back.
PolicyState through_bytes(const PolicyState& state) {
  const PolicyStateParts parts = parts_of(state);
  std::vector<RawTensor> file;
  for (const auto& [name, tensor] : parts.tensors) {
    EXPECT_TRUE(tensor.is_contiguous());
    file.push_back({name, std::string(static_cast<const char*>(tensor.data_ptr()), tensor.nbytes()),
                    tensor.sizes().vec(), tensor.scalar_type()});
  }
  PolicyStateParts read{.text = parts.text, .tensors = {}};
  for (const RawTensor& raw : file) {
    at::Tensor tensor = at::empty(raw.sizes, raw.dtype);
    if (!raw.bytes.empty()) std::memcpy(tensor.data_ptr(), raw.bytes.data(), raw.bytes.size());
    read.tensors.emplace_back(raw.name, tensor);
  }
  return policy_state_from(read, "policy.json");
}

ToyCheckpoint through_bytes(const ToyCheckpoint& checkpoint) {
  ToyCheckpoint read{through_bytes(checkpoint.policy), {}, checkpoint.replicas, checkpoint.steps};
  for (const PolicyState& part : checkpoint.parts) read.parts.push_back(through_bytes(part));
  return read;
}

void expect_same_end(const ToyRun::Outcome& resumed, const ToyRun::Outcome& undisturbed, const std::string& what) {
  for (size_t r = 0; r < undisturbed.results.size(); ++r) {
    const ToyResult &got = resumed.results[r], &wanted = undisturbed.results[r];
    EXPECT_EQ(got.weights, wanted.weights) << what << ", replica " << r;
    EXPECT_EQ(got.moments, wanted.moments) << what << ", replica " << r;
    EXPECT_EQ(got.steps, wanted.steps) << what << ", replica " << r;
    ASSERT_EQ(got.statistics.size(), wanted.statistics.size());
    for (size_t s = 0; s < got.statistics.size(); ++s) {
      EXPECT_TRUE(at::equal(got.statistics[s].mean, wanted.statistics[s].mean)) << what << ", replica " << r;
      EXPECT_TRUE(at::equal(got.statistics[s].variance, wanted.statistics[s].variance)) << what << ", replica " << r;
    }
    const auto &ends = resumed.trace[r], &all = undisturbed.trace[r];
    ASSERT_LE(ends.size(), all.size());
    EXPECT_TRUE(std::equal(ends.rbegin(), ends.rend(), all.rbegin())) << what << ": on the way, replica " << r;
  }
}

int64_t staleness_counted(const std::vector<ToyResult>& results, size_t at) {
  int64_t counted = 0;
  for (const ToyResult& result : results)
    counted += at < result.counts.staleness.size() ? result.counts.staleness[at] : 0;
  return counted;
}

/// Stops each replica after `stop_after(replica)` steps and resumes in another world. The replicas of the undisturbed
/// run stop at the same steps and continue, because exchanges may depend on a common stop.
void expect_resumes(const ToyRun& run, const std::function<int64_t(int replica)>& stop_after, const std::string& what) {
  const auto stops = [&](int replica, int64_t step) { return step == stop_after(replica); };
  auto policy = run.make(run.replicas());
  const ToyRun::Outcome undisturbed = run.train(*policy, {.stops = stops});
  ToyCheckpoint checkpoint;
  auto first = run.make(run.replicas());
  const ToyRun::Outcome before = run.train(*first, {.stops = stops, .checkpoint = &checkpoint});
  first.reset();
  const ToyCheckpoint read = through_bytes(checkpoint);
  auto second = run.make(run.replicas());
  const ToyRun::Outcome after = run.train(*second, {.from = &read});
  expect_same_end(after, undisturbed, what);
  for (size_t s = 0; s < 8; ++s)
    EXPECT_EQ(staleness_counted(before.results, s) + staleness_counted(after.results, s),
              staleness_counted(undisturbed.results, s))
        << what << ": staleness " << s;
}

/// Stops all replicas after the same number of steps and, if replicas do not wait for each other, also after different
/// numbers.
void expect_resumes_anywhere(const ToyRun& run, const std::string& what, int64_t first = 1) {
  const bool together = run.make(run.replicas())->stops() != UpdatePolicy::Stops::anywhere;
  for (int64_t k = first; k < run.steps.back(); ++k) {
    expect_resumes(
        run, [&](int) { return k; }, what + " after " + std::to_string(k));
    if (!together)
      expect_resumes(
          run, [&](int r) { return std::max<int64_t>(first, r == 0   ? k
                                                            : r == 1 ? k - 1
                                                                     : k / 2); },
          what + " apart, after " + std::to_string(k));
  }
}

/// On the modelled clock with three replicas; on threads with three or, if the order of arrival matters, with one.
void expect_resumes_everywhere(ToyRun run, const std::string& what, bool arrival_matters, int64_t first = 1) {
  expect_resumes_anywhere(run, what + ", modelled clock", first);
  run.threads = true;
  if (arrival_matters) run.seconds = {1};
  expect_resumes_anywhere(run, what + ", threads", first);
}

TEST(PolicyStates, Synchronous) {
  expect_resumes_everywhere(
      {.make = [](int) { return std::make_unique<SynchronousPolicy>(SynchronousOptions{}); }, .seconds = {1}},
      "synchronous", true);
}

TEST(PolicyStates, LocalSgd) {
  for (const LocalSgdOptions& options :
       {LocalSgdOptions{.every = steps(5)},
        {.every = steps(4), .post_local_after = steps(6), .weight_by_samples = true, .moments = Moments::averaged},
        {.every = steps(5), .overlap = 3},
        {.every = steps(4), .overlap = 4, .average_statistics = false},
        {.every = steps(3), .compression = kSparse}})
    expect_resumes_everywhere({.make = with(local_sgd, options), .momentum = 0.8}, local_sgd(options)->description(),
                              false);
}

TEST(PolicyStates, LocalSgdByEpochsAtTheEndsOfEpochs) {
  // 3, 2 and 3 steps per epoch; each replica stops after the second of four epochs.
  const ToyRun run{.make = with(local_sgd, LocalSgdOptions{.every = kEachEpoch, .weight_by_samples = true}),
                   .steps = {12, 8, 12}};
  expect_resumes(
      run, [](int r) { return r == 1 ? 4 : 6; }, "local-sgd by epochs");
}

TEST(PolicyStates, Gossip) {
  using Graph = GossipOptions::Graph;
  for (const GossipOptions& options :
       {GossipOptions{.graph = Graph::random, .every = steps(2), .moments = Moments::averaged, .seed = 3},
        {.every = steps(2), .compression = kSparse, .gamma = 0.5},
        {.graph = Graph::ring, .moments = Moments::reset, .compression = kSigns, .gamma = 0.4}}) {
    ToyRun run{.make = with(gossip, options), .momentum = 0.5};
    expect_resumes_everywhere(run, gossip(options)->description(), false);
    run.seconds = {1, 1.5, 0.75, 1};
    expect_resumes_anywhere(run, gossip(options)->description() + ", four replicas");
  }
}

TEST(PolicyStates, Diloco) {
  for (const DilocoOptions& options : {DilocoOptions{.every = 4},
                                       {.every = 6, .fragments = 3, .overlap = 4, .mix = 0.5},
                                       {.every = 5, .fragments = 2, .overlap = 2, .mix = 0.25, .four_bits = true},
                                       {.every = 4, .fragments = 2, .overlap = 1, .compression = kSigns}})
    for (const at::ScalarType dtype : {at::kDouble, at::kFloat})
      expect_resumes_everywhere({.make = with(diloco, options), .momentum = 0.5, .dtype = dtype},
                                diloco(options)->description(), false);
}

TEST(PolicyStates, AsyncAverage) {
  using Share = AsyncAverageOptions::Share;
  for (const AsyncAverageOptions& options : {AsyncAverageOptions{.every = steps(3)},
                                             {.every = steps(4), .share = Share::by_samples, .shards = 3},
                                             {.every = kEachEpoch, .moments = Moments::reset},
                                             {.every = steps(2), .shards = 3, .compression = kSparse}})
    expect_resumes_everywhere({.make = with(async_average, options), .momentum = 0.5}, options.description(), true);
}

TEST(PolicyStates, BufferedUpdates) {
  for (const FedbuffOptions& options : {FedbuffOptions{.local = steps(3), .buffer = 2, .moments = Moments::kept},
                                        {.local = kEachEpoch, .buffer = 4, .discounts = false, .shards = 3},
                                        {.local = steps(2), .buffer = 2, .compression = kSigns}})
    expect_resumes_everywhere({.make = with(fedbuff, options), .momentum = 0.5}, options.description(), true);
}

TEST(PolicyStates, Partial) {
  for (const PartialOptions& options : {PartialOptions{.every = steps(4)}, {.every = steps(2), .compression = kSparse}})
    expect_resumes_everywhere({.make = with_replicas(partial_average, options)}, options.description(), true);
}

TEST(PolicyStates, PartialWithARoundThatIsOpen) {
  // Replicas 0 and 1 stop after a step; replica 2 is in the second round and waits for one of them.
  ToyRun run{.make = with_replicas(partial_average, PartialOptions{.every = steps(1), .quorum = 2}),
             .seconds = {1, 1, 1.5},
             .links = {}};
  run.has_statistics = false;  // they would change between the ends of step and round
  const auto stops = [](int replica, int64_t step) { return replica < 2 && step == 1; };
  auto policy = run.make(3), first = run.make(3), second = run.make(3);
  const ToyRun::Outcome undisturbed = run.train(*policy, {.stops = stops, .stop_together = {0, 1}});
  ToyCheckpoint checkpoint;
  run.train(*first, {.stops = stops, .checkpoint = &checkpoint});
  EXPECT_EQ(checkpoint.policy.integers.at("round sum replicas"), std::vector<int64_t>{1});
  EXPECT_EQ(checkpoint.parts[2].integers.at("waits for round"), std::vector<int64_t>{1});
  const ToyCheckpoint read = through_bytes(checkpoint);
  expect_same_end(run.train(*second, {.from = &read}), undisturbed, "partial");
}

TEST(PolicyStates, ElasticAveraging) {
  for (const EasgdOptions& options : {EasgdOptions{.period = 3},
                                      {.period = 2, .momentum = 0.9, .shards = 4},
                                      {.period = 2, .shards = 3, .compression = kSparse}})
    expect_resumes_everywhere({.make = with_replicas(easgd, options)}, options.description(), true);
}

TEST(PolicyStates, Shat) {
  for (const ShatOptions& options : {ShatOptions{.period = 3, .shards = 2}, {.period = 2, .compression = kSigns}})
    expect_resumes_everywhere({.make = with_replicas(shat, options)}, options.description(), true);
}

TEST(PolicyStates, Hogwild) {
  for (const at::ScalarType dtype : {at::kDouble, at::kFloat})
    expect_resumes_everywhere({.make = [](int) { return hogwild(); }, .dtype = dtype}, "hogwild", true);
}

TEST(PolicyStates, Downpour) {
  for (const DownpourOptions& options : {DownpourOptions{.shards = 3, .fetch_every = 2, .push_every = 3},
                                         {.shards = 2, .push_every = 2, .adagrad = true},
                                         {.fetch_every = 3, .push_every = 4, .warm_start = 3},
                                         {.shards = 2, .fetch_every = 5, .push_every = 2},
                                         {.shards = 2, .push_every = 2, .compression = kSparse}}) {
    ToyRun run{.make = with_replicas(downpour, options)};
    run.schedule = [](int64_t step) {
      const int64_t quarter = step / 4;
      return ToyRun::learning_rate / double(1 + quarter);
    };
    expect_resumes_everywhere(run, options.description(), true, options.warm_start + 2);
  }
}

TEST(PolicyStates, OfDownpourBeforeItCountedItsOwnPushesAreRead) {
  const ToyRun run{.make = with_replicas(downpour, DownpourOptions{.fetch_every = 5, .push_every = 2})};
  ToyCheckpoint checkpoint;
  auto first = run.make(run.replicas());
  run.train(*first, {.stops = [](int, int64_t step) { return step == 9; }, .checkpoint = &checkpoint});
  auto second = run.make(run.replicas());
  const ToyRun::Outcome whole = run.train(*second, {.from = &checkpoint});
  for (PolicyState& part : checkpoint.parts) EXPECT_EQ(part.integers.erase("own updates since it read"), 1u);
  auto third = run.make(run.replicas());
  const ToyRun::Outcome older = run.train(*third, {.from = &checkpoint});
  for (size_t r = 0; r < whole.results.size(); ++r) EXPECT_EQ(older.results[r].weights, whole.results[r].weights);
}

TEST(PolicyStates, ReplicasThatAreThroughHaveSettled) {
  using Share = AsyncAverageOptions::Share;
  ToyRun run{.make = with_replicas(downpour, DownpourOptions{.push_every = 5}), .steps = {4, 12, 9}};
  const auto after = [](int r) { return r == 0 ? 4 : 6; };
  expect_resumes(run, after, "downpour");
  run.make = with(async_average, AsyncAverageOptions{.every = steps(3), .share = Share::by_samples});
  expect_resumes(run, after, "async-average");
}

// -- federated

/// Stops at the end of each round.
void expect_resumes_after_rounds(const FederatedOptions& options, bool threads, const std::string& what) {
  ToyRun run{.make = with(federated, options),
             .steps = {kMoreThanEnough},
             .momentum = 0.5,
             .dtype = at::kFloat,
             .threads = threads};
  const bool is_local = !options.local_parameters.empty();
  run.has_statistics = is_local || !threads;  // clients' statistics are mixed in the order of arrival
  const auto make = [&] {
    auto made = federated(options);
    if (is_local) made->set_local(toy_local_parts(run.has_statistics));
    return made;
  };
  auto policy = make();
  const ToyRun::Outcome undisturbed = run.train(*policy, {});
  for (int64_t stop_at = 0; stop_at + 1 < options.rounds.rounds; ++stop_at) {
    ToyCheckpoint checkpoint;
    auto first = make();
    std::atomic<bool> stopping = false;
    first->on_round = [&](const RoundRecord& record, const ModelValues&) {
      if (record.round != stop_at) return;
      first->hold();
      stopping = true;
    };
    run.train(*first, {.stops = [&](int, int64_t) { return stopping.load(); }, .checkpoint = &checkpoint});
    const ToyCheckpoint read = through_bytes(checkpoint);
    auto second = make();
    const ToyRun::Outcome after = run.train(*second, {.from = &read});
    expect_same_end(after, undisturbed, what + " after round " + std::to_string(stop_at));
    const std::vector<RoundRecord> got = second->rounds(), wanted = policy->rounds();
    ASSERT_EQ(got.size(), wanted.size());
    for (size_t t = 0; t < got.size(); ++t) {
      EXPECT_EQ(got[t].round, wanted[t].round);
      EXPECT_EQ(got[t].answered, wanted[t].answered);
      EXPECT_EQ(got[t].clipped, wanted[t].clipped);
      EXPECT_EQ(got[t].samples, wanted[t].samples);
    }
  }
}

TEST(PolicyStates, Federated) {
  using Kind = ServerOptimizerOptions::Kind;
  const RoundOptions rounds{.clients = 3, .rounds = 5, .fraction = 0.7, .seed = 9};
  for (const FederatedOptions& options :
       {FederatedOptions{.rounds = rounds, .server = {.learning_rate = 0.8, .momentum = 0.5}, .moments = Moments::kept},
        {.rounds = rounds, .local = steps(2), .proximal = 0.5, .clip_norm = 0.3},
        {.rounds = rounds, .server = {.kind = Kind::adam, .learning_rate = 0.1}},
        {.rounds = rounds, .server = {.kind = Kind::adagrad, .learning_rate = 0.1}},
        {.rounds = rounds, .server = {.kind = Kind::yogi, .learning_rate = 0.1}},
        {.rounds = rounds, .aggregate = {.kind = AggregateOptions::Kind::normalized}},
        {.rounds = rounds, .aggregate = {.kind = AggregateOptions::Kind::median}},
        {.rounds = rounds, .aggregate = {.kind = AggregateOptions::Kind::equal}, .control_variates = true},
        {.rounds = rounds, .compression = kSigns},
        {.rounds = rounds,
        .aggregate = {.kind = AggregateOptions::Kind::equal},
        .control_variates = true,
        .compression = kSparse},
        {.rounds = rounds, .local = steps(2), .proximal = 0.5, .local_parameters = {"batch-norm"}}})
    for (const bool threads : {false, true})
      expect_resumes_after_rounds(options, threads,
                                  federated(options)->description() + (threads ? ", threads" : ", modelled clock"));
}

TEST(PolicyStates, AClientContinuesInTheMiddleOfARound) {
  // The client stops before any step, also in the middle of a round of three steps.
  const FederatedOptions options{.rounds = {.clients = 1, .rounds = 3}, .local = steps(3), .proximal = 0.5};
  ToyRun run{.make = with(federated, options), .seconds = {1}, .steps = {kMoreThanEnough}, .momentum = 0.5};
  for (int64_t k = 1; k < 9; ++k) {
    run.threads = k % 2 == 0;
    expect_resumes(
        run, [&](int) { return k; }, "federated after " + std::to_string(k));
  }
}

TEST(FederatedRoundsState, TheOpenRoundHasAsLongLeft) {
  const RoundOptions options{.clients = 4, .rounds = 0, .fraction = 1, .timeout = 10, .seed = 3};
  FederatedRounds rounds(options);
  rounds.begin(0);
  EXPECT_TRUE(rounds.answer(0, 0));
  rounds.begin(1);
  rounds.leave(2);
  rounds.lose(3);
  rounds.record().refused = 2;
  rounds.record().refused_clients = {3, 1};
  PolicyState state;
  StateFields out(state);
  rounds.fields(out, 4);
  out.done();
  const PolicyState read = through_bytes(state);
  FederatedRounds other(options);
  StateFields in(read, "test");
  other.fields(in, 100);
  in.done();
  EXPECT_EQ(other.deadline(), 106);
  EXPECT_EQ(other.record().refused_clients, (std::vector<int>{3, 1}));
  EXPECT_FALSE(other.is_complete(105));
  EXPECT_FALSE(other.answer(0, 0)) << "it has answered";
  EXPECT_TRUE(other.answer(1, 0));
  EXPECT_TRUE(other.is_complete(105)) << "client 2 has left, client 3 is back, but not in this round";
  other.next(105);
  EXPECT_EQ(other.record().selected, 3);
}

}  // namespace
}  // namespace trireme
