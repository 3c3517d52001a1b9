#include "forecast/projection.h"

#include <fmt/format.h>

#include <algorithm>

#include "plan/strategies.h"
#include "schedule/kinds.h"

namespace trireme {
namespace {

std::string tensor_split(int data, int degree) { return fmt::format("data={},tensor={}", data, degree); }
std::string pipeline_split(int data, int degree) {
  return fmt::format("data={},pipeline={},schedule={}", data, degree, lean_schedule().name);
}

/// Strategies that place the layers of one replica.
std::vector<std::string> strategies_of_replicas() {
  std::vector<std::string> names = strategies_of_own_rule();
  names.push_back(kPlacement.name);
  return names;
}

class Projector {
 public:
  Projector(const ProjectionRequest& request, const EpochsToTarget& epochs, const StepPrediction& step_seconds)
      : request_(request), epochs_(epochs), step_seconds_(step_seconds) {}

  ProjectedRow row(int devices) const {
    ProjectedRow row{devices, data_parallel(devices), std::nullopt};
    for (int degree : request_.model_degrees) {
      if (degree < 2 || devices % degree != 0) continue;
      for (const auto split : {tensor_split, pipeline_split})
        keep_better(plan(split(devices / degree, degree), devices, degree), row.hybrid);
      for (const std::string& strategy : strategies_of_replicas())
        keep_better(plan(strategy, devices, degree), row.hybrid);
    }
    return row;
  }

 private:
  int64_t batch_of(int devices, int degree) const {
    switch (request_.batch_is) {
      case ProjectionRequest::BatchIs::per_worker: return request_.batch * (devices / degree);
      case ProjectionRequest::BatchIs::per_device: return request_.batch * devices;
      case ProjectionRequest::BatchIs::global: break;
    }
    return request_.batch;
  }

  Projected completed(Projected p) const {
    p.steps_per_epoch = double(request_.epoch_samples) / double(p.batch);
    p.epochs = epochs_.at(double(p.batch));
    return p;
  }

  std::optional<Projected> plan(const std::string& strategy, int devices, int degree) const {
    const int64_t batch = batch_of(devices, degree);
    if (batch < devices / degree) return std::nullopt;
    const std::optional<PredictedStep> step = step_seconds_(strategy, devices, batch, degree);
    if (!step || !step->fits) return std::nullopt;
    return completed({.strategy = strategy,
                      .devices = devices,
                      .model_degree = degree,
                      .batch = batch,
                      .step_seconds = step->seconds});
  }

  std::optional<Projected> data_parallel(int devices) const {
    return plan(fmt::format("data={}", devices), devices, 1);
  }

  static void keep_better(const std::optional<Projected>& candidate, std::optional<Projected>& best) {
    if (!candidate) return;
    // Compares seconds to the target. If the epochs are known for one only, that one is better. If they are unknown for
    // both, compares seconds per epoch.
    const auto is_better = [](const Projected& a, const Projected& b) {
      if (a.seconds() && b.seconds()) return *a.seconds() < *b.seconds();
      if (a.seconds() || b.seconds()) return a.seconds().has_value();
      return a.step_seconds * a.steps_per_epoch < b.step_seconds * b.steps_per_epoch;
    };
    if (!best || is_better(*candidate, *best)) best = candidate;
  }

  const ProjectionRequest& request_;
  const EpochsToTarget& epochs_;
  const StepPrediction& step_seconds_;
};

const Projected* fastest(const std::vector<ProjectedRow>& rows, std::optional<Projected> ProjectedRow::*which) {
  const Projected* best = nullptr;
  for (const ProjectedRow& row : rows) {
    const std::optional<Projected>& p = row.*which;
    if (p && p->seconds() && (!best || *p->seconds() < *best->seconds())) best = &*p;
  }
  return best;
}

}  // namespace

bool is_of_replica(const std::string& strategy) {
  const std::vector<std::string> known = strategies_of_replicas();
  return std::find(known.begin(), known.end(), strategy) != known.end();
}

std::string name_of_split(const std::string& strategy, int devices, int model_degree) {
  if (!is_of_replica(strategy) || devices == model_degree) return strategy;
  return fmt::format("{} {} x data {}", strategy, model_degree, devices / model_degree);
}

std::optional<double> Projected::seconds() const {
  if (!epochs.value) return std::nullopt;
  return TrainingTime{step_seconds, steps_per_epoch, *epochs.value}.seconds();
}

std::vector<ProjectedRow> project(const ProjectionRequest& request, const EpochsToTarget& epochs,
                                  const StepPrediction& step_seconds) {
  const Projector projector(request, epochs, step_seconds);
  std::vector<ProjectedRow> rows;
  for (int devices : request.devices) rows.push_back(projector.row(devices));
  return rows;
}

namespace {

bool hybrid_is_faster(const ProjectedRow& row) {
  if (!row.hybrid || !row.hybrid->seconds()) return false;
  return !row.data || !row.data->seconds() || *row.hybrid->seconds() < *row.data->seconds();
}

}  // namespace

const ProjectedRow* crossover_of(const std::vector<ProjectedRow>& rows) {
  const auto found = std::find_if(rows.begin(), rows.end(), hybrid_is_faster);
  return found == rows.end() ? nullptr : &*found;
}

std::vector<int> data_faster_again(const std::vector<ProjectedRow>& rows) {
  std::vector<int> devices;
  for (auto row = std::find_if(rows.begin(), rows.end(), hybrid_is_faster); row != rows.end(); ++row)
    if (!hybrid_is_faster(*row) && row->data && row->data->seconds()) devices.push_back(row->devices);
  return devices;
}

const Projected* fastest_data(const std::vector<ProjectedRow>& rows) { return fastest(rows, &ProjectedRow::data); }
const Projected* fastest_hybrid(const std::vector<ProjectedRow>& rows) { return fastest(rows, &ProjectedRow::hybrid); }

std::vector<int> doubling_devices(int first, int last) {
  std::vector<int> devices;
  for (int64_t n = first; n < last; n *= 2) devices.push_back(int(n));
  devices.push_back(last);
  return devices;
}

}  // namespace trireme
