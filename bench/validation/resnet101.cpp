#include "validation/resnet101.h"

#include <fmt/format.h>

#include <iterator>
#include <numeric>
#include <string>

#include "trireme/error.h"
#include "zoo/zoo.h"

namespace trireme::validation {
namespace {

constexpr int kStem = 4, kPerBlock = 11, kFirstRelu = 4, kHead = 3;  // modules
constexpr int kBlocks[] = {3, 4, 23, 3};

/// The last layer of the zoo's model among the first `modules` modules; in the zoo's model a norm includes its ReLU.
NodeId last_of(const Model& model, int modules) {
  const int within = (modules - kStem) % kPerBlock;
  int block = (modules - kStem) / kPerBlock, stage = 0;
  for (; block >= kBlocks[stage]; ++stage) block -= kBlocks[stage];
  const std::string name = fmt::format("layer{}.{}.", stage + 1, block);
  check_internal(within == 0 || within == kFirstRelu,
                 "a cut of ResNet-101 lies between two blocks or behind a block's first ReLU");
  return within == 0 ? model.find(name + "conv1") - 1 : model.find(name + "bn1");
}

}  // namespace

Model resnet101(int64_t side, int64_t classes) {
  ModelSpec spec;
  spec.name = "resnet101";
  spec.sample_shape = {3, side, side};
  spec.classes = classes;
  return make_model(spec);
}

Plan resnet101_pipeline(const Setting& setting, int chunks, const std::vector<int>& balance) {
  const int all = std::accumulate(balance.begin(), balance.end(), 0);
  const int blocks = std::accumulate(std::begin(kBlocks), std::end(kBlocks), 0);
  check_internal(all == kStem + kPerBlock * blocks + kHead, "the balance has every module");
  Plan plan = balanced_plan(setting, {.micro_batches = chunks}, "gpipe");
  plan.devices = int(balance.size());
  plan.stages.assign(balance.size(), {});
  NodeId id = 0;
  int modules = 0;
  for (int stage = 0; stage < plan.devices; ++stage) {
    plan.stages[size_t(stage)] = {stage};
    modules += balance[size_t(stage)];
    const NodeId last = modules == all ? NodeId(plan.layers.size()) - 1 : last_of(setting.model, modules);
    for (; id <= last; ++id) plan.layers[size_t(id)].stage = stage;
  }
  recompute_stages(/*last=*/false, plan);
  return plan;
}

}  // namespace trireme::validation
