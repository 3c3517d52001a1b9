#include "forecast/plan_search.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <tuple>
#include <utility>

#include "base/infinity.h"
#include "plan/cluster_file.h"
#include "plan/strategy.h"
#include "planner/asa.h"
#include "planner/exact/least_memory.h"
#include "schedule/kinds.h"
#include "trireme/error.h"

namespace trireme {
namespace {

constexpr size_t kMostSimulated = 12;
constexpr size_t kMostVaried = 3;
constexpr int kRungsPerDoubling = 4;
constexpr double kTimeShare = 1.0 / 3;  // of the remaining time that one of several searches may use

/// Returns variants of a found plan that the search leaves out: schedules that split backward, optimizer sharding.
std::vector<Plan> variants_of(const Plan& plan) {
  std::vector<Plan> variants;
  std::vector<std::string> schedules{plan.schedule};
  if (plan.stages.size() > 1 && find_schedule(plan.schedule, plan.name).is_plain())
    for (std::string& name : schedule_names([](const Schedule& s) { return s.step_rule && s.splits_backward; }))
      schedules.push_back(std::move(name));
  for (const std::string& schedule : schedules)
    for (const OptimizerSharding sharding : {plan.optimizer_sharding, OptimizerSharding::zero1}) {
      Plan variant = plan;
      variant.optimizer_sharding = sharding;
      variant.schedule = schedule;
      if (is_same(variant, plan) || (sharding != plan.optimizer_sharding && !plan.divides_batch())) continue;
      variants.push_back(std::move(variant));
    }
  return variants;
}

double objective_of(const Prediction& prediction, Objective objective) {
  if (objective == Objective::memory) return prediction.fullest();
  return objective == Objective::cost ? prediction.money : prediction.seconds;
}

/// The limit of a rung: bytes of the largest device.
int64_t rung_bytes(int rung) { return int64_t(std::ceil(std::exp2(double(rung) / kRungsPerDoubling))); }

/// The highest rung below `bytes`.
int rung_below(double bytes) {
  int rung = int(std::ceil(kRungsPerDoubling * std::log2(std::max(1.0, bytes))));
  while (rung >= 0 && double(rung_bytes(rung)) >= bytes) --rung;
  return rung;
}

class PlanSearch {
 public:
  PlanSearch(const RunSpec& experiment, const Model& model, const std::vector<int>& order,
             const SourceOfDevices& source_of, const BestPlanOptions& options)
      : experiment_(experiment),
        model_(model),
        order_(order),
        source_of_(source_of),
        source_(source_of(order)),
        objective_(options.objective),
        tolerance_(options.tolerance),
        micro_batches_(options.micro_batches),
        deadline_(options.limit),
        thorough_(options.thorough) {
    for (const Device& device : source_.cluster.devices) {
      largest_ = std::max(largest_, device.memory);
      limited_ = limited_ || device.memory > 0;
    }
  }

  BestPlan run() {
    if (objective_ == Objective::memory) {
      find_least();
      const bool none_fits = answer_.best && best_that_fits() == kInfinity;
      if (none_fits && may_divide()) find_least();
    } else {
      climb_down();
    }
    rank(pool_, objective_);
    BestPlan result{.answer = std::move(answer_), .finalists = std::move(pool_), .order = order_};
    if (result.answer.best) {
      Plan plan = result.answer.best->plan;
      note_devices(plan);
      for (const Finalist& finalist : result.finalists)
        if (is_same(finalist.rated.plan, plan)) result.answer_fits = finalist.fits_simulated;
    }
    return result;
  }

 private:
  /// Searches without a limit and then on the rungs.
  void climb_down() {
    answer_ = search(thorough_ ? 0 : largest_, objective_);
    if (ends_early()) return;
    if (!thorough_ && limited_) answer_ = search(0, objective_);
    if (!answer_.best) {
      if (!answer_.out_of_time) answer_.shortfall = explain_shortfall(request_for(source_.cluster, objective_));
      return;
    }
    int rung = rung_below(answer_.best->prediction.fullest());
    // The formula may count up to twice as much as the program: workers that share their weights, for example.
    if (limited_) rung = std::min(rung, rung_below(double(largest_)) + 1 + kRungsPerDoubling);
    for (; rung >= 0; --rung) {
      if (deadline_.passed() || ends_early() || answer_.lower_bound > beyond()) return;
      PlanAnswer found = search(rung_bytes(rung), objective_);
      if (!found.best && found.out_of_time) return;
      if (!found.best) break;
      const bool is_behind = found.lower_bound > beyond();
      if (limited_ && rung_bytes(rung) >= largest_) answer_ = std::move(found);
      if (is_behind) return;
    }
    PlanAnswer searched = std::move(answer_);
    find_least();
    answer_ = std::move(searched);
  }

