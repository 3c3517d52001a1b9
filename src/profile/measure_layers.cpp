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

struct Times {
  std::vector<double> forward, backward, backward_input, backward_weight;  // seconds
};

/// Calls of one round. Their seconds are read at its end, so that the host asks a GPU ahead, as in a step.
class Round {
 public:
  void add(std::vector<double>& seconds, const CallMoments& call) { calls_.emplace_back(&seconds, call); }
  void read() const {
    for (const auto& [seconds, call] : calls_) seconds->push_back(call.seconds());
  }

 private:
  std::vector<std::pair<std::vector<double>*, CallMoments>> calls_;
};

using Probes = std::vector<std::unique_ptr<Probe>>;

/// `before` is called before each timed call.
template <class Before>
void run_round(Probes& probes, std::vector<Times>& times, const Before& before) {
  Round round;
  for (size_t i = 0; i < probes.size(); ++i) {
    before();
    round.add(times[i].forward, probes[i]->forward());
  }
  for (size_t i = probes.size(); i-- > 0;) {
    before();
    if (probes[i]->site().differentiated) round.add(times[i].backward, probes[i]->backward());
    else times[i].backward.push_back(0);
  }
  round.read();
}

/// As in schedules that split backward: the gradients of the parameters are computed much later.
void run_split_round(Probes& probes, std::vector<Times>& times) {
  auto splits = [&](size_t i) {
    return probes[i]->site().differentiated && probes[i]->site().layer->splits_backward();
  };
  Round round;
  for (auto& probe : probes) probe->forward();
  for (size_t i = probes.size(); i-- > 0;) {
    if (splits(i)) round.add(times[i].backward_input, probes[i]->backward_input());
    else if (probes[i]->site().differentiated) probes[i]->backward();
  }
  for (size_t i = probes.size(); i-- > 0;)
    if (splits(i)) round.add(times[i].backward_weight, probes[i]->backward_weight());
  round.read();
}

Spread scaled(const Spread& spread, double factor) {
  return {spread.median * factor, spread.p10 * factor, spread.p90 * factor};
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
        alone_(size_t(repetitions.passes)),
        alone_cores_(alone_.size()) {}

  void run() {
    const int workers = repetitions_.crowded ? measured_devices().count : 1;
    LocalWorld world(workers);
    together_.assign(size_t(workers), std::vector<std::vector<Times>>(alone_.size()));
    together_cores_.assign(size_t(workers), std::vector<CoreTimes>(alone_.size()));
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
    run_round(probes, warm_up, [] {});
    for (size_t pass = 0; pass < alone_.size(); ++pass) {
      group.barrier();
      if (group.rank() == 0) measure_alone(probes, pass);
      group.barrier();
      if (group.size() > 1) {
        std::vector<Times>& times = together_[size_t(group.rank())][pass];
        times.resize(settings_.size());
        CoreSpeed speed(kSpeedSeconds);
        for (int r = 0; r < rounds_; ++r)
          run_round(probes, times, [&] {
            speed.measure(steady_seconds());
            group.barrier();
          });
        together_cores_[size_t(group.rank())][pass] = speed.take();
      }
    }
  }

  void measure_alone(Probes& probes, size_t pass) {
    CoreSpeed speed(kSpeedSeconds);  // a new one, so that each pass has a measurement
    const auto before = [&] { speed.measure(steady_seconds()); };
    std::vector<Times>& times = alone_[pass];
    times.resize(settings_.size());
    if (int(pass) < repetitions_.split) run_split_round(probes, times);
    const double begin = steady_seconds();
    run_round(probes, times, before);
    if (pass == 0) {
      const double wanted =
          repetitions_.seconds_per_layer * double(settings_.size()) / std::max(steady_seconds() - begin, 1e-9);
      rounds_ = std::clamp(int(std::min(wanted, 1e6)), 1, repetitions_.most);
    }
    for (int r = 1; r < rounds_; ++r) run_round(probes, times, before);
    alone_cores_[pass] = speed.take();
  }

  /// The factor from seconds at the measured speed of the cores to seconds at that of the profile.
  double to_profile(const CoreTimes& cores) const {
    const std::optional<double> mean = cores.mean();
    return core_seconds_ > 0 && mean ? at_core_speed(1, *mean, core_seconds_) : 1;
  }

  void fill_in(size_t i) const {
    LayerMeasurement& result = results_[i];
    std::vector<double> together;
    for (size_t pass = 0; pass < alone_.size(); ++pass) {
      const Times& times = alone_[pass][i];
      const double factor = to_profile(alone_cores_[pass]);
      const Spread forward = scaled(spread_of(times.forward), factor),
                   backward = scaled(spread_of(times.backward), factor);
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
    CoreTimes cores;
    for (const std::vector<CoreTimes>& of_rank : together_cores_) cores += of_rank[pass];
    for (const auto& of_rank : together_) {
      const Times& times = of_rank[pass][i];
      for (size_t r = 0; r < times.forward.size(); ++r) seconds.push_back(times.forward[r] + times.backward[r]);
    }
    return to_profile(cores) * median_or_zero(seconds);
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
  std::vector<CoreTimes> alone_cores_;                     // [pass]
  std::vector<std::vector<CoreTimes>> together_cores_;     // [worker][pass]
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
