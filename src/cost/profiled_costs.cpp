#include "cost/profiled_costs.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/seconds.h"
#include "profile/measure_again.h"
#include "profile/measure_updates.h"
#include "trireme/error.h"

namespace trireme {
namespace {

using Sizes = std::map<int64_t, LayerMeasurement>;

/// Two measured sizes and the position of the requested one: 0 at the first, 1 at the second, outside [0, 1] beyond
/// them.
struct Place {
  const LayerMeasurement* first;
  const LayerMeasurement* second;
  double at = 0;
  double scale = 0;  ///< > 0: only one size was measured; requested over measured samples
  Basis basis = Basis::measured;
  double stretch = 1;
};

Place place_of(const Sizes& sizes, int64_t samples) {
  check_internal(!sizes.empty() && samples > 0, "an interpolation has measured sizes and at least one sample");
  auto above = sizes.lower_bound(samples);
  if (above != sizes.end() && above->first == samples) return {&above->second, &above->second};
  if (sizes.size() == 1) {
    const auto& [size, only] = *sizes.begin();
    const double scale = double(samples) / double(size);
    return {&only, &only, 0, scale, Basis::extrapolated, std::max(scale, 1 / scale)};
  }
  Basis basis = Basis::interpolated;
  double stretch = 1;
  if (above == sizes.begin()) {
    basis = Basis::extrapolated;
    stretch = double(above->first) / double(samples);
    ++above;
  } else if (above == sizes.end()) {
    basis = Basis::extrapolated;
    --above;
    stretch = double(samples) / double(above->first);
  }
  const auto below = std::prev(above);
  const double at = double(samples - below->first) / double(above->first - below->first);
  return {&below->second, &above->second, at, 0, basis, stretch};
}

/// The value on the line through two measurements. Noise may make a line fall or cross zero, so the value is bounded:
/// below the smallest size it is at least proportional to the samples, above the largest at least the value of the
/// largest.
double on_line(const Place& place, double first, double second) {
  if (place.scale > 0) return first * place.scale;
  const double value = first + place.at * (second - first);
  if (place.at > 1) return std::max(value, second);
  if (place.at < 0) return std::clamp(value, first / place.stretch, first);
  return value;
}

int64_t bytes_on_line(const Place& place, int64_t first, int64_t second) {
  return int64_t(std::llround(on_line(place, double(first), double(second))));
}

}  // namespace

LayerCost interpolated_cost(const Sizes& sizes, int64_t samples) {
  const Place p = place_of(sizes, samples);
  auto line = [&](auto field) { return on_line(p, field(*p.first), field(*p.second)); };
  LayerCost cost;
  cost.forward = line([](const LayerMeasurement& m) { return m.forward.median; });
  cost.backward = line([](const LayerMeasurement& m) { return m.backward.median; });
  cost.backward_input = line([](const LayerMeasurement& m) { return m.backward_input; });
  cost.backward_weight = line([](const LayerMeasurement& m) { return m.backward_weight; });
  const double at = std::clamp(p.at, 0.0, 1.0);  // beyond the measured sizes, the factor of the nearest one
  cost.crowding = std::max(1.0, p.first->crowding + at * (p.second->crowding - p.first->crowding));
  cost.basis = p.basis;
  cost.stretch = p.stretch;
  return cost;
}

LayerMemory interpolated_memory(const Sizes& sizes, int64_t samples) {
  const Place p = place_of(sizes, samples);
  const LayerMemory &a = p.first->memory, &b = p.second->memory;
  LayerMemory memory = p.at < 0.5 ? a : b;
  memory.output = bytes_on_line(p, a.output, b.output);
  memory.saved = bytes_on_line(p, a.saved, b.saved);
  memory.forward_workspace = bytes_on_line(p, a.forward_workspace, b.forward_workspace);
  memory.backward_workspace = bytes_on_line(p, a.backward_workspace, b.backward_workspace);
  for (const auto part : {&LayerMemory::parameter_workspace, &LayerMemory::input_workspace,
                          &LayerMemory::weight_workspace, &LayerMemory::deferred})
    if (a.*part && b.*part) memory.*part = bytes_on_line(p, *(a.*part), *(b.*part));
  for (size_t i = 0; i < memory.input_gradients.size(); ++i)
    memory.input_gradients[i] = bytes_on_line(p, a.input_gradients.at(i), b.input_gradients.at(i));
  return memory;
}

ProfiledCosts::ProfiledCosts(const Model& model, Profile profile, ProfiledCostsOptions options)
    : sites_(model, options.sites),
      options_(std::move(options)),
      factors_(options_.factors),
      profile_(std::move(profile)) {}

const ProfiledCosts::Sizes& ProfiledCosts::sizes_of(NodeId node, const ShardingOption& option, int tensor,
                                                    int64_t samples) const {
  const std::string key = sites_.key(node, option, tensor);
  if (const auto found = profile_.layers.find(key); found != profile_.layers.end() && !found->second.empty()) {
    const Sizes& sizes = found->second;
    samples = std::min(samples, std::max(sizes.rbegin()->first, most_samples()));  // more are extrapolated
    const bool between = samples >= sizes.begin()->first && samples <= sizes.rbegin()->first;
    if (between || !options_.measures_missing) return sizes;
  }
  if (!options_.measures_missing)
    fail_user({options_.where,
               fmt::format("no measurement of layer \"{}\" under \"{}\" at tensor degree {} in {}",
                           sites_.model().node(node).name, option.name, tensor, name_of(options_.sites.precision)),
               "the profile was measured for another model or other degrees",
               "extend it: trireme profile EXPERIMENT --out THE_FILE"});
  samples = std::min(samples, most_samples());
  // Measures all that is missing for this tensor degree, so that layers alternate as in a step.
  std::vector<LayerRequest> requests = requests_for(sites_, {tensor}, samples);
  std::erase_if(requests, [&](const LayerRequest& r) TRIREME_REQUIRES(mutex_) {
    return profile_.find(sites_.key(r.node, r.option, r.tensor), samples) != nullptr;
  });
  const double begin = steady_seconds();
  MeasuredGroup& group = measured_.emplace_back();
  group.core_seconds = profile_.device.core_seconds;
  group.measured = measure_layers(sites_, requests, {}, options_.threads, group.core_seconds);
  group.requests = std::move(requests);
  group.seconds = steady_seconds() - begin;
  group.write_to(profile_, sites_);
  const auto found = profile_.layers.find(key);
  check_internal(found != profile_.layers.end(), "a cost is requested for one of the layer's options");
  return found->second;
}

int64_t ProfiledCosts::most_samples() const {
  if (most_samples_ == 0) most_samples_ = most_samples_to_measure(sites_);
  return most_samples_;
}

const ProfiledCosts::CostEntry& ProfiledCosts::entry(NodeId node, const ShardingOption& option, int tensor,
                                                     int64_t samples) const {
  MutexLock lock(mutex_);
  const CostKey key{node, option.name, tensor, samples};
  if (const auto known = known_.find(key); known != known_.end()) return known->second;
  const Sizes& sizes = sizes_of(node, option, tensor, samples);
  LayerCost cost = interpolated_cost(sizes, samples);
  for (double* seconds : {&cost.forward, &cost.backward, &cost.backward_input, &cost.backward_weight})
    *seconds *= factors_.seconds;
  cost.crowding = std::max(1.0, cost.crowding * factors_.crowding);
  return known_.emplace(key, CostEntry{cost, interpolated_memory(sizes, samples)}).first->second;
}

LayerCost ProfiledCosts::seconds(NodeId node, const ShardingOption& option, int tensor, int64_t samples, int) const {
  if (samples <= 0 || !sites_.site(node).layer) return {};
  return entry(node, option, tensor, samples).cost;
}

LayerMemory ProfiledCosts::memory(NodeId node, const ShardingOption& option, int tensor, int64_t samples) const {
  const LayerSite& site = sites_.site(node);
  if (samples > 0 && site.layer) return entry(node, option, tensor, samples).memory;
  LayerMemory none;
  none.keeps_input.assign(site.inputs.size(), false);
  none.input_gradients.assign(site.inputs.size(), 0);
  return none;
}

UpdateMeasurement ProfiledCosts::update_of(int contributors) const {
  const std::string name = update_name(options_.optimizer, options_.sites.precision);
  MutexLock lock(mutex_);
  std::map<int, UpdateMeasurement> measured;
  for (const UpdateMeasurement& u : profile_.updates)
    if (u.optimizer == name) measured[u.contributors] = u;
  if (measured.empty()) {
    if (!options_.measures_missing)
      fail_user({options_.where, fmt::format("no measurement of updates by {}", name),
                 "the profile was measured for another optimizer or precision",
                 "extend it: trireme profile EXPERIMENT --out THE_FILE"});
    for (const UpdateMeasurement& u :
         measure_updates(options_.optimizer, options_.sites.precision, {1, 2, 4}, options_.threads)) {
      profile_.updates.push_back(u);
      measured[u.contributors] = u;
    }
  }
  auto above = measured.lower_bound(contributors);
  if (above != measured.end() && above->first == contributors) return above->second;
  if (above == measured.begin()) return above->second;
  if (above == measured.end()) --above;
  if (above == measured.begin()) return above->second;
  // Each additional gradient costs as much to read as the one before.
  const UpdateMeasurement &a = std::prev(above)->second, &b = above->second;
  const double at = double(contributors - a.contributors) / double(b.contributors - a.contributors);
  UpdateMeasurement between = b;
  between.per_element = std::max(a.per_element, a.per_element + at * (b.per_element - a.per_element));
  between.fixed = a.fixed + std::min(at, 1.0) * (b.fixed - a.fixed);
  return between;
}

double ProfiledCosts::update_seconds(int64_t elements, int contributors, int) const {
  if (elements <= 0) return 0;
  const UpdateMeasurement u = update_of(contributors);
  MutexLock lock(mutex_);
  return factors_.seconds * (u.fixed + u.per_element * double(elements));
}

double ProfiledCosts::update_crowding(int contributors) const {
  const UpdateMeasurement u = update_of(contributors);
  MutexLock lock(mutex_);
  return std::max(1.0, u.crowding * factors_.crowding);
}

bool ProfiledCosts::measure_again(double seconds) const {
  MutexLock lock(mutex_);
  if (measured_.empty()) return false;
  trireme::measure_again(sites_, measured_, seconds, options_.threads);
  for (const MeasuredGroup& group : measured_) group.write_to(profile_, sites_);
  measured_.clear();
  known_.clear();
  return true;
}

void ProfiledCosts::set_factors(const StepFactors& factors) const {
  MutexLock lock(mutex_);
  factors_ = factors;
  known_.clear();
}

Profile ProfiledCosts::profile() const {
  MutexLock lock(mutex_);
  return profile_;
}

}  // namespace trireme
