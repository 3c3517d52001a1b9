#include "forecast/plan_search.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <tuple>
#include <utility>

#include "base/cores.h"
#include "base/infinity.h"
#include "base/threads.h"
#include "forecast/plan_variants.h"
#include "forecast/predict.h"
#include "plan/cluster_file.h"
#include "plan/strategy.h"
#include "planner/asa.h"
#include "planner/exact/least_memory.h"
#include "planner/exact/model_segments.h"
#include "schedule/kinds.h"
#include "trireme/error.h"

namespace trireme {
namespace {

constexpr size_t kMostSimulated = 12;
constexpr size_t kMostVaried = 3;
constexpr size_t kMostAtOnce = 4;  // simulations: each may take hundreds of MB
constexpr int kRungsPerDoubling = 4;
// The formula may count up to twice as much memory as the program: workers that share their weights, for example.
constexpr int kDoublingsOfFormula = 1;
constexpr double kTimeShare = 1.0 / 3;  // of the remaining time that one of several searches may use

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
        thorough_(options.thorough),
        named_(named_plans()) {
    for (const Device& device : source_.cluster.devices) {
      largest_ = std::max(largest_, device.memory);
      limited_ = limited_ || device.memory > 0;
    }
  }

  BestPlan run() {
    if (objective_ == Objective::memory) {
      find_least();
    } else {
      climb_down();
      if (!thorough_ && best_that_fits() == kInfinity && !deadline_.passed()) {
        thorough_ = true;
        tolerance_ = 0;
        divides_ = false;
        climb_down();
      }
      if (best_that_fits() == kInfinity) add_least();
    }
    if (pool_.empty() && answer_.best) add(*answer_.best);
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
  enum class Stop { reached, no_plan, no_time };

  /// Searches without a limit and then on the rungs.
  void climb_down() {
    if (!thorough_ && limited_) {
      answer_ = search(largest_, objective_);
      if (is_enough(answer_.lower_bound)) return;
    }
    PlanAnswer unlimited = search(0, objective_);
    if (!answer_.best) answer_ = unlimited;
    if (!unlimited.best) {
      if (!unlimited.out_of_time) answer_.shortfall = explain_shortfall(request_for(source_.cluster, objective_));
      return;
    }
    if (is_enough(unlimited.lower_bound)) return;
    const int top = rung_below(unlimited.best->prediction.fullest());
    const Stop stop = !limited_   ? descend(top, 0)
                      : thorough_ ? climb_all(std::min(top, highest_rung()))
                                  : descend(std::min(top, own_rung() - 1), 0);
    if (stop == Stop::no_plan) add_least();
  }

  /// Adds the plan that needs the least memory to the pool. Does not change `answer_`.
  void add_least() {
    if (deadline_.passed() || std::exchange(has_least_, true)) return;
    PlanAnswer searched = std::move(answer_);
    find_least();
    answer_ = std::move(searched);
  }

  /// Searches all rungs from `top` down. It begins with the rung of the devices' own memory and goes down until a plan
  /// fits. The higher rungs come afterwards, because their plans rarely fit and the time may end.
  Stop climb_all(int top) {
    int rung = std::min(top, own_rung());
    for (; rung >= 0 && best_that_fits() == kInfinity; --rung) {
      const Stop stop = climb(rung);
      if (stop == Stop::no_time) return stop;
      if (stop == Stop::no_plan) break;
    }
    const double last_bound = bound_;
    if (const Stop stop = descend(top, own_rung() + 1); stop != Stop::no_plan) return stop;
    return is_enough(last_bound) ? Stop::reached : descend(rung, 0);
  }

  /// Searches downwards to rung `last`, or to the first rung that is_enough().
  Stop descend(int rung, int last) {
    for (; rung >= last; --rung) {
      const Stop stop = climb(rung);
      if (stop != Stop::reached || is_enough(bound_)) return stop;
    }
    return Stop::no_plan;
  }

  /// Searches a rung. Sets `bound_`.
  Stop climb(int rung) {
    if (deadline_.passed()) return Stop::no_time;
    PlanAnswer found = search(rung_bytes(rung), objective_);
    if (!found.best) return found.out_of_time ? Stop::no_time : Stop::no_plan;
    bound_ = found.lower_bound;
    if (thorough_ && limited_ && rung >= own_rung() && !has_own_) {
      has_own_ = rung == own_rung();
      answer_ = std::move(found);
    }
    return Stop::reached;
  }

  /// The lowest rung that is not below the devices' memory.
  int own_rung() const { return rung_below(double(largest_)) + 1; }

  /// Higher rungs have no plan that fits.
  int highest_rung() const { return own_rung() + kDoublingsOfFormula * kRungsPerDoubling; }

  /// True if no lower rung needs to be searched than one with this lower bound on its plans.
  bool is_enough(double lower_bound) const {
    const double best = best_that_fits();
    if (best == kInfinity) return false;
    if (thorough_) return lower_bound > best * (objective_ == Objective::time ? 1 + kFormulaError : 1);
    if (tolerance_ == 0) return true;
    return lower_bound >= best_by_formula() * (1 - tolerance_);
  }

  /// The best value by the formula of a plan that fits by its program.
  double best_by_formula() const {
    double best = kInfinity;
    for (const Finalist& finalist : pool_)
      if (finalist.fits_simulated) best = std::min(best, finalist.rated.objective);
    return best;
  }

  double best_that_fits() const {
    double best = kInfinity;
    for (const Finalist& finalist : pool_)
      if (finalist.fits_simulated) best = std::min(best, value_of(finalist, objective_));
    return best;
  }

  /// Finds the plan that needs the least memory. It tries plans without optimizer sharding first, because the formula
  /// does not count the memory of gradients that are being reduced.
  void find_least() {
    divides_ = false;
    answer_ = search(0, Objective::memory);
    const bool none_fits = answer_.best && best_that_fits() == kInfinity;
    if (!none_fits || !may_divide()) return;
    if (PlanAnswer divided = search(0, Objective::memory); divided.best) answer_ = std::move(divided);
  }

  /// Adds optimizer sharding to the space from now on. It multiplies the number of configurations, so it is searched
  /// only if nothing fits without it. Returns false if it is part of the space already, or if there is one device.
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
    if (answer.best && may_fit(*answer.best, memory, objective)) add(answer, request, memory);
    return answer;
  }

