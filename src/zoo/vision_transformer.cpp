// ViT (Dosovitskiy et al., "An Image is Worth 16x16 Words", 2020), with torchvision's names. Queries, keys and values
// are one projection, as in PyTorch's MultiheadAttention.
#include <fmt/format.h>

#include <cmath>

#include "trireme/error.h"
#include "trireme/layers/activation.h"
#include "trireme/layers/add.h"
#include "trireme/layers/attention.h"
#include "trireme/layers/class_token.h"
#include "trireme/layers/image_tokens.h"
#include "trireme/layers/layer_norm.h"
#include "trireme/layers/position_embedding.h"
#include "trireme/layers/select_position.h"
#include "zoo/builders.h"
#include "zoo/image_builder.h"

namespace trireme {
namespace {

constexpr double kVisionTransformerEpsilon = 1e-6;  // of the norms
constexpr double kPositionDeviation = 0.02;
constexpr double kBiasDeviation = 1e-6;  // of the perceptron's biases

struct VitOptions {
  int64_t layers, width, heads, hidden, patch;
  double dropout;
};

/// Initialisation of Glorot and Bengio, 2010.
Init xavier_uniform(int64_t in, int64_t out) {
  const double bound = std::sqrt(6.0 / double(in + out));
  return Init::uniform(-bound, bound);
}

class VisionTransformer {
 public:
  VisionTransformer(const ModelSpec& spec, const VitOptions& options) : net_(spec), b_(net_.builder()), o_(options) {}

  NodeId embed() {
    NodeId x = net_.data();
    if (net_.height(x) % o_.patch != 0 || net_.width(x) % o_.patch != 0)
      fail_user({.where = fmt::format("model \"{}\"", net_.spec().name),
                 .what = fmt::format("samples of shape {}", to_string(net_.spec().sample_shape)),
                 .why = fmt::format("patches of {0}x{0} pixels do not cover it", o_.patch),
                 .next = "choose a patch that divides height and width"});
    const double fan_in = double(net_.channels(x) * o_.patch * o_.patch);
    x = net_.conv(x, "conv_proj",
                  {.out = o_.width,
                   .kernel = o_.patch,
                   .stride = o_.patch,
                   .weight_init = Init::normal(0, std::sqrt(1 / fan_in)),
                   .bias_init = Init::constant(0)});
    x = b_.layer<ImageTokens>({x}, "tokens");
    x = b_.layer<ClassToken>({x}, "class_token", o_.width);
    x = b_.layer<PositionEmbedding>(
        {x}, "encoder.positions", b_.shape(x)[0], o_.width, kPositionDeviation,
        PositionEmbeddingOptions{.parameter_name = "encoder.pos_embedding", .batch_dim = true});
    return net_.dropout(x, "encoder.dropout", o_.dropout);
  }

  NodeId block(NodeId x, const std::string& name) {
    NodeId y = attention(norm(x, name + ".ln_1"), name + ".self_attention");
    x = b_.layer<Add>({x, net_.dropout(y, name + ".dropout", o_.dropout)}, name + ".add_1");
    return b_.layer<Add>({x, perceptron(norm(x, name + ".ln_2"), name + ".mlp")}, name + ".add_2");
  }

  Model finish(NodeId x) {
    x = b_.layer<SelectPosition>({norm(x, "encoder.ln")}, "class_state");
    return net_.finish(net_.linear(x, "heads.head", net_.spec().classes,
                                   {.weight_init = Init::constant(0), .bias_init = Init::constant(0)}));
  }

 private:
  NodeId norm(NodeId x, const std::string& name) {
    return b_.layer<LayerNorm>({x}, name, o_.width, LayerNormOptions{kVisionTransformerEpsilon});
  }

  NodeId attention(NodeId x, const std::string& name) {
    x = net_.linear(x, name + ".in_proj", o_.width,
                    {.weight_name = name + ".in_proj_weight",
                     .bias_name = name + ".in_proj_bias",
                     .weight_init = xavier_uniform(o_.width, 3 * o_.width),
                     .bias_init = Init::constant(0),
                     .parts = 3});
    x = b_.layer<Attention>({x}, name + ".heads", AttentionOptions{.heads = o_.heads, .fused = true});
    return net_.linear(x, name + ".out_proj", o_.width, {.bias_init = Init::constant(0)});
  }

  NodeId perceptron(NodeId x, const std::string& name) {
    const Init bias = Init::normal(0, kBiasDeviation);
    x = net_.linear(x, name + ".0", o_.hidden, {.weight_init = xavier_uniform(o_.width, o_.hidden), .bias_init = bias});
    x = net_.dropout(b_.layer<Activation>({x}, name + ".1", Function::gelu), name + ".2", o_.dropout);
    x = net_.linear(x, name + ".3", o_.width, {.weight_init = xavier_uniform(o_.hidden, o_.width), .bias_init = bias});
    return net_.dropout(x, name + ".4", o_.dropout);
  }

  ImageBuilder net_;
  ModelBuilder& b_;
  VitOptions o_;
};

Model make_vision_transformer(const ModelSpec& spec, const ModelOptions& options) {
  const auto size = [&](const char* key) { return int64_t(options.at(key)); };
  const VitOptions o{size("layers"), size("width"), size("heads"),
                     size("hidden"), size("patch"), options.at("probability")};
  VisionTransformer net(spec, o);
  NodeId x = net.embed();
  for (int64_t i = 0; i < o.layers; ++i) x = net.block(x, fmt::format("encoder.layers.encoder_layer_{}", i));
  return net.finish(x);
}

}  // namespace

/// torchvision's VisionTransformer; vit-tiny has width 192 and 3 heads. Option patch: side of a patch, in pixels.
std::vector<NamedModel> vision_transformer_models() {
  using enum ModelOption::Kind;
  return {{"vit-b16",
           "torchvision's VisionTransformer (Dosovitskiy et al., 2020)",
           make_vision_transformer,
           {{"layers", 12, count},
            {"width", 768},
            {"heads", 12},
            {"hidden", 3072},
            {"patch", 16},
            {"probability", 0, share}}},
          {"vit-tiny",
           "vit-b16 with width 192 and 3 heads",
           make_vision_transformer,
           {{"layers", 12, count},
            {"width", 192},
            {"heads", 3},
            {"hidden", 768},
            {"patch", 16},
            {"probability", 0, share}}}};
}

}  // namespace trireme
