#include "forecast/own_costs.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/counted.h"
#include "base/text.h"
#include "base/text_parts.h"
#include "planner/exact/model_facts.h"
#include "trireme/error.h"

namespace trireme {
namespace {

std::vector<std::string> parts_of(const std::string& name) {
  const std::vector<std::string_view> parts = cut(name, '.');
  return {parts.begin(), parts.end()};
}

/// Returns the beginning of a layer's name that the pattern matches; "" if it does not.
std::string matched(const std::vector<std::string>& pattern, const std::string& layer) {
  std::vector<std::string> parts = parts_of(layer);
  if (parts.size() < pattern.size()) return "";
  parts.resize(pattern.size());
  for (size_t i = 0; i < pattern.size(); ++i)
    if (pattern[i] != "*" && pattern[i] != parts[i]) return "";
  return join(parts, ".");
}

[[noreturn]] void fail_unknown(const Model& model, const OwnTime& row) {
  std::vector<std::string> names;
  for (NodeId id = model.input_count(); id < NodeId(model.nodes().size()); ++id) {
    std::vector<std::string> parts = parts_of(model.node(id).name);
    for (; !parts.empty(); parts.pop_back()) names.push_back(join(parts, "."));
  }
  const std::string near = closest_match(row.layers, names);
  fail_user({row.where, fmt::format("\"{}\"", row.layers),
             fmt::format("model {} has no layer or block of this name", model.name()),
             near.empty() ? fmt::format("trireme plan show {} lists its layers", model.name())
                          : fmt::format("did you mean \"{}\"?", near)});
}

}  // namespace

OwnCosts::Factor OwnCosts::Factor::between(const Factor& a, const Factor& b, double at) {
  return {a.scale + at * (b.scale - a.scale), a.per_sample + at * (b.per_sample - a.per_sample)};
}

OwnCosts::Factors OwnCosts::Factors::between(const Factors& a, const Factors& b, double at) {
  return {Factor::between(a.forward, b.forward, at), Factor::between(a.backward, b.backward, at),
          Factor::between(a.input, b.input, at), Factor::between(a.weight, b.weight, at)};
}

OwnCosts::OwnCosts(const Model& model, std::shared_ptr<const LayerCosts> predicted, const OwnTimes& times,
                   const Plan* plan)
    : model_(model), predicted_(std::move(predicted)), rows_(times.rows), group_of_(model.nodes().size(), -1) {
  check_internal(plan || !times.of_stages, "the stages of own times are those of a plan");
  if (plan) plan_ = plan->layers;
  if (times.of_stages) add_stages(*plan);
  else add_blocks();
  for (Group& group : groups_)
    std::sort(group.rows.begin(), group.rows.end(), [](const OwnTime* a, const OwnTime* b) {
      return std::pair(a->tensor, a->samples) < std::pair(b->tensor, b->samples);
    });
  number_classes();
}

void OwnCosts::add_stages(const Plan& plan) {
  std::vector<std::vector<NodeId>> layers(plan.stages.size());
  for (NodeId id = model_.input_count(); id < NodeId(model_.nodes().size()); ++id)
    layers[size_t(plan.layers[size_t(id)].stage)].push_back(id);
  for (const OwnTime& row : rows_) {
    if (row.stage >= int(layers.size()))
      fail_user({row.where, fmt::format("stage {}", row.stage),
                 fmt::format("the plan has {}, numbered from 0", counted(int64_t(layers.size()), "stage")),
                 "name a plan with these stages, or give times of layers"});
    add_row(row, layers[size_t(row.stage)]);
  }
}

void OwnCosts::add_blocks() {
  for (const OwnTime& row : rows_) {
    const std::vector<std::string> pattern = parts_of(row.layers);
    std::map<std::string, std::vector<NodeId>> blocks;
    for (NodeId id = model_.input_count(); id < NodeId(model_.nodes().size()); ++id)
      if (std::string block = matched(pattern, model_.node(id).name); !block.empty()) blocks[block].push_back(id);
    if (blocks.empty()) fail_unknown(model_, row);
    for (const auto& [block, layers] : blocks) add_row(row, layers);
  }
}

/// Adds the row to the group of exactly these layers.
void OwnCosts::add_row(const OwnTime& row, const std::vector<NodeId>& layers) {
  const int known = group_of_[size_t(layers.front())];
  if (known >= 0 && groups_[size_t(known)].layers == layers) {
    std::vector<const OwnTime*>& rows = groups_[size_t(known)].rows;
    const auto equal = std::find_if(rows.begin(), rows.end(), [&](const OwnTime* other) {
      return other->samples == row.samples && other->tensor == row.tensor;
    });
    if (equal != rows.end()) fail_twice(row, **equal, layers.front());
    rows.push_back(&row);
    return;
  }
  for (const NodeId id : layers) {
    int& group = group_of_[size_t(id)];
    if (group >= 0) fail_twice(row, *groups_[size_t(group)].rows.front(), id);
    group = int(groups_.size());
  }
  groups_.push_back({.layers = layers, .rows = {&row}});
}

void OwnCosts::fail_twice(const OwnTime& row, const OwnTime& other, NodeId layer) const {
  fail_user({row.where, row.layers,
             fmt::format("layer {} has its time from {} already", model_.node(layer).name, other.where),
             "give the time of a layer once"});
}

/// Groups with the same rows and with equal layers have equal costs.
void OwnCosts::number_classes() {
  const std::vector<int> classes = equal_layers(model_);
  std::map<std::pair<std::vector<const OwnTime*>, std::vector<int>>, int> known;
  for (Group& group : groups_) {
    std::vector<int> layers;
    for (const NodeId id : group.layers) layers.push_back(classes[size_t(id)]);
    group.cost_class = known.emplace(std::pair(group.rows, std::move(layers)), int(known.size())).first->second;
  }
}

/// The layer's split of this name at a tensor degree; if there is none, the first that divides its work.
ShardingOption OwnCosts::option_of(NodeId node, const std::string& split, int tensor) const {
  const std::vector<ShardingOption> options =
      model_.node(node).layer->sharding_options(model_.input_shapes(node), tensor);
  auto found = std::find_if(options.begin(), options.end(), [&](const ShardingOption& o) { return o.name == split; });
  if (found == options.end())
    found = std::find_if(options.begin(), options.end(), [](const ShardingOption& o) { return o.divides_work; });
  return found == options.end() ? options.front() : *found;
}

/// `node`, `split`: those of the requested call.
OwnCosts::Factors OwnCosts::factors_of_row(const Group& group, const OwnTime& row, NodeId node,
                                           const std::string& split, int kind) const {
  double forward = 0, backward = 0, input = 0, weight = 0;
  for (const NodeId id : group.layers) {
    const std::string name = id == node ? split : plan_.empty() ? "" : plan_[size_t(id)].split;
    const LayerCost cost = predicted_->seconds(id, option_of(id, name, row.tensor), row.tensor, row.samples, kind);
    forward += cost.forward;
    backward += cost.backward;
    input += cost.backward_input;
    weight += cost.backward_weight;
  }
  const double calls = double(group.layers.size()) * double(row.samples);
  const auto factor = [&](double own, double predicted) {
    return predicted > 0 ? Factor{own / predicted, 0} : Factor{1, own / calls};
  };
  Factors factors;
  factors.forward = factor(row.forward, forward);
  factors.backward = factor(row.backward, backward);
  if (row.backward_weight && weight > 0) {
    factors.input = factor(row.backward - *row.backward_weight, input);
    factors.weight = factor(*row.backward_weight, weight);
  } else {
    factors.input = factor(row.backward, input + weight);
    factors.weight = {factors.input.scale, 0};
  }
  return factors;
}

const std::vector<OwnCosts::RowFactors>& OwnCosts::factors_of(int group, NodeId node, const ShardingOption& option,
                                                              int tensor, int kind) const {
  const MutexLock lock(mutex_);
  const auto [it, fresh] = known_.try_emplace(Key{group, node, option.name, tensor, kind});
  if (!fresh) return it->second;
  const Group& own = groups_[size_t(group)];
  const auto distance = [&](const OwnTime* row) { return std::abs(std::log2(double(row->tensor) / tensor)); };
  const OwnTime* nearest = *std::min_element(
      own.rows.begin(), own.rows.end(), [&](const OwnTime* a, const OwnTime* b) { return distance(a) < distance(b); });
  for (const OwnTime* row : own.rows)
    if (row->tensor == nearest->tensor)
      it->second.push_back({row->samples, factors_of_row(own, *row, node, option.name, kind)});
  return it->second;
}

LayerCost OwnCosts::seconds(NodeId node, const ShardingOption& option, int tensor, int64_t samples, int kind) const {
  LayerCost cost = predicted_->seconds(node, option, tensor, samples, kind);
  const int group = group_of_[size_t(node)];
  if (group < 0 || samples == 0) return cost;
  const std::vector<RowFactors>& rows = factors_of(group, node, option, tensor, kind);
  const auto above = std::lower_bound(rows.begin(), rows.end(), samples,
                                      [](const RowFactors& row, int64_t wanted) { return row.samples < wanted; });
  cost.basis = Basis::own_times;
  cost.stretch = 1;
  Factors factors = above == rows.end() ? rows.back().factors : above->factors;
  if (above == rows.end()) {
    cost.stretch = double(samples) / double(rows.back().samples);
  } else if (above == rows.begin()) {
    cost.stretch = double(above->samples) / double(samples);
  } else if (above->samples != samples) {
    const RowFactors& below = *std::prev(above);
    factors = Factors::between(below.factors, above->factors,
                               double(samples - below.samples) / double(above->samples - below.samples));
  }
  cost.forward = factors.forward.of(cost.forward, samples);
  cost.backward = factors.backward.of(cost.backward, samples);
  cost.backward_input = factors.input.of(cost.backward_input, samples);
  cost.backward_weight = factors.weight.of(cost.backward_weight, samples);
  cost.forward_launches = cost.backward_input_launches = cost.backward_weight_launches = {};
  return cost;
}

LayerMemory OwnCosts::memory(NodeId node, const ShardingOption& option, int tensor, int64_t samples) const {
  return predicted_->memory(node, option, tensor, samples);
}

double OwnCosts::update_seconds(int64_t elements, int contributors, int kind) const {
  return predicted_->update_seconds(elements, contributors, kind);
}

double OwnCosts::update_crowding(int contributors) const { return predicted_->update_crowding(contributors); }

int OwnCosts::cost_class(NodeId node) const {
  const int group = group_of_[size_t(node)];
  return group < 0 ? 0 : groups_[size_t(group)].cost_class + 1;
}

}  // namespace trireme
