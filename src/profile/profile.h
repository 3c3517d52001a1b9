// What was measured on this machine: layers, links between workers, the optimizer's pass, devices. A JSON file.
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
#include "trireme/layer_facts.h"

namespace trireme {

/// Seconds of repeated measurements.
struct Spread {
  double median = 0, p10 = 0, p90 = 0;
};
/// Of at least one value.
Spread spread_of(std::vector<double> seconds);

/// One layer under one option with some number of samples.
struct LayerMeasurement {
  Spread forward, backward;   ///< one worker alone on the machine, in the fastest of a few passes; backward: whole
  double backward_input = 0;  ///< the two parts of a layer that splits its backward; else `backward` and 0
  double backward_weight = 0;
  double crowding = 1;  ///< seconds while every core runs the same / alone
  int runs = 0;
  LayerMemory memory;
};

/// Seconds of moving some bytes. A line says latency and bandwidth in two numbers; caches bend what was measured, so
/// seconds() goes from point to point and beyond the last on the line through the last two.
struct TransferLine {
  double latency = 0;                                  ///< seconds
  double bandwidth = 0;                                ///< bytes/s; 0: no slope was seen
  double worst = 0;                                    ///< greatest relative distance of a measured point from the line
  std::vector<std::pair<double, double>> points = {};  ///< (bytes, seconds), both ascending

  double on_line(double bytes) const { return latency + (bandwidth > 0 ? bytes / bandwidth : 0); }
  double seconds(double bytes) const;
};

/// Operations among `workers` threads that all come at once. `lines`: by operation, "all_reduce", "all_gather",
/// "reduce_scatter", "all_to_all", "broadcast" (bytes of the whole tensor), "send" (bytes of the message, from send to
/// the end of receive), and redistribution_line of the first four (bytes of the whole tensor).
struct GroupMeasurement {
  int workers = 0;
  std::map<std::string, TransferLine> lines;
  double barrier = 0;  ///< seconds
};

/// The line of a layer's tensor that is redistributed in the middle of a step: "redistribute all_gather".
std::string redistribution_line(RedistributionKind kind);

struct LinkMeasurement {
  std::vector<GroupMeasurement> groups;  ///< ascending workers
  double hand_over = 0;  ///< seconds from a send without bytes to the return of a receiver that has just begun to wait
  double wake_up = 0;    ///< likewise of a receiver that sleeps because it has waited for long
  double compute_slowdown = 1;   ///< of a core that computes while another one moves tensors
  double transfer_slowdown = 1;  ///< of the one that moves them
};

/// One pass that sums the gradients of so many workers and updates a slice of the weights (runtime/optimizer.h).
struct UpdateMeasurement {
  std::string optimizer;  ///< "sgd", "sgd+momentum", "adam", ...
  int contributors = 1;
  double fixed = 0;        ///< seconds of a call
  double per_element = 0;  ///< seconds, alone on the machine
  double crowding = 1;
};

struct DeviceMeasurement {
  int64_t memory = 0;  ///< bytes for a worker, if all cores have one
  double flops = 0;    ///< FLOP/s of a fixed convolution on one core
};

/// By what factor whole steps took longer than was predicted from what was measured: median over the rows of a
/// comparison.
struct Refit {
  double factor = 1;
  int rows = 0;
};

struct Profile {
  Fingerprint machine;
  std::map<std::string, std::map<int64_t, LayerMeasurement>> layers;  ///< by LayerSites::key, by samples
  LinkMeasurement links;
  std::vector<UpdateMeasurement> updates;
  DeviceMeasurement device;
  std::map<std::string, Refit> refits;  ///< by what trained, refit_name

  const LayerMeasurement* find(const std::string& key, int64_t samples) const;
};

std::string refit_name(const std::string& model, Precision precision);

/// `ratios`: measured over predicted seconds of steps, predicted with `before`. At least one.
Refit refitted(const Refit& before, std::vector<double> ratios);

/// Errors (user): the file cannot be read, is no profile, or one of another format version.
Profile read_profile(const std::filesystem::path& file);
void write_profile(const Profile& profile, const std::filesystem::path& file);

nlohmann::json profile_to_json(const Profile& profile);
/// `where` names the file in errors.
Profile profile_from_json(const nlohmann::json& json, const std::string& where);

}  // namespace trireme
