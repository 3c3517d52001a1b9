// Compares layers measured one by one (profile/measure_layers.h) with the same layers in whole training steps: do the
// sums predict the steps?
#include <ATen/ATen.h>
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <iostream>
#include <map>

#include "base/memory.h"
#include "base/text.h"
#include "model/layers/common.h"
#include "plan/named.h"
#include "profile/measure_layers.h"
#include "profile/noise.h"
#include "program/compile.h"
#include "runtime/worker.h"
#include "runtime/worker_threads.h"
#include "trireme/error.h"
#include "zoo/zoo.h"

namespace trireme {
namespace {

struct Options {
  std::string model = "cifar-resnet18", precision = "fp32", task = "classification";
  std::vector<std::string> settings;
  std::vector<int64_t> sample{3, 32, 32}, target;
  int64_t batch = 32, classes = 10, vocabulary = 0;
  int steps = 6, rounds = 3, workers = 1;
  bool layers = false, hot = false;
};

Model model_of(const Options& o) {
  ModelSpec spec{o.model,
                 o.sample,
                 o.classes,
                 {},
                 o.task == "language" ? LearningTask::language : LearningTask::classification,
                 o.target,
                 o.vocabulary};
  for (const std::string& setting : o.settings) {
    const size_t equals = setting.find('=');
    if (equals == setting.npos) fail_user({"--set " + setting, "has no value", "write it as name=value", ""});
    spec.options[setting.substr(0, equals)] = std::stod(setting.substr(equals + 1));
  }
  return make_model(spec);
}

struct Seconds {
  double forward = 0, backward = 0;
};

/// Median seconds by node over steps of one worker, or of all workers in a data parallel plan.
std::vector<Seconds> in_place(const Options& o, const LayerSites& sites) {
  const Model& model = sites.model();
  const Precision precision = sites.options().precision;
  const int64_t batch = o.batch * o.workers;
  const Plan plan = named_plan(o.workers == 1 ? "single" : "data", model, Cluster::uniform(o.workers), batch, {});
  const Program program =
      compile(model, plan, {.segment_per_layer = true, .mixed_precision = precision == Precision::bf16});
  std::vector<at::Tensor> inputs;
  for (NodeId id = 0; id < model.input_count(); ++id) {
    Shape shape = model.node(id).sample_shape;
    shape.insert(shape.begin(), batch);
    const ValueKind& kind = sites.value(id);
    inputs.push_back(empty_in_layout(shape, at::TensorOptions().dtype(kind.below > 0 ? at::kLong : at::kFloat)));
    fill_with_noise(inputs.back(), 1, kind.below);
  }
  auto load = [&](Range range) {
    std::vector<at::Tensor> parts;
    for (const at::Tensor& input : inputs) parts.push_back(input.narrow(0, range.begin, range.size()));
    return parts;
  };
  LocalWorld world(o.workers);
  ParameterStore store(program, precision);
  std::vector<std::vector<double>> forward(model.nodes().size()), backward(forward);
  run_worker_threads(world, [&](int rank) {
    Worker worker(rank, model, &program, nullptr, store, world,
                  {.optimizer = {.learning_rate = 1e-6, .momentum = 0.9}});
    for (int step = 0; step < o.steps + 2; ++step) {
      StepOutcome outcome = worker.train(
          {.step = step, .batch = {batch, load}, .learning_rate = 1e-6, .trace = true, .starts_stream = step == 0});
      std::erase_if(outcome.events, [](const Event& event) { return event.kind == EventKind::wait; });
      for (size_t i = 0; rank == 0 && step >= 2 && i < outcome.events.size(); ++i) {
        const Instruction& instruction = program.instructions(0)[i];
        if (instruction.code != OpCode::forward && instruction.code != OpCode::backward) continue;
        const auto node = size_t(program.ops[size_t(program.segments[size_t(instruction.index)].ops.front())].node);
        (instruction.code == OpCode::forward ? forward : backward)[node].push_back(outcome.events[i].end -
                                                                                   outcome.events[i].begin);
      }
    }
    worker.barrier();
  });
  std::vector<Seconds> result(model.nodes().size());
  for (size_t n = 0; n < result.size(); ++n) {
    if (!forward[n].empty()) result[n].forward = spread_of(forward[n]).median;
    if (!backward[n].empty()) result[n].backward = spread_of(backward[n]).median;
  }
  return result;
}

std::vector<Seconds> by_itself(const Options& o, const LayerSites& sites) {
  const Model& model = sites.model();
  const auto requests = requests_for(sites, {1}, o.batch);
  Repetitions repetitions{.most = o.steps, .split = 1, .crowded = o.workers > 1};
  std::vector<LayerMeasurement> measured;
  if (o.hot)
    for (const LayerRequest& request : requests)
      measured.push_back(measure_layers(sites, {request}, repetitions).front());
  else measured = measure_layers(sites, requests, repetitions);
  std::map<std::string, size_t> by_key;
  for (size_t i = 0; i < requests.size(); ++i) by_key[sites.key(requests[i].node, requests[i].option, 1)] = i;
  std::vector<Seconds> result(model.nodes().size());
  for (NodeId id = model.input_count(); id < NodeId(model.nodes().size()); ++id) {
    const ShardingOption whole = sites.site(id).layer->sharding_options(sites.site(id).input_shapes, 1).at(0);
    const LayerMeasurement& m = measured[by_key.at(sites.key(id, whole, 1))];
    const double factor = o.workers > 1 ? m.crowding : 1;
    result[size_t(id)] = {m.forward.median * factor, m.backward.median * factor};
  }
  return result;
}

void run(const Options& o) {
  const Model model = model_of(o);
  const LayerSites sites(model, {.precision = parse_precision(o.precision, "--precision")});
  install_memory_accounting();
  for (int round = 0; round < o.rounds; ++round) {
    const std::vector<Seconds> step = in_place(o, sites), alone = by_itself(o, sites);
    Seconds a, b;
    for (NodeId id = model.input_count(); id < NodeId(model.nodes().size()); ++id) {
      const Seconds &x = step[size_t(id)], &y = alone[size_t(id)];
      a = {a.forward + x.forward, a.backward + x.backward};
      b = {b.forward + y.forward, b.backward + y.backward};
      if (o.layers && round + 1 == o.rounds)
        fmt::print("{:28} {:18} forward {:9.3f} {:9.3f} ms ({:+.0f} %)  backward {:9.3f} {:9.3f} ms ({:+.0f} %)\n",
                   model.node(id).name, model.node(id).layer->kind(), x.forward * 1e3, y.forward * 1e3,
                   100 * (y.forward / x.forward - 1), x.backward * 1e3, y.backward * 1e3,
                   x.backward > 0 ? 100 * (y.backward / x.backward - 1) : 0.0);
    }
    fmt::print(
        "{} batch {}: forward {:.2f} in place, {:.2f} ms by itself ({:+.1f} %); backward {:.2f}, {:.2f} ms ({:+.1f} "
        "%); sum {:+.1f} %\n",
        o.model, o.batch, a.forward * 1e3, b.forward * 1e3, 100 * (b.forward / a.forward - 1), a.backward * 1e3,
        b.backward * 1e3, 100 * (b.backward / a.backward - 1),
        100 * ((b.forward + b.backward) / (a.forward + a.backward) - 1));
    std::cout.flush();
  }
}

}  // namespace
}  // namespace trireme

int main(int argc, char** argv) {
  trireme::Options o;
  CLI::App app{"Layers measured by themselves against the same layers within training steps"};
  app.add_option("--model", o.model);
  app.add_option("--precision", o.precision);
  app.add_option("--task", o.task, "classification or language");
  app.add_option("--set", o.settings, "model options, name=value");
  app.add_option("--sample", o.sample, "sample shape");
  app.add_option("--target", o.target, "target shape");
  app.add_option("--batch", o.batch, "of each worker");
  app.add_option("--classes", o.classes);
  app.add_option("--vocabulary", o.vocabulary);
  app.add_option("--steps", o.steps);
  app.add_option("--rounds", o.rounds, "of both, taking turns");
  app.add_option("--workers", o.workers,
                 "data parallel; the layers' times by themselves are then those of a crowded machine");
  app.add_flag("--layers", o.layers, "print every layer");
  app.add_flag("--hot", o.hot, "each layer over and over, instead of taking turns");
  CLI11_PARSE(app, argc, argv);
  try {
    trireme::run(o);
  } catch (const std::exception& error) {
    std::cerr << trireme::first_line(error) << "\n";
    return 1;
  }
}