  bool ends_early() const { return !thorough_ && best_that_fits() < kInfinity; }

  /// What is behind this by the formula is not searched for.
  double beyond() const { return best_that_fits() * (objective_ == Objective::time ? 1 + kFormulaError : 1); }

  double best_that_fits() const {
    double best = kInfinity;
    for (const Finalist& finalist : pool_)
      if (finalist.fits_simulated) best = std::min(best, value_of(finalist, objective_));
    return best;
  }

  void find_least() { answer_ = search(0, Objective::memory); }

  /// Optimizer sharding multiplies the configurations, so it is searched only where nothing fits without it. From then
  /// on it is part of the space. Returns false if it is already.
  bool may_divide() { return source_.cluster.size() > 1 && !std::exchange(divides_, true); }

  /// Searches for a plan with `memory` bytes on the largest device (0: no limit), and adds what it finds to the pool.
  PlanAnswer search(int64_t memory, Objective objective) {
    Cluster cluster = source_.cluster;
    for (Device& device : cluster.devices) {
      const double share = largest_ > 0 ? double(device.memory) / double(largest_) : 1;
      device.memory = memory == 0 ? 0 : int64_t(std::ceil(share * double(memory)));
    }
    PlanRequest request = request_for(cluster, objective);
    PlanAnswer answer = search_plan(request);
    if (!answer.best && !answer.out_of_time && may_divide()) {
      add_shardings(request);
      answer = search_plan(request);
    }
    if (answer.best) add(answer, request);
    return answer;
  }

  /// `cluster` must outlive the result.
  PlanRequest request_for(const Cluster& cluster, Objective objective) const {
    PlanRequest request = with_cluster(plan_request(experiment_, model_, source_), cluster);
    request.objective = objective;
    request.tolerance = tolerance_;
    request.time_limit = deadline_.seconds_left();
    if (request.time_limit && limited_ && objective_ != Objective::memory) *request.time_limit *= kTimeShare;
    if (divides_) add_shardings(request);
    request.space.micro_batches = micro_batches_;
    request.known = usual_plans(request);
    return request;
  }

  static void add_shardings(PlanRequest& request) {
    request.space.shardings.assign(kOptimizerShardings.begin(), kOptimizerShardings.end());
  }

  /// Returns the usual plans that suit these devices. The answer must not be slower than any of them that fits.
  std::vector<Plan> usual_plans(const PlanRequest& request) const {
    std::vector<Plan> plans;
    for (const std::string& name : strategies_to_beat()) {
      try {
        plans.push_back(make_plan(name, experiment_, model_, source_));
      } catch (const Error&) {
        continue;  // not for this number of devices, or not for this model
      }
    }
    if (const auto plan = plan_hybrid_static(request)) plans.push_back(plan->plan);
    if (const auto plan = plan_asa(request)) plans.push_back(plan->plan);
    if (!micro_batches_.empty())
      std::erase_if(plans, [&](const Plan& plan) {
        return std::find(micro_batches_.begin(), micro_batches_.end(), plan.micro_batches) == micro_batches_.end();
      });
    return plans;
  }

  /// Adds the plans of a search to the pool; with objective time also the usual plans, and variants of the best.
  void add(const PlanAnswer& answer, const PlanRequest& request) {
    std::vector<size_t> found{add(*answer.best)};
    for (const RatedPlan& other : answer.runners_up)
      if (found.size() < kMostSimulated) found.push_back(add(other));
    if (objective_ == Objective::cost) return;
    const ModelFacts facts(request);
    const StepModel formula(facts);
    for (const Plan& plan : request.known)
      if (!formula.unknown(plan)) found.push_back(add({plan, formula.predict(plan), 0}));
    if (objective_ == Objective::time) vary(std::move(found), formula);
  }

