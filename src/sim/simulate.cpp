#include "sim/simulate.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "program/check.h"
#include "program/engine.h"
#include "program/rendezvous.h"
#include "trireme/error.h"

namespace trireme {
namespace {

constexpr double kShownSeconds = 1e-9;      // shorter events are not shown in a timeline
constexpr double kShownWaitSeconds = 5e-6;  // the same threshold as in a run's timeline

/// Supplies the seconds of instructions; collects the workers' shares and the timeline.
class SimulationCosts final : public EngineCosts {
 public:
  SimulationCosts(const Program& program, const Model& model, ProgramCosts& costs, const Links& links,
                  const SimulationOptions& options)
      : program_(program),
        model_(model),
        costs_(costs),
        links_(links),
        timeline_(options.timeline),
        arrivals_(options.arrivals ? program.list_of_rank.size() : 0),
        begun_(program.list_of_rank.size()),
        batches_(options.steps + program.greatest_lag),
        first_step_(program.greatest_lag),
        seconds_(program.list_of_rank.size()) {}

  std::vector<Pool> pools() const override { return links_.pools(); }
  Overlap overlap() const override { return links_.overlap(); }
  void begin(std::span<const Execution> together, Demand& demand) override;
  void end(const Execution& execution, double now) override;

  int batches() const { return batches_; }
  Simulation result(EngineEnd end, const std::vector<int>& ranks);

 private:
  const Instruction& at(const Execution& e) const { return program_.instructions(e.rank)[size_t(e.index)]; }
  bool is_steady(int step) const { return step > first_step_ || batches_ == 1; }
  void account(const Execution& e, double now);
  void record(const Execution& e, double now);
  void note_arrivals(const Execution& e);
  void add_update(int rank, const Demand& own, Demand& demand) const;

