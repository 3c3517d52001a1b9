// The measurements of this machine: layers, links between workers, the optimizer's pass, devices. Stored as a JSON
// file.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "profile/fingerprint.h"
#include "runtime/precision.h"
#include "tensor/redistribute.h"
#include "trireme/layer.h"

namespace trireme {

/// Statistics of repeated measurements, in seconds.
struct Spread {
  double median = 0, p10 = 0, p90 = 0;
};
/// Requires at least one value.
Spread spread_of(std::vector<double> seconds);

/// One layer under one option with a given number of samples.
struct LayerMeasurement {
  Spread forward, backward;   ///< one worker alone on the machine, in the fastest of a few passes, at the speed of
                              ///< DeviceMeasurement::core_seconds; `backward` is the whole backward
  double backward_input = 0;  ///< the two parts, for a layer that splits its backward; otherwise `backward` and 0
  double backward_weight = 0;
  double crowding = 1;  ///< seconds while every core or GPU runs the same, over seconds alone
  int runs = 0;
  LayerMemory memory;
};

/// Seconds to move a number of bytes. The line is given by latency and bandwidth. Caches make the measured points
/// deviate from a line, so seconds() interpolates between points, and beyond the last point uses the line through the
/// last two.
struct TransferLine {
  double latency = 0;                                  ///< seconds
  double bandwidth = 0;                                ///< bytes/s; 0: no slope was found
  double worst = 0;                                    ///< largest relative distance of a measured point from the line
  std::vector<std::pair<double, double>> points = {};  ///< (bytes, seconds), both ascending

  double on_line(double bytes) const { return latency + (bandwidth > 0 ? bytes / bandwidth : 0); }
  double seconds(double bytes) const;
};

/// Operations among `workers` threads that all start at once. `lines` has an entry per operation: "all_reduce",
/// "all_gather", "reduce_scatter", "all_to_all", "broadcast" (bytes of the whole tensor), "send" (bytes of the message;
/// from send to the end of receive), and redistribution_line() of the first four (bytes of the whole tensor).
struct GroupMeasurement {
  int workers = 0;
  std::map<std::string, TransferLine> lines;
  double barrier = 0;  ///< seconds
};

/// Name of the line for a layer's tensor that is redistributed within a step: "redistribute all_gather".
std::string redistribution_line(RedistributionKind kind);

struct LinkMeasurement {
  std::vector<GroupMeasurement> groups;  ///< ascending by workers
  double hand_over = 0;  ///< seconds from a send without bytes to the return of a receiver that has just started to
                         ///< wait
  double wake_up = 0;    ///< the same for a receiver that sleeps after a long wait
  double compute_slowdown = 1;   ///< slowdown of a core that computes while another one moves tensors
  double transfer_slowdown = 1;  ///< slowdown of the core that moves them
};

/// One pass that sums the gradients of `contributors` workers and updates a slice of the weights (runtime/optimizer.h).
struct UpdateMeasurement {
  std::string optimizer;  ///< "sgd", "sgd+momentum", "adam", ...
  int contributors = 1;
  double fixed = 0;        ///< seconds per call
  double per_element = 0;  ///< seconds per element, alone on the machine
  double crowding = 1;
};

struct DeviceMeasurement {
  int64_t memory = 0;          ///< bytes per worker, with one worker per core or GPU
  double flops = 0;            ///< FLOP/s of a fixed convolution on one core or GPU
  int64_t library_memory = 0;  ///< bytes that libraries take there for each worker (library_memory_bytes)
  /// The speed of a core that nothing disturbs, at which the seconds of layers and the step factors hold: of a fixed
  /// piece of work (base/devices/core_speed.h). 0: not known, or layers are measured on GPUs.
  double core_seconds = 0;
  /// Bytes per second of memory that nothing disturbs: the fastest of several measurements
  /// (base/devices/memory_speed.h). 0: not known, or layers are measured on GPUs.
  double memory_speed = 0;
};

/// Factors for what whole steps of a model take beyond its layers, from trial steps (forecast/trial_steps.h): caches
/// that other layers filled, the runtime's own work, cores that are not equally fast.
struct StepFactors {
  double seconds = 1;   ///< multiplies the seconds of layers and updates: one worker alone
  double crowding = 1;  ///< multiplies their crowding: several workers at the same time
  double sharing = 1;   ///< multiplies their crowding again: more workers than cores, which take turns
};

struct Profile {
  Fingerprint machine;
  std::map<std::string, std::map<int64_t, LayerMeasurement>> layers;  ///< by LayerSites::key, by samples
  LinkMeasurement links;
  std::vector<UpdateMeasurement> updates;
  DeviceMeasurement device;
  std::map<std::string, StepFactors> step_factors;  ///< by step_factors_name() of what was trained

  const LayerMeasurement* find(const std::string& key, int64_t samples) const;
};

/// Returns "mlp, 1234 weights, bf16".
std::string step_factors_name(const std::string& model, int64_t weights, Precision precision);

/// Throws a user error if the file cannot be read, is not a profile, or has another format version.
Profile read_profile(const std::filesystem::path& file);
void write_profile(const Profile& profile, const std::filesystem::path& file);

nlohmann::json profile_to_json(const Profile& profile);
/// `where` is the file's name in errors.
Profile profile_from_json(const nlohmann::json& json, const std::string& where);

}  // namespace trireme
