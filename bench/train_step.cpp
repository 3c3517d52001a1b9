// Images per second of training steps under a plan, on random images in memory: the counterpart of peers/ddp.py. The
// workers are threads, or processes over gloo if mpirun or torchrun started several; rank 0 prints.
#include <ATen/ATen.h>
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <iostream>
#include <numeric>
#include <sstream>

#include "base/devices/device.h"
#include "base/memory.h"
#include "base/text.h"
#include "comm/rendezvous/text_messages.h"
#include "plan/named.h"
#include "profile/layer_times.h"
#include "program/compile.h"
#include "ranks.h"
#include "runtime/worker.h"
#include "runtime/worker_threads.h"
#include "trireme/error.h"
#include "zoo/zoo.h"

namespace trireme {
namespace {

struct Options {
  std::string model = "cifar-resnet18", precision = "fp32", plan = "data";
  int devices = 2, steps = 6, warmup = 2;
  int64_t batch = 128, classes = 10;
  std::string cut;                    ///< first layer of the second stage, if the plan has two
  std::string tensor_from;            ///< a data plan of one stage splits layers from this one on over the tensor axis
  std::vector<std::string> settings;  ///< model options, "hidden=4096"
  std::vector<int64_t> sample{3, 32, 32};
  int64_t vocabulary = 0;  ///< samples are this many kinds of tokens, and so are the targets
  std::string device = "cpu";
  bool usual = false;  ///< asks a GPU for every operator of every step
  bool events = false, shares = false, kinds = false, memory = false;
};

ModelSpec spec_of(const Options& o) {
  ModelSpec spec{o.model, o.sample, o.classes, {}};
  if (o.vocabulary > 0) {
    spec.classes = spec.vocabulary = o.vocabulary;
    spec.task = LearningTask::language;
    spec.target_shape = o.sample;
  }
  for (const std::string& setting : o.settings) {
    const size_t equals = setting.find('=');
    if (equals == setting.npos) fail_user({"--set " + setting, "has no value", "write it as name=value", ""});
    spec.options[setting.substr(0, equals)] = std::stod(setting.substr(equals + 1));
  }
  return spec;
}

/// Krizhevsky's weird trick: the first layers split the batch, the others split their features.
Plan data_then_tensor(const Options& o, const Model& model) {
  Plan plan = named_plan("data", model, Cluster::uniform(o.devices), o.batch, {});
  const Plan tensor = named_plan("tensor", model, Cluster::uniform(o.devices), o.batch, {});
  const NodeId first = model.find(o.tensor_from);
  if (first < 0) fail_user({"--tensor-from " + o.tensor_from, "is no layer of the model", "", ""});
  for (NodeId id = first; id < NodeId(model.nodes().size()); ++id) plan.layers[size_t(id)] = tensor.layers[size_t(id)];
  validate(plan, model, o.batch, "--tensor-from");
  return plan;
}

Plan plan_for(const Options& o, const Model& model, Precision precision) {
  if (!o.tensor_from.empty()) return data_then_tensor(o, model);
  const Cluster cluster = Cluster::uniform(o.plan.starts_with("single") ? 1 : o.devices);
  Plan plan = named_plan(o.plan, model, cluster, o.batch, {});
  if (o.cut.empty()) {
    if (plan.stages.size() == 1) return plan;
    return named_plan(o.plan, model, cluster, o.batch,
                      profile_layers(model, precision, std::max<int64_t>(1, o.batch / plan.micro_batches), 0));
  }
  const NodeId first = model.find(o.cut);
  if (plan.stages.size() != 2 || first < 0)
    fail_user({"--cut " + o.cut, "needs a plan of two stages and a layer of the model", "", ""});
  for (NodeId id = model.input_count(); id < NodeId(model.nodes().size()); ++id)
    plan.layers[size_t(id)].stage = id >= first;
  return plan;
}

/// Times of the workers' measured steps, by rank.
struct Measured {
  explicit Measured(int workers)
      : begin(static_cast<size_t>(workers)),
        end(begin),
        waiting(begin),
        exposed(begin),
        kinds(begin.size()),
        names(begin.size()),
        memory(begin.size()) {}
  std::vector<double> begin, end, waiting, exposed;
  std::vector<std::map<EventKind, double>> kinds;  ///< seconds per step, if traced
  std::vector<std::map<std::string, double>> names;
  std::vector<MemoryUse> memory;

