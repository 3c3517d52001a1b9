// Simulates programs. Oracles: the engine of program/engine.h with fixed durations, and formulas of the literature.
#include "sim/simulate.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <tuple>

#include "cost/cluster_links.h"
#include "cost/datasheet_costs.h"
#include "cost/links_of_speed.h"
#include "cost/profiled_links.h"
#include "plan/named.h"
#include "program/compile.h"
#include "program/engine.h"
#include "sim_support.h"
#include "trireme/layers/linear.h"
#include "trireme/layers/lstm.h"
#include "trireme/layers/softmax_cross_entropy.h"
#include "zoo/zoo.h"

namespace trireme {
namespace {

using test_support::FlopCosts;
using test_support::FreeLinks;
using test_support::MadeUpCosts;

Model mlp(int width = 16) {
  ModelSpec spec;
  spec.sample_shape = {12};
  spec.classes = 8;
  spec.name = "mlp";
  spec.options = {{"hidden", width}, {"depth", 3}};
  return make_model(spec);
}

struct Compiled {
  Model model;
  Plan plan;
  Program program;
};

Compiled compiled(const std::string& strategy, int devices, int64_t batch, bool private_replicas = false) {
  Model model = mlp();
  Plan plan = named_plan(strategy, model, Cluster::uniform(devices), batch, {});
  Program program = compile(model, plan, {.private_replicas = private_replicas});
  return {std::move(model), std::move(plan), std::move(program)};
}

/// Fixed durations; ranks that join take the longest.
class FixedTimes : public EngineCosts {
 public:
  FixedTimes(const Program& program, MadeUpCosts& costs) : program_(program), costs_(costs) {}
  void begin(std::span<const Execution> together, Demand& demand) override {
    for (const Execution& e : together)
      demand.fixed =
          std::max(demand.fixed, costs_.of(e.rank, program_.instructions(e.rank)[size_t(e.index)]).demand.fixed);
  }

