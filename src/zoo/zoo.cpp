#include "zoo/zoo.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>

#include "base/error.h"
#include "zoo/builders.h"

namespace trireme {
namespace {

struct Entry {
  const char* name;
  Model (*make)(const ModelSpec&, const ModelOptions&);
  ModelOptions defaults;
  bool reads_tokens = false;
};

const std::vector<Entry>& entries() {
  static const std::vector<Entry> all{
      {"mlp", make_mlp, {{"hidden", 256}, {"depth", 2}}},
      {"mnist-convnet", make_mnist_convnet, {}},
      {"cifar-resnet18", make_cifar_resnet18, {{"batch_norm", 1}, {"width", 64}}},
      {"resnet18", make_resnet18, {{"batch_norm", 1}, {"width", 64}}},
      {"skip", make_skip, {{"hidden", 32}}},
      {"dropout-mlp", make_dropout_mlp, {{"hidden", 64}, {"probability", 0.5}}},
      {"tied-mlp", make_tied_mlp, {{"hidden", 32}}},
      {"inception", make_inception, {{"batch_norm", 1}, {"width", 64}}},
      {"lstm-lm", make_lstm_lm, {{"layers", 2}, {"width", 200}, {"probability", 0}, {"stateful", 1}}, /*reads_tokens=*/true},
      {"transformer-lm", make_transformer_lm,
       {{"layers", 4}, {"width", 128}, {"heads", 4}, {"probability", 0}, {"tied", 1}}, /*reads_tokens=*/true},
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

bool reads_tokens(const std::string& name) { return entry(name).reads_tokens; }

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
    bool is_switch = key == "batch_norm" || key == "stateful" || key == "tied", is_size = key != "probability" && !is_switch;
    if (is_size && (value < 1 || value != std::floor(value)))
      fail_user({.where = where, .what = fmt::format("option \"{}\" = {}", key, value),
                 .why = "it must be a whole number of at least 1", .next = "correct it"});
    if (is_switch && value != 0 && value != 1)
      fail_user({.where = where, .what = fmt::format("option \"{}\" = {}", key, value), .why = "it is either on or off",
                 .next = "use 1 or 0"});
    known->second = value;
  }
  return e.make(spec, options);
}

}  // namespace trireme
