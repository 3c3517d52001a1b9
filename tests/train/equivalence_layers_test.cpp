// Layers that the other equivalence tests do not cover, under every kind of plan: a translator (slices of integer
// tokens, reversed and projecting LSTMs, additive and fused attention, two losses as one) and a segmentation network
// (indices of maxima with their values, unpooling, transposed convolutions).
#include <map>

#include "equivalence.h"
#include "trireme/error.h"
#include "trireme/layers/activation.h"
#include "trireme/layers/add.h"
#include "trireme/layers/additive_attention.h"
#include "trireme/layers/attention.h"
#include "trireme/layers/concat.h"
#include "trireme/layers/conv2d.h"
#include "trireme/layers/conv_transpose2d.h"
#include "trireme/layers/embedding.h"
#include "trireme/layers/linear.h"
#include "trireme/layers/lstm.h"
#include "trireme/layers/max_pool2d.h"
#include "trireme/layers/max_pool_indices.h"
#include "trireme/layers/max_unpool2d.h"
#include "trireme/layers/pixel_cross_entropy.h"
#include "trireme/layers/position_embedding.h"
#include "trireme/layers/relu.h"
#include "trireme/layers/sampled_softmax.h"
#include "trireme/layers/slice.h"
#include "trireme/layers/softmax_cross_entropy.h"
#include "trireme/layers/upsample2d.h"
#include "trireme/layers/weighted_sum.h"

