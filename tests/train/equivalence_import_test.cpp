// "Same seed, any plan, same curve" for layers imported from TorchScript: every rule for splitting operators; opaque
// layers under data parallelism and in pipelines.
#include "../model/import/script_modules.h"
#include "equivalence.h"
#include "zoo/imported.h"

namespace trireme::test_support {
namespace {

struct Source {
  const char* name;
  Shape sample;
  const char* forward;
  Shapes parameters;
  Tensors buffers = {};
  std::map<std::string, torch::jit::Module> children = {};
  int64_t vocabulary = 0;
};

/// Sequences of 8 positions with 12 features: operators that move, cut, join and mix them.
const Source kSequence{"sequence",
                       {8, 12},
                       R"(
def forward(self, x: Tensor):
  x = x * self.scale + self.table[:, 0:12]
  moved = torch.roll(x, [3], [1]).permute(0, 2, 1).contiguous().permute(0, 2, 1)
  parts = torch.chunk(moved * torch.sigmoid(x), 2, 2)
  x = torch.cat([parts[1], torch.leaky_relu(parts[0], 0.1)], 2)
  x = torch.layer_norm(x, [12], None, None, 1e-5, True) + torch.flip(x, [2]).cumsum(2)
  scores = torch.softmax(torch.matmul(x, x.transpose(1, 2)) * 0.3 + self.bias, 2)
  mixed = torch.matmul(scores, x).reshape(x.size(0), 8, 3, 4)
  heads = torch.stack([mixed.select(2, 0), mixed.mean(2), mixed.amax(2)], 3).flatten(2)
  wide = torch.where(heads > 0, heads, heads.exp() - 1) / (1 + heads.abs())
  padded = torch.constant_pad_nd(wide, [0, 0, 1, 1], 0.5)[:, 1:9]
  return torch.linear(padded.transpose(1, 2).reshape(x.size(0), 96).tanh(), self.weight).clamp(-3, 3)
)",
                       {{"scale", {12}}, {"bias", {8, 8}}, {"weight", {4, 96}}},
                       {{"table", at::ones({8, 16}, at::kDouble)}}};

/// Images: channel weights, norms with fixed statistics, shuffles without a rule.
const Source kImage{"image",
                    {4, 8, 6},
                    R"(
def forward(self, x: Tensor):
  x = torch.conv2d(x, self.kernel, None, [1], [1])
  x = torch.batch_norm(x, self.gain, self.shift, self.mean, self.variance, False, 0.1, 1e-5, True)
  x = torch.prelu(x, self.slope) + 1
  gate = torch.sigmoid(torch.conv2d(torch.adaptive_avg_pool2d(x, [1, 1]), self.gate))
  x = x * gate * self.layer_scale
  x = torch.pixel_shuffle(x, 2) - 0.2
  x = torch.logcumsumexp(torch.sort(x, 3)[0], 3)
  x = torch.conv2d(x.pow(2) * 0.1, self.last, None, [2])
  return x.permute(0, 2, 3, 1).mean([1, 2])
)",
                    {{"kernel", {8, 4, 3, 3}},
                     {"gain", {8}},
                     {"shift", {8}},
                     {"slope", {8}},
                     {"gate", {8, 8, 1, 1}},
                     {"layer_scale", {8, 1, 1}},
                     {"last", {4, 2, 3, 3}}},
                    {{"mean", at::full({8}, 0.1, at::kDouble)}, {"variance", at::full({8}, 2.0, at::kDouble)}}};

/// Token ids: a table with a row for padding, bags, columns written in place, batch norm of sequences.
Source tokens() {
  const Tensors statistics{{"running_mean", at::zeros({12}, at::kDouble)},
                           {"running_var", at::ones({12}, at::kDouble)}};
  const auto table =
      make_module("def forward(self, x: Tensor):\n  return torch.embedding(self.weight, x, 1, False, False)\n",
                  {{"weight", {kClasses, 12}}}, {}, {}, "Embedding");
  const auto bag = make_module(R"(
def forward(self, x: Tensor):
  offsets = torch.arange(0, x.numel(), x.size(1))
  return torch.embedding_bag(self.weight, x.reshape([-1]), offsets, False, 1, False, None, False, 3)[0]
)",
                               {{"weight", {kClasses, 12}}}, {}, {}, "EmbeddingBag");
  const auto norm = make_module(R"(
def forward(self, x: Tensor):
  return torch.batch_norm(x, self.weight, self.bias, self.running_mean, self.running_var, self.training, 0.1, 1e-5, True)
)",
                                {{"weight", {12}}, {"bias", {12}}}, statistics, {}, "BatchNorm");
  return {"tokens", {8},
          R"(
def forward(self, x: Tensor):
  y = self.embed.forward(x) + self.position
  y[:, 0] = y[:, 1] * 0.5
  y[:, 3:5, 2:4] = 1.0
  y = self.bn.forward(y.transpose(1, 2))
  return torch.linear(torch.tanh(y.mean(2) + self.bag.forward(x)), self.weight)
)",      {{"position", {8, 12}}, {"weight", {kClasses, 12}}},
          {},       {{"embed", table}, {"bag", bag}, {"bn", norm}},
          kClasses};
}

Model imported(const Source& source) {
  const SavedModule file(make_module(source.forward, source.parameters, source.buffers, source.children));
  return import_model(
             file.path,
             {.name = source.name, .sample_shape = source.sample, .classes = kClasses, .vocabulary = source.vocabulary})
      .model;
}

TEST(Imported, EveryDegree) {
  for (const Source& source : {kSequence, kImage, tokens()}) {
    const Model model = imported(source);
    size_t turn = 0;
    for (const char* degrees : {"data=3", "tensor=2", "data=2,tensor=2", "pipeline=2,micro_batches=3",
                                "tensor=2,pipeline=2,micro_batches=3,schedule=zero-bubble", "data=2,sharding=zero3",
                                "tensor=2,recompute=all"})
      expect_equivalent(model, plan_of(degrees, model), recipes()[turn++ % recipes().size()], {});
  }
}

/// All layers with an option of the same name use it together.
TEST(Imported, EveryOption) {
  for (const Source& source : {kSequence, kImage, tokens()})
    for (int degree : {2, 4}) {
      const Model model = imported(source);
      const Plan base = plan_of("tensor=" + std::to_string(degree), model);
      std::map<std::string, Plan> by_option;
      for (NodeId id = model.input_count(); id < NodeId(model.nodes().size()); ++id)
        for (const ShardingOption& option : model.node(id).layer->sharding_options(model.input_shapes(id), degree)) {
          Plan& plan = by_option.try_emplace(option.name, base).first->second;
          plan.name = "all " + option.name;
          plan.layers[size_t(id)].split = option.name;
        }
      EXPECT_GT(by_option.size(), 2u) << "there are splits to try";
      for (auto& [option, plan] : by_option) expect_equivalent(model, plan, recipes()[0], {.batches = {5}});
    }
}

}  // namespace
}  // namespace trireme::test_support
