#include "profile/layer_times.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <limits>

#include "base/memory.h"
#include "plan/named.h"
#include "program/compile.h"
#include "runtime/worker.h"
#include "runtime/worker_threads.h"

namespace trireme {
namespace {

constexpr int kLayerRuns = 4;  // the first run warms up

Batch random_batch(const Model& model, int64_t samples, bool tokens) {
  const auto& readers = model.consumers(0);
  const bool is_embedded = tokens || std::any_of(readers.begin(), readers.end(),
                                                 [&](NodeId id) { return model.node(id).layer->reads_rows(); });
  auto load = [&model, is_embedded](Range range) {
    std::vector<at::Tensor> inputs;
    for (NodeId id = 0; id < model.input_count(); ++id) {
      Shape shape = model.node(id).sample_shape;
      shape.insert(shape.begin(), range.size());
      // Targets are class indices, and tokens are indices of a vocabulary: all are 0.
      at::Tensor tensor = id == 0 && !is_embedded ? at::rand(shape) : at::zeros(shape, at::kLong);
      if (tensor.dim() == 4) tensor = tensor.contiguous(at::MemoryFormat::ChannelsLast);
      inputs.push_back(tensor);
    }
    return inputs;
  };
  return {samples, load};
}

}  // namespace

ProfileWork profile_work(const Model& model, Precision precision, int64_t samples) {
  const auto master = int64_t(c10::elementSize(master_type(precision)));
  const auto compute = int64_t(c10::elementSize(compute_type(precision)));
  const int64_t of_weight = 2 * master + (compute == master ? 0 : compute);
  constexpr double kPasses = 3;  // a forward, and a backward of twice its FLOPs
  ProfileWork work;
  for (const ParameterSpec& parameter : model.parameters()) work.bytes += of_weight * element_count(parameter.shape);
  for (NodeId id = model.input_count(); id < NodeId(model.nodes().size()); ++id) {
    const Node& node = model.node(id);
    work.bytes += 2 * compute * samples * element_count(node.sample_shape);
    work.flops += kPasses * kLayerRuns * double(samples) * double(node.layer->forward_flops(model.input_shapes(id)));
  }
  return work;
}

std::vector<double> profile_layers(const Model& model, Precision precision, int64_t samples, uint64_t seed,
                                   bool tokens) {
  Plan plan = single_plan(model, samples);
  Program program = compile(model, plan, {.segment_per_layer = true, .mixed_precision = precision == Precision::bf16});
  std::vector<double> least(model.nodes().size(), std::numeric_limits<double>::infinity());
  LocalWorld world(1);
  ParameterStore store(program, precision);
  run_worker_threads(world, [&](int rank) {
    Worker worker(rank, model, &program, nullptr, store, world, {.seed = seed});
    for (int run = 0; run < kLayerRuns; ++run) {
      StepOutcome outcome = worker.train({.step = run, .batch = random_batch(model, samples, tokens), .trace = true});
      std::vector<double> seconds(model.nodes().size(), 0.0);
      std::erase_if(outcome.events, [](const Event& event) { return event.kind == EventKind::wait; });
      for (size_t i = 0; i < outcome.events.size(); ++i) {
        const Instruction& instruction = program.instructions(0)[i];
        if (instruction.code != OpCode::forward && instruction.code != OpCode::backward) continue;
        NodeId node = program.ops[size_t(program.segments[size_t(instruction.index)].ops.front())].node;
        seconds[size_t(node)] += outcome.events[i].end - outcome.events[i].begin;
      }
      for (size_t n = 0; run > 0 && n < seconds.size(); ++n) least[n] = std::min(least[n], seconds[n]);
    }
  });
  return least;
}

}  // namespace trireme
