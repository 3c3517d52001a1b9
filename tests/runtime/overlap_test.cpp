// Gradients are sent while backward continues. The workers are threads that behave as processes do.
#include <ATen/ATen.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "../base/expect_error.h"
#include "plan/named.h"
#include "program/compile.h"
#include "runtime/worker.h"
#include "runtime/worker_threads.h"
#include "zoo/zoo.h"

namespace trireme {
namespace {

constexpr int64_t kSamples = 16, kFeatures = 64, kSteps = 3;
constexpr double kLate = 0.5;  // seconds

struct Ran {
  std::vector<StepOutcome> outcomes;  ///< by rank, of the last step
  std::vector<at::Tensor> parameters;
};

struct Training {
  explicit Training(const std::string& degrees, CompileOptions options = {})
      : model(make_model({"mlp", {kFeatures}, 4, {{"hidden", 700}, {"depth", 4}}})),
        plan(named_plan(degrees, model, Cluster::uniform(2), kSamples, {})),
        program(compile(model, plan, with_replicas(options))) {}

  static CompileOptions with_replicas(CompileOptions options) {
    options.private_replicas = true;
    return options;
  }

  /// `late`: seconds by which rank 1 begins the last step later than rank 0.
  Ran run(bool beside, double late = 0, double clip = 0) const {
    LocalWorld world(2);
    if (beside) world.move_beside_computing();
    ParameterStore store(program, Precision::fp32);
    Ran ran{std::vector<StepOutcome>(2), {}};
    run_worker_threads(world, [&](int rank) {
      Worker worker(rank, model, &program, nullptr, store, world, {.seed = 1, .optimizer = {.momentum = 0.9}});
      for (int64_t step = 0; step < kSteps; ++step) {
        worker.barrier();
        const bool is_last = step == kSteps - 1;
        if (is_last && rank == 1) std::this_thread::sleep_for(std::chrono::duration<double>(late));
        const auto load = [step](Range range) {
          const at::Tensor rows = at::arange(range.begin + step, range.end + step, at::kFloat).view({-1, 1});
          return std::vector<at::Tensor>{at::sin(rows * at::arange(1, kFeatures + 1, at::kFloat)),
                                         rows.view(-1).remainder(4).to(at::kLong)};
        };
        ran.outcomes[size_t(rank)] = worker.train(
            {.step = step, .batch = {kSamples, load}, .learning_rate = 0.1, .clip_norm = clip, .trace = is_last});
      }
      worker.settle();
      worker.barrier();
      if (rank == 0)
        for (int p = 0; p < int(program.parameters.size()); ++p) ran.parameters.push_back(store.full_parameter(p));
      worker.barrier();
    });
    return ran;
  }

  Model model;
  Plan plan;
  Program program;
};

double seconds_of(const StepOutcome& o) { return o.compute_seconds + o.exposed_seconds + o.waiting_seconds; }

/// The reductions that ran beside backward: their events have the time and bytes of an exchange; the event that starts
/// one takes no time and moves no bytes.
std::vector<Event> transfers(const StepOutcome& outcome) {
  std::vector<Event> found;
  std::copy_if(outcome.events.begin(), outcome.events.end(), std::back_inserter(found),
               [](const Event& e) { return e.kind == EventKind::reduce && e.bytes > 0; });
  return found;
}

Event last_backward(const StepOutcome& outcome) {
  Event last{};
  for (const Event& event : outcome.events)
    if (event.kind == EventKind::backward && event.end > last.end) last = event;
  return last;
}

/// True if the first reduction was started before the last backward began.
bool is_handed_over_early(const StepOutcome& outcome) {
  const double last = last_backward(outcome).begin;
  return std::any_of(outcome.events.begin(), outcome.events.end(),
                     [&](const Event& e) { return e.kind == EventKind::reduce && e.bytes == 0 && e.end <= last; });
}

TEST(Overlap, AnExchangeBeginsBeforeTheLastGradientIsThere) {
  const Training training("data=2");
  bool has_begun = false;
  for (int attempt = 0; attempt < 10 && !has_begun;
       ++attempt) {  // the remaining backward is short; on a busy machine the exchange's thread may start too late
    const Ran ran = training.run(true);
    for (const StepOutcome& outcome : ran.outcomes) {
      EXPECT_TRUE(is_handed_over_early(outcome));
      has_begun |= transfers(outcome).front().begin < last_backward(outcome).begin;
    }
  }
  EXPECT_TRUE(has_begun);
}

TEST(Overlap, BackwardContinuesWhileGradientsAreSent) {
  const Training training("data=2");
  ASSERT_GE(training.program.buckets.size(), 2u);
  const Ran ran = training.run(true, kLate);
  const StepOutcome& early = ran.outcomes[0];
  const std::vector<Event> moved = transfers(early);
  ASSERT_EQ(moved.size(), training.program.buckets.size());
  const Event backward = last_backward(early);
  EXPECT_GT(moved.front().end, backward.end) << "the other worker was not there before";
  EXPECT_GT(early.waiting_seconds, kLate / 2);
  EXPECT_LT(early.exposed_seconds, kLate / 2);
  EXPECT_NEAR(seconds_of(early), early.end - early.begin, 1e-6);
  int64_t bytes = 0;
  for (const Event& event : early.events) bytes += event.bytes;
  EXPECT_EQ(bytes, early.bytes_sent);
  EXPECT_LT(ran.outcomes[1].waiting_seconds, kLate / 2) << "the late rank does not wait";
}

TEST(Overlap, GivesTheSameWeightsAndBytes) {
  for (const char* degrees : {"data=2", "data=2,micro_batches=4", "data=2,compression=bf16",
                              "data=2,compression=powersgd:2", "tensor=2", "pipeline=2,micro_batches=2"})
    for (const double clip : {0.0, 0.01}) {
      SCOPED_TRACE(fmt::format("{}, clip {}", degrees, clip));
      const Training training(degrees, {.clip_gradients = clip > 0});
      const Ran beside = training.run(true, 0, clip), one_after_the_other = training.run(false, 0, clip);
      ASSERT_EQ(beside.parameters.size(), one_after_the_other.parameters.size());
      for (size_t p = 0; p < beside.parameters.size(); ++p)
        EXPECT_TRUE(at::equal(beside.parameters[p], one_after_the_other.parameters[p])) << p;
      for (size_t r = 0; r < 2; ++r) {
        EXPECT_EQ(beside.outcomes[r].bytes_sent, one_after_the_other.outcomes[r].bytes_sent);
        EXPECT_NEAR(seconds_of(beside.outcomes[r]), beside.outcomes[r].end - beside.outcomes[r].begin, 1e-6);
      }
    }
}

/// The reduction that rank 1 has started waits for a gradient that rank 0 never makes.
TEST(Overlap, AFailureInBetweenEndsAll) {
  const Training training("data=2,micro_batches=2");
  LocalWorld world(2);
  world.move_beside_computing();
  ParameterStore store(training.program, Precision::fp32);
  expect_error(Blame::run, {"disk on fire"}, [&] {
    run_worker_threads(world, [&](int rank) {
      Worker worker(rank, training.model, &training.program, nullptr, store, world, {.seed = 1});
      int loads = 0;
      const auto load = [&](Range range) {
        if (rank == 0 && ++loads == 2) fail_run({"reading", "disk on fire", "", ""});
        return std::vector<at::Tensor>{at::ones({range.size(), kFeatures}), at::ones({range.size()}, at::kLong)};
      };
      worker.train({.step = 0, .batch = {kSamples, load}, .learning_rate = 0.1});
    });
  });
}

}  // namespace
}  // namespace trireme
