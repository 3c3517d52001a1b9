// Growth of the time to validate, compile and check a plan with the number of workers.
//
// plan_scale [workers...] (default 64 256 1024 4096): a transformer-like model of 48 residual blocks (two linear layers
// each, split by columns and rows) under data x pipeline 16 x tensor 8 (4 for fewer than 128 workers), 64
// micro-batches, 1f1b. Prints a line per size: workers, distinct lists, instructions over all workers, seconds of
// validate, of compile (with one check), of the check alone, and the ratio of compile to that of the line before.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "program/check.h"
#include "program/compile.h"
#include "trireme/layers/add.h"
#include "trireme/layers/linear.h"
#include "trireme/layers/relu.h"
#include "trireme/layers/softmax_cross_entropy.h"

namespace {

using namespace trireme;

constexpr int kBlocks = 48, kStages = 16, kMicroBatches = 64;
constexpr int64_t kWidth = 1024, kHidden = 4096, kClasses = 1024;

Model make_model() {
  ModelBuilder builder("residual_mlp");
  NodeId x = builder.input("data", {kWidth});
  const NodeId target = builder.input("target", {});
  for (int b = 0; b < kBlocks; ++b) {
    const std::string block = fmt::format("block{}", b);
    NodeId y = builder.layer<Linear>({x}, block + ".fc1", kWidth, kHidden);
    y = builder.layer<Relu>({y}, block + ".relu");
    y = builder.layer<Linear>({y}, block + ".fc2", kHidden, kWidth);
    x = builder.layer<Add>({x, y}, block + ".add");
  }
  const NodeId logits = builder.layer<Linear>({x}, "head", kWidth, kClasses);
  return builder.finish(logits, builder.layer<SoftmaxCrossEntropy>({logits, target}, "loss"));
}

int tensor_degree(int workers) { return workers < 8 * kStages ? 4 : 8; }

/// Megatron's splits: columns for fc1 and the head, rows for fc2, vocabulary for the loss.
std::string split_of(const std::string& name) {
  if (name.ends_with(".fc1") || name == "head") return "columns";
  if (name.ends_with(".fc2")) return "rows";
  if (name.ends_with(".relu")) return "channels";
  return name == "loss" ? "vocabulary" : "replicate";
}

Plan make_plan(const Model& model, int workers) {
  Plan plan;
  plan.name = fmt::format("{} workers", workers);
  plan.model = model.name();
  plan.model_fingerprint = model.fingerprint();
  plan.devices = workers;
  plan.schedule = "1f1b";
  plan.micro_batches = kMicroBatches;
  const int per_stage = workers / kStages;
  plan.stages.resize(kStages);
  for (int w = 0; w < workers; ++w) plan.stages[size_t(w / per_stage)].push_back(w);
  for (NodeId id = 0; id < NodeId(model.nodes().size()); ++id) {
    LayerPlan layer;
    if (id >= model.input_count()) {
      layer.stage = std::min(kStages - 1, (id - model.input_count()) / 4 * kStages / kBlocks);
      layer.tensor = tensor_degree(workers);
      layer.data = per_stage / layer.tensor;
      layer.split = split_of(model.node(id).name);
    }
    plan.layers.push_back(layer);
  }
  return plan;
}

template <class F>
double seconds_of(F&& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<int> sizes;
  for (int i = 1; i < argc; ++i) sizes.push_back(std::atoi(argv[i]));
  if (sizes.empty()) sizes = {64, 256, 1024, 4096};
  const Model model = make_model();
  fmt::print("{:>8} {:>6} {:>13} {:>11} {:>10} {:>8} {:>8}\n", "workers", "lists", "instructions", "validate s",
             "compile s", "check s", "growth");
  double before = 0;
  for (const int workers : sizes) {
    const int unit = kStages * tensor_degree(workers);
    if (workers < unit || workers % unit != 0) {
      fmt::print(stderr, "plan_scale: {} workers: not a multiple of {} stages x tensor {}\n", workers, kStages,
                 tensor_degree(workers));
      return 2;
    }
    const Plan plan = make_plan(model, workers);
    const int64_t batch = int64_t{kMicroBatches} * workers;
    const double validating = seconds_of([&] { validate(plan, model, batch, plan.name); });
    Program program;
    const double compiling = seconds_of([&] { program = compile(model, plan, {}); });
    const double checking = seconds_of([&] { check_program(program, model, plan.name); });
    int64_t instructions = 0;
    for (int rank = 0; rank < workers; ++rank) instructions += int64_t(program.instructions(rank).size());
    fmt::print("{:>8} {:>6} {:>13} {:>11.3f} {:>10.3f} {:>8.3f} {:>8}\n", workers, program.lists.size(), instructions,
               validating, compiling, checking, before > 0 ? fmt::format("x {:.2f}", compiling / before) : "");
    before = compiling;
  }
}
