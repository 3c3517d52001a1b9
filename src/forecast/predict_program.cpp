#include "forecast/predict_program.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>

#include "base/units.h"
#include "cost/instruction_costs.h"
#include "cost/memory.h"
#include "cost/money.h"
#include "experiment/run_device.h"
#include "forecast/drawing.h"
#include "plan/blocks.h"
#include "program/compile.h"
#include "sim/simulate.h"

namespace trireme {
namespace {

/// Up to this number, all ranks are simulated. With more, that would be slow: one rank of each group of equal ones is
/// simulated.
constexpr int kMostRanks = 64;

CompileOptions options_for(const RunSpec& experiment, const CostSource& source, bool checked) {
  CompileOptions options = compile_options(experiment, true);
  options.private_replicas |= !source.shares_memory;
  options.checked = checked;
  options.overlap = source.cluster.kinds.empty() ? overlap_of(experiment) : source.cluster.overlap;
  return options;
}

std::string basis_of(const InstructionCosts& costs) {
  const auto stretched = [](Basis basis, double stretch) {
    return fmt::format("{} {:.1f} x", name_of(basis), stretch);
  };
  std::string basis = name_of(costs.basis());
  if (costs.basis() == Basis::extrapolated) basis = stretched(costs.basis(), costs.stretch());
  if (costs.own_stretch() == 0) return basis;
  const std::string own =
      costs.own_stretch() > 1 ? stretched(Basis::own_times, costs.own_stretch()) : name_of(Basis::own_times);
  return costs.predicts_layers() ? fmt::format("{}, {}", basis, own) : own;
}

void fill_row(const Simulation& simulation, const Experiment& experiment, const PredictionOptions& options,
              RunResult& row) {
  const double step = simulation.step_seconds;
  row.step_seconds = StepSeconds{step, step, step};
  row.samples_per_second = double(experiment.batch) / step;
  if (options.epoch_samples) row.epoch_seconds = double(*options.epoch_samples) / *row.samples_per_second;
  double exposed = 0, bytes = 0;
  for (const SimulatedWorker& worker : simulation.workers) {
    row.busy_share.push_back(std::min(1.0, worker.computing / step));
    exposed += worker.exposed / step / double(simulation.workers.size());
    bytes += worker.bytes_sent / double(simulation.workers.size());
  }
  row.exposed_communication = std::min(1.0, exposed);
  row.bytes_per_step = int64_t(bytes);
  if (options.timeline) row.timeline = simulation.timeline;
}

/// Returns the types of the data set's values, by input of the model.
std::vector<c10::ScalarType> input_types(const RunSpec& experiment, const Model& model) {
  const LayerSites sites(model, site_options(experiment));
  std::vector<c10::ScalarType> types;
  for (NodeId id = 0; id < model.input_count(); ++id)
    types.push_back(sites.value(id).below > 0 ? c10::ScalarType::Long : c10::ScalarType::Float);
  return types;
}

/// Returns the number of a worker's device as the user counts devices.
int device_number(const Plan& plan, const CostSource& source, int rank) {
  const bool is_described = !source.cluster.kinds.empty();
  return is_described && !plan.cluster_devices.empty() ? plan.cluster_devices[size_t(rank)] : rank;
}

/// The kind of the device that a cluster file describes; null for this machine.
const DeviceKind* kind_of(const CostSource& source, int rank) {
  const Cluster& cluster = source.cluster;
  return cluster.kinds.empty() ? nullptr : &cluster.kinds[size_t(cluster.devices[size_t(rank)].kind)];
}

/// Describes the memory that is used on the device in addition to tensors.
std::string beside_tensors(const DeviceKind& kind, const MemoryUse& use) {
  std::string text = fmt::format(" and {} for the allocator", format_bytes(kind.taken_by(0, changing_at_peak(use))));
  if (kind.reserved > 0) text += fmt::format(", {} for driver and libraries", format_bytes(kind.reserved));
  return text;
}

MemoryOptions memory_options(const RunSpec& experiment, const Model& model, const Plan& plan, const CostSource& source,
                             const Simulation& simulation) {
  return {.batch = experiment.batch,
          .precision = experiment.precision,
          .optimizer = experiment.optimizer,
          .input_types = input_types(experiment, model),
          .library_memory = source.library_memory,
          .sums_beside = source.cluster.overlap != Overlap::nothing,
          .copies_ahead = !devices_to_copy_to(experiment, plan).empty(),
          .messages = source.messages,
          .arrivals = simulation.arrivals};
}

/// Fills in the memory. If devices have too little, sets the row's status and names the one that needs the greatest
/// share of its memory.
void fill_memory(const MemoryOptions& options, const Model& model, const Plan& plan, const Program& program,
                 const CostSource& source, const std::vector<int>& ranks, const AgreementMemory& agreement,
                 ProgramPrediction& prediction) {
  RunResult& row = prediction.row;
  row.memory = predict_memory(program, model, *source.layers, options, ranks);
  add(agreement, row.memory.front());
  int64_t peak = 0;
  size_t tightest = 0;
  for (size_t i = 0; i < ranks.size(); ++i) {
    const MemoryUse& use = row.memory[i];
    const DeviceKind* kind = kind_of(source, ranks[i]);
    const MemoryNeed need{.device = device_number(plan, source, ranks[i]),
                          .peak = kind ? kind->taken_by(use.peak, changing_at_peak(use)) : use.peak,
                          .limit = source.cluster.devices[size_t(ranks[i])].memory};
    peak = std::max(peak, use.peak);
    if (i == 0 || need.share() > prediction.tightest.share()) {
      prediction.tightest = need;
      tightest = i;
    }
    if (need.missing() > prediction.lacks_most.missing()) prediction.lacks_most = need;
    prediction.needed_memory = std::max(prediction.needed_memory, need.peak);
  }
  row.predicted->peak_memory = peak;
  const MemoryNeed& need = prediction.tightest;
  const DeviceKind* kind = kind_of(source, ranks[tightest]);
  const MemoryUse& use = row.memory[tightest];
  const auto taken = [&](double overhead) {
    return kind->reserved + kind->taken_by(use.peak, changing_at_peak(use), overhead);
  };
  const bool has_overhead = kind && taken(1) > use.peak;
  if (has_overhead) row.predicted->device_memory = MemoryRange{taken(0), taken(1), taken(2)};
  if (need.missing() == 0) {
    prediction.lacks_most = need;
    return;
  }
  MemoryUse at_peak;
  at_peak.current = use.at_peak;
  row.status = RunStatus::does_not_fit;
  row.reason =
      fmt::format("device {} needs {}, it has {}: {}{}", need.device, format_bytes(has_overhead ? taken(1) : need.peak),
                  format_bytes(has_overhead ? kind->memory : need.limit), describe_memory(at_peak),
                  has_overhead ? beside_tensors(*kind, use) : "");
}

}  // namespace

ProgramPrediction predict_program(const RunSpec& experiment, const Model& model, const Plan& plan,
                                  const CostSource& source, const PredictionOptions& options) {
  ProgramPrediction prediction;
  RunResult& row = prediction.row;
  row.plan = plan.in_short(model);
  row.devices = plan.devices;
  row.blocks = block_strategies(plan, model);
  const bool many = plan.devices > kMostRanks;
  const Program program = compile(model, plan, options_for(experiment, source, !many));
  InstructionCostOptions cost_options{.batch = experiment.batch,
                                      .precision = experiment.precision,
                                      .batch_norm = experiment.batch_norm,
                                      .loading = source.loading,
                                      .slowness = source.slowness,
                                      .sharing = source.sharing,
                                      .replicas = source.replicas};
  if (many) cost_options.representatives = representatives(program, source.cluster, experiment.batch);
  InstructionCosts costs(program, model, source.cluster, *source.layers, *source.links, cost_options);
  const bool long_list = many && program.greatest_lag == 0;
  const Simulation simulation = simulate(program, model, costs, *source.links,
                                         {.steps = long_list ? 1 : options.steps,
                                          .timeline = options.timeline,
                                          .arrivals = options.memory && source.messages.has_value(),
                                          .ranks = cost_options.representatives});
  fill_row(simulation, experiment, options, row);
  if (options.epoch_samples)
    if (const auto price = price_of(source.cluster, *row.epoch_seconds)) row.price_per_epoch = price->amount;
  row.predicted = SimulatedStep{simulation.step_seconds, std::nullopt, basis_of(costs)};
  std::vector<int> ranks = cost_options.representatives;
  if (ranks.empty()) {
    ranks.resize(size_t(plan.devices));
    std::iota(ranks.begin(), ranks.end(), 0);
  }
  if (options.memory)
    fill_memory(memory_options(experiment, model, plan, source, simulation), model, plan, program, source, ranks,
                options.agreement, prediction);
  if (options.drawing && (plan.stages.size() > 1 || plan.micro_batches > 1))
    row.schedule = std::make_shared<const nlohmann::json>(short_drawing(program, model));
  return prediction;
}

}  // namespace trireme