namespace trireme::test_support {
namespace {

Model translator() {
  constexpr int64_t kSource = 4, kTarget = 4, kWidth = 8;
  ModelBuilder b("translator");
  const NodeId data = b.input("data", {kSource + kTarget}), target = b.input("target", {kTarget});
  const NodeId source = b.layer<Slice>({data}, "source", SliceOptions{.begin = 0, .end = kSource});
  const NodeId words = b.layer<Slice>({data}, "words", SliceOptions{.begin = kSource, .end = kSource + kTarget});
  NodeId x = b.layer<Embedding>({source}, "encoder.embed", kClasses, kWidth);
  const NodeId forward = b.layer<Lstm>({x}, "encoder.0", kWidth, 4, LstmOptions{.module = "encoder.rnn"});
  const NodeId backward = b.layer<Lstm>({x, source}, "encoder.1", kWidth, 4,
                                        LstmOptions{.module = "encoder.rnn", .padding = true, .reverse = true});
  const NodeId memory = b.layer<Concat>({forward, backward}, "encoder.concat", 2);

  x = b.layer<Embedding>({words}, "decoder.embed", kClasses, kWidth);
  x = b.layer<PositionEmbedding>({x}, "decoder.position", kTarget + 2, kWidth);
  NodeId fused =
      b.layer<Linear>({x}, "decoder.attention.c_attn", kWidth, kWidth, LinearOptions{.parts = 3, .transposed = true});
  fused = b.layer<Attention>({fused, words}, "decoder.attention",
                             AttentionOptions{.heads = 4, .causal = true, .fused = true, .padding = true});
  x = b.layer<Add>({x, fused}, "decoder.add");
  const NodeId state = b.layer<Lstm>({x}, "decoder.0", kWidth, kWidth, LstmOptions{.projection = 4});
  const NodeId context =
      b.layer<AdditiveAttention>({state, memory, source}, "decoder.context",
                                 AdditiveAttentionOptions{.query_width = 4, .memory_width = kWidth, .units = 6});
  x = b.layer<Concat>({state, context}, "decoder.concat", 2);
  const NodeId logits = b.layer<Linear>({x}, "decoder.classifier", 12, 8);
  const NodeId main = b.layer<SoftmaxCrossEntropy>(
      {logits, target}, "main",
      SoftmaxCrossEntropyOptions{
          .ignore_index = 0, .label_smoothing = 0.1, .mean = SoftmaxCrossEntropyOptions::Mean::all_positions});
  const NodeId auxiliary = b.layer<SampledSoftmax>({state, target}, "auxiliary",
                                                   SampledSoftmaxOptions{.width = 4, .classes = 8, .samples = 3});
  const NodeId loss = b.layer<WeightedSum>({main, auxiliary}, "loss", std::vector{1.0, 0.4}, std::vector{1.0, 0.0});
  return b.finish(logits, loss);
}

Model segmenter() {
  ModelBuilder b("segmenter");
  NodeId x = b.input("data", {3, 16, 8});
  const NodeId target = b.input("target", {16, 8});
  x = b.layer<Conv2d>({x}, "down.0", Conv2dOptions{.in = 3, .out = 8, .kernel = {1, 3}, .padding = {0, 1}});
  x = b.layer<Conv2d>({x}, "down.1",
                      Conv2dOptions{.in = 8, .out = 8, .kernel = {5, 1}, .padding = {4, 0}, .dilation = {2, 1}});
  const NodeId wide = b.layer<Activation>({x}, "down.silu", Function::silu);
  const NodeId where = b.layer<MaxPoolIndices>({wide}, "down.where", 2);
  const NodeId pooled = b.layer<MaxPool2d>({wide}, "down.pool");
  x = b.layer<Conv2d>({pooled}, "middle.depthwise",
                      Conv2dOptions{.in = 8, .out = 8, .kernel = 3, .padding = 1, .groups = 8});
  x = b.layer<Conv2d>({x}, "middle.conv", Conv2dOptions{.in = 8, .out = 8, .kernel = 3, .stride = 2, .padding = 1});
  x = b.layer<Relu>({x}, "middle.relu");
  x = b.layer<ConvTranspose2d>({x}, "up.0", ConvTranspose2dOptions{.in = 8, .out = 8});
  const NodeId unpooled = b.layer<MaxUnpool2d>({x, where}, "up.unpool");
  const NodeId smooth = b.layer<Upsample2d>({pooled}, "up.smooth", Upsample2dOptions{.mode = Interpolation::bilinear});
  const NodeId rough = b.layer<Upsample2d>({x}, "up.rough");
  x = b.layer<Concat>({unpooled, smooth, rough}, "up.concat");
  const NodeId logits = b.layer<Conv2d>({x}, "classifier", Conv2dOptions{.in = 24, .out = kClasses, .kernel = 1});
  const NodeId loss = b.layer<PixelCrossEntropy>({logits, target}, "loss");
  return b.finish(logits, loss);
}

TEST(Layers, EveryDegree) {
  for (const Model& model : {translator(), segmenter()}) {
    size_t turn = 0;
    for (const char* degrees :
         {"data=1,micro_batches=3", "data=3", "tensor=2", "data=2,tensor=2", "pipeline=2,micro_batches=3",
          "pipeline=3,micro_batches=4,schedule=1f1b", "tensor=2,pipeline=2,micro_batches=3,schedule=zero-bubble",
          "pipeline=4,micro_batches=2", "pipeline=2,chunks=2,schedule=interleaved,micro_batches=4",
          "data=2,sharding=zero1", "data=2,sharding=zero3", "pipeline=2,micro_batches=2,data=2,sharding=zero3",
          "tensor=2,recompute=all", "data=2,pipeline=2,micro_batches=3,schedule=1f1b,recompute=except_last"})
      expect_equivalent(model, plan_of(degrees, model), recipes()[turn++ % recipes().size()], {});
  }
}

/// Every sharding option of every layer: all layers with an option of the same name use it together.
TEST(Layers, EveryOption) {
  for (const Model& model : {translator(), segmenter()})
    for (int degree : {2, 4}) {
      const Plan base = plan_of("tensor=" + std::to_string(degree), model);
      std::map<std::string, Plan> by_option;
      for (NodeId id = model.input_count(); id < NodeId(model.nodes().size()); ++id)
        for (const ShardingOption& option : model.node(id).layer->sharding_options(model.input_shapes(id), degree)) {
          Plan& plan = by_option.try_emplace(option.name, base).first->second;
          plan.name = "all " + option.name;
          plan.layers[size_t(id)].split = option.name;
        }
      for (auto& [option, plan] : by_option) expect_equivalent(model, plan, recipes()[0], {.batches = {5}});
    }
}

TEST(Layers, BranchesOnWorkersOfTheirOwn) {
  for (const Model& model : {translator(), segmenter()})
    expect_equivalent(model, named_plan("branches", model, Cluster::uniform(2), kBatch, {}), recipes()[1], {});
}

}  // namespace
}  // namespace trireme::test_support
