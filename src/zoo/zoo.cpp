#include "zoo/zoo.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "base/additions.h"
#include "trireme/error.h"
#include "zoo/builders.h"
#include "zoo/token_builder.h"

namespace trireme {
namespace {

// A larger option is surely a mistake, and products of sizes could overflow int64.
constexpr double kLargestSize = 1 << 24, kMostLayers = 10000;

Additions<NamedModel>& additions() {
  static Additions<NamedModel> models("model");
  return models;
}

const std::vector<NamedModel>& named_models() {
  static const std::vector<NamedModel> all = [] {
    std::vector<NamedModel> models;
    for (const auto family :
         {mlp_models, mnist_convnet_models, resnet_models, vgg_models, densenet_models, inception_v3_models,
          vision_transformer_models, segmentation_models, odd_mlp_models, inception_models, lstm_lm_models,
          transformer_lm_models, gpt2_models, llama_models, big_lstm_models, bag_of_words_models, bert_models,
          gnmt_models, transformer_classifier_models})
      for (NamedModel& model : family()) models.push_back(std::move(model));
    additions().take(models);
    return models;
  }();
  return all;
}

const NamedModel& find_model(const std::string& name) {
  for (const NamedModel& model : named_models())
    if (name == model.name) return model;
  fail_user({.where = "model",
             .what = fmt::format("\"{}\"", name),
             .why = "there is no model of that name",
             .next = fmt::format("known models: {}", fmt::join(model_names(), ", "))});
}

void check_option(const ModelOption& option, double value, const std::string& where) {
  using enum ModelOption::Kind;
  const auto refuse = [&](std::string why, const char* next) {
    fail_user({.where = where,
               .what = fmt::format("option \"{}\" = {}", option.name, value),
               .why = std::move(why),
               .next = next});
  };
  if (option.kind == share) {
    if (!(value >= 0 && value < 1)) refuse("it must be at least 0 and below 1", "0 drops nothing, 0.1 is usual");
  } else if (option.kind == positive) {
    if (!(value > 0 && std::isfinite(value))) refuse("it must be a number above 0", "correct it");
  } else if (option.kind == flag) {
    if (value != 0 && value != 1) refuse("it is either on or off", "use 1 or 0");
  } else {
    const double least = option.kind == size_or_none ? 0 : 1, most = option.kind == count ? kMostLayers : kLargestSize;
    if (!(value >= least && value <= most && value == std::floor(value)))
      refuse(fmt::format("it must be a whole number from {} to {}", least, most), "correct it");
  }
}

}  // namespace

bool register_model(const NamedModel& model) { return additions().add(model); }

std::vector<std::string> model_names() {
  std::vector<std::string> names;
  for (const NamedModel& model : named_models()) names.emplace_back(model.name);
  return names;
}

ModelOptions model_options(const std::string& name) {
  ModelOptions options;
  for (const ModelOption& option : find_model(name).options) options[option.name] = option.usual;
  return options;
}

std::string model_description(const std::string& name) { return find_model(name).description; }

bool reads_tokens(const std::string& name) { return find_model(name).use.tokens; }

bool does(const std::string& name, LearningTask task, bool tokens) {
  const ModelUse& use = find_model(name).use;
  return use.tokens == tokens && std::find(use.tasks.begin(), use.tasks.end(), task) != use.tasks.end();
}

std::vector<std::string> models_for(LearningTask task, bool tokens) {
  std::vector<std::string> names = model_names();
  std::erase_if(names, [&](const std::string& name) { return !does(name, task, tokens); });
  return names;
}

Model make_model(const ModelSpec& spec) {
  const NamedModel& model = find_model(spec.name);
  const std::string where = fmt::format("model \"{}\"", spec.name);
  if (spec.classes < 1)
    fail_user({.where = where,
               .what = fmt::format("{} classes", spec.classes),
               .why = "it needs at least 1",
               .next = "give the number of classes of the dataset"});
  ModelOptions options = model_options(spec.name);
  for (const auto& [key, value] : spec.options) {
    const auto known = std::find_if(model.options.begin(), model.options.end(),
                                    [&](const ModelOption& option) { return key == option.name; });
    if (known == model.options.end()) {
      std::vector<std::string> keys;
      for (const auto& option : options) keys.push_back(option.first);
      fail_user(
          {.where = where,
           .what = fmt::format("option \"{}\"", key),
           .why = "this model has no such option",
           .next = keys.empty() ? "it has none: remove it" : fmt::format("known options: {}", fmt::join(keys, ", "))});
    }
    check_option(*known, value, where);
    options[key] = value;
  }
  return model.make(with_own_vocabulary(spec, options), options);
}

}  // namespace trireme
