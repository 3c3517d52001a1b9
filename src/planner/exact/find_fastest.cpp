#include "planner/exact/find_fastest.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <memory>
#include <queue>

#include "base/infinity.h"
#include "plan/strategies.h"
#include "planner/exact/configurations.h"
#include "trireme/error.h"

namespace trireme {
namespace {

constexpr size_t kMostTiedCuts = 4096;

class Finder {
 public:
  Finder(const PlanRequest& request, double cutoff, bool any)
      : request_(request),
        facts_(request),
        model_(facts_),
        model_segments_(facts_),
        deadline_(request.time_limit),
        searches_(model_segments_, model_, deadline_),
        first_cutoff_(cutoff),
        any_(any) {}

  PlanAnswer run() {
    for (const Plan& plan : request_.known)
      if (!model_.unknown(plan)) take(plan);
    for (BoundedConfiguration& configuration : make_configurations(request_, searches_)) {
      ++answer_.configurations;
      open_.push({configuration.bound, next_number_++, std::move(configuration.configuration), nullptr});
    }
    answer_.lower_bound = kInfinity;
    while (!open_.empty() && open_.top().bound < cutoff() && !deadline_.passed() && !(any_ && answer_.best)) {
      Open configuration = open_.top();
      open_.pop();
      advance(std::move(configuration));
    }
    // The bounds of the configurations that are still open hold; advance() has noted those of abandoned ones.
    if (!open_.empty()) answer_.lower_bound = std::min(answer_.lower_bound, open_.top().bound);
    answer_.lower_bound = std::min(answer_.lower_bound, cutoff());
    finish();
    return std::move(answer_);
  }

 private:
  /// A configuration, or a configuration with a choice of how to split tied parameters.
  struct Open {
    double bound = 0;
    int number = 0;
    PipelineConfiguration configuration;
    std::shared_ptr<PipelineSearch> search;  ///< null: only the bound from the work has been computed
    bool operator<(const Open& other) const {
      return std::pair(bound, number) > std::pair(other.bound, other.number);
    }  // the least bound first
  };

  double cutoff() const {
    if (!answer_.best) return first_cutoff_;
    return answer_.best->objective * std::min(kNoBetter, 1 - request_.tolerance);
  }

  /// Advances the search of a configuration by one step.
  void advance(Open open) {
    if (!open.search) {
      ++answer_.searched_configurations;
      if (open.configuration.tied.empty() && !facts_.tied().empty()) return open_for_each_cut(open);
      open.search = std::make_shared<PipelineSearch>(searches_, open.configuration);
      open.bound = std::max(open.bound, open.search->quick_bound());
      if (open.bound < cutoff()) open_.push(std::move(open));
      return;
    }
    const PipelineSearch::Step step = open.search->advance(cutoff());
    open.bound = std::max(open.bound, step.bound);
    if (!step.stages.empty()) take(plan_of(open.configuration, step.stages));
    if (!step.done) open_.push(std::move(open));
    else if (open.bound < cutoff())  // the search dropped labels, so only its bound is proven
      answer_.lower_bound = std::min(answer_.lower_bound, open.bound);
  }

  void open_for_each_cut(const Open& open) {
    const double bound = std::max(open.bound, PipelineSearch(searches_, open.configuration).quick_bound());
    if (bound >= cutoff()) return;
    const std::vector<TiedCuts> all = all_tied_cuts(open.configuration);
    if (all.empty()) {
      incomplete_ = true;
      answer_.lower_bound = std::min(answer_.lower_bound, bound);
    }
    for (const TiedCuts& cuts : all) {
      Open each{bound, next_number_++, open.configuration, nullptr};
      each.configuration.tied = cuts;
      open_.push(std::move(each));
    }
  }

  const Candidate& candidate_of(const StagePick& stage, NodeId node, const PipelineConfiguration& configuration) const {
    const int layer = node - model_segments_.cut(stage.begin);
    return model_.costs(stage.span, configuration.settings).candidates(node)[size_t(stage.candidates[size_t(layer)])];
  }