 private:
  const Program& program_;
  MadeUpCosts& costs_;
};

TEST(Simulate, HasFixedTimesWhereNothingIsShared) {
  const std::vector<std::pair<std::string, int>> plans{{"single", 1},
                                                       {"data", 4},
                                                       {"tensor", 2},
                                                       {"gpipe", 2},
                                                       {"1f1b", 2},
                                                       {"pipedream", 2},
                                                       {"2bw", 2},
                                                       {"zero-bubble", 2},
                                                       {"zero-bubble-h2", 2},
                                                       {"zero-bubble-2p", 2},
                                                       {"zero-bubble-v", 2},
                                                       {"data=2,tensor=2", 4},
                                                       {"data=2,pipeline=2,micro_batches=4", 4},
                                                       {"zero1", 2},
                                                       {"zero2", 3},
                                                       {"zero3", 3},
                                                       {"1f1b,recompute=all", 2}};
  for (const auto& [strategy, devices] : plans)
    for (unsigned seed : {1u, 2u, 3u}) {
      const Compiled c = compiled(strategy, devices, 24);
      // For a group that acts together this engine takes the longest cost, the simulation a common cost, so all ranks
      // get the same one.
      MadeUpCosts costs([seed](int, const Instruction& i) {
        std::mt19937 random(seed * 7919u + unsigned(i.code) * 131u + unsigned(i.index) * 17u + unsigned(i.adjoint));
        return std::uniform_real_distribution<double>(0, 1)(random);
      });
      const int steps = 3;
      FixedTimes times(c.program, costs);
      const std::vector<double> ends = execute(c.program, times, {.batches = steps + c.program.greatest_lag}).step_ends;
      const Simulation simulation = simulate(c.program, c.model, costs, FreeLinks(), {.steps = steps});
      const int first = c.program.greatest_lag, last = steps + c.program.greatest_lag - 1;
      const double expected = (ends[size_t(last)] - ends[size_t(first)]) / (last - first);
      EXPECT_NEAR(simulation.step_seconds, expected, 1e-9) << strategy << ", seed " << seed;
    }
}

/// (m + p - 1)(t_f + t_b): Huang et al., "GPipe", 2019.
TEST(Simulate, PipelinesOfEqualStages) {
  for (const char* schedule : {"gpipe", "1f1b"})
    for (int m : {1, 2, 4, 8}) {
      const Compiled c = compiled(fmt::format("{},micro_batches={}", schedule, m), 2, 32, true);
      std::map<int, double> segments;  // a stage's seconds are divided among its segments
      for (const Segment& segment : c.program.segments) segments[segment.stage] += 1;
      MadeUpCosts costs([&](int, const Instruction& i) -> double {
        const bool forward = i.code == OpCode::forward, backward = i.code == OpCode::backward;
        if (!forward && !backward) return 0;
        return (forward ? 1.0 : 2.0) / segments.at(c.program.segments[size_t(i.index)].stage);
      });
      const Simulation simulation = simulate(c.program, c.model, costs, FreeLinks(), {.steps = 1});
      EXPECT_NEAR(simulation.step_seconds, 3.0 * (m + 1), 1e-9) << schedule << " " << m;
      EXPECT_NEAR(simulation.workers[0].computing, 3.0 * m, 1e-9);
      EXPECT_NEAR(simulation.workers[0].waiting, 3.0, 1e-9);
    }
}

/// A slow worker takes its factor longer, on its own device and on a shared core. With a share that is smaller by this
/// factor it takes as long as the other.
TEST(Simulate, SlowWorkers) {
  const FreeLinks own;
  Cluster machine = Cluster::uniform(2);
  machine.nodes = {ClusterNode{}};  // its links have no limit
  const LinksOfSpeed cores(machine, {4});
  for (const Links* links : {static_cast<const Links*>(&own), static_cast<const Links*>(&cores)}) {
    const auto run = [&](const std::string& strategy, const std::vector<double>& slowness) {
      const Compiled c = compiled(strategy, 2, 40, true);
      const FlopCosts layers(c.model, 1e6);
      const Cluster cluster = Cluster::uniform(2);
      InstructionCosts costs(c.program, c.model, cluster, layers, *links, {.batch = 40, .slowness = slowness});
      return simulate(c.program, c.model, costs, *links, {.steps = 2});
    };
    const Simulation equal = run("data", {}), slow = run("data", {1, 3}), shared = run("data,speeds=3:1", {1, 3});
    EXPECT_NEAR(slow.workers[0].computing, equal.workers[0].computing, 1e-9);
    EXPECT_NEAR(slow.workers[1].computing, 3 * equal.workers[1].computing, 1e-9);
    EXPECT_NEAR(slow.step_seconds, 3 * equal.step_seconds, 1e-9);
    EXPECT_NEAR(shared.workers[0].computing, 1.5 * equal.workers[0].computing, 0.01 * equal.step_seconds);
    EXPECT_NEAR(shared.workers[1].computing, 1.5 * equal.workers[1].computing, 0.01 * equal.step_seconds);
  }
}

/// finish_i = max(finish_(i-1), ready_i) + t_i over the buckets in the order in which they are ready (PyTorch DDP).
TEST(Simulate, ReductionsRunBesideBackward) {
  Model model = mlp(64);
  const Plan plan = named_plan("data", model, Cluster::uniform(2), 8, {});
  const Program program =
      compile(model, plan, {.bucket_bytes = 4096, .first_bucket_bytes = 1024, .private_replicas = true});
  ASSERT_GE(program.buckets.size(), 3u);
  const double reduction = 3;
  MadeUpCosts costs([&](int, const Instruction& i) -> double {
    if (i.code == OpCode::forward || i.code == OpCode::backward) return 1;
    return i.code == OpCode::reduce_gradients ? reduction : 0;
  });
  double now = 0, finish = 0, blocking = 0;
  for (const Instruction& i : program.instructions(0)) {
    now += i.code == OpCode::forward || i.code == OpCode::backward ? 1 : 0;
    blocking += costs.of(0, i).demand.fixed;
    if (i.code == OpCode::reduce_gradients) finish = std::max(finish, now) + reduction;
  }
  const Simulation beside = simulate(program, model, costs, FreeLinks(Overlap::all), {.steps = 1, .timeline = true});
  EXPECT_NEAR(beside.step_seconds, std::max(now, finish), 1e-9);
  EXPECT_EQ(simulate(program, model, costs, FreeLinks(Overlap::sums), {.steps = 1}).step_seconds, beside.step_seconds);
  EXPECT_NEAR(beside.workers[0].exposed, finish - now, 1e-9);
  EXPECT_NEAR(simulate(program, model, costs, FreeLinks(Overlap::nothing), {.steps = 1}).step_seconds, blocking, 1e-9);
  // The timeline shows a reduction that begins before the last backward ends.
  double last_backward = 0, first_reduction = 1e9;
  for (const Event& event : beside.timeline.events) {
    if (event.kind == EventKind::backward) last_backward = std::max(last_backward, event.end);
    if (event.kind == EventKind::reduce) first_reduction = std::min(first_reduction, event.begin);
  }
  EXPECT_LT(first_reduction, last_backward);
}

/// A sender continues while its message travels only where links overlap messages.
TEST(Simulate, MessagesTravelBesideTheirSender) {
  const Compiled c = compiled("gpipe,micro_batches=4", 2, 32, true);
  MadeUpCosts costs([&](int, const Instruction& i) -> double {
    if (i.code == OpCode::forward || i.code == OpCode::backward) return 1;
    return description_of(i.code).lane == Lane::mail ? 0.5 : 0;
  });
  const auto seconds = [&](Overlap overlap) {
    return simulate(c.program, c.model, costs, FreeLinks(overlap), {.steps = 1}).step_seconds;
  };
  EXPECT_LT(seconds(Overlap::messages), seconds(Overlap::sums));
  EXPECT_EQ(seconds(Overlap::messages), seconds(Overlap::all));
}

TEST(Simulate, WorkersShareCores) {
  const Compiled c = compiled("data", 4, 16);
  class TwoCores final : public Links {
   public:
    const std::vector<Pool>& pools() const override { return pools_; }
    Demand collective(RedistributionKind, double, std::span<const int>, int) const override { return {}; }
    Demand giving(double, std::span<const int>, int, int) const override { return {}; }
    Demand message(int, int, double, int) const override { return {}; }
    bool receiver_moves() const override { return true; }
    int cores_of(int) const override { return 0; }
    Overlap overlap() const override { return Overlap::nothing; }

   private:
    const std::vector<Pool> pools_{{Pool::Kind::cores, 2}};
  };
  const TwoCores links;
  const test_support::FlopCosts layers(c.model, 1e9);
  const Cluster cluster = Cluster::uniform(4);
  InstructionCosts shared(c.program, c.model, cluster, layers, links, {.batch = 16});
  InstructionCosts own(c.program, c.model, cluster, layers, FreeLinks(), {.batch = 16});
  const double crowded = simulate(c.program, c.model, shared, links).step_seconds;
  EXPECT_NEAR(crowded, 2 * simulate(c.program, c.model, own, FreeLinks()).step_seconds, 1e-6 * crowded);
}

/// data [5, 6] -> LSTM of 8 units -> linear to 4 classes -> loss. The LSTM's units are divided between two workers.
struct SplitLstm {
  static constexpr int64_t kBatch = 3;
  static constexpr double kSteps = 5, kState = kBatch * 8 * 4;  ///< bytes of h

