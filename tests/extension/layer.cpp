// A layer: "swish", x * sigmoid(beta x) with a trained beta per feature (Ramachandran, Zoph, Le, "Searching for
// activation functions", 2017). libtorch's autograd computes its backward.
#include <ATen/ATen.h>
#include <trireme/error.h>
#include <trireme/layers/autograd_layer.h>

namespace {

using namespace trireme;

class Swish final : public AutogradLayer {
 public:
  Swish(std::string name, int64_t features) : AutogradLayer(std::move(name)), features_(features) {}

  std::string_view kind() const override { return "swish"; }

  std::vector<ParameterSpec> parameters() const override {
    return {{.name = name() + ".beta", .shape = {features_}, .init = Init::constant(1)}};
  }

  Shape output_shape(std::span<const Shape> inputs) const override {
    if (inputs.size() != 1 || inputs[0].empty() || inputs[0].back() != features_)
      fail_user({name(), "swish", "its input must have " + std::to_string(features_) + " features as last dim",
                 "correct the layer's size"});
    return inputs[0];
  }

  /// Replicated, or split by features: then each worker has a share of the features and of beta.
  std::vector<ShardingOption> sharding_options(std::span<const Shape> inputs, int degree) const override {
    std::vector<ShardingOption> options{{.name = "replicate",
                                         .inputs = {Placement::replicate()},
                                         .output = Placement::replicate(),
                                         .input_gradients = {Placement::replicate()},
                                         .parameters = {Placement::replicate()},
                                         .parameter_gradients = {Placement::replicate()}}};
    if (degree == 1 || features_ % degree != 0) return options;
    const Placement by_features = Placement::shard(int(inputs[0].size()));  // the batch is dim 0
    options.push_back({.name = "features",
                       .inputs = {by_features},
                       .output = by_features,
                       .input_gradients = {by_features},
                       .parameters = {Placement::shard(0)},
                       .parameter_gradients = {Placement::shard(0)},
                       .divides_work = true});
    return options;
  }

  double forward_flops(std::span<const Shape> inputs) const override {
    constexpr double kPerElement = 10;  // an exponential counts as 7
    return kPerElement * double(element_count(inputs[0]));
  }

 protected:
  at::Tensor compute(LayerCall&, std::span<const at::Tensor> inputs,
                     std::span<const at::Tensor> parameters) const override {
    return inputs[0] * at::sigmoid(inputs[0] * parameters[0]);
  }

 private:
  const int64_t features_;
};

}  // namespace

std::shared_ptr<const trireme::Layer> make_swish(std::string name, int64_t features) {
  return std::make_shared<Swish>(std::move(name), features);
}
