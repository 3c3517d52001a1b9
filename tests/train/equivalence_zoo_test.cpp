// Small versions of the zoo's larger families, under every kind of plan that fits them.
#include "equivalence.h"
#include "trireme/error.h"
#include "zoo/zoo.h"

namespace trireme::test_support {
namespace {

struct Case {
  std::string name;  ///< of the test
  ModelSpec spec;
};

std::vector<Case> cases() {
  using enum LearningTask;
  const Shape image{3, 16, 16}, pixels{16, 16}, words{6};
  return {
      {"Vgg11", {.name = "vgg11", .sample_shape = {3, 32, 32}, .options = {{"width", 2}, {"hidden", 8}}}},
      {"ResNet50", {.name = "cifar-resnet50", .sample_shape = image, .options = {{"width", 4}, {"batch_norm", 0}}}},
      {"ResNext50", {.name = "resnext50", .sample_shape = image, .options = {{"width", 16}, {"batch_norm", 0}}}},
      {"Densenet121", {.name = "densenet121", .sample_shape = {3, 32, 32}, .options = {{"growth", 2}}}},
      {"VitTiny",
       {.name = "vit-tiny",
        .sample_shape = image,
        .options = {{"layers", 2}, {"width", 8}, {"heads", 4}, {"hidden", 16}, {"patch", 8}, {"probability", 0.1}}}},
      {"Unet",
       {.name = "unet",
        .sample_shape = image,
        .options = {{"width", 4}, {"depth", 2}},
        .task = segmentation,
        .target_shape = pixels}},
      {"UnetOfOddSizes",
       {.name = "unet",
        .sample_shape = {3, 18, 15},
        .options = {{"width", 4}, {"depth", 2}},
        .task = segmentation,
        .target_shape = {18, 15}}},
      {"Segnet",
       {.name = "segnet",
        .sample_shape = {3, 34, 36},
        .options = {{"width", 2}},
        .task = segmentation,
        .target_shape = {34, 36}}},
      {"Gpt2",
       {.name = "gpt2",
        .sample_shape = words,
        .options = {{"layers", 2}, {"width", 8}, {"heads", 4}, {"positions", 8}},
        .task = language,
        .target_shape = words,
        .vocabulary = kClasses}},
      {"Llama",
       {.name = "llama",
        .sample_shape = words,
        .options = {{"layers", 2}, {"width", 16}, {"heads", 4}, {"key_heads", 2}, {"hidden", 12}},
        .task = language,
        .target_shape = words,
        .vocabulary = kClasses}},
      {"Bert",
       {.name = "bert",
        .sample_shape = words,
        .options = {{"layers", 2}, {"width", 8}, {"heads", 4}, {"positions", 8}},
        .vocabulary = kClasses}},
      {"BagOfWords",
       {.name = "bag-of-words", .sample_shape = words, .options = {{"width", 8}}, .vocabulary = kClasses}},
      {"BigLstm",
       {.name = "big-lstm",
        .sample_shape = words,
        .options = {{"hidden", 8}, {"projection", 4}, {"samples", 2}, {"stateful", 0}},
        .task = language,
        .target_shape = words,
        .vocabulary = kClasses}},
      {"Gnmt",
       {.name = "gnmt",
        .sample_shape = {10},
        .options = {{"layers", 4}, {"width", 8}},
        .task = translation,
        .target_shape = {4},
        .vocabulary = kClasses}},
  };
}

class Zoo : public ::testing::TestWithParam<Case> {};

TEST_P(Zoo, EveryKindOfPlan) {
  ModelSpec spec = GetParam().spec;
  spec.classes = kClasses;
  const Model model = make_model(spec);
  const Comparison comparison{.tolerance = 1e-9, .batches = {7, 2}};
  for (const char* degrees : {"data=2", "tensor=2", "pipeline=2,micro_batches=3", "data=2,tensor=2",
                              "pipeline=2,schedule=1f1b,micro_batches=3,recompute=all", "data=2,sharding=zero3"}) {
    SCOPED_TRACE(degrees);
    expect_equivalent(model, plan_of(degrees, model), recipes()[3], comparison);
  }
}

INSTANTIATE_TEST_SUITE_P(Families, Zoo, ::testing::ValuesIn(cases()), [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace trireme::test_support
