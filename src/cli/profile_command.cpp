#include "cli/commands.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <iostream>
#include <map>
#include <set>

#include "base/counted.h"
#include "base/devices/device.h"
#include "base/seconds.h"
#include "base/text.h"
#include "base/units.h"
#include "cli/predict_subject.h"
#include "cli/text_table.h"
#include "experiment/run_device.h"
#include "forecast/cost_source.h"
#include "profile/measure_layers.h"
#include "profile/measure_profile.h"
#include "profile/profile.h"
#include "report/width.h"
#include "train/measure_step.h"
#include "trireme/error.h"

namespace trireme {
namespace {

constexpr int kUsualDegrees = 4;     // default of --devices
constexpr double kShortBudget = 30;  // seconds, which links and updates can exceed on a machine with other users

/// The cost of a kind of layers in one step on one device.
struct KindRow {
  int layers = 0;
  std::set<std::string> distinct;
  double forward = 0, backward = 0;
  double spread = 0;   ///< sum of p90 - p10
  double crowded = 0;  ///< seconds with all cores busy
  int64_t kept = 0;    ///< bytes kept from forward to backward; bytes that several layers keep count for the first one
};

/// Returns the largest number of samples for which all whole layers have been measured; 0: there is none.
int64_t largest_complete(const Profile& profile, const LayerSites& sites, const std::vector<int64_t>& samples) {
  const Model& model = sites.model();
  auto has_all = [&](int64_t n) {
    for (const LayerRequest& r : requests_for(sites, {1}, n))
      if (!profile.find(sites.key(r.node, r.option, 1), n)) return false;
    return NodeId(model.nodes().size()) > model.input_count();
  };
  for (auto n = samples.rbegin(); n != samples.rend(); ++n)
    if (has_all(*n)) return *n;
  return 0;
}

std::string milliseconds(double seconds) { return fmt::format("{:.3g}", seconds * 1e3); }

/// Counts the bytes that a layer keeps and no layer before it has kept.
class KeptBytes {
 public:
  KeptBytes(const LayerSites& sites, int64_t samples)
      : sites_(sites), samples_(samples), makers_(sites.model().nodes().size()) {
    for (size_t n = 0; n < makers_.size(); ++n) makers_[n] = NodeId(n);
  }

  /// Call it in topological order.
  int64_t of(NodeId id, const LayerMemory& memory) {
    const auto& inputs = sites_.model().node(id).inputs;
    if (memory.output_shares_input >= 0)
      makers_[size_t(id)] = makers_[size_t(inputs[size_t(memory.output_shares_input)])];
    int64_t bytes = memory.saved + (memory.keeps_output ? keep(id) : 0);
    for (size_t i = 0; i < inputs.size(); ++i)
      if (memory.keeps_input[i]) bytes += keep(inputs[i]);
    return bytes;
  }

 private:
  int64_t keep(NodeId id) {
    const NodeId maker = makers_[size_t(id)];
    if (!kept_.insert(maker).second) return 0;
    return samples_ * element_count(sites_.model().node(maker).sample_shape) *
           int64_t(c10::elementSize(sites_.value(maker).type));
  }

