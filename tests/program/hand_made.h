// Small programs written by hand: no plan, no compiler.
#pragma once

#include <fmt/format.h>

#include <functional>
#include <sstream>
#include <string>
#include <vector>

#include "program/engine.h"
#include "trireme/layers/linear.h"
#include "trireme/layers/softmax_cross_entropy.h"

namespace trireme::test_support {

struct HandMade {
  Model model;
  Program program;
  std::vector<Instruction>& list(int rank) { return program.lists[size_t(program.list_of_rank[size_t(rank)])]; }
};

/// A chain of `layers` linear layers and a loss.
inline Model chain(int layers) {
  ModelBuilder builder("chain");
  NodeId x = builder.input("data", {4});
  const NodeId target = builder.input("target", {});
  for (int i = 0; i < layers; ++i) x = builder.layer<Linear>({x}, fmt::format("fc{}", i), 4, 4);
  return builder.finish(x, builder.layer<SoftmaxCrossEntropy>({x, target}, "loss"));
}

/// Stages of one segment with one op (layer `fc<stage>`) and one bucket, on a data mesh; redistribution `stage`
/// connects neighbours.
inline HandMade stages(int count, const std::vector<std::vector<int>>& workers_of_stage) {
  HandMade made{chain(count), {}};
  Program& p = made.program;
  const auto layout_of = [&](int stage) {
    const auto& workers = workers_of_stage[size_t(stage)];
    return Layout{
        {workers, int(workers.size()), 1}, workers.size() > 1 ? Placement::shard(0) : Placement::replicate(), {}};
  };
  for (int s = 0; s < count; ++s) {
    const Layout layout = layout_of(s);
    const NodeId node = made.model.input_count() + s;
    p.values.push_back({s == 0 ? 0 : node - 1, layout, layout, s > 0, s == 0});
    p.values.push_back({node, layout, layout, true, false});
    if (s > 0) p.redistributions.push_back({2 * s - 1, 2 * s, layout, layout_of(s - 1), true, true, true});
    Op op;
    op.node = node;
    op.mesh = layout.mesh;
    op.stage = s;
    op.inputs = {2 * s};
    op.output = 2 * s + 1;
    p.ops.push_back(op);
    p.segments.push_back({s, {s}});
    Bucket bucket;
    bucket.holders = bucket.contributors = layout.mesh.workers;
    bucket.elements = kBucketAlignment;
    p.buckets.push_back(bucket);
    p.segment_buckets.push_back({s});
  }
  return made;
}

/// The instructions of a worker from words. A word is a kind and a micro-batch, then ":stage" if it is not `stage`,
/// then "@lag" if it is not 0. F: forward, B: backward, I and W: its two parts, R: recompute, with the messages to and
/// from the neighbouring stages. U: the update.
inline std::vector<Instruction> instructions(const std::string& words, int stage, int last_stage) {
  std::vector<Instruction> list;
  std::istringstream stream(words);
  for (std::string word; stream >> word;) {
    int micro_batch = 0, s = stage, lag = 0;
    char mark = 0;
    std::istringstream rest(word.substr(1));
    if (word[0] != 'U') rest >> micro_batch;
    while (rest >> mark) rest >> (mark == ':' ? s : lag);
    const auto put = [&](OpCode code, int index, int k, bool adjoint = false) {
      Instruction i{code, index, k, adjoint};
      i.lag = lag;
      list.push_back(i);
    };
    switch (word[0]) {
      case 'F':
        if (s > 0) put(OpCode::receive, s - 1, micro_batch);
        put(OpCode::forward, s, micro_batch);
        if (s < last_stage) put(OpCode::send, s, micro_batch);
        break;
      case 'B':
      case 'I':
        if (s < last_stage) put(OpCode::receive, s, micro_batch, true);
        put(word[0] == 'B' ? OpCode::backward : OpCode::backward_input, s, micro_batch);
        if (s > 0) put(OpCode::send, s - 1, micro_batch, true);
        break;
      case 'W': put(OpCode::backward_weight, s, micro_batch); break;
      case 'R': put(OpCode::recompute, s, micro_batch); break;
      case 'U':
        put(OpCode::reduce_gradients, s, -1);
        put(OpCode::optimizer_step, s, -1);
        break;
      default: ADD_FAILURE() << "unknown word " << word;
    }
  }
  return list;
}

/// A pipeline of `orders.size()` groups of `replicas` workers with consecutive ranks; stage s belongs to group s mod
/// groups.
inline HandMade pipeline(const std::vector<std::string>& orders, int replicas = 1, int chunks = 1) {
  const auto groups = int(orders.size());
  std::vector<std::vector<int>> workers;
  for (int s = 0; s < groups * chunks; ++s) {
    workers.emplace_back();
    for (int r = 0; r < replicas; ++r) workers.back().push_back(s % groups * replicas + r);
  }
  HandMade made = stages(groups * chunks, workers);
  made.program.devices = groups * replicas;
  for (int g = 0; g < groups; ++g) {
    made.program.lists.push_back(instructions(orders[size_t(g)], g, groups * chunks - 1));
    for (const Instruction& i : made.program.lists.back()) {
      made.program.micro_batches = std::max(made.program.micro_batches, i.micro_batch + 1);
      made.program.greatest_lag = std::max(made.program.greatest_lag, i.lag);
    }
    made.program.list_of_rank.insert(made.program.list_of_rank.end(), size_t(replicas), g);
  }
  made.program.flushes = made.program.greatest_lag == 0;
  complete(made.program, made.model);
  return made;
}

/// "F0 F1 F2 B2 B1 B0 U"
inline std::string gpipe_order(int micro_batches) {
  std::string order;
  for (int k = 0; k < micro_batches; ++k) order += fmt::format("F{} ", k);
  for (int k = micro_batches - 1; k >= 0; --k) order += fmt::format("B{} ", k);
  return order + "U";
}

/// `ahead` forwards, then one forward and one backward in turn, then the remaining backwards.
inline std::string one_forward_one_backward_order(int ahead, int micro_batches) {
  std::string order;
  for (int k = 0; k < micro_batches + ahead; ++k) {
    if (k < micro_batches) order += fmt::format("F{} ", k);
    if (k >= ahead) order += fmt::format("B{} ", k - ahead);
  }
  return order + "U";
}

/// Records the engine's calls. Durations are given per rank; ranks that join take the longest one.
class Recorder : public EngineCosts {
 public:
  struct Event {
    int index, step;
    double begin, end;
    friend bool operator==(const Event&, const Event&) = default;
  };
  using Duration = std::function<double(int rank, const Instruction&)>;
  explicit Recorder(
      int ranks, Duration duration = [](int, const Instruction&) { return 0.0; })
      : events(size_t(ranks)), duration_(std::move(duration)) {}

  /// Completes and executes the program.
  EngineEnd run(const HandMade& made, int batches = 1) {
    program_ = made.program;
    complete(program_, made.model);
    return execute(program_, *this, {.batches = batches});
  }
  void begin(std::span<const Execution> together, Demand& demand) override {
    for (const Execution& e : together)
      demand.fixed = std::max(demand.fixed, duration_(e.rank, program_.instructions(e.rank)[size_t(e.index)]));
  }
  void end(const Execution& e, double now) override {
    events[size_t(e.rank)].push_back({e.index, e.step, e.begin, now});
  }

  std::vector<std::vector<Event>> events;  ///< by rank

 private:
  Duration duration_;
  Program program_;
};

}  // namespace trireme::test_support
