// A layer of which only shapes and work are known. It can be planned, compiled and simulated, but not run.
#pragma once

#include <fmt/format.h>

#include <string>
#include <utility>
#include <vector>

#include "model/layers/common.h"
#include "trireme/error.h"

namespace trireme::validation {

class ShapeLayer final : public Layer {
 public:
  struct Facts {
    std::string kind = "operator";
    Shape output;  ///< of a sample
    std::vector<Shape> parameters = {};
    double flops = 0;  ///< of a sample's forward
    bool splits_backward = false;
  };
  ShapeLayer(std::string name, Facts facts) : Layer(std::move(name)), facts_(std::move(facts)) {}

  std::string_view kind() const override { return facts_.kind; }
  std::vector<ParameterSpec> parameters() const override {
    std::vector<ParameterSpec> specs;
    for (size_t i = 0; i < facts_.parameters.size(); ++i)
      specs.push_back({.name = fmt::format("{}.{}", name(), i), .shape = facts_.parameters[i], .init = {}});
    return specs;
  }
  Shape output_shape(std::span<const Shape>) const override { return facts_.output; }
  std::vector<ShardingOption> sharding_options(std::span<const Shape> inputs, int) const override {
    return {replicate_option(int(inputs.size()), int(facts_.parameters.size()))};
  }
  double forward_flops(std::span<const Shape>) const override { return facts_.flops; }
  bool splits_backward() const override { return facts_.splits_backward; }
  at::Tensor forward(LayerCall&, std::span<const at::Tensor>) const override {
    check_internal(false, "layers of shapes alone are never run");
    return {};
  }
  std::vector<at::Tensor> backward(LayerCall&, const at::Tensor&) const override {
    check_internal(false, "layers of shapes alone are never run");
    return {};
  }

 private:
  Facts facts_;
};

/// An elementwise operator on samples of `shape` with this number of FLOPs per element.
inline ShapeLayer::Facts elementwise(std::string kind, Shape shape, double flops_per_element = 1) {
  const double flops = flops_per_element * double(element_count(shape));
  return {.kind = std::move(kind), .output = std::move(shape), .flops = flops};
}

}  // namespace trireme::validation
