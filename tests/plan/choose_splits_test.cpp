// Compares the choice of splits for a tensor axis with all combinations, under the same nominal costs, computed
// independently.
#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "../base/expect_error.h"
#include "plan/named.h"
#include "trireme/layers/linear.h"
#include "trireme/layers/relu.h"
#include "trireme/layers/softmax_cross_entropy.h"
#include "zoo/zoo.h"

namespace trireme {
namespace {

/// A nominal core: 50 GFLOP/s, 5 GB/s between workers, 20 us per move. Backward takes twice the forward; numbers are
/// floats.
struct Nominal {
  double flops = 50e9, bytes = 5e9, move = 20e-6;
};

double seconds_to_move(const Placement& from, const Placement& to, double n, double elements, const Nominal& nominal) {
  double volume = 0;  // share of the tensor that each worker sends
  if (from == to || from.is_replicate()) return 0;
  if (from.is_partial()) volume = (to.is_shard() ? 1 : 2) * (n - 1) / n;
  else if (to.is_replicate()) volume = (n - 1) / n;
  else volume = (n - 1) / n / n;
  return nominal.move + volume * elements * 4 / nominal.bytes;
}

class AllCombinations {
 public:
  AllCombinations(const Model& model, int degree, double samples) : model_(model), degree_(degree), samples_(samples) {
    for (NodeId id = 0; id < NodeId(model.nodes().size()); ++id)
      options_.push_back(id < model.input_count()
                             ? std::vector<ShardingOption>(1)
                             : model.node(id).layer->sharding_options(model.input_shapes(id), degree));
    for (NodeId id = 0; id < NodeId(model.nodes().size()); ++id)
      flops_.push_back(id < model.input_count() ? 0 : model.node(id).layer->forward_flops(model.input_shapes(id)));
  }

  double cost(const std::vector<const ShardingOption*>& choice) const {
    const Nominal nominal;
    double total = 0;
    for (NodeId id = model_.input_count(); id < NodeId(model_.nodes().size()); ++id) {
      const Node& node = model_.node(id);
      const ShardingOption& option = *choice[size_t(id)];
      total += 3 * flops_[size_t(id)] * samples_ / nominal.flops / (option.divides_work ? degree_ : 1);
      total += 3 * 4 * double(element_count(node.sample_shape)) * samples_ / nominal.bytes /
               (option.output.is_shard() ? degree_ : 1);
      for (size_t i = 0; i < node.inputs.size(); ++i) {
        if (node.inputs[i] < model_.input_count()) continue;
        const Placement given = choice[size_t(node.inputs[i])]->output;
        const double elements = double(element_count(model_.node(node.inputs[i]).sample_shape)) * samples_;
        total += seconds_to_move(given, option.inputs[i], degree_, elements, nominal);
        total += seconds_to_move(option.input_gradients[i], given.is_shard() ? given : Placement::replicate(), degree_,
                                 elements, nominal);
      }
    }
    return total;
  }

  double cost_of(const std::vector<std::string>& names) const {
    std::vector<const ShardingOption*> choice;
    for (size_t id = 0; id < options_.size(); ++id)
      for (const ShardingOption& option : options_[id])
        if (id < size_t(model_.input_count()) || option.name == names[id]) {
          choice.push_back(&option);
          break;
        }
    EXPECT_EQ(choice.size(), options_.size());
    return cost(choice);
  }

  /// The least cost among the choices that shard at least one parameter.
  double best() {
    std::vector<const ShardingOption*> choice;
    best_ = std::numeric_limits<double>::infinity();
    descend(choice);
    return best_;
  }

 private:
  static bool shards_parameters(const std::vector<const ShardingOption*>& choice) {
    for (const ShardingOption* option : choice)
      for (const Placement& placement : option->parameters)
        if (placement.is_shard()) return true;
    return false;
  }

  void descend(std::vector<const ShardingOption*>& choice) {
    if (choice.size() == options_.size()) {
      if (shards_parameters(choice)) best_ = std::min(best_, cost(choice));
      return;
    }
    for (const ShardingOption& option : options_[choice.size()]) {
      choice.push_back(&option);
      descend(choice);
      choice.pop_back();
    }
  }

