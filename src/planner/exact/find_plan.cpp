#include "planner/exact/find_plan.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>

#include "base/error.h"
#include "planner/exact/least_memory.h"
#include "planner/exact/questions.h"
#include "planner/graph_plan.h"

namespace trireme {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr size_t kRunnersUp = 8;
constexpr size_t kMostTiedCuts = 4096;

class Finder {
 public:
  Finder(const PlanRequest& request, double cutoff, bool any)
      : request_(request), facts_(request), model_(facts_), outline_(facts_), places_(outline_, model_), deadline_(request.time_limit),
        first_cutoff_(cutoff), any_(any) {}

  PlanAnswer run() {
    for (const Plan& plan : request_.known)
      if (!model_.unknown(plan)) take(plan);
    double lower = kInfinity;
    for (const BoundedQuestion& question : make_questions(request_, places_)) {
      ++answer_.questions;
      if (question.bound >= cutoff() || (any_ && answer_.best)) ++answer_.skipped;
      else if (deadline_.passed()) lower = std::min(lower, question.bound);
      else lower = std::min(lower, std::max(question.bound, ask(question.question)));
    }
    answer_.lower_bound = std::min(lower, cutoff());
    finish();
    return std::move(answer_);
  }

 private:
  double cutoff() const { return answer_.best ? answer_.best->objective : first_cutoff_; }

  /// A lower bound of the answer, after the plan has been taken.
  double ask(const PipelineQuestion& question) {
    const auto stop = [this] { return deadline_.passed(); };
    const PipelineAnswer answer = search_pipelines(places_, question, cutoff(), stop);
    if (answer.stages.empty()) return answer.lower_bound;
    const Plan plan = plan_of(question, answer.stages);
    if (cuts_alike(answer.stages, question)) {
      take(plan);
      return answer.lower_bound;
    }
    return ask_with_tied_cuts(question, answer.lower_bound);
  }

  double ask_with_tied_cuts(PipelineQuestion question, double lower) {
    const std::vector<TiedCuts> all = all_tied_cuts(question);
    if (all.empty()) {
      incomplete_ = true;
      return lower;
    }
    double least = kInfinity;
    for (const TiedCuts& cuts : all) {
      if (deadline_.passed()) return lower;
      question.tied = cuts;
      const PipelineAnswer answer = search_pipelines(places_, question, cutoff(), [this] { return deadline_.passed(); });
      least = std::min(least, answer.lower_bound);
      if (!answer.stages.empty()) take(plan_of(question, answer.stages));
    }
    return std::max(lower, least);
  }

  const Candidate& candidate_of(const StagePick& stage, NodeId node, const PipelineQuestion& question) const {
    const int layer = node - outline_.cut(stage.begin);
    return model_.costs(stage.span, question.settings).candidates(node)[size_t(stage.candidates[size_t(layer)])];
  }

  bool cuts_alike(const std::vector<StagePick>& stages, const PipelineQuestion& question) const {
    std::map<int, TiedCut> cuts;
    for (const StagePick& stage : stages)
      for (NodeId node = outline_.cut(stage.begin); node < outline_.cut(stage.end); ++node) {
        const std::vector<ParameterFacts>& parameters = facts_.layer(node).parameters;
        for (size_t p = 0; p < parameters.size(); ++p) {
          if (parameters[p].tied < 0) continue;
          const TiedCut cut = cut_of(candidate_of(stage, node, question), p);
          if (!(cuts.emplace(parameters[p].tied, cut).first->second == cut)) return false;
        }
      }
    return true;
  }

  /// Empty where there are too many.
  std::vector<TiedCuts> all_tied_cuts(const PipelineQuestion& question) {
    std::vector<TiedCuts> all(1);
    for (size_t group = 0; group < facts_.tied().size(); ++group) {
      std::vector<TiedCut> cuts;
      const NodeId user = facts_.tied()[group].front();
      const std::vector<ParameterFacts>& parameters = facts_.layer(user).parameters;
      for (const int size : question.sizes)
        for (const Candidate& candidate : model_.costs({0, size}, question.settings).candidates(user))
          for (size_t p = 0; p < parameters.size(); ++p)
            if (parameters[p].tied == int(group) && std::find(cuts.begin(), cuts.end(), cut_of(candidate, p)) == cuts.end())
              cuts.push_back(cut_of(candidate, p));
      std::vector<TiedCuts> longer;
      for (const TiedCuts& before : all)
        for (const TiedCut& cut : cuts) {
          longer.push_back(before);
          longer.back().push_back(cut);
        }
      if (longer.size() > kMostTiedCuts) return {};
      all = std::move(longer);
    }
    return all;
  }

