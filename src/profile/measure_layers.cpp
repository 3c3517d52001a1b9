#include "profile/measure_layers.h"

#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <memory>
#include <set>

#include "base/devices/at_core_speed.h"
#include "base/devices/core_speed.h"
#include "base/devices/device.h"
#include "base/devices/gpu.h"
#include "base/median.h"
#include "base/memory.h"
#include "base/seconds.h"
#include "profile/measured_devices.h"
#include "runtime/worker_threads.h"

namespace trireme {
namespace {

constexpr double kSpeedSeconds = 0.002;  // between two measurements of a core's speed
constexpr double kMemoryShare = 0.4;     // of a worker's memory, for layers that wait for their backward

/// A call, from before to after it.
struct CallMoments {
  DeviceMoment begin, end;
  double seconds() const { return end.seconds_since(begin); }
};

/// One layer's calls on one thread.
class Probe {
 public:
  explicit Probe(const ProbeSetting& setting) : setting_(setting), call_(setting) {}

  ProbeCall& call() { return call_; }
  const LayerSite& site() const { return *setting_.site; }

  /// Retains what the backward needs and releases the rest, as a step does.
  CallMoments forward() {
    call_.begin();
    call_.defer_parameters = false;
    std::vector<at::Tensor> inputs = call_.make_inputs();
    const DeviceMoment begin;
    at::Tensor output = site().layer->forward(call_, inputs);
    inputs.clear();
    const DeviceMoment end;
    if (!site().differentiated) call_.begin();
    return {begin, end};
  }

  CallMoments backward() {
    at::Tensor gradient = call_.make_output_gradient();
    const DeviceMoment begin;
    const std::vector<at::Tensor> inputs = site().layer->backward(call_, gradient);
    gradient.reset();
    call_.saved.clear();
    return {begin, DeviceMoment()};
  }

  /// The gradients of the inputs; backward_weight() computes those of the parameters.
  CallMoments backward_input() {
    call_.defer_parameters = true;
    at::Tensor gradient = call_.make_output_gradient();
    const DeviceMoment begin;
    const std::vector<at::Tensor> inputs = site().layer->backward(call_, gradient);
    gradient.reset();
    return {begin, DeviceMoment()};
  }
  CallMoments backward_weight() {
    const DeviceMoment begin;
    site().layer->backward_parameters(call_);
    call_.saved.clear();
    return {begin, DeviceMoment()};
  }

 private:
  const ProbeSetting setting_;
  ProbeCall call_;
};

/// Seconds at the profile's speed of the cores.
struct Times {
  std::vector<double> forward, backward, backward_input, backward_weight;  // seconds
};

/// The speed of a worker's core before a call, at most kSpeedSeconds before it: it may change from one call to the
/// next.
class CoreBefore {
 public:
  /// `core_seconds`: the profile's speed; 0: seconds are not converted.
  explicit CoreBefore(double core_seconds) : wanted_(core_seconds), speed_(kSpeedSeconds) {}

  void measure() {
    if (wanted_ == 0 || !speed_.measure(steady_seconds())) return;
    if (const std::optional<double> measured = speed_.take().mean()) to_profile_ = at_core_speed(1, *measured, wanted_);
  }
  /// The factor from seconds now to seconds at the profile's speed.
  double to_profile() const { return to_profile_; }

 private:
  const double wanted_;
  CoreSpeed speed_;
  double to_profile_ = 1;
};

/// Calls of one round. Their seconds are read at the end of the round, so that the host queues work on a GPU ahead of
/// its execution, as it does in a step.
class Round {
 public:
  explicit Round(const CoreBefore& core) : core_(core) {}

  /// CoreBefore::measure() was called before the call.
  void add(std::vector<double>& seconds, const CallMoments& call) {
    calls_.push_back({&seconds, call, core_.to_profile()});
  }
  void read() const {
    for (const auto& [seconds, call, to_profile] : calls_) seconds->push_back(to_profile * call.seconds());
  }