  const Model& model_;
  double degree_, samples_;
  std::vector<std::vector<ShardingOption>> options_;
  std::vector<double> flops_;
  double best_ = 0;
};

TEST(ChooseSplits, EqualsTryingAllCombinations) {
  for (const char* name : {"mlp", "skip"})
    for (double hidden : {8, 64, 1024})
      for (int degree : {2, 4})
        for (int64_t samples : {1, 64, 4096}) {
          SCOPED_TRACE(std::string(name) + " " + std::to_string(hidden) + " " + std::to_string(degree) + " " +
                       std::to_string(samples));
          const Model model = make_model({name, {8}, 4, {{"hidden", hidden}}});
          AllCombinations all(model, degree, double(samples));
          const double found = all.cost_of(choose_splits(model, degree, samples)), best = all.best();
          EXPECT_NEAR(found, best, 1e-9 * best);
        }
}

/// Shoeybi et al., "Megatron-LM", 2019: first columns, then rows; the values between them stay split.
TEST(ChooseSplits, MegatronsPatternForWideLayers) {
  ModelBuilder b("two linear layers");
  NodeId x = b.input("data", {512}), target = b.input("target", {});
  x = b.layer<Linear>({x}, "up", 512, 4096);
  x = b.layer<Relu>({x}, "relu");
  NodeId logits = b.layer<Linear>({x}, "down", 4096, 512);
  NodeId loss = b.layer<SoftmaxCrossEntropy>({logits, target}, "loss");
  const Model model = b.finish(logits, loss);
  const auto splits = choose_splits(model, 4, 1024);
  EXPECT_EQ(splits[size_t(model.find("up"))], "columns");
  EXPECT_EQ(splits[size_t(model.find("relu"))], "channels");
  EXPECT_EQ(splits[size_t(model.find("down"))], "rows");
}

TEST(ChooseSplits, TiedWeightsAreCutAlike) {
  for (double hidden : {8, 256, 2048}) {
    const Model model = make_model({"tied-mlp", {8}, 4, {{"hidden", hidden}}});
    const auto splits = choose_splits(model, 2, 256);
    EXPECT_EQ(splits[size_t(model.find("shared"))], splits[size_t(model.find("again"))]);
  }
}

TEST(ChooseSplits, DegreeOneReplicates) {
  const Model model = make_model({"mlp", {8}, 4, {}});
  for (const std::string& split : choose_splits(model, 1, 64)) EXPECT_EQ(split, "replicate");
}

/// A split that the user names is used even if the nominal costs are higher: images may be too large for one device.
TEST(ChooseSplits, HeightWhereverRowsDivide) {
  const Model model = make_model({"cifar-resnet18", {3, 24, 24}, 10, {{"width", 8}}});  // rows 24, 12, 6, 3
  for (int degree : {2, 4}) {
    const auto splits = choose_splits(model, degree, 64, "height");
    int by_height = 0;
    for (NodeId id = model.input_count(); id < NodeId(model.nodes().size()); ++id) {
      bool offered = false;
      for (const ShardingOption& option : model.node(id).layer->sharding_options(model.input_shapes(id), degree))
        offered = offered || option.name == "height";
      EXPECT_EQ(splits[size_t(id)] == "height", offered) << model.node(id).name << " over " << degree;
      by_height += offered;
    }
    EXPECT_GT(by_height, 10);
  }
}

TEST(ChooseSplits, SequenceBetweenLayersThatDivideTheirWeights) {
  const Model model = make_model({"transformer-lm", {16}, 32, {{"layers", 2}, {"width", 16}, {"heads", 4}}});
  const auto splits = choose_splits(model, 2, 64, "sequence");
  int attention = 0, norms = 0;
  for (NodeId id = model.input_count(); id < NodeId(model.nodes().size()); ++id) {
    const std::string_view kind = model.node(id).layer->kind();
    if (kind == "layer_norm") {
      EXPECT_EQ(splits[size_t(id)], "sequence") << model.node(id).name;
    }
    if (kind == "attention") {
      EXPECT_EQ(splits[size_t(id)], "heads") << model.node(id).name;
    }
    norms += kind == "layer_norm";
    attention += kind == "attention";
  }
  EXPECT_EQ(attention, 2);
  EXPECT_EQ(norms, 5);
}

TEST(ChooseSplits, ErrorsNameTheDims) {
  const Model images = make_model({"cifar-resnet18", {3, 24, 24}, 10, {{"width", 8}}}),
              mlp = make_model({"mlp", {6}, 4, {}});
  expect_error(Blame::user, {"split=height", "tensor degree of 5", "the heights are 24, 12, 6, 3"},
               [&] { named_plan("tensor=5,split=height", images, Cluster::uniform(5), 64, {}); });
  expect_error(Blame::user, {"split=height", "mlp has no images"},
               [&] { named_plan("tensor=2,split=height", mlp, Cluster::uniform(2), 64, {}); });
}

}  // namespace
}  // namespace trireme