  double elapsed() const {
    return *std::max_element(end.begin(), end.end()) - *std::min_element(begin.begin(), begin.end());
  }
};

void run_steps(const Options& o, Worker& worker, const Batch& batch, int rank, Measured& measured) {
  const auto r = size_t(rank);
  for (int step = 0; step < o.warmup + o.steps; ++step) {
    const bool counts = step >= o.warmup;
    if (step == o.warmup) reset_memory_peak(rank);
    const StepOutcome outcome =
        worker.train({.step = step, .batch = batch, .learning_rate = 0.1, .trace = (o.events || o.kinds) && counts});
    if (step == o.warmup) measured.begin[r] = outcome.begin;
    measured.end[r] = outcome.end;
    if (!counts) continue;
    measured.waiting[r] += outcome.waiting_seconds;
    measured.exposed[r] += outcome.exposed_seconds;
    for (const Event& event : outcome.events) {
      measured.kinds[r][event.kind] += (event.end - event.begin) / o.steps;
      measured.names[r][event.name] += (event.end - event.begin) / o.steps;
    }
  }
  measured.memory[r] = memory_use(rank);
}

/// Every worker is a thread.
void run_in_threads(const Options& o, const Model& model, const Program& program, Precision precision,
                    const WorkerOptions& options, const Batch& batch, Measured& measured) {
  LocalWorld world(int(measured.begin.size()));
  ParameterStore store(program, precision);
  run_worker_threads(world, [&](int rank) {
    Worker worker(rank, model, &program, nullptr, store, world, options);
    run_steps(o, worker, batch, rank, measured);
    worker.barrier();  // no worker may free memory that another still reads
  });
}

/// This process is one worker; rank 0 gets all times.
void run_as_process(const Options& o, const Model& model, const Program& program, Precision precision,
                    const WorkerOptions& options, const Batch& batch, Communicator& ranks, Measured& measured) {
  std::vector<int> all(size_t(ranks.size()));
  std::iota(all.begin(), all.end(), 0);
  const int rank = ranks.rank();
  const auto r = size_t(rank);
  LocalWorld alone(1);
  run_worker_threads(
      alone,
      [&](int) {
        Worker worker(rank, model, &program, nullptr, precision, ranks.group(all), options);
        run_steps(o, worker, batch, rank, measured);
        worker.barrier();
      },
      {}, rank);
  const std::string own =
      fmt::format("{} {} {} {}", measured.begin[r], measured.end[r], measured.waiting[r], measured.exposed[r]);
  const std::vector<std::string> texts = gather_texts(ranks, own);
  for (size_t q = 0; q < texts.size(); ++q)
    std::istringstream(texts[q]) >> measured.begin[q] >> measured.end[q] >> measured.waiting[q] >> measured.exposed[q];
}

void print_events(const std::map<std::string, double>& seconds) {
  std::vector<std::pair<double, std::string>> sorted;
  for (const auto& [name, value] : seconds) sorted.emplace_back(value, name);
  std::sort(sorted.rbegin(), sorted.rend());
  for (const auto& [value, name] : sorted) std::cout << fmt::format("{:8.3f} ms  {}\n", value * 1e3, name);
}

void print_details(const Options& o, const Model& model, Measured& measured) {
  if (o.events) print_events(measured.names[0]);
  const double all = measured.elapsed() * double(measured.begin.size());
  if (o.shares)
    std::cout << fmt::format("{:.4f} {:.4f} ",
                             std::accumulate(measured.waiting.begin(), measured.waiting.end(), 0.0) / all,
                             std::accumulate(measured.exposed.begin(), measured.exposed.end(), 0.0) / all);
  if (o.kinds)
    for (EventKind kind : {EventKind::forward, EventKind::recompute, EventKind::backward})
      std::cout << fmt::format("{:.6f} ", measured.kinds[0][kind]);
  if (!o.memory) return;
  std::cout << model.parameter_count() << ' ';
  for (int64_t bytes : measured.memory[0].at_peak) std::cout << bytes << ' ';
}

/// `ranks`: null if the workers are threads.
double images_per_second(const Options& o, Communicator* ranks) {
  const Precision precision = parse_precision(o.precision, "--precision");
  const Model model = make_model(spec_of(o));
  const Plan plan = plan_for(o, model, precision);
  const Program program = compile(model, plan,
                                  {.segment_per_layer = o.events,
                                   .mixed_precision = precision == Precision::bf16,
                                   .private_replicas = ranks != nullptr});
  Shape shape = o.sample;
  shape.insert(shape.begin(), o.batch);
  const c10::Device device(o.device);
  const PlacedDevices places(0, std::vector<c10::Device>(size_t(plan.devices), device));
  at::Tensor images = o.vocabulary > 0 ? at::randint(o.vocabulary, shape, at::kLong) : at::rand(shape);
  if (images.dim() == 4) images = images.contiguous(at::MemoryFormat::ChannelsLast);
  at::Tensor targets =
      o.vocabulary > 0 ? at::randint(o.vocabulary, shape, at::kLong) : at::randint(o.classes, {o.batch}, at::kLong);
  images = images.to(device);  // as in PyTorch's loop: loading is not part of the step
  targets = targets.to(device);
  auto load = [&](Range range) {
    return std::vector<at::Tensor>{images.narrow(0, range.begin, range.size()),
                                   targets.narrow(0, range.begin, range.size())};
  };
  OptimizerConfig optimizer{.learning_rate = 0.1, .momentum = 0.9, .weight_decay = 5e-4};
  if (o.memory) install_memory_accounting();
  Measured measured(plan.devices);
  const Batch batch{o.batch, load};
  if (ranks) run_as_process(o, model, program, precision, {.optimizer = optimizer}, batch, *ranks, measured);
  else
    run_in_threads(o, model, program, precision, {.optimizer = optimizer, .records_steps = !o.usual}, batch, measured);
  if (!ranks || ranks->rank() == 0) print_details(o, model, measured);
  return double(o.batch * o.steps) / measured.elapsed();
}

}  // namespace
}  // namespace trireme