 private:
  struct Timed {
    std::vector<double>* seconds;
    CallMoments call;
    double to_profile;
  };
  const CoreBefore& core_;
  std::vector<Timed> calls_;
};

using Probes = std::vector<std::unique_ptr<Probe>>;

/// `before` is called before each timed call.
template <class Before>
void run_round(Probes& probes, std::vector<Times>& times, CoreBefore& core, const Before& before) {
  Round round(core);
  for (size_t i = 0; i < probes.size(); ++i) {
    core.measure();
    before();
    round.add(times[i].forward, probes[i]->forward());
  }
  for (size_t i = probes.size(); i-- > 0;) {
    core.measure();
    before();
    if (probes[i]->site().differentiated) round.add(times[i].backward, probes[i]->backward());
    else times[i].backward.push_back(0);
  }
  round.read();
}

/// As in schedules that split backward: the gradients of the parameters are computed much later.
void run_split_round(Probes& probes, std::vector<Times>& times, CoreBefore& core) {
  auto splits = [&](size_t i) {
    return probes[i]->site().differentiated && probes[i]->site().layer->splits_backward();
  };
  Round round(core);
  for (auto& probe : probes) probe->forward();
  for (size_t i = probes.size(); i-- > 0;) {
    core.measure();
    if (splits(i)) round.add(times[i].backward_input, probes[i]->backward_input());
    else if (probes[i]->site().differentiated) probes[i]->backward();
  }
  for (size_t i = probes.size(); i-- > 0;) {
    core.measure();
    if (splits(i)) round.add(times[i].backward_weight, probes[i]->backward_weight());
  }
  round.read();
}

double median_or_zero(const std::vector<double>& values) { return values.empty() ? 0.0 : median(values); }

int64_t kept_bytes(const LayerMemory& m, const ProbeCall& call) {
  int64_t inputs = 0;
  for (const at::Tensor& input : call.make_inputs()) inputs += int64_t(input.storage().nbytes());
  return m.saved + m.output + inputs;
}

/// Measures settings that fit into memory at the same time.
class Turn {
 public:
  Turn(std::span<const ProbeSetting> settings, const Repetitions& repetitions, int threads, double core_seconds,
       std::span<LayerMeasurement> results)
      : settings_(settings),
        repetitions_(repetitions),
        threads_(threads),
        core_seconds_(core_seconds),
        results_(results),
        alone_(size_t(repetitions.passes)) {}

  void run() {
    const int workers = repetitions_.crowded ? measured_devices().count : 1;
    LocalWorld world(workers);
    together_.assign(size_t(workers), std::vector<std::vector<Times>>(alone_.size()));
    run_worker_threads(
        world,
        [&](int rank) {
          c10::InferenceMode inference;
          const auto communicator = world.communicator(rank);
          measure(*communicator);
        },
        std::vector<int>(size_t(workers), threads_));
    for (size_t i = 0; i < settings_.size(); ++i) fill_in(i);
  }

 private:
  /// One worker's part. The first worker measures alone while the others wait; then all measure together.
  void measure(Communicator& group) {
    Probes probes;
    for (const ProbeSetting& setting : settings_) probes.push_back(std::make_unique<Probe>(setting));
    std::vector<Times> warm_up(settings_.size());
    CoreBefore core(core_seconds_);
    run_round(probes, warm_up, core, [] {});
    for (size_t pass = 0; pass < alone_.size(); ++pass) {
      group.barrier();
      if (group.rank() == 0) measure_alone(probes, core, pass);
      group.barrier();
      if (group.size() > 1) {
        std::vector<Times>& times = together_[size_t(group.rank())][pass];
        times.resize(settings_.size());
        for (int r = 0; r < rounds_; ++r) run_round(probes, times, core, [&] { group.barrier(); });
      }
    }
  }

  void measure_alone(Probes& probes, CoreBefore& core, size_t pass) {
    std::vector<Times>& times = alone_[pass];
    times.resize(settings_.size());
    if (int(pass) < repetitions_.split) run_split_round(probes, times, core);
    const double begin = steady_seconds();
    run_round(probes, times, core, [] {});
    if (pass == 0) {
      const double wanted =
          repetitions_.seconds_per_layer * double(settings_.size()) / std::max(steady_seconds() - begin, 1e-9);
      rounds_ = std::clamp(int(std::min(wanted, 1e6)), 1, repetitions_.most);
    }
    for (int r = 1; r < rounds_; ++r) run_round(probes, times, core, [] {});
  }

  void fill_in(size_t i) const {
    LayerMeasurement& result = results_[i];
    std::vector<double> together;
    for (size_t pass = 0; pass < alone_.size(); ++pass) {
      const Times& times = alone_[pass][i];
      const Spread forward = spread_of(times.forward), backward = spread_of(times.backward);
      if (pass == 0 || forward.median < result.forward.median) result.forward = forward;
      if (pass == 0 || backward.median < result.backward.median) result.backward = backward;
      result.runs += int(times.forward.size());
      if (together_.size() > 1) together.push_back(together_in(i, pass));
    }
    const double alone = result.forward.median + result.backward.median;
    if (!together.empty() && alone > 0)
      result.crowding = std::max(1.0, *std::min_element(together.begin(), together.end()) / alone);
    fill_in_parts(i);
  }

  /// Median over workers and rounds.
  double together_in(size_t i, size_t pass) const {
    std::vector<double> seconds;
    for (const auto& of_rank : together_) {
      const Times& times = of_rank[pass][i];
      for (size_t r = 0; r < times.forward.size(); ++r) seconds.push_back(times.forward[r] + times.backward[r]);
    }
    return median_or_zero(seconds);
  }

