// Fully connected models, most of them small ones for tests.
#include <fmt/format.h>

#include "trireme/layers/add.h"
#include "trireme/layers/dropout.h"
#include "trireme/layers/flatten.h"
#include "trireme/layers/linear.h"
#include "trireme/layers/relu.h"
#include "trireme/zoo.h"
#include "zoo/builders.h"

namespace trireme {
namespace {

/// A chain of layers under construction: inputs, the flattened data and the present end.
class Chain {
 public:
  explicit Chain(const ModelSpec& spec) : spec_(spec), builder_(spec.name) {
    end_ = builder_.input("data", spec.sample_shape);
    target_ = builder_.input("target", spec.target_shape);
    if (spec.sample_shape.size() != 1) end_ = builder_.layer<Flatten>({end_}, "flatten");
  }

  void linear(const std::string& name, int64_t out, LinearOptions options = {}) {
    end_ = builder_.layer<Linear>({end_}, name, builder_.shape(end_).back(), out, std::move(options));
  }
  void relu(const std::string& name) { end_ = builder_.layer<Relu>({end_}, name); }
  void dropout(const std::string& name, double probability) {
    end_ = builder_.layer<Dropout>({end_}, name, probability);
  }
  void add_relu(const std::string& name, NodeId other) {
    end_ = builder_.layer<Add>({end_, other}, name, /*relu=*/true);
  }
  NodeId end() const { return end_; }

  /// Adds a linear layer `name` with one output per class, and the loss.
  Model finish(const std::string& name) {
    linear(name, spec_.classes);
    return finish_with_loss(builder_, end_, target_, spec_);
  }

 private:
  const ModelSpec& spec_;
  ModelBuilder builder_;
  NodeId end_, target_;
};

Model make_mlp(const ModelSpec& spec, const ModelOptions& options) {
  Chain chain(spec);
  int depth = int(options.at("depth"));
  for (int i = 1; i <= depth; ++i) {
    chain.linear(fmt::format("fc{}", i), int64_t(options.at("hidden")));
    chain.relu(fmt::format("relu{}", i));
  }
  return chain.finish(fmt::format("fc{}", depth + 1));
}

Model make_skip(const ModelSpec& spec, const ModelOptions& options) {
  constexpr int kInner = 4;
  int64_t hidden = int64_t(options.at("hidden"));
  Chain chain(spec);
  chain.linear("first", hidden);
  chain.relu("relu0");
  NodeId start = chain.end();
  for (int i = 1; i <= kInner; ++i) {
    chain.linear(fmt::format("inner{}", i), hidden);
    if (i < kInner) chain.relu(fmt::format("relu{}", i));
  }
  chain.add_relu("join", start);
  return chain.finish("last");
}

Model make_dropout_mlp(const ModelSpec& spec, const ModelOptions& options) {
  Chain chain(spec);
  for (int i = 1; i <= 2; ++i) {
    chain.linear(fmt::format("fc{}", i), int64_t(options.at("hidden")));
    chain.relu(fmt::format("relu{}", i));
    chain.dropout(fmt::format("dropout{}", i), options.at("probability"));
  }
  return chain.finish("fc3");
}

Model make_tied_mlp(const ModelSpec& spec, const ModelOptions& options) {
  int64_t hidden = int64_t(options.at("hidden"));
  Chain chain(spec);
  chain.linear("first", hidden);
  chain.relu("relu1");
  chain.linear("shared", hidden);
  chain.relu("relu2");
  chain.linear("again", hidden, {.bias = true, .weight_name = "shared.weight", .bias_name = ""});
  chain.relu("relu3");
  return chain.finish("last");
}

}  // namespace

/// Option depth: the number of hidden layers.
std::vector<NamedModel> mlp_models() {
  using enum ModelOption::Kind;
  return {{"mlp", "fully connected layers", make_mlp, {{"hidden", 256}, {"depth", 2, count}}}};
}

/// Small models for tests, each with one special property: a skip connection from start to end; dropout; two layers
/// that share one weight.
std::vector<NamedModel> odd_mlp_models() {
  using enum ModelOption::Kind;
  return {{"skip", "a chain with a skip connection from its start to its end", make_skip, {{"hidden", 32}}},
          {"dropout-mlp",
           "fully connected layers with dropout",
           make_dropout_mlp,
           {{"hidden", 64}, {"probability", 0.5, share}}},
          {"tied-mlp", "fully connected layers, two of which share one weight", make_tied_mlp, {{"hidden", 32}}}};
}

}  // namespace trireme