int main(int argc, char** argv) {
  trireme::Options o;
  CLI::App app{"Images per second of training steps on random images"};
  app.add_option("--model", o.model);
  app.add_option("--precision", o.precision);
  app.add_option("--plan", o.plan);
  app.add_option("--devices", o.devices);
  app.add_option("--batch", o.batch);
  app.add_option("--classes", o.classes);
  app.add_option("--steps", o.steps);
  app.add_option("--warmup", o.warmup);
  app.add_option("--cut", o.cut, "first layer of the second of two stages");
  app.add_option("--tensor-from", o.tensor_from,
                 "first layer that is split over the tensor axis, those before over the data axis");
  app.add_option("--set", o.settings, "model options, name=value");
  app.add_option("--sample", o.sample, "sample shape");
  app.add_option("--vocabulary", o.vocabulary, "samples are tokens, this many kinds of them");
  app.add_option("--device", o.device, "cpu, or cuda: all workers on one GPU");
  app.add_flag("--shares", o.shares,
               "print the shares of waiting and of exposed communication in the workers' time before the rate");
  app.add_flag("--kinds", o.kinds,
               "print worker 0's seconds per step of forward, recompute and backward before the rate");
  app.add_flag("--memory", o.memory,
               "print the number of parameters and worker 0's bytes at its peak before the rate: weights, gradients, "
               "optimizer state, "
               "activations, buffers");
  app.add_flag("--usual", o.usual, "on a GPU, replay no steps");
  app.add_flag("--events", o.events, "print seconds per layer and direction");
  CLI11_PARSE(app, argc, argv);
  try {
    const auto ranks = trireme::ranks_of_bench("gloo");
    if (ranks) o.devices = ranks->size();
    const double rate = trireme::images_per_second(o, ranks.get());
    if (!ranks || ranks->rank() == 0) std::cout << fmt::format("{:.1f}\n", rate);
  } catch (const std::exception& error) {
    std::cerr << trireme::first_line(error) << "\n";
    return 1;
  }
}
