#include "zoo/zoo.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "zoo/builders.h"

namespace trireme {
namespace {

// beyond these an option is a slip, and products of sizes might leave int64
constexpr double kLargestSize = 1 << 24, kMostLayers = 10000;

template <int depth, bool small_images = false, int groups = 1, int group_width = 64>
Model make_resnet_of(const ModelSpec& spec, const ModelOptions& options) {
  return make_resnet(spec, options, {depth, small_images, groups, group_width});
}
template <int depth, bool batch_norm = false>
Model make_vgg_of(const ModelSpec& spec, const ModelOptions& options) {
  return make_vgg(spec, options, depth, batch_norm);
}

/// What a model is for, and what it reads.
struct Use {
  std::vector<LearningTask> tasks = {LearningTask::classification, LearningTask::regression};
  bool tokens = false;
};

struct Entry {
  const char* name;
  Model (*make)(const ModelSpec&, const ModelOptions&);
  ModelOptions defaults;
  Use use = {};
};

const std::vector<Entry>& entries() {
  static const Use kLanguage{{LearningTask::language}, /*tokens=*/true};
  static const Use kSegmentation{{LearningTask::segmentation}};
  static const Use kSentences{{LearningTask::classification, LearningTask::regression}, /*tokens=*/true};
  static const Use kTranslation{{LearningTask::translation}, /*tokens=*/true};
  static const ModelOptions kResNet{{"batch_norm", 1}, {"width", 64}};
  static const ModelOptions kVgg{{"width", 64}, {"hidden", 4096}, {"probability", 0.5}};
  static const std::vector<Entry> all{
      {"mlp", make_mlp, {{"hidden", 256}, {"depth", 2}}},
      {"mnist-convnet", make_mnist_convnet, {}},
      {"cifar-resnet18", make_resnet_of<18, true>, kResNet},
      {"cifar-resnet34", make_resnet_of<34, true>, kResNet},
      {"cifar-resnet50", make_resnet_of<50, true>, kResNet},
      {"cifar-resnet101", make_resnet_of<101, true>, kResNet},
      {"resnet18", make_resnet_of<18>, kResNet},
      {"resnet34", make_resnet_of<34>, kResNet},
      {"resnet50", make_resnet_of<50>, kResNet},
      {"resnet101", make_resnet_of<101>, kResNet},
      {"resnext50", make_resnet_of<50, false, 32, 4>, kResNet},
      {"vgg11", make_vgg_of<11>, kVgg},
      {"vgg13", make_vgg_of<13>, kVgg},
      {"vgg16", make_vgg_of<16>, kVgg},
      {"vgg19", make_vgg_of<19>, kVgg},
      {"vgg11-bn", make_vgg_of<11, true>, kVgg},
      {"vgg13-bn", make_vgg_of<13, true>, kVgg},
      {"vgg16-bn", make_vgg_of<16, true>, kVgg},
      {"vgg19-bn", make_vgg_of<19, true>, kVgg},
      {"densenet121", make_densenet121, {{"growth", 32}, {"probability", 0}}},
      {"inception-v3", make_inception_v3, {{"auxiliary", 1}, {"probability", 0.5}}},
      {"vit-b16", make_vision_transformer,
       {{"layers", 12}, {"width", 768}, {"heads", 12}, {"hidden", 3072}, {"patch", 16}, {"probability", 0}}},
      {"vit-tiny", make_vision_transformer,
       {{"layers", 12}, {"width", 192}, {"heads", 3}, {"hidden", 768}, {"patch", 16}, {"probability", 0}}},
      {"unet", make_unet, {{"width", 64}, {"depth", 4}}, kSegmentation},
      {"segnet", make_segnet, {{"width", 64}}, kSegmentation},
      {"skip", make_skip, {{"hidden", 32}}},
      {"dropout-mlp", make_dropout_mlp, {{"hidden", 64}, {"probability", 0.5}}},
      {"tied-mlp", make_tied_mlp, {{"hidden", 32}}},
      {"inception", make_inception, {{"batch_norm", 1}, {"width", 64}}},
      {"lstm-lm", make_lstm_lm, {{"layers", 2}, {"width", 200}, {"probability", 0}, {"stateful", 1}}, kLanguage},
      {"transformer-lm", make_transformer_lm,
       {{"layers", 4}, {"width", 128}, {"heads", 4}, {"probability", 0}, {"tied", 1}}, kLanguage},
      {"gpt2", make_gpt2, {{"layers", 12}, {"width", 768}, {"heads", 12}, {"positions", 1024}, {"probability", 0.1}}, kLanguage},
      {"big-lstm", make_big_lstm,
       {{"layers", 2}, {"hidden", 8192}, {"projection", 1024}, {"samples", 8192}, {"probability", 0.1}, {"stateful", 1}}, kLanguage},
      {"bag-of-words", make_bag_of_words, {{"width", 100}}, kSentences},
      {"bert", make_bert, {{"layers", 12}, {"width", 768}, {"heads", 12}, {"positions", 512}, {"probability", 0.1}}, kSentences},
      {"gnmt", make_gnmt, {{"layers", 8}, {"width", 1024}, {"probability", 0.2}}, kTranslation},
      {"transformer-classifier", make_transformer_classifier,
       {{"layers", 4}, {"width", 64}, {"heads", 4}, {"patch", 4}, {"probability", 0}}},
  };
  return all;
}

const Entry& entry(const std::string& name) {
  for (const Entry& e : entries())
    if (name == e.name) return e;
  fail_user({.where = "model", .what = fmt::format("\"{}\"", name), .why = "there is no model of that name",
             .next = fmt::format("known models: {}", fmt::join(model_names(), ", "))});
}

}  // namespace

std::vector<std::string> model_names() {
  std::vector<std::string> names;
  for (const Entry& e : entries()) names.emplace_back(e.name);
  return names;
}

std::map<std::string, double> model_options(const std::string& name) { return entry(name).defaults; }

bool reads_tokens(const std::string& name) { return entry(name).use.tokens; }

bool does(const std::string& name, LearningTask task, bool tokens) {
  const Use& use = entry(name).use;
  return use.tokens == tokens && std::find(use.tasks.begin(), use.tasks.end(), task) != use.tasks.end();
}

std::vector<std::string> models_for(LearningTask task, bool tokens) {
  std::vector<std::string> names = model_names();
  std::erase_if(names, [&](const std::string& name) { return !does(name, task, tokens); });
  return names;
}

Model make_model(const ModelSpec& spec) {
  const Entry& e = entry(spec.name);
  const std::string where = fmt::format("model \"{}\"", spec.name);
  if (spec.classes < 1)
    fail_user({.where = where, .what = fmt::format("{} classes", spec.classes), .why = "it needs at least 1",
               .next = "give the number of classes of the dataset"});
  ModelOptions options = e.defaults;
  for (const auto& [key, value] : spec.options) {
    auto known = options.find(key);
    if (known == options.end()) {
      std::vector<std::string> keys;
      for (const auto& option : e.defaults) keys.push_back(option.first);
      fail_user({.where = where, .what = fmt::format("option \"{}\"", key), .why = "this model has no such option",
                 .next = keys.empty() ? "it has none: remove it" : fmt::format("known options: {}", fmt::join(keys, ", "))});
    }
    const bool is_switch = key == "batch_norm" || key == "stateful" || key == "tied" || key == "auxiliary";
    const bool is_size = key != "probability" && !is_switch;
    const bool is_count = key == "layers" || key == "depth";
    const double least = key == "samples" ? 0 : 1, most = is_count ? kMostLayers : kLargestSize;
    if (is_size && !(value >= least && value <= most && value == std::floor(value)))
      fail_user({.where = where, .what = fmt::format("option \"{}\" = {}", key, value),
                 .why = fmt::format("it must be a whole number from {} to {}", least, most), .next = "correct it"});
    if (key == "probability" && !(value >= 0 && value < 1))
      fail_user({.where = where, .what = fmt::format("option \"{}\" = {}", key, value), .why = "it must be at least 0 and below 1",
                 .next = "0 drops nothing, 0.1 is usual"});
    if (is_switch && value != 0 && value != 1)
      fail_user({.where = where, .what = fmt::format("option \"{}\" = {}", key, value), .why = "it is either on or off",
                 .next = "use 1 or 0"});
    known->second = value;
  }
  return e.make(spec, options);
}

}  // namespace trireme