  SplitLstm()
      : model(make()),
        plan(named_plan("tensor", model, Cluster::uniform(2), kBatch, {})),
        program(compile(model, plan, {})) {
    for (OpId id = 0; id < OpId(program.ops.size()); ++id)
      if (program.ops[size_t(id)].node == model.find("lstm")) lstm = id;
  }
  static Model make() {
    ModelBuilder builder("split lstm");
    const NodeId data = builder.input("data", {5, 6}), target = builder.input("target", {5});
    NodeId x = builder.layer<Lstm>({data}, "lstm", 6, 8);
    x = builder.layer<Linear>({x}, "classes", 8, 4);
    return builder.finish(x, builder.layer<SoftmaxCrossEntropy>({x, target}, "loss"));
  }
  /// The cost of a rank's call of the LSTM; its segment has no other layer that communicates.
  InstructionCost cost_of(InstructionCosts& costs, int rank, OpCode code) const {
    for (const Instruction& i : program.instructions(rank)) {
      if (i.code != code) continue;
      const std::vector<OpId>& ops = program.segments[size_t(i.index)].ops;
      if (std::find(ops.begin(), ops.end(), lstm) != ops.end()) return costs.of(rank, i);
    }
    throw std::logic_error("no call of the LSTM");
  }

  Model model;
  Plan plan;
  Program program;
  OpId lstm = -1;
};

TEST(Simulate, ChargesExchangesOfSplitLayers) {
  const SplitLstm split;
  ASSERT_EQ(split.program.ops[size_t(split.lstm)].option.name, "hidden");
  Cluster cluster = Cluster::uniform(2);
  constexpr double kBandwidth = 1e4, kWire = 1e-3, kLaunch = 1e-4, kLatency = kWire + kLaunch;
  cluster.nodes = {ClusterNode{.link = {kBandwidth, kWire, false}, .price_per_hour = 0, .instance = ""}};
  cluster.kinds.emplace_back().launch = kLaunch;
  for (Device& device : cluster.devices) device.kind = 0;
  const ClusterLinks links(cluster);
  const test_support::FlopCosts layers(split.model, 1e30);  // computing takes no time
  InstructionCosts costs(split.program, split.model, cluster, layers, links, {.batch = SplitLstm::kBatch});
  const double exchanges = SplitLstm::kSteps - 1;  // the first step needs none: its state is zero
  const double sent = SplitLstm::kState / 2;       // by each worker in each exchange
  double communication = 0;
  for (const OpCode code : {OpCode::forward, OpCode::backward}) {
    const InstructionCost first = split.cost_of(costs, 0, code), second = split.cost_of(costs, 1, code);
    EXPECT_NEAR(first.demand.fixed, exchanges * kLatency, 1e-12);
    EXPECT_NEAR(second.demand.fixed, exchanges * kLatency, 1e-12);
    ASSERT_EQ(first.demand.shares.size(), 2u);  // the links of both
    for (const Share& share : first.demand.shares) EXPECT_DOUBLE_EQ(share.amount, exchanges * sent);
    EXPECT_TRUE(second.demand.shares.empty());
    EXPECT_DOUBLE_EQ(first.bytes_sent, exchanges * sent);
    communication += exchanges * (kLatency + sent / kBandwidth);
  }
  // The rest of the step is redistributions, which take as long without the LSTM's exchanges.
  const double all = simulate(split.program, split.model, costs, links).step_seconds;
  MadeUpCosts silent([&](int rank, const Instruction& i) {
    const InstructionCost& cost = costs.of(rank, i);
    if (i.code == OpCode::forward || i.code == OpCode::backward) {
      const std::vector<OpId>& ops = split.program.segments[size_t(i.index)].ops;
      if (std::find(ops.begin(), ops.end(), split.lstm) != ops.end()) return 0.0;
    }
    double seconds = cost.demand.fixed, slowest = 0;
    for (const Share& share : cost.demand.shares) slowest = std::max(slowest, share.amount / kBandwidth);
    return seconds + slowest;
  });
  EXPECT_NEAR(all - simulate(split.program, split.model, silent, FreeLinks()).step_seconds, communication, 1e-9);
}

/// The host asks for the operators of a segment while the device computes: a segment takes as long as the slower of
/// both, although some of its operators are shorter than their launch and others longer.
TEST(Simulate, ASegmentTakesTheLongerOfLaunchesAndWork) {
  const Model model = make_model({"mlp", {64}, 10, {{"hidden", 256}, {"depth", 2}}});
  const Plan plan = named_plan("single", model, Cluster::uniform(1), 8, {});
  const Program program = compile(model, plan, {});
  Cluster cluster = Cluster::uniform(1);
  cluster.nodes.resize(1);
  cluster.devices[0].kind = 0;
  cluster.kinds = {{.name = "A",
                    .speeds = {{"fp32", {.peak_flops = 1e9, .greatest_efficiency = 1, .half_work = 0}}},
                    .memory_bandwidth = 1e12,
                    .start = 0,
                    .source = ""}};
  const Instruction* forward = nullptr;
  for (const Instruction& i : program.instructions(0))
    if (i.code == OpCode::forward) forward = &i;
  ASSERT_NE(forward, nullptr);
  const auto seconds_with = [&](double launch) {
    cluster.kinds[0].launch = launch;
    const DatasheetCosts layers(model, cluster, Precision::fp32, 0);
    const ClusterLinks links(cluster);
    InstructionCosts costs(program, model, cluster, layers, links, {.batch = 8});
    return costs.of(0, *forward).demand.fixed;
  };
  const double work = seconds_with(0), launches = seconds_with(1);
  EXPECT_GE(launches, 5) << "an operator per layer";
  EXPECT_NEAR(seconds_with(work / launches / 2), work, 1e-9 * work) << "the device is the slower one";
  EXPECT_NEAR(seconds_with(2 * work / launches), 2 * work, 1e-9 * work) << "the host is the slower one";
}

/// On the cores of one machine every worker moves its own part, and all wait for the same latency.
TEST(Simulate, ChargesCoresForExchangesOfSplitLayers) {
  const SplitLstm split;
  LinkMeasurement measured;
  measured.groups.push_back({.workers = 2, .lines = {}, .barrier = 0});
  for (const char* operation : {"all_gather", "reduce_scatter", "all_reduce", "send"})
    measured.groups[0].lines[operation] = {.latency = 1e-4, .bandwidth = 1e6};
  const ProfiledLinks links(measured, 2, 2);
  const test_support::FlopCosts layers(split.model, 1e30);
  InstructionCosts costs(split.program, split.model, Cluster::uniform(2), layers, links, {.batch = SplitLstm::kBatch});
  for (const OpCode code : {OpCode::forward, OpCode::backward})
    for (const int rank : {0, 1}) {
      const Demand demand = split.cost_of(costs, rank, code).demand;
      EXPECT_NEAR(demand.fixed, 4 * 1e-4, 1e-12);
      ASSERT_EQ(demand.shares.size(), 1u);
      EXPECT_NEAR(demand.shares[0].amount, 4 * SplitLstm::kState / 1e6, 1e-12);
    }
}

/// Ranks gather one by one, but at the same time: together they take as long as one all-gather.
TEST(Simulate, GathersOfWeightsTakeAsLongAsOneAllGather) {
  const Compiled c = compiled("zero3", 4, 16, true);
  Cluster cluster = Cluster::uniform(4);
  cluster.nodes = {ClusterNode{.link = {1e6, 1e-3, false}}};
  cluster.overlap = Overlap::nothing;
  LinkMeasurement measured;
  measured.groups = {{.workers = 4, .lines = {{"all_gather", {.latency = 1e-3, .bandwidth = 1e6}}}}};
  const ClusterLinks described(cluster);
  const ProfiledLinks threads(measured, 4, 4, Overlap::nothing);
  const FlopCosts layers(c.model, 1e15);
  for (const Links* links : {static_cast<const Links*>(&described), static_cast<const Links*>(&threads)}) {
    InstructionCosts costs(c.program, c.model, cluster, layers, *links, {.batch = 16});
    const Simulation simulation = simulate(c.program, c.model, costs, *links, {.timeline = true});
    const double bytes = double(c.program.buckets.front().elements) * 4;
    const std::vector<int> ranks{0, 1, 2, 3};
    const Demand whole = links->collective(RedistributionKind::all_gather, bytes, ranks);
    double seconds = 0;
    for (const Share& share : whole.shares)
      seconds = std::max(seconds, whole.fixed + share.amount / (links == &described ? 1e6 : 1));
    int gathers = 0;
    for (const Event& event : simulation.timeline.events) {
      if (event.name != "gather weights bucket 0") continue;
      ++gathers;
      EXPECT_NEAR(event.end - event.begin, seconds, 0.01 * seconds);
    }
    EXPECT_GE(gathers, 4);
  }
}

double elements_of(const Box& box) {
  return std::accumulate(box.begin(), box.end(), 1.0, [](double n, const Range& r) { return n * double(r.size()); });
}

/// Oracle: the messages of plan_transfers, which the runtime sends.
TEST(Simulate, MessagesBetweenStagesHaveTheirBytes) {
  int sums = 0;
  for (const char* strategy :
       {"tensor=2,pipeline=2,micro_batches=2", "tensor=2,pipeline=3", "data=2,tensor=2,pipeline=2"}) {
    SCOPED_TRACE(strategy);
    const int devices = std::string(strategy).starts_with("data") ? 8 : std::string(strategy).ends_with("3") ? 6 : 4;
    const Compiled c = compiled(strategy, devices, 16, true);
    const Cluster cluster = Cluster::uniform(devices);
    const FlopCosts layers(c.model, 1e9);
    const FreeLinks links;
    InstructionCosts costs(c.program, c.model, cluster, layers, links, {.batch = 16});
    for (int rank = 0; rank < devices; ++rank)
      for (const Instruction& i : c.program.instructions(rank)) {
        if (description_of(i.code).role != RedistributionRole::send) continue;
        const Redistribution& redistribution = c.program.redistributions[size_t(i.index)];
        const RedistributionEnds ends = ends_of(redistribution, c.program, i.adjoint);
        const NodeId node = c.program.values[size_t(redistribution.from)].node;
        Shape shape = c.model.node(node).sample_shape;
        shape.insert(shape.begin(), share_of(16, c.program.micro_batches, i.micro_batch).size());
        double bytes = 0;
        for (const TensorTransfer& transfer : plan_transfers(ends.from, ends.to, shape))
          if (transfer.source == rank) bytes += 4 * elements_of(transfer.box);
        EXPECT_DOUBLE_EQ(costs.of(rank, i).bytes_sent, bytes) << "rank " << rank << ", " << i.index;
        sums += ends.from.tensor.is_partial();
      }
  }
  EXPECT_GT(sums, 0);
}

/// Oracle: the timeline of the same simulation.
TEST(Simulate, NotesWhenMessagesArrive) {
  std::mt19937 random(7);
  std::uniform_real_distribution<double> seconds(0.1, 1);
  int early = 0;
  for (const char* strategy : {"pipeline=3,micro_batches=4", "pipeline=3,micro_batches=5,schedule=1f1b"}) {
    SCOPED_TRACE(strategy);
    const Compiled c = compiled(strategy, 3, 20);
    MadeUpCosts costs([&](int, const Instruction&) { return seconds(random); });
    const Simulation simulation =
        simulate(c.program, c.model, costs, FreeLinks(), {.timeline = true, .arrivals = true});
    const auto event_of = [&](int rank, const Instruction& i) {
      const std::string name = c.program.describe(i, c.model);
      for (const Event& event : simulation.timeline.events)
        if (event.rank == rank && event.name == name && event.micro_batch == i.micro_batch) return event;
      return Event{};
    };
    for (int sender = 0; sender < 3; ++sender)
      for (const Instruction& sent : c.program.instructions(sender)) {
        if (description_of(sent.code).role != RedistributionRole::send) continue;
        const double end = event_of(sender, sent).end;
        const int receiver = sent.adjoint ? sender - 1 : sender + 1;
        const auto& list = c.program.instructions(receiver);
        int position = 0, needed = 0;
        for (int p = 0; p < int(list.size()); ++p) {
          if (event_of(receiver, list[size_t(p)]).begin < end - 1e-9) position = p + 1;
          if (description_of(list[size_t(p)].code).role == RedistributionRole::receive &&
              std::tie(list[size_t(p)].index, list[size_t(p)].adjoint, list[size_t(p)].micro_batch) ==
                  std::tie(sent.index, sent.adjoint, sent.micro_batch))
            needed = p;
        }
        const auto& arrivals = simulation.arrivals[size_t(receiver)];
        const auto found = std::find_if(arrivals.begin(), arrivals.end(), [&](const MessageArrival& a) {
          return std::tie(a.redistribution, a.adjoint, a.micro_batch) ==
                 std::tie(sent.index, sent.adjoint, sent.micro_batch);
        });
        ASSERT_NE(found, arrivals.end());
        EXPECT_EQ(found->lag, 0);
        EXPECT_EQ(found->position, position) << "from " << sender << ", micro-batch " << sent.micro_batch;
        early += position < needed;
      }
  }
  EXPECT_GT(early, 0);
}

TEST(Simulate, TimelinesAreInOrder) {
  const Compiled c = compiled("data=2,pipeline=2,micro_batches=4", 4, 16);
  MadeUpCosts costs([](int rank, const Instruction& i) { return i.code == OpCode::forward ? 1.0 + rank : 0.5; });
  const Simulation simulation = simulate(c.program, c.model, costs, FreeLinks(), {.timeline = true});
  ASSERT_FALSE(simulation.timeline.events.empty());
  EXPECT_EQ(simulation.timeline.workers, 4);
  for (size_t e = 1; e < simulation.timeline.events.size(); ++e) {
    const Event &before = simulation.timeline.events[e - 1], &event = simulation.timeline.events[e];
    if (before.rank == event.rank) {
      EXPECT_LE(before.end, event.begin + 1e-12);
    }
  }
}

}  // namespace
}  // namespace trireme
