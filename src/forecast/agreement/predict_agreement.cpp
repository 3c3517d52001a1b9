#include "forecast/agreement/predict_agreement.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "cost/datasheet_costs.h"
#include "cost/money.h"
#include "experiment/make_plan.h"
#include "forecast/agreement/agreement_memory.h"
#include "forecast/agreement/stand_in.h"
#include "forecast/agreement_plan.h"
#include "forecast/modelled_source.h"
#include "forecast/modelled_steps.h"
#include "program/compile.h"
#include "runtime/optimizer.h"
#include "trireme/error.h"
#include "update/federated.h"
#include "update/hub/virtual_world.h"
#include "update/synchronous.h"

namespace trireme {
namespace {

constexpr int64_t kMostReplicaSteps = 20'000;  // steps of all replicas together: about a second

VirtualLinks slowed_by(VirtualLinks links, double scale) {
  for (LinkSpeed& link : links.replicas) link.bandwidth /= scale;
  links.server.bandwidth /= scale;
  return links;
}

struct ConstantSteps final : StepTimes {
  explicit ConstantSteps(std::vector<double> s) : by_replica(std::move(s)) {}
  double seconds(int replica, int64_t) const override { return by_replica[size_t(replica)]; }
  std::vector<double> by_replica;
};

/// What a run's steps take.
struct ReplicaTimes {
  std::unique_ptr<StepTimes> steps;
  VirtualLinks links;
  /// By replica: seconds per byte that the policy's own operators read or write; 0 in modelled time, where they take
  /// none. Empty: 0 for all
  std::vector<double> policy = {};
};

/// The exchanges of a run of `steps` steps per replica.
struct Exchanges {
  double seconds = 0;         ///< until the last replica has finished
  int64_t replica_steps = 0;  ///< steps of all replicas together
  std::vector<HubCounts> counts;
};

Exchanges exchanges_of(const RunSpec& experiment, const StandIn& stand_in, const Plan& plan, const ReplicaTimes& times,
                       int64_t steps_per_epoch, int64_t steps) {
  const std::unique_ptr<UpdatePolicy> update = make_policy(plan.agreement, {}, facts_of(experiment, plan));
  stand_in.prepare(*update);
  Exchanges exchanges;
  if (auto* federated = dynamic_cast<FederatedPolicy*>(update.get())) {
    const int64_t wanted = steps * plan.replicas;
    federated->on_round = [&exchanges, federated, wanted](const RoundRecord&, const ModelValues&) {
      const bool is_long = !federated->counts_rounds() && exchanges.replica_steps >= wanted;
      if (is_long || exchanges.replica_steps >= kMostReplicaSteps) federated->stop();
    };
    steps = 0;
  }
  VirtualWorld world(plan.replicas, *times.steps, slowed_by(times.links, stand_in.scale), update->server());
  run_replicas(world, [&](Hub& hub) {
    const double per_byte = times.policy.empty() ? 0 : times.policy[size_t(hub.replica())] * stand_in.scale;
    StepsToPlay played = steps_to_play(experiment, plan, steps_per_epoch, steps);
    played.on_trained = [&] { ++exchanges.replica_steps; };  // as a run counts: before the round that the step ends
    play(hub, *update, stand_in, played, [&](double touched) {
      if (per_byte > 0) world.compute(hub.replica(), touched * per_byte);
    });
    exchanges.seconds = std::max(exchanges.seconds, hub.now());
  });
  for (int r = 0; r < plan.replicas; ++r) {
    exchanges.counts.push_back(world.hub(r).counts());
    HubCounts& counts = exchanges.counts.back();
    counts.bytes_sent = int64_t(double(counts.bytes_sent) * stand_in.scale);
  }
  return exchanges;
}

/// Predicts the inner plan on the first replica's devices. `memory`: of the policy.
RunResult inner_row(const RunSpec& experiment, const Model& model, const Plan& plan, const CostSource& source,
                    const PredictionOptions& options, const AgreementMemory& memory) {
  RunSpec one = experiment;
  one.batch = std::max<int64_t>(1, experiment.batch / plan.replicas);
  one.private_replicas = false;
  CostSource shared = source;
  shared.shares_memory = true;
  if (!experiment.replicas.clock) shared.replicas = plan.replicas;  // in modelled time each has machines of its own
  return predict_program(one, model, plan.inner(), shared,
                         {.steps = options.steps, .timeline = options.timeline, .agreement = memory})
      .row;
}

/// Returns the step seconds of each replica. They are inversely proportional to the speed of the replica's slowest
/// device.
std::vector<double> seconds_by_replica(const Plan& plan, const CostSource& source, double of_first) {
  const auto slowest = [&](int replica) {
    double speed = INFINITY;
    for (int d = 0; d < plan.devices; ++d)
      speed = std::min(speed, source.cluster.devices[size_t(replica * plan.devices + d)].speed);
    return speed;
  };
  std::vector<double> seconds;
  for (int r = 0; r < plan.replicas; ++r) seconds.push_back(of_first * slowest(0) / slowest(r));
  return seconds;
}

/// Returns the seconds that a memory-bound operator takes per byte on each replica's first device, which runs the
/// policy: those of the optimizer's update, which is one.
std::vector<double> policy_seconds_per_byte(const RunSpec& experiment, const Plan& plan, const CostSource& source) {
  constexpr int64_t kFew = 1 << 12, kMany = 1 << 22;  // elements; the difference leaves out what starting costs
  const double bytes = double(kMany - kFew) *
                       update_bytes_per_element(optimizer_state_count(experiment.optimizer), experiment.precision, 1);
  const double crowding = plan.replicas > 1 ? source.layers->update_crowding(1) * source.sharing : 1;
  std::vector<double> seconds;
  for (int r = 0; r < plan.replicas; ++r) {
    const Device& device = source.cluster.devices[size_t(r) * size_t(plan.devices)];
    const auto update = [&](int64_t elements) { return source.layers->update_seconds(elements, 1, device.kind); };
    const double speed = device.kind < 0 ? device.speed : 1;  // the costs of a described device depend on its kind
    seconds.push_back((update(kMany) - update(kFew)) * crowding / (bytes * speed));
  }
  return seconds;
}

Exchanges exchanges_of_replicas(const RunSpec& experiment, const Model& model, const Plan& plan,
                                const CostSource& source, const StandIn& stand_in, const RunResult& inner,
                                int64_t steps_per_epoch, int64_t steps) {
  ReplicaTimes times;
  if (experiment.replicas.clock) {
    const SecondsBySamples seconds = seconds_by_samples(experiment, model, plan, plan.replicas);
    std::vector<double> by_replica;
    for (int r = 0; r < plan.replicas; ++r)
      by_replica.push_back(seconds(r, std::max<int64_t>(1, experiment.batch / plan.replicas)));
    times.steps = std::make_unique<ConstantSteps>(by_replica);
    times.links = modelled_links(experiment, plan.replicas, plan.devices);
  } else {
    times.steps = std::make_unique<ConstantSteps>(seconds_by_replica(plan, source, inner.step_seconds->median));
    times.links = links_between_replicas(source.cluster, plan.replicas, plan.devices, std::nullopt);
    times.policy = policy_seconds_per_byte(experiment, plan, source);
  }
  return exchanges_of(experiment, stand_in, plan, times, steps_per_epoch, steps);
}

/// Exchanges of the policy synchronous, from the same function as the run's clock.
Exchanges exchanges_of_workers(const RunSpec& experiment, const Model& model, const Plan& plan, int64_t steps) {
  const Program program = compile(model, plan, options_of(experiment, plan, true));
  const auto times = synchronous_steps(experiment, model, plan, program, [&](int64_t) { return experiment.batch; }, {});
  Exchanges exchanges;
  for (; exchanges.replica_steps < steps; ++exchanges.replica_steps)
    exchanges.seconds += times->seconds(0, exchanges.replica_steps);
  exchanges.counts = times->counts();
  return exchanges;
}

/// Completes the inner plan's row with the values of the whole run.
void describe(const Exchanges& exchanges, const RunSpec& experiment, const Plan& plan, const CostSource& source,
              const PredictionOptions& options, RunResult& row) {
  const double made = std::max(1.0, double(exchanges.replica_steps) / plan.replicas), step = exchanges.seconds / made;
  const double whole = exchanges.seconds * double(exchanges.counts.size());
  const size_t workers = size_t(plan.workers()) / exchanges.counts.size();  // of a replica; synchronous: one
  const std::vector<double> inner_busy = std::exchange(row.busy_share, {});
  // As in a run: of modelled time only the shares of whole replicas are known.
  const bool knows_inner = workers > 1 && !experiment.replicas.clock && inner_busy.size() == workers;
  const double inner_exposed = knows_inner ? row.exposed_communication.value_or(0) : 0;
  const double inner_bytes = workers > 1 ? double(row.bytes_per_step.value_or(0)) : 0;
  double idle = 0, exchanging = 0, bytes = 0, computing = 0;
  for (const HubCounts& counts : exchanges.counts) {
    const double busy = exchanges.seconds > 0 ? std::min(1.0, counts.compute_seconds / exchanges.seconds) : 0;
    for (size_t w = 0; w < workers; ++w) row.busy_share.push_back(knows_inner ? busy * inner_busy[w] : busy);
    computing += counts.compute_seconds;
    idle += counts.idle_seconds;
    exchanging += counts.exchange_seconds;
    bytes += double(counts.bytes_sent);
  }
  row.step_seconds = StepSeconds{step, step, step};
  row.samples_per_second = double(experiment.batch) / step;
  if (options.epoch_samples) {
    row.epoch_seconds = double(*options.epoch_samples) / *row.samples_per_second;
    if (const auto price = price_of(source.cluster, *row.epoch_seconds)) row.price_per_epoch = price->amount;
  }
  row.exposed_communication = std::min(1.0, (exchanging + inner_exposed * computing) / whole);
  row.bytes_per_step = int64_t(bytes / (made * double(exchanges.counts.size() * workers)) + inner_bytes);
  row.predicted->step_seconds = step;
  row.replicas = ReplicaReport{.replicas = int(exchanges.counts.size()),
                               .clock = "modelled",
                               .idle_share = idle / whole,
                               .bytes = int64_t(bytes)};
  std::vector<MemoryUse> memory;
  for (int r = 0; r < plan.replicas; ++r) memory.insert(memory.end(), row.memory.begin(), row.memory.end());
  row.memory = std::move(memory);
}

}  // namespace

RunResult predict_agreement(const RunSpec& given, const Model& model, const Plan& plan, const CostSource& source,
                            const PredictionOptions& options) {
  check_internal(source.cluster.size() >= plan.workers(), "a source has a device for every worker");
  const RunSpec experiment = whole_experiment(given, plan);
  std::optional<StandIn> stand_in;  // null: every step exchanges gradients, which the plan's program knows
  AgreementMemory memory;
  if (!is_synchronous(plan.agreement)) {
    stand_in.emplace(experiment, model, plan);
    memory = predict_agreement_memory(experiment, plan, *stand_in);
  }
  RunResult row = inner_row(experiment, model, plan, source, options, memory);
  row.plan = plan.in_short(model);
  row.devices = plan.workers();
  if (row.status == RunStatus::does_not_fit) return row;
  const int64_t epoch_samples = options.epoch_samples.value_or(experiment.batch);
  const int64_t steps_per_epoch = std::max<int64_t>(1, epoch_samples / experiment.batch);
  const int64_t steps = std::clamp<int64_t>(steps_of(experiment.length, steps_per_epoch), 1,
                                            std::max<int64_t>(1, kMostReplicaSteps / plan.replicas));

  const Exchanges exchanges =
      stand_in ? exchanges_of_replicas(experiment, model, plan, source, *stand_in, row, steps_per_epoch, steps)
               : exchanges_of_workers(experiment, model, plan, steps);
  describe(exchanges, experiment, plan, source, options, row);
  return row;
}

}  // namespace trireme
