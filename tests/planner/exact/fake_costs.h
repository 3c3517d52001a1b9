// Random costs, models and clusters from a seed, for tests that compare with brute force.
#pragma once

#include <fmt/format.h>

#include <array>
#include <random>
#include <string>
#include <vector>

#include "cost/layer_costs.h"
#include "planner/exact/request.h"
#include "trireme/layers/add.h"
#include "trireme/layers/layer_norm.h"
#include "trireme/layers/linear.h"
#include "trireme/layers/relu.h"
#include "trireme/layers/softmax_cross_entropy.h"

namespace trireme {

using Random = std::mt19937_64;

/// A number from 0 to 1 that depends on the seed and `a`, `b` only.
inline double hashed(uint64_t seed, uint64_t a, uint64_t b) {
  Random random(seed * 0x9E3779B97F4A7C15ull + a * 1000003 + b);
  random();
  return double(random() % 10000) / 10000;
}

/// Gives each layer its own class: a request's layer_classes if the costs of equal layers differ.
inline std::vector<int> each_its_own(const Model& model) {
  std::vector<int> classes(model.nodes().size());
  for (size_t i = 0; i < classes.size(); ++i) classes[i] = int(i);
  return classes;
}

/// Every layer, or class of layers, has its own seconds per sample and its own bytes. The seconds are divided by the
/// tensor degree if the option divides work.
class FakeCosts : public LayerCosts {
 public:
  /// `classes`: by node; layers of one class cost the same. Empty: each layer is its own class.
  FakeCosts(const Model& model, uint64_t seed, double launch = 1e-4, std::vector<int> classes = {})
      : model_(model),
        seed_(seed),
        launch_(launch),
        classes_(classes.empty() ? each_its_own(model) : std::move(classes)) {}

  LayerCost seconds(NodeId node, const ShardingOption& option, int tensor, int64_t samples,
                    int kind = -1) const override {
    const double work =
        unit(node, 1) * 1e-3 * double(samples) / (option.divides_work ? tensor : 1) * (kind == 1 ? 3 : 1);
    LayerCost cost{.forward = launch_ + work, .backward = launch_ + 2 * work};
    const bool splits = model_.node(node).layer->splits_backward();
    cost.backward_input = splits ? launch_ + work : cost.backward;
    cost.backward_weight = splits ? work : 0;
    cost.crowding = 1.25;
    return cost;
  }

  LayerMemory memory(NodeId node, const ShardingOption& option, int tensor, int64_t samples) const override {
    LayerMemory memory;
    const int64_t values = element_count(model_.node(node).sample_shape) * samples * 4;
    memory.output = option.output.is_shard() ? values / tensor : values;
    memory.saved = int64_t(unit(node, 2) * double(memory.output));
    const size_t inputs = model_.node(node).inputs.size();
    for (size_t i = 0; i < inputs; ++i) memory.keeps_input.push_back(unit(node, 10 + i) < 0.5);
    memory.input_gradients.assign(inputs, 0);
    memory.keeps_output = unit(node, 3) < 0.3;
    memory.forward_workspace = int64_t(unit(node, 4) * double(memory.output));
    memory.backward_workspace = 2 * memory.forward_workspace;
    return memory;
  }

  double update_seconds(int64_t elements, int, int = -1) const override {
    return seconds_per_update * double(elements);
  }

  double seconds_per_update = 1e-6;  ///< per element

 private:
  double unit(NodeId node, uint64_t what) const { return hashed(seed_, uint64_t(classes_[size_t(node)]), what); }

  const Model& model_;
  const uint64_t seed_;
  const double launch_;
  const std::vector<int> classes_;
};

/// A model of `layers` layers with the loss: linear layers, ReLUs, norms, and with `branches` sums of two earlier
/// values. With `ties`, two linear layers may share their weight.
inline Model random_model(Random& random, int layers, int64_t width, bool branches, bool ties) {
  ModelBuilder b("random");
  std::vector<NodeId> values{b.input("data", {width})};
  const NodeId target = b.input("target", {});
  bool tied = false;
  for (int l = 0; l + 1 < layers; ++l) {
    const std::string name = fmt::format("block.{}.layer{}", l / 3, l);
    const NodeId last = values.back();
    const NodeId source = branches && random() % 3 == 0 ? values[random() % values.size()] : last;
    const uint64_t what = random() % 10;
    if (branches && l > 0 && what < 3) {
      values.push_back(b.layer<Add>({last, values[random() % values.size()]}, name));
    } else if (what < 7) {
      LinearOptions options{.bias = random() % 2 == 0};
      if (ties && random() % 2 == 0) options.weight_name = "shared";
      tied = tied || options.weight_name == "shared";
      values.push_back(b.layer<Linear>({source}, name, width, width, options));
    } else if (what < 9) {
      values.push_back(b.layer<Relu>({source}, name));
    } else {
      values.push_back(b.layer<LayerNorm>({source}, name, width));
    }
  }
  const NodeId logits = values.back();
  return b.finish(logits, b.layer<SoftmaxCrossEntropy>({logits, target}, "loss"));
}

inline Cluster random_cluster(Random& random, int devices) {
  Cluster cluster = Cluster::uniform(devices);
  const int per_node = random() % 2 == 0 ? devices : 1 + int(random() % uint64_t(devices));
  for (int i = 0; i < devices; ++i) cluster.devices[size_t(i)].node = i / per_node;
  const auto bandwidth = [&] { return std::pow(10.0, 3.5 + double(random() % 40) / 10); };
  const Link link{bandwidth(), double(random() % 3) * 1e-4, random() % 3 == 0};
  cluster.nodes.assign(size_t((devices + per_node - 1) / per_node), ClusterNode{link, 1.0 + double(random() % 3), ""});
  cluster.network = {link.bandwidth / double(1 + random() % 10), 2e-4, false};
  cluster.overlap = std::array{Overlap::nothing, Overlap::sums, Overlap::messages, Overlap::all}[random() % 4];
  if (random() % 4 == 0) cluster.transfer_slowdown = 1.2, cluster.compute_slowdown = 1.1;
  return cluster;
}

}  // namespace trireme