  /// False for the plans of a search without a limit if the best of them is above the highest rung.
  bool may_fit(const RatedPlan& best, int64_t memory, Objective objective) const {
    return memory > 0 || !limited_ || objective == Objective::memory ||
           best.prediction.fullest() <= double(rung_bytes(highest_rung()));
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

  /// The named plans that suit these devices and this model.
  std::vector<Plan> named_plans() const {
    std::vector<Plan> plans;
    for (const std::string& name : strategies_to_beat()) try {
        plans.push_back(make_plan(name, experiment_, model_, source_));
      } catch (const Error&) {
        continue;  // not for this number of devices, or not for this model
      }
    return plans;
  }

  /// Returns the usual plans that suit these devices. The answer must not be slower than any of them that fits.
  std::vector<Plan> usual_plans(const PlanRequest& request) const {
    std::vector<Plan> plans = named_;
    for (RatedPlan& rated : plan_hybrid_static_and_asa(request)) plans.push_back(std::move(rated.plan));
    if (!micro_batches_.empty())
      std::erase_if(plans, [&](const Plan& plan) {
        return std::find(micro_batches_.begin(), micro_batches_.end(), plan.micro_batches) == micro_batches_.end();
      });
    return plans;
  }

  /// Adds the plans of a search on a rung of `memory` bytes (0: no limit) to the pool; with objective time also the
  /// usual plans that fit the rung by the formula, and variants of the best.
  void add(const PlanAnswer& answer, const PlanRequest& request, int64_t memory) {
    std::vector<size_t> found{add(*answer.best)};
    for (const RatedPlan& other : answer.runners_up)
      if (found.size() < kMostSimulated && is_worth(other)) found.push_back(add(other));
    if (objective_ == Objective::cost) return;
    const ModelFacts facts(request);
    const StepModel formula(facts);
    const double most = memory == 0 ? kInfinity
                        : thorough_ ? double(memory)
                                    : std::ldexp(double(memory), kDoublingsOfFormula);
    for (const Plan& plan : request.known) {
      if (formula.unknown(plan)) continue;
      RatedPlan rated{plan, formula.predict(plan), 0};
      if (rated.prediction.fullest() <= most && is_worth(rated)) found.push_back(add(std::move(rated)));
    }
    if (objective_ != Objective::time) return;
    note_cuts(facts);
    vary(std::move(found), formula);
  }

  /// False if the plan need not be simulated: in a search with a tolerance, if by the formula it is slower than a plan
  /// that fits by more than the tolerance; or if the time has passed.
  bool is_worth(const RatedPlan& rated) const {
    const bool is_behind = !thorough_ && tolerance_ > 0 && objective_ == Objective::time &&
                           rated.prediction.seconds > best_by_formula() * (1 + tolerance_);
    return !is_behind && has_time();
  }

  /// False if the time has passed and there is an answer.
  bool has_time() const { return !deadline_.passed() || best_that_fits() == kInfinity; }

  /// Adds variants of the best of `found`, whether they fit or not.
  void vary(std::vector<size_t> found, const StepModel& formula) {
    std::sort(found.begin(), found.end());
    found.erase(std::unique(found.begin(), found.end()), found.end());
    std::stable_sort(found.begin(), found.end(),
                     [&](size_t a, size_t b) { return pool_[a].simulated < pool_[b].simulated; });
    const size_t most = !thorough_ && tolerance_ > 0 ? 1 : kMostVaried;
    if (found.size() > most) found.resize(most);
    std::vector<Finalist> variants;
    for (const size_t i : found)
      for (const Plan& plan : varied(pool_[i].rated.plan)) try {
          validate(plan, model_, experiment_.batch, "a variant");
          Plan known = plan;  // the formula does not model sharding groups
          known.sharding_group = 0;
          if (formula.unknown(known)) continue;
          Finalist variant = finalist_of({plan, formula.predict(known), 0});
          if (!place_in(pool_, variant) && !place_in(variants, variant)) variants.push_back(std::move(variant));
        } catch (const Error& error) {
          if (error.blame() != Blame::user) throw;  // the variant is invalid for this model or these micro-batches
        }
    add_all(std::move(variants));
  }

  /// Finds the cuts once: they are the same for every memory limit.
  void note_cuts(const ModelFacts& facts) {
    if (!cuts_.empty()) return;
    const ModelSegments segments(facts);
    for (int unit = 0; unit < segments.units(); ++unit) cuts_.push_back(segments.cut(unit));
  }

  std::vector<Plan> varied(const Plan& plan) const {
    VariantFacts facts{.cuts = cuts_, .per_node = devices_per_node(source_.cluster)};
    if (plan.stages.size() > 1)
      facts.seconds = layer_seconds(
          model_, source_, std::max<int64_t>(1, experiment_.batch / plan.micro_batches / plan.layers.back().data));
    return variants_of(plan, model_, facts);
  }

  /// Simulates several plans at a time if devices are described. On this machine that would disturb measurements.
  void add_all(std::vector<Finalist> finalists) {
    const size_t at_once = source_.cluster.kinds.empty() ? 1 : std::min<size_t>(usable_cores().size(), kMostAtOnce);
    for (size_t begin = 0; begin < finalists.size() && has_time(); begin += at_once) {
      const size_t end = std::min(finalists.size(), begin + at_once);
      std::vector<const CostSource*> sources;
      for (size_t i = begin; i < end; ++i) sources.push_back(&source_of(finalists[i].rated.plan));
      std::vector<char> invalid(end - begin, 0);  // for this model or these micro-batches
      const auto simulate_one = [&](int i) {
        try {
          simulate(finalists[begin + size_t(i)], *sources[size_t(i)]);
        } catch (const Error& error) {
          if (error.blame() != Blame::user) throw;
          invalid[size_t(i)] = 1;
        }
      };
      if (end - begin == 1) simulate_one(0);
      else run_threads(int(end - begin), "simulation", simulate_one, [](const std::string&) {});
      for (size_t i = begin; i < end; ++i)
        if (!invalid[i - begin]) pool_.push_back(std::move(finalists[i]));
    }
  }

  /// The place of an equal plan in the list; nullopt: it is not in it.
  static std::optional<size_t> place_in(const std::vector<Finalist>& list, const Finalist& finalist) {
    for (size_t i = 0; i < list.size(); ++i)
      if (is_same(list[i].rated.plan, finalist.rated.plan)) return i;
    return std::nullopt;
  }

  Finalist finalist_of(RatedPlan rated) const {
    note_devices(rated.plan);
    rated.objective = objective_of(rated.prediction, objective_);
    return Finalist{.rated = std::move(rated)};
  }

  /// Adds a plan to the pool, unless it is in it. Returns its place there.
  size_t add(RatedPlan rated) {
    Finalist finalist = finalist_of(std::move(rated));
    if (const std::optional<size_t> place = place_in(pool_, finalist)) return *place;
    simulate(finalist, source_of(finalist.rated.plan));
    pool_.push_back(std::move(finalist));
    return pool_.size() - 1;
  }

  /// Thread-safe.
  void simulate(Finalist& finalist, const CostSource& source) const {
    const ProgramPrediction prediction =
        predict_program(experiment_, model_, finalist.rated.plan, source, without_pictures());
    const RunResult& row = prediction.row;
    finalist.simulated = row.step_seconds->median;
    finalist.peak_memory = row.predicted->peak_memory.value_or(0);
    finalist.needed_memory = prediction.needed_memory;
    finalist.tightest = prediction.tightest;
    finalist.lacks_most = prediction.lacks_most;
    finalist.fits_simulated = row.status != RunStatus::does_not_fit;
    finalist.misfit = row.reason;
    finalist.is_measured = source_.cluster.kinds.empty();
  }

  const CostSource& source_of(const Plan& plan) const {
    return source_of_(plan.cluster_devices.empty() ? device_numbers(0, plan.devices) : plan.cluster_devices);
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
  double tolerance_;
  const std::vector<int> micro_batches_;  // to search; empty: the usual ones
  const Deadline deadline_;
  bool thorough_;
  std::vector<NodeId> cuts_;       // first layers of the units between which stages may be cut
  const std::vector<Plan> named_;  // they do not depend on a memory limit
  int64_t largest_ = 0;            // bytes of the largest device that has a limit
  bool limited_ = false;           // some device has a limit
  double bound_ = 0;               // lower bound of the last search on a rung that found a plan
  bool has_own_ = false;           // answer_ is that of the own rung
  bool divides_ = false;           // optimizer sharding is part of the space
  bool has_least_ = false;         // add_least() was called
  PlanAnswer answer_;
  std::vector<Finalist> pool_;
};

}  // namespace

double value_of(const Finalist& finalist, Objective objective) {
  if (objective == Objective::memory) return double(finalist.needed_memory);
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
