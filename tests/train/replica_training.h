// Common base of tests of whole runs under update policies: the tiny task, trained in double.
#pragma once

#include <ATen/ATen.h>

#include <algorithm>
#include <string>

#include "experiment/make_plan.h"
#include "forecast/agreement_plan.h"
#include "support/device_under_test.h"
#include "tiny_training.h"
#include "train/trainer.h"
#include "trireme/cluster.h"

namespace trireme::test_support {

inline ::testing::Environment* const environment = ::testing::AddGlobalTestEnvironment(new DeviceUnderTest);

struct Keeping : TrainObserver {
  void on_step(const StepReport&) override { ++steps; }
  void on_weights(const Weights& trained) override { weights = trained.tensors; }
  int steps = 0;
  TensorMap weights;
};

struct Outcome {
  RunResult row;
  TensorMap weights;
  int steps = 0;
};

inline double largest_difference(const TensorMap& a, const TensorMap& b) {
  EXPECT_FALSE(a.empty());
  EXPECT_EQ(a.size(), b.size());
  double largest = 0;
  for (const auto& [name, tensor] : a) largest = std::max(largest, (tensor - b.at(name)).abs().max().item<double>());
  return largest;
}

/// Described devices for predictions of memory, which do not depend on their speed.
inline Cluster slow_cluster(int devices) {
  DeviceKind kind;
  kind.name = "slow";
  kind.speeds["fp64"] = {.peak_flops = 1e9, .greatest_efficiency = 1, .half_work = 1};
  kind.memory_bandwidth = 1e9;
  Cluster cluster;
  cluster.kinds = {kind};
  cluster.nodes = {ClusterNode{.link = {.bandwidth = 1e8, .latency = 1e-5}}};
  cluster.devices.assign(size_t(devices), Device{.kind = 0});
  return cluster;
}

class Replicas : public TinyTraining {
 protected:
  Replicas() {
    experiment.precision = Precision::fp64;
    experiment.length = {3, Length::Unit::epochs};
    experiment.optimizer.learning_rate = 0.1;
    experiment.optimizer.momentum = 0;
  }

  Outcome run(const std::string& strategy, int workers) {
    Keeping observer;
    const Model model = build_model(experiment, data);
    RunResult row = train(experiment, model, data, plan_with_agreement(strategy, experiment, model, workers), observer,
                          interrupted);
    return {row, observer.weights, observer.steps};
  }
  Outcome single() {
    Keeping observer;
    const Model model = build_model(experiment, data);
    RunResult row = train(experiment, model, data, make_plan("single", experiment, model, 1), observer, interrupted);
    return {row, observer.weights, observer.steps};
  }
  void modelled(double step_seconds) {
    experiment.replicas.clock = ModelledClock{.step_seconds = step_seconds, .link = {}, .server_link = {}};
  }
};

}  // namespace trireme::test_support