  const LayerSites& sites_;
  const int64_t samples_;
  std::vector<NodeId> makers_;  // by node: the node that owns the storage of its output
  std::set<NodeId> kept_;
};

std::string layers_in_words(const Profile& profile, const LayerSites& sites, int64_t samples) {
  std::map<std::string, KindRow> kinds;
  KindRow all;
  KeptBytes kept_bytes(sites, samples);
  const Model& model = sites.model();
  for (NodeId id = model.input_count(); id < NodeId(model.nodes().size()); ++id) {
    const LayerSite& site = sites.site(id);
    const std::string key = sites.key(id, site.layer->sharding_options(site.input_shapes, 1).at(0), 1);
    const LayerMeasurement& m = *profile.find(key, samples);
    const int64_t kept = kept_bytes.of(id, m.memory);
    for (KindRow* row : {&kinds[std::string(site.layer->kind())], &all}) {
      row->layers += 1;
      row->distinct.insert(key);
      row->forward += m.forward.median;
      row->backward += m.backward.median;
      row->spread += m.forward.p90 - m.forward.p10 + m.backward.p90 - m.backward.p10;
      row->crowded += m.crowding * (m.forward.median + m.backward.median);
      row->kept += kept;
    }
  }
  std::vector<std::pair<std::string, KindRow>> sorted(kinds.begin(), kinds.end());
  std::sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) {
    return a.second.forward + a.second.backward > b.second.forward + b.second.backward;
  });
  sorted.emplace_back("all", all);
  std::vector<std::vector<std::string>> rows;
  for (const auto& [kind, row] : sorted) {
    const double seconds = row.forward + row.backward;
    rows.push_back({kind, std::to_string(row.layers), std::to_string(row.distinct.size()), milliseconds(row.forward),
                    milliseconds(row.backward), seconds > 0 ? fmt::format("{:.0f} %", 100 * row.spread / seconds) : "",
                    seconds > 0 ? fmt::format("{:.2f}", row.crowded / seconds) : "", format_bytes(row.kept)});
  }
  return fmt::format("{}, {} samples, one worker alone:\n", model.name(), samples) +
         text_table({"layers", "number", "distinct", "forward, ms", "backward, ms", "p10-p90", "crowded", "kept"}, rows,
                    {1, 2, 3, 4, 5, 6, 7});
}

std::string machine_in_words(const Profile& profile) {
  const bool on_gpus = profile.machine.gpus > 0;
  std::string text = fmt::format("{}, {}; a {} computes convolutions at {}FLOP/s\n",
                                 on_gpus ? profile.machine.gpu : profile.machine.cpu,
                                 counted(profile.machine.places(), on_gpus ? "GPU" : "core"), on_gpus ? "GPU" : "core",
                                 format_count(profile.device.flops));
  std::vector<std::vector<std::string>> rows;
  for (const GroupMeasurement& group : profile.links.groups)
    for (const auto& [name, line] : group.lines)
      rows.push_back({std::to_string(group.workers), name, format_seconds(line.latency),
                      format_bytes(int64_t(line.bandwidth)) + "/s", fmt::format("{:.0f} %", 100 * line.worst)});
  text += text_table({"workers", "operation", "latency", "bandwidth", "off by at most"}, rows, {0, 2, 3, 4});
  text += fmt::format(
      "a message to a running worker takes {}, to a sleeping one {}; computing takes {:.2f} times as long during "
      "copying, copying {:.2f} times as long during computing\n",
      format_seconds(profile.links.hand_over), format_seconds(profile.links.wake_up), profile.links.compute_slowdown,
      profile.links.transfer_slowdown);
  for (const UpdateMeasurement& u : profile.updates)
    text += fmt::format("update by {}, {} gradient{}: {:.3g} ns per weight, crowded {:.2f}\n", u.optimizer,
                        u.contributors, u.contributors == 1 ? "" : "s", u.per_element * 1e9, u.crowding);
  return text;
}

std::vector<int> degrees_of(const ProfileOptions& options) {
  const int most = options.experiment.devices.empty() ? kUsualDegrees : options.experiment.devices.front();
  std::vector<int> degrees;
  for (int degree = 1; degree <= most; degree *= 2) degrees.push_back(degree);
  return degrees;
}

/// Adds trial steps to the profile, if it has none of this model and the data are on this machine. Returns a line with
/// their result.
std::string try_steps(const RunSpec& experiment, const Model& model, const TaskData& data, const Profile& profile,
                      const std::filesystem::path& file, const std::vector<int>& devices, Progress& progress) {
  if (profile.step_factors.contains(step_factors_name(experiment, model))) return "trial steps: known before\n";
  if (!has_samples(*data.train)) return "no trial steps: the data are not here\n";
  if (experiment.batch > data.train->size()) return "no trial steps: the batch is larger than the training set\n";
  return in_phase(&progress, "trial steps", [&] {
    Predictions predictions(experiment, model, data, {.cluster = {}, .profile = file, .times = {}});
    const std::atomic<bool> interrupted{false};  // Ctrl-C ends the program
    const std::string line = predictions.try_steps(devices, trial_of_steps(experiment, model, data, interrupted));
    predictions.keep();
    return line + "\n";
  });
}

