#include "planner/exact/model_segments.h"

#include <fmt/format.h>

#include <algorithm>

namespace trireme {
namespace {

constexpr int kEveryLayer = 40;  // up to this many layers, a stage may be cut anywhere
constexpr int kNarrow = 120;     // up to this many narrow cut points, all are used

template <class Range>
void append(std::vector<int>& key, const Range& numbers) {
  key.push_back(-2);  // separator
  for (const auto number : numbers) key.push_back(int(number));
}

}  // namespace

ModelSegments::ModelSegments(const ModelFacts& facts) : facts_(facts) {
  find_live();
  choose_cuts();
  number_segments();
}

void ModelSegments::find_live() {
  live_.resize(size_t(facts_.end()) + 1);
  for (NodeId node = facts_.first_layer(); node < facts_.end(); ++node) {
    const std::vector<NodeId>& consumers = facts_.model().consumers(node);
    if (consumers.empty()) continue;
    const NodeId last = *std::max_element(consumers.begin(), consumers.end());
    for (NodeId at = node + 1; at <= last; ++at) live_[size_t(at)].push_back(node);
  }
}

std::vector<NodeId> ModelSegments::narrow_cuts(bool at_blocks) const {
  std::vector<NodeId> cuts{facts_.first_layer()};
  const auto block = [&](NodeId node) { return block_of(facts_.model().node(node).name); };
  for (NodeId node = facts_.first_layer() + 1; node < facts_.end(); ++node)
    if (live_[size_t(node)].size() <= 1 && (!at_blocks || block(node) != block(node - 1))) cuts.push_back(node);
  cuts.push_back(facts_.end());
  return cuts;
}

void ModelSegments::choose_cuts() {
  Cuts wanted = facts_.request().space.cuts;
  if (wanted == Cuts::automatic) {
    if (facts_.end() - facts_.first_layer() <= kEveryLayer) wanted = Cuts::every_layer;
    else wanted = int(narrow_cuts(false).size()) <= kNarrow ? Cuts::narrow : Cuts::blocks;
  }
  if (wanted == Cuts::every_layer) {
    for (NodeId node = facts_.first_layer(); node <= facts_.end(); ++node) cuts_.push_back(node);
    cuts_in_words_ = "cuts between any two layers";
    return;
  }
  cuts_ = narrow_cuts(wanted == Cuts::blocks);
  cuts_in_words_ = fmt::format("cuts at {} points where {}", cuts_.size() - 2,
                               wanted == Cuts::blocks ? "a block ends and one value crosses" : "one value crosses");
}

/// Two layers have the same step if all facts that determine their costs and transitions are equal.
int ModelSegments::step_of(NodeId node, NodeId stage_begin) {
  const LayerFacts& layer = facts_.layer(node);
  std::vector<bool> shared(facts_.tied().size(), false);
  for (const ParameterFacts& p : layer.parameters)
    if (p.tied >= 0) {
      const std::vector<NodeId>& users = facts_.tied()[size_t(p.tied)];
      shared[size_t(p.tied)] =
          std::any_of(users.begin(), users.end(), [&](NodeId u) { return u >= stage_begin && u < node; });
    }
  const auto [known, fresh] = steps_known_.try_emplace({node, shared}, 0);
  if (!fresh) return known->second;

  const std::vector<NodeId>& before = live_[size_t(node)];
  const std::vector<NodeId>& after = live_[size_t(node) + 1];
  LayerStep step{.node = node, .shared = shared};
  std::vector<int> from_own_run;
  for (const NodeId input : facts_.model().node(node).inputs) {
    const auto slot = std::find(before.begin(), before.end(), input);
    step.input_slots.push_back(slot == before.end() ? -1 : int(slot - before.begin()));
    from_own_run.push_back(input >= layer.run);
  }
  for (size_t slot = 0; slot < before.size(); ++slot)
    if (std::binary_search(after.begin(), after.end(), before[slot])) step.survivors.push_back(int(slot));
  step.output_lives = !after.empty() && after.back() == node;
  step.run_begins = layer.run == node;

  std::vector<int> key{layer.layer_class, layer.output_kept, step.output_lives, step.run_begins};
  append(key, step.input_slots);
  append(key, step.survivors);
  append(key, layer.copy_kept);
  append(key, layer.gradient_goes);
  append(key, layer.first_in_run);
  append(key, from_own_run);
  append(key, shared);
  for (const ParameterFacts& p : layer.parameters) key.push_back(p.tied);
  const auto [it, is_new] = step_numbers_.emplace(key, int(steps_.size()));
  if (is_new) steps_.push_back(std::move(step));
  return known->second = it->second;
}

void ModelSegments::number_segments() {
  numbers_.resize(size_t(units()));
  for (int begin = 0; begin < units(); ++begin) {
    // Segments that start with different numbers of live values are not alike.
    int number = -2 - int(live_[size_t(cut(begin))].size());
    for (int unit = begin; unit < units(); ++unit) {
      std::vector<int> steps;
      for (NodeId node = cut(unit); node < cut(unit + 1); ++node) steps.push_back(step_of(node, cut(begin)));
      const auto [it, fresh] = segment_numbers_.emplace(std::pair{number, steps}, int(segments_.size()));
      if (fresh) segments_.push_back({std::max(number, -1), std::move(steps), begin, unit + 1});
      number = it->second;
      numbers_[size_t(begin)].push_back(number);
    }
  }
}

std::vector<int> ModelSegments::steps_of(int number) const {
  std::vector<int> steps;
  for (int at = number; at >= 0; at = segment(at).before)
    steps.insert(steps.begin(), segment(at).steps.begin(), segment(at).steps.end());
  return steps;
}

}  // namespace trireme