  /// Empty if there are too many.
  std::vector<TiedCuts> all_tied_cuts(const PipelineConfiguration& configuration) {
    std::vector<TiedCuts> all(1);
    for (size_t group = 0; group < facts_.tied().size(); ++group) {
      std::vector<TiedCut> cuts;
      const NodeId user = facts_.tied()[group].front();
      const std::vector<ParameterFacts>& parameters = facts_.layer(user).parameters;
      for (const int size : configuration.sizes)
        for (const Candidate& candidate : model_.costs({0, size}, configuration.settings).candidates(user))
          for (size_t p = 0; p < parameters.size(); ++p)
            if (parameters[p].tied == int(group) &&
                std::find(cuts.begin(), cuts.end(), cut_of(candidate, p)) == cuts.end())
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

  Plan plan_of(const PipelineConfiguration& configuration, const std::vector<StagePick>& stages) const {
    Plan plan;
    plan.name = kExact.name;
    plan.model = request_.model.name();
    plan.model_fingerprint = request_.model.fingerprint();
    plan.devices = 0;
    plan.schedule = configuration.schedule->name;
    plan.micro_batches = configuration.settings.micro_batches;
    plan.optimizer_sharding = configuration.settings.sharding;
    plan.layers.resize(request_.model.nodes().size());
    for (size_t s = 0; s < stages.size(); ++s) {
      const StagePick& stage = stages[s];
      plan.stages.emplace_back();
      for (int i = 0; i < stage.span.count; ++i) plan.stages.back().push_back(stage.span.first + i);
      plan.devices = std::max(plan.devices, stage.span.first + stage.span.count);
      for (NodeId node = model_segments_.cut(stage.begin); node < model_segments_.cut(stage.end); ++node) {
        const Candidate& candidate = candidate_of(stage, node, configuration);
        plan.layers[size_t(node)] = {int(s), candidate.data, candidate.tensor, candidate.option->name,
                                     configuration.settings.recompute ? facts_.recompute_labels()[size_t(node)] : ""};
      }
    }
    add_speeds(plan);
    return plan;
  }

  void add_speeds(Plan& plan) const {
    for (int i = 0; i < plan.devices; ++i) plan.speeds.push_back(request_.cluster.devices[size_t(i)].speed);
    const bool equal =
        std::all_of(plan.speeds.begin(), plan.speeds.end(), [&](double speed) { return speed == plan.speeds.front(); });
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
    answer_.labels = searches_.labels();
    std::stable_sort(answer_.runners_up.begin(), answer_.runners_up.end(),
                     [](const RatedPlan& a, const RatedPlan& b) { return a.objective < b.objective; });
    if (answer_.runners_up.size() > kRunnersUp) answer_.runners_up.resize(kRunnersUp);
    std::vector<std::string> shardings;
    for (const OptimizerSharding sharding : request_.space.shardings) shardings.emplace_back(name_of(sharding));
    answer_.searched = fmt::format("{}; stages of {} devices{}; schedules {}; micro-batches {}; optimizer sharding {}",
                                   model_segments_.cuts_in_words(), fmt::join(stage_sizes_of(request_), ", "),
                                   has_equal_stages(request_) ? ", the same number in each stage" : "",
                                   fmt::join(request_.space.schedules, ", "),
                                   fmt::join(micro_batches_of(request_), ", "), fmt::join(shardings, ", "));
    add_proof(answer_, request_, deadline_,
              incomplete_ ? "there are too many ways to split tied parameters"
                          : "there are too many ways to divide a stage; the most expensive ones were dropped");
  }

  const PlanRequest& request_;
  const ModelFacts facts_;
  const StepModel model_;
  const ModelSegments model_segments_;
  const Deadline deadline_;
  StageSearches searches_;
  const double first_cutoff_;
  const bool any_;
  std::priority_queue<Open> open_;
  int next_number_ = 0;
  PlanAnswer answer_;
  bool incomplete_ = false;
};

}  // namespace

void add_proof(PlanAnswer& answer, const PlanRequest& request, const Deadline& deadline, const char* else_why) {
  constexpr double kRounding = 1e-9;
  if (!answer.best) {
    answer.out_of_time = answer.lower_bound < kInfinity;
    answer.proof = answer.out_of_time ? "no plan was found within the time limit" : "no plan of the space fits";
    return;
  }
  const bool is_near = answer.gap() <= request.tolerance * (1 + kRounding);
  answer.out_of_time = answer.gap() > kRounding && !is_near && deadline.passed();
  answer.proof = answer.gap() <= kRounding
                     ? "optimal under the step model"
                     : fmt::format("at most {:.2g} % from optimal under the step model: {}", 100 * answer.gap(),
                                   is_near ? "improvements below the requested tolerance were not searched for"
                                   : answer.out_of_time ? "the time limit ended the search"
                                                        : else_why);
}

PlanAnswer find_fastest(const PlanRequest& request, double cutoff, bool any) {
  return Finder(request, cutoff, any).run();
}

}  // namespace trireme