/// Returns a line about what took longer than the budget; "" if the budget was kept. `trial_seconds`: duration of the
/// trial steps.
std::string over_budget(const ProfileReport& report, const std::string& written, double budget, double trial_seconds) {
  constexpr double kKept = 1.2;
  const double all = report.seconds + trial_seconds;
  if (all <= kKept * budget) return "";
  return fmt::format(
      "it took {} with --budget \"{}\": {} for links and updates, which are always measured, {} for layers, and {} for "
      "trial steps, which do not count\n",
      format_seconds(all), written, format_seconds(report.machine_seconds),
      format_seconds(report.seconds - report.machine_seconds), format_seconds(trial_seconds));
}

}  // namespace

int run_profile(const ProfileOptions& options) {
  RunSpec experiment{options.experiment.read_for_devices()};
  // a batch per device is that of the most devices: sizes of samples are measured up to it
  experiment =
      with_batch_on(std::move(experiment), *std::max_element(experiment.devices.begin(), experiment.devices.end()));
  const std::filesystem::path file =
      options.out.empty() ? std::filesystem::path(experiment.name + ".profile.json") : options.out;
  check_target("--out", file);
  const double budget = parse_time_limit(options.budget, "--budget");
  Progress progress(standard_error_progress());
  const TaskData data = data_to_predict(experiment.data, &progress);
  const Model model = in_phase(&progress, "building the model", [&] { return build_model(experiment, data); });
  const int threads = threads_of(experiment, 1).front();
  check_device(experiment);
  const PlacedDevices placed(0, places_of_run(experiment));
  Profile profile;
  std::error_code ignored;
  if (std::filesystem::exists(file, ignored)) {
    profile = read_profile(file);
    check_same_machine(profile.machine, fingerprint_of_this_machine(threads), file.string());
  }
  const LayerSites sites(model, site_options(experiment));
  const ProfileRequest request{usual_samples(experiment.batch), degrees_of(options), experiment.optimizer, budget,
                               threads};
  if (budget < kShortBudget && lacks_links_or_updates(profile, request, experiment.precision))
    progress.say(
        fmt::format("links and updates are measured first, whatever --budget \"{}\" is: for some seconds on an idle "
                    "machine, longer on a busy one; {} keeps them",
                    options.budget, file.string()));
  const bool shows_progress = ::isatty(STDERR_FILENO) != 0;
  const ProfileReport report = extend_profile(profile, sites, request, [&](const std::string& what) {
    if (shows_progress) std::cerr << fmt::format("\r\033[Kmeasuring {}", what) << std::flush;
  });
  if (shows_progress) std::cerr << "\r\033[K";
  write_profile(profile, file);
  const double trials_begin = steady_seconds();
  const std::string tried = try_steps(experiment, model, data, profile, file, degrees_of(options), progress);
  const double trial_seconds = steady_seconds() - trials_begin;

  std::string text = machine_in_words(profile);
  if (const int64_t samples = largest_complete(profile, sites, request.samples); samples > 0)
    text += layers_in_words(profile, sites, samples);
  text += tried;
  text += fmt::format("{} calls measured in {}, {} known before; written to {}\n", report.measured,
                      format_seconds(report.seconds), report.known, file.string());
  if (!report.skipped.empty())
    text +=
        fmt::format("not measured, because --budget \"{}\" was too short: {}\n", options.budget, join(report.skipped));
  text += over_budget(report, options.budget, budget, trial_seconds);
  std::cout << wrap_lines(text, columns_of_output(STDOUT_FILENO, 0));
  return 0;
}

}  // namespace trireme
