#include "validation/resnet101.h"

#include "base/error.h"
#include "zoo/zoo.h"

namespace trireme::validation {

Model resnet101(int64_t side, int64_t classes) {
  ModelSpec spec;
  spec.name = "resnet101";
  spec.sample_shape = {3, side, side};
  spec.classes = classes;
  return make_model(spec);
}

Plan resnet101_pipeline(const Setting& setting) {
  constexpr int kChunks = 4;
  const NodeId last = setting.model.find("layer3.5.bn1");  // with its ReLU
  check_internal(last > 0, "ResNet-101 has a 13th block");
  Plan plan = balanced_plan(setting, {.micro_batches = kChunks}, "gpipe");
  plan.devices = 2;
  plan.stages = {{0}, {1}};
  for (NodeId id = 0; id < NodeId(plan.layers.size()); ++id) plan.layers[size_t(id)].stage = id > last ? 1 : 0;
  recompute_stages(/*last=*/false, plan);
  return plan;
}

}  // namespace trireme::validation