  const Program& program_;
  const Model& model_;
  ProgramCosts& costs_;
  const Links& links_;
  const bool timeline_;
  std::vector<std::vector<MessageArrival>> arrivals_;  // by rank; empty: not recorded
  std::vector<std::pair<int, int>> begun_;             // by rank: step and position of the newest instruction
  const int batches_, first_step_;
  std::vector<SimulatedWorker> seconds_;  // by rank, of the steady steps
  std::vector<Event> events_;
};

/// Adds what a further member of an update computes. The gather of the new weights is in the first member's demand.
void SimulationCosts::add_update(int rank, const Demand& own, Demand& demand) const {
  demand.fixed = std::max(demand.fixed, own.fixed);
  if (links_.cores_of(rank) >= 0 && !own.shares.empty()) demand.shares.push_back(own.shares.front());
}

/// Members of a segment with communication each add their own compute demand, and so do those of an update. Members of
/// a collective share one demand.
void SimulationCosts::begin(std::span<const Execution> together, Demand& demand) {
  if (!arrivals_.empty())
    for (const Execution& e : together)
      if (e.lane == Lane::main) begun_[size_t(e.rank)] = {e.step, e.index};
  const Execution& first = together.front();
  const Resource resource = description_of(at(first).code).resource;
  if (resource == Resource::device) {
    for (const Execution& e : together) {
      const Demand& own = costs_.of(e.rank, at(e)).demand;
      demand.fixed = std::max(demand.fixed, e.exchanges ? own.fixed * links_.compute_slowdown() : own.fixed);
      demand.shares.insert(demand.shares.end(), own.shares.begin(), own.shares.end());
    }
  } else {
    demand = costs_.of(first.rank, at(first)).demand;
  }
  if (resource == Resource::both)
    for (const Execution& e : together.subspan(1)) add_update(e.rank, costs_.of(e.rank, at(e)).demand, demand);
  if (std::any_of(together.begin(), together.end(), [](const Execution& e) { return e.waited; }))
    demand.fixed += links_.hand_over();
}

void SimulationCosts::end(const Execution& e, double now) {
  if (timeline_ && e.step == batches_ - 1) record(e, now);
  if (is_steady(e.step) && e.step < batches_) account(e, now);
  if (!arrivals_.empty() && e.step == batches_ - 1 && description_of(at(e).code).role == RedistributionRole::send)
    note_arrivals(e);
}

/// A message of several senders counts as arrived when its first part has arrived.
void SimulationCosts::note_arrivals(const Execution& e) {
  const Instruction& i = at(e);
  const ListSites& sites = program_.sites[size_t(program_.list_of_rank[size_t(e.rank)])];
  const Role role = role_of(program_, e.rank, sites.sites[size_t(sites.of[size_t(e.index)])]);
  if (role.part != Part::post) return;
  for (const int receiver : program_.channels[size_t(role.channel)].receivers) {
    std::vector<MessageArrival>& known = arrivals_[size_t(receiver)];
    if (std::any_of(known.begin(), known.end(), [&](const MessageArrival& a) {
          return a.redistribution == i.index && a.adjoint == i.adjoint && a.micro_batch == i.micro_batch;
        }))
      continue;
    auto [step, position] = begun_[size_t(receiver)];
    if (++position == int(program_.instructions(receiver).size())) {
      ++step;
      position = 0;
    }
    const int lag = step - (e.step - i.lag);
    known.push_back({i.index, i.adjoint, i.micro_batch, std::max(lag, 0), lag < 0 ? 0 : position});
  }
}

void SimulationCosts::account(const Execution& e, double now) {
  const OpCodeDescription& description = description_of(at(e).code);
  const double seconds = now - e.begin;
  const InstructionCost& cost = costs_.of(e.rank, at(e));
  SimulatedWorker& worker = seconds_[size_t(e.rank)];
  worker.bytes_sent += cost.bytes_sent;
  if (e.lane != Lane::main) return;
  const bool for_exchange =
      e.held || (links_.overlap() == Overlap::all && description.weights == WeightUse::gather_slices);
  (for_exchange ? worker.exposed : worker.waiting) += e.begin - e.free;
  if (description.resource == Resource::both) {  // with optimizer sharding, the update also gathers the new weights
    const bool gathers = program_.private_replicas && cost.bytes_sent > 0;
    const double computing = gathers ? std::min(seconds, cost.computing) : seconds;
    worker.computing += computing;
    worker.exposed += seconds - computing;
    return;
  }
  (description.resource == Resource::device ? worker.computing : worker.exposed) += seconds;
}

void SimulationCosts::record(const Execution& e, double now) {
  const Instruction& i = at(e);
  const std::string name = program_.describe(i, model_);
  if (e.lane == Lane::main && e.begin - e.free > kShownWaitSeconds)
    events_.push_back({e.rank, EventKind::wait, "wait: " + name, i.micro_batch, e.free, e.begin, 0});
  if (now - e.begin < kShownSeconds) return;
  const auto bytes = int64_t(costs_.of(e.rank, i).bytes_sent);
  events_.push_back({e.rank, description_of(i.code).event, name, i.micro_batch, e.begin, now, bytes});
}

Simulation SimulationCosts::result(EngineEnd end, const std::vector<int>& ranks) {
  Simulation result;
  result.ranks = ranks;
  result.executed = end.executed;
  // Steps that only drain the pipeline do not count.
  const int last = batches_ - 1;
  const int between = last - first_step_;
  const std::vector<double>& ends = end.step_ends;
  result.step_seconds = between > 0 ? (ends[size_t(last)] - ends[size_t(first_step_)]) / between : ends[size_t(last)];
  for (int rank : ranks) {
    const SimulatedWorker& worker = seconds_[size_t(rank)];
    const double steps = std::max(1, between);
    result.workers.push_back(
        {worker.computing / steps, worker.exposed / steps, worker.waiting / steps, worker.bytes_sent / steps});
  }
  std::stable_sort(events_.begin(), events_.end(), [](const Event& a, const Event& b) {
    return a.rank != b.rank ? a.rank < b.rank : a.begin < b.begin;
  });
  double begin = events_.empty() ? 0 : events_.front().begin;
  for (const Event& event : events_) begin = std::min(begin, event.begin);
  for (Event& event : events_) {
    event.begin -= begin;
    event.end -= begin;
  }
  result.arrivals = std::move(arrivals_);
  result.timeline = {last, int(program_.list_of_rank.size()), std::move(events_)};
  return result;
}

/// Checks that a simulated rank receives only from simulated ranks.
void check_senders(const Program& program, const std::vector<int>& ranks) {
  for (int rank : ranks)
    for (const Site& site : program.sites[size_t(program.list_of_rank[size_t(rank)])].sites) {
      const Role role = role_of(program, rank, site);
      if (role.part != Part::take) continue;
      const std::vector<int>& members = program.channels[size_t(role.channel)].members;
      check_internal(std::any_of(members.begin(), members.end(),
                                 [&](int m) { return std::binary_search(ranks.begin(), ranks.end(), m); }),
                     "a simulated rank receives only from simulated ranks");
    }
}

}  // namespace

Simulation simulate(const Program& program, const Model& model, ProgramCosts& costs, const Links& links,
                    const SimulationOptions& options) {
  SimulationCosts seconds(program, model, costs, links, options);
  if (!options.ranks.empty()) check_senders(program, options.ranks);
  EngineEnd end = execute(program, seconds, {.batches = seconds.batches(), .ranks = options.ranks});
  if (!end.standstills.empty()) check_program(program, model, "plan");  // states which rank waits for which
  check_internal(end.standstills.empty(), "a program that has passed the checker ends in a simulation");
  std::vector<int> ranks = options.ranks;
  if (ranks.empty()) {
    ranks.resize(program.list_of_rank.size());
    std::iota(ranks.begin(), ranks.end(), 0);
  }
  return seconds.result(std::move(end), ranks);
}

}  // namespace trireme
