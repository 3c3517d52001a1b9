#include "planner/exact/layout_graph.h"

#include <algorithm>

namespace trireme {
namespace {

/// True if `a` is not worse than `b` in any term.
bool no_worse(const StageTerms& a, const StageTerms& b) {
  return a.compute + a.communication <= b.compute + b.communication && a.weight_compute <= b.weight_compute &&
         a.exposed + a.update <= b.exposed + b.update && a.hide >= b.hide && a.reduce <= b.reduce &&
         a.state() <= b.state() && a.kept <= b.kept && a.enters <= b.enters && a.workspace <= b.workspace;
}

}  // namespace

TiedCut cut_of(const Candidate& candidate, size_t parameter) {
  const Placement& placement = candidate.option->parameters[parameter];
  return {placement, placement.is_shard() ? candidate.tensor : 1};
}

int LayoutGraph::state_number(std::vector<int> layouts) {
  const auto [it, fresh] = state_numbers_.emplace(layouts, int(states_.size()));
  if (fresh) states_.push_back(std::move(layouts));
  return it->second;
}

int LayoutGraph::layout_number(const StageLayout& layout) {
  const auto found = std::find(layouts_.begin(), layouts_.end(), layout);
  if (found != layouts_.end()) return int(found - layouts_.begin());
  layouts_.push_back(layout);
  return int(layouts_.size()) - 1;
}

bool LayoutGraph::allowed(NodeId node, const Candidate& candidate) const {
  if (tied_.empty()) return true;
  const std::vector<ParameterFacts>& parameters = model_segments_.facts().layer(node).parameters;
  for (size_t p = 0; p < parameters.size(); ++p)
    if (parameters[p].tied >= 0 && tied_[size_t(parameters[p].tied)] &&
        *tied_[size_t(parameters[p].tied)] != cut_of(candidate, p))
      return false;
  return true;
}

StageTerms LayoutGraph::terms_of(const LayerStep& step, const Candidate& candidate, int state) const {
  StageTerms terms = costs_.own(step.node, candidate, step.shared);
  for (size_t i = 0; i < step.input_slots.size(); ++i) {
    const int slot = step.input_slots[i];
    const int layout = slot < 0 ? kOutside : states_[size_t(state)][size_t(slot)];
    terms.add(layout == kOutside ? costs_.from_outside(step.node, i, candidate)
                                 : costs_.from_layer(step.node, i, candidate, layouts_[size_t(layout)]));
  }
  return terms;
}

const std::vector<LayoutGraph::Transition>& LayoutGraph::transitions(int number, int state) {
  const auto [it, fresh] = transitions_.try_emplace({number, state});
  std::vector<Transition>& result = it->second;
  if (!fresh) return result;
  const LayerStep& step = model_segments_.step(number);
  std::vector<int> after;
  for (const int slot : step.survivors) after.push_back(states_[size_t(state)][size_t(slot)]);
  const std::vector<Candidate>& candidates = costs_.candidates(step.node);
  for (int c = 0; c < int(candidates.size()); ++c) {
    if (!allowed(step.node, candidates[size_t(c)])) continue;
    std::vector<int> to = after;
    if (step.output_lives) to.push_back(layout_number(candidates[size_t(c)].output()));
    Transition next{state_number(std::move(to)), c, terms_of(step, candidates[size_t(c)], state)};
    const auto beats = [&](const Transition& other) {
      return other.to == next.to && no_worse(other.terms, next.terms);
    };
    if (std::any_of(result.begin(), result.end(), beats)) continue;
    std::erase_if(result,
                  [&](const Transition& other) { return other.to == next.to && no_worse(next.terms, other.terms); });
    result.push_back(std::move(next));
  }
  return result;
}

StageTerms LayoutGraph::leave(int state, const std::vector<NodeId>& live) const {
  StageTerms terms;
  const std::vector<int>& layouts = states_[size_t(state)];
  for (size_t slot = 0; slot < live.size(); ++slot)
    if (layouts[slot] != kOutside) terms.add(costs_.to_outside(live[slot], layouts_[size_t(layouts[slot])]));
  return terms;
}

}  // namespace trireme