  Plan plan_of(const PipelineQuestion& question, const std::vector<StagePick>& stages) const {
    Plan plan;
    plan.name = "exact";
    plan.model = request_.model.name();
    plan.model_fingerprint = request_.model.fingerprint();
    plan.devices = 0;
    plan.schedule = question.schedule;
    plan.micro_batches = question.settings.micro_batches;
    plan.optimizer_sharding = question.settings.sharding;
    plan.layers.resize(request_.model.nodes().size());
    for (size_t s = 0; s < stages.size(); ++s) {
      const StagePick& stage = stages[s];
      plan.stages.emplace_back();
      for (int i = 0; i < stage.span.count; ++i) plan.stages.back().push_back(stage.span.first + i);
      plan.devices = std::max(plan.devices, stage.span.first + stage.span.count);
      for (NodeId node = outline_.cut(stage.begin); node < outline_.cut(stage.end); ++node) {
        const Candidate& candidate = candidate_of(stage, node, question);
        plan.layers[size_t(node)] = {int(s), candidate.data, candidate.tensor, candidate.option->name,
                                     question.settings.recompute ? facts_.recompute_labels()[size_t(node)] : ""};
      }
    }
    add_speeds(plan);
    return plan;
  }

  void add_speeds(Plan& plan) const {
    for (int i = 0; i < plan.devices; ++i) plan.speeds.push_back(request_.cluster.devices[size_t(i)].speed);
    const bool equal = std::all_of(plan.speeds.begin(), plan.speeds.end(), [&](double speed) { return speed == plan.speeds.front(); });
    if (equal) plan.speeds.clear();
  }

  void take(const Plan& plan) {
    RatedPlan rated{plan, model_.predict(plan), 0};
    rated.objective = rated.prediction.seconds;
    if (!rated.prediction.fits() || rated.objective >= first_cutoff_) return;
    if (answer_.best && answer_.best->objective <= rated.objective) {
      answer_.runners_up.push_back(std::move(rated));
      return;
    }
    if (answer_.best) answer_.runners_up.push_back(std::move(*answer_.best));
    answer_.best = std::move(rated);
  }

  void finish() {
    std::stable_sort(answer_.runners_up.begin(), answer_.runners_up.end(),
                     [](const RatedPlan& a, const RatedPlan& b) { return a.objective < b.objective; });
    if (answer_.runners_up.size() > kRunnersUp) answer_.runners_up.resize(kRunnersUp);
    answer_.searched = fmt::format(
        "{}; stages of {} devices{}; schedules {}; micro-batches {}", outline_.cuts_in_words(), fmt::join(stage_sizes_of(request_), ", "),
        has_equal_stages(request_) ? ", equally many in each" : "", fmt::join(request_.space.schedules, ", "),
        fmt::join(micro_batches_of(request_), ", "));
    constexpr double kRounding = 1e-9;
    if (!answer_.best) answer_.proof = answer_.lower_bound < kInfinity ? "none was found in time" : "no plan of the space fits";
    else if (answer_.gap() <= kRounding) answer_.proof = "optimal under the step model";
    else
      answer_.proof = fmt::format("at most {:.2g} % from optimal under the step model: {}", 100 * answer_.gap(),
                                  deadline_.passed() ? "the time limit ended the search"
                                  : incomplete_      ? "there are too many ways to cut tied parameters"
                                                     : "too many ways to divide a stage, the dearest were left out");
  }

  const PlanRequest& request_;
  const ModelFacts facts_;
  const StepModel model_;
  const Outline outline_;
  Places places_;
  const Deadline deadline_;
  const double first_cutoff_;
  const bool any_;
  PlanAnswer answer_;
  bool incomplete_ = false;
};

/// The least money: for every number of nodes, the fastest plan on them.
PlanAnswer find_cheapest(const PlanRequest& request) {
  constexpr double kSecondsPerHour = 3600;
  PlanAnswer best;
  double lower = kInfinity;
  for (int devices = 1; devices <= request.cluster.size(); ++devices) {
    const auto& all = request.cluster.devices;
    if (devices < request.cluster.size() && all[size_t(devices)].node == all[size_t(devices) - 1].node) continue;
    Cluster nodes = request.cluster;
    nodes.devices.resize(size_t(devices));
    const double price = price_per_hour(nodes, devices) / kSecondsPerHour;
    if (price == 0)
      fail_user({"planner", "objective cost", "the cluster has nodes without a price", "give every node a price per hour"});
    PlanAnswer answer = find_fastest(with_cluster(request, nodes), best.best ? best.best->objective / price : kInfinity);
    lower = std::min(lower, answer.lower_bound * price);
    if (answer.best) std::swap(answer, best);
    if (best.best) best.best->objective = best.best->prediction.money;
    best.questions += answer.questions;
    best.skipped += answer.skipped;
    for (RatedPlan& plan : best.runners_up) plan.objective = plan.prediction.money;
  }
  best.lower_bound = std::min(lower, best.best ? best.best->objective : kInfinity);
  return best;
}

}  // namespace

PlanAnswer find_fastest(const PlanRequest& request, double cutoff, bool any) { return Finder(request, cutoff, any).run(); }

PlanAnswer find_plan(const PlanRequest& request) {
  switch (request.objective) {
    case Objective::memory: return find_smallest(request);
    case Objective::time:
    case Objective::cost: break;
  }
  PlanAnswer answer = request.objective == Objective::cost ? find_cheapest(request) : find_fastest(request);
  if (!answer.best) answer.shortfall = explain_shortfall(request);
  return answer;
}

}  // namespace trireme
