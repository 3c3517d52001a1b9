#include "profile/measure_profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "base/devices/memory_speed.h"
#include "base/machine.h"
#include "base/seconds.h"
#include "profile/measure_again.h"
#include "profile/measure_links.h"
#include "profile/measure_updates.h"
#include "profile/measured_devices.h"

namespace trireme {
namespace {

/// Initial estimate of the layers' speed, relative to that of the fixed convolution.
constexpr double kFirstGuess = 0.3;
/// The fewest calls that measuring a layer requires: bytes, warm-up, split, alone and crowded rounds, in forwards and
/// backwards.
constexpr double kLeastCalls = 9;
/// Share of the budget for repeated measurements; see measure_again.h.
constexpr double kShareAgain = 0.4;
constexpr double kWholeFirst = 0.25;

/// Requests that are measured together.
struct Unit {
  int64_t samples = 1;
  int tensor = 1;
  std::vector<LayerRequest> requests;
  double flops = 0;

  /// Sort key: cheap units first, with priority for unsplit layers, because every plan has some of them and the
  /// other predictions are compared with theirs.
  double rank() const { return tensor == 1 ? kWholeFirst * flops : flops; }
};

/// Forward and backward of one call on one worker.
double flops_of(const LayerSites& sites, const LayerRequest& request) {
  const LayerSite& site = sites.site(request.node);
  constexpr double kForwardAndBackward = 3;
  return kForwardAndBackward * site.layer->forward_flops(site.input_shapes) * double(request.samples) /
         (request.option.divides_work ? request.tensor : 1);
}

std::vector<Unit> units_of(const Profile& profile, const LayerSites& sites, const ProfileRequest& request, int& known) {
  std::vector<Unit> units;
  for (int64_t samples : request.samples) {
    std::set<std::string> seen;  // keys; options with whole work on each worker recur at higher degrees
    for (int tensor : request.tensors) {
      Unit unit{samples, tensor, {}, 0};
      for (LayerRequest& r : requests_for(sites, {tensor}, samples)) {
        const std::string key = sites.key(r.node, r.option, tensor);
        if (!seen.insert(key).second) continue;
        if (profile.find(key, samples)) {
          ++known;
          continue;
        }
        unit.flops += flops_of(sites, r);
        unit.requests.push_back(std::move(r));
      }
      if (!unit.requests.empty()) units.push_back(std::move(unit));
    }
  }
  std::stable_sort(units.begin(), units.end(), [](const Unit& a, const Unit& b) { return a.rank() < b.rank(); });
  return units;
}

std::vector<int> missing_contributors(const Profile& profile, const std::string& name, std::vector<int> wanted) {
  for (const UpdateMeasurement& u : profile.updates)
    if (u.optimizer == name) std::erase(wanted, u.contributors);
  return wanted;
}

std::vector<int> contributors_to_measure(const Profile& profile, const ProfileRequest& request, Precision precision,
                                         int places) {
  std::vector<int> contributors;
  for (int c = 1; c <= 2 * places; c *= 2) contributors.push_back(c);
  return missing_contributors(profile, update_name(request.optimizer, precision), std::move(contributors));
}

void measure_machine(Profile& profile, const ProfileRequest& request, Precision precision,
                     const std::function<void(const std::string&)>& progress) {
  profile.machine = fingerprint_of_this_machine(request.threads);
  const int places = profile.machine.places();
  if (profile.device.flops == 0) profile.device = measure_device(request.threads);
  // The speeds of cores and memory are measured three times, because a disturbance may last more than a second.
  const bool core_is_unknown = profile.device.core_seconds == 0;
  double fastest_core = core_is_unknown ? measure_core() : 0;
  const bool memory_is_unknown = profile.device.memory_speed == 0 && measured_devices().gpus == 0;
  double fastest_memory = memory_is_unknown ? memory_speed().value_or(0) : profile.device.memory_speed;
  const auto look = [&] {
    if (core_is_unknown) fastest_core = std::min(fastest_core, measure_core());
    if (memory_is_unknown) fastest_memory = std::max(fastest_memory, memory_speed().value_or(0));
  };
  if (profile.links.groups.empty()) {
    progress("links");
    std::vector<int> workers;
    for (int w = 2; w <= places; w *= 2) workers.push_back(w);
    workers.push_back(2 * places);
    profile.links = measure_links(workers);
  }
  look();
  const std::vector<int> contributors = contributors_to_measure(profile, request, precision, places);
  if (!contributors.empty()) {
    progress("updates");
    for (const UpdateMeasurement& u : measure_updates(request.optimizer, precision, contributors, request.threads))
      profile.updates.push_back(u);
  }
  look();
  if (core_is_unknown) profile.device.core_seconds = fastest_core;
  profile.device.memory_speed = fastest_memory;
}

std::string name_of(const Unit& unit) {
  return fmt::format("{} {} at tensor degree {}", unit.samples, unit.samples == 1 ? "sample" : "samples", unit.tensor);
}

}  // namespace

std::vector<int64_t> usual_samples(int64_t batch) {
  std::vector<int64_t> samples;
  for (int64_t n = 1; n < batch; n *= 2) samples.push_back(n);
  samples.push_back(batch);
  return samples;
}

bool lacks_links_or_updates(const Profile& profile, const ProfileRequest& request, Precision precision) {
  return profile.links.groups.empty() ||
         !contributors_to_measure(profile, request, precision, profile.machine.places()).empty();
}

ProfileReport extend_profile(Profile& profile, const LayerSites& sites, const ProfileRequest& request,
                             const std::function<void(const std::string&)>& progress) {
  ProfileReport report;
  const double begin = steady_seconds();
  measure_machine(profile, request, sites.options().precision, progress);
  report.machine_seconds = steady_seconds() - begin;
  double rate = profile.device.flops * kFirstGuess;  // FLOP/s of the model's layers
  std::vector<MeasuredGroup> groups;
  for (const Unit& unit : units_of(profile, sites, request, report.known)) {
    const double left = (1 - kShareAgain) * request.seconds - (steady_seconds() - begin),
                 least = kLeastCalls * unit.flops / rate;
    if (least > left) {
      report.skipped.push_back(name_of(unit));
      continue;
    }
    progress(name_of(unit));
    const double started = steady_seconds();
    MeasuredGroup& group =
        groups.emplace_back(MeasuredGroup{.name = name_of(unit), .requests = unit.requests, .measured = {}});
    group.core_seconds = profile.device.core_seconds;
    group.measured = measure_layers(sites, unit.requests, {.split = 1}, request.threads, group.core_seconds);
    group.seconds = steady_seconds() - started;
    double call_seconds = 0;
    for (const LayerMeasurement& m : group.measured) call_seconds += m.forward.median + m.backward.median;
    report.measured += int(unit.requests.size());
    // Work around the calls takes time too.
    call_seconds = std::max(call_seconds, std::min(1.5 * call_seconds, (steady_seconds() - started) / kLeastCalls));
    rate = unit.flops / std::max(call_seconds, 1e-9);
  }
  measure_again(sites, groups, request.seconds - (steady_seconds() - begin), request.threads, progress);
  for (const MeasuredGroup& group : groups) group.write_to(profile, sites);
  report.seconds = steady_seconds() - begin;
  return report;
}

}  // namespace trireme