  /// The parts of a backward, from their ratio to the whole in the same pass, so that they are consistent with the
  /// chosen pass.
  void fill_in_parts(size_t i) const {
    LayerMeasurement& result = results_[i];
    std::vector<double> input, weight;
    for (size_t pass = 0; pass < alone_.size(); ++pass) {
      const Times& times = alone_[pass][i];
      const double whole = median_or_zero(times.backward);
      if (times.backward_input.empty() || whole <= 0) continue;
      input.push_back(median_or_zero(times.backward_input) / whole);
      weight.push_back(median_or_zero(times.backward_weight) / whole);
    }
    result.backward_input = result.backward.median * (input.empty() ? 1 : median(input));
    result.backward_weight = result.backward.median * median_or_zero(weight);
  }

  std::span<const ProbeSetting> settings_;
  const Repetitions& repetitions_;
  const int threads_;
  const double core_seconds_;
  std::span<LayerMeasurement> results_;
  std::vector<std::vector<Times>> alone_;                  // [pass][setting]
  std::vector<std::vector<std::vector<Times>>> together_;  // [worker][pass][setting]
  int rounds_ = 1;
};

/// Runs the call once. A GPU's libraries allocate workspaces of their own in their first call.
void warm_up(const ProbeSetting& setting, ProbeCall& call) {
  call.begin();
  setting.site->layer->forward(call, call.make_inputs());
  if (setting.site->differentiated) setting.site->layer->backward(call, call.make_output_gradient());
  call.begin();
}

/// Measures the bytes of each setting's call. Returns the bytes that a call retains until its backward.
std::vector<int64_t> measure_bytes(const std::vector<ProbeSetting>& settings, int threads,
                                   std::vector<LayerMeasurement>& results) {
  std::vector<int64_t> kept;
  LocalWorld world(1);
  run_worker_threads(world,
                     [&](int device) {
                       c10::InferenceMode inference;
                       for (size_t i = 0; i < settings.size(); ++i) {
                         ProbeCall call(settings[i]);
                         if (!worker_place().is_cpu()) warm_up(settings[i], call);
                         results[i].memory = measure_memory(settings[i], call, device);
                         kept.push_back(kept_bytes(results[i].memory, call));
                       }
                     },
                     {threads});
  return kept;
}

}  // namespace

ProbeSetting setting_of(const LayerSites& sites, const LayerRequest& request) {
  const LayerSite& site = sites.site(request.node);
  if (!is_whole(request.option)) return {&site, request.option, request.tensor, request.samples, sites.options()};
  return {&site, site.layer->sharding_options(site.input_shapes, 1).at(0), 1, request.samples, sites.options()};
}

std::vector<LayerMeasurement> measure_layers(const LayerSites& sites, const std::vector<LayerRequest>& requests,
                                             const Repetitions& repetitions, int threads, double core_seconds) {
  install_memory_accounting();
  const MeasuredDevices devices = measured_devices();
  if (devices.gpus > 0) install_gpu_memory_accounting();
  std::vector<ProbeSetting> settings;
  settings.reserve(requests.size());
  for (const LayerRequest& request : requests) settings.push_back(setting_of(sites, request));
  std::vector<LayerMeasurement> results(settings.size());
  const std::vector<int64_t> kept = measure_bytes(settings, threads, results);
  const bool has_all = devices.gpus == 0 && !repetitions.crowded;  // one worker may use the whole machine's memory
  const double room = kMemoryShare * double(devices.memory) * (has_all ? devices.count : 1);
  for (size_t begin = 0; begin < settings.size();) {
    size_t end = begin;
    double bytes = 0;
    while (end < settings.size() && (end == begin || bytes + double(kept[end]) < room)) bytes += double(kept[end++]);
    Turn({settings.data() + begin, end - begin}, repetitions, threads, core_seconds,
         {results.data() + begin, end - begin})
        .run();
    begin = end;
  }
  return results;
}

int64_t most_samples_to_measure(const LayerSites& sites) {
  const Model& model = sites.model();
  int64_t largest = 1;  // elements of a layer's inputs and output, of one sample
  for (NodeId id = model.input_count(); id < NodeId(model.nodes().size()); ++id) {
    const LayerSite& site = sites.site(id);
    int64_t elements = element_count(site.output_shape);
    for (const Shape& shape : site.input_shapes) elements += element_count(shape);
    largest = std::max(largest, elements);
  }
  const double bytes = 2 * double(largest) * double(c10::elementSize(compute_type(sites.options().precision)));
  return std::max<int64_t>(1, int64_t(kMemoryShare * double(measured_devices().memory) / bytes));
}

std::vector<LayerRequest> requests_for(const LayerSites& sites, const std::vector<int>& tensors, int64_t samples) {
  std::vector<LayerRequest> requests;
  std::set<std::string> seen;
  const Model& model = sites.model();
  for (NodeId id = model.input_count(); id < NodeId(model.nodes().size()); ++id)
    for (int tensor : tensors)
      for (const ShardingOption& option : sites.site(id).layer->sharding_options(sites.site(id).input_shapes, tensor))
        if (seen.insert(sites.key(id, option, tensor)).second) requests.push_back({id, option, tensor, samples});
  return requests;
}

}  // namespace trireme