  /// Adds variants of the best of `found`, whether they fit or not.
  void vary(std::vector<size_t> found, const StepModel& formula) {
    std::sort(found.begin(), found.end());
    found.erase(std::unique(found.begin(), found.end()), found.end());
    std::stable_sort(found.begin(), found.end(),
                     [&](size_t a, size_t b) { return pool_[a].simulated < pool_[b].simulated; });
    if (found.size() > kMostVaried) found.resize(kMostVaried);
    for (const size_t i : found)
      for (const Plan& plan : variants_of(pool_[i].rated.plan)) try {
          validate(plan, model_, experiment_.batch, "a variant");
          if (!formula.unknown(plan)) add({plan, formula.predict(plan), 0});
        } catch (const Error& error) {
          if (error.blame() != Blame::user) throw;  // the variant is invalid for this model or these micro-batches
        }
  }

  /// Adds a plan to the pool, unless it is in it. Returns its place there.
  size_t add(RatedPlan rated) {
    note_devices(rated.plan);
    for (size_t i = 0; i < pool_.size(); ++i)
      if (is_same(pool_[i].rated.plan, rated.plan)) return i;
    rated.objective = objective_of(rated.prediction, objective_);
    Finalist finalist{.rated = std::move(rated)};
    simulate(finalist);
    pool_.push_back(std::move(finalist));
    return pool_.size() - 1;
  }

  void simulate(Finalist& finalist) const {
    const Plan& plan = finalist.rated.plan;
    const ProgramPrediction prediction = predict_program(
        experiment_, model_, plan,
        source_of_(plan.cluster_devices.empty() ? device_numbers(0, plan.devices) : plan.cluster_devices),
        {.timeline = false});
    const RunResult& row = prediction.row;
    finalist.simulated = row.step_seconds->median;
    finalist.peak_memory = row.predicted->peak_memory.value_or(0);
    finalist.tightest = prediction.tightest;
    finalist.lacks_most = prediction.lacks_most;
    finalist.fits_simulated = row.status != RunStatus::does_not_fit;
    finalist.misfit = row.reason;
    finalist.is_measured = source_.cluster.kinds.empty();
  }

  /// The plan uses the first devices of the order. Stores their numbers in the plan, unless they are the cluster's
  /// first devices.
  void note_devices(Plan& plan) const {
    plan.cluster_devices.assign(order_.begin(), order_.begin() + plan.devices);
    if (plan.cluster_devices == device_numbers(0, plan.devices)) plan.cluster_devices.clear();
  }

  const RunSpec& experiment_;
  const Model& model_;
  const std::vector<int>& order_;
  const SourceOfDevices& source_of_;
  const CostSource& source_;
  const Objective objective_;
  const double tolerance_;
  const std::vector<int> micro_batches_;  // to search; empty: the usual ones
  const Deadline deadline_;
  const bool thorough_;
  int64_t largest_ = 0;   // bytes of the largest device that has a limit
  bool limited_ = false;  // some device has a limit
  bool divides_ = false;  // optimizer sharding is part of the space
  PlanAnswer answer_;
  std::vector<Finalist> pool_;
};

}  // namespace

double value_of(const Finalist& finalist, Objective objective) {
  if (objective == Objective::memory) return double(finalist.peak_memory);
  return objective == Objective::cost ? finalist.rated.objective : finalist.simulated;
}

void rank(std::vector<Finalist>& finalists, Objective objective) {
  const auto key = [&](const Finalist& f) {
    return std::tuple(!f.fits_simulated, value_of(f, objective), f.simulated, f.peak_memory);
  };
  std::stable_sort(finalists.begin(), finalists.end(),
                   [&](const Finalist& a, const Finalist& b) { return key(a) < key(b); });
}

BestPlan find_in_order(const RunSpec& experiment, const Model& model, const std::vector<int>& order,
                       const SourceOfDevices& source_of, const BestPlanOptions& options) {
  return PlanSearch(experiment, model, order, source_of, options).run();
}

}  // namespace trireme
