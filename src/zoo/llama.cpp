// Llama (Touvron et al., "LLaMA: Open and Efficient Foundation Language Models", 2023; Meta, "The Llama 3 Herd of
// Models", 2024), with the names of Hugging Face's LlamaForCausalLM. The usual sizes are those of SmolLM-135M (Hugging
// Face, 2024), a small model of this kind whose weights are public.
#include <fmt/format.h>

#include "trireme/error.h"
#include "trireme/layers/add.h"
#include "trireme/layers/attention.h"
#include "trireme/layers/embedding.h"
#include "trireme/layers/linear.h"
#include "trireme/layers/rms_norm.h"
#include "trireme/layers/rotary_embedding.h"
#include "trireme/layers/swiglu.h"
#include "trireme/zoo.h"
#include "zoo/builders.h"
#include "zoo/token_builder.h"

namespace trireme {
namespace {

constexpr double kLlamaDeviation = 0.02;
constexpr const char* kLlamaModule = "model";  // that Hugging Face's class has below it

class Llama {
 public:
  Llama(ModelBuilder& b, const ModelOptions& options)
      : b_(b),
        width_(size(options, "width")),
        heads_(size(options, "heads")),
        key_heads_(size(options, "key_heads")),
        hidden_(size(options, "hidden")),
        rotation_{.base = options.at("rope_base"), .factor = options.at("rope_factor")} {
    if (key_heads_ == 0) key_heads_ = heads_;
  }

  NodeId block(NodeId x, const std::string& name) {
    x = b_.layer<Add>({x, attention(norm(x, name + ".input_layernorm"), name + ".self_attn")}, name + ".add_1");
    return b_.layer<Add>({x, perceptron(norm(x, name + ".post_attention_layernorm"), name + ".mlp")}, name + ".add_2");
  }
  NodeId norm(NodeId x, const std::string& name) { return b_.layer<RmsNorm>({x}, name, width_); }

  static int64_t size(const ModelOptions& options, const char* key) { return int64_t(options.at(key)); }

 private:
  NodeId attention(NodeId x, const std::string& name) {
    const int64_t key_width = width_ / heads_ * key_heads_;
    const NodeId q = rotated(projection(x, name + ".q_proj", width_), name + ".q_rotary", heads_);
    const NodeId k = rotated(projection(x, name + ".k_proj", key_width), name + ".k_rotary", key_heads_);
    const NodeId v = projection(x, name + ".v_proj", key_width);
    const AttentionOptions options{.heads = heads_, .causal = true, .key_heads = key_heads_};
    return projection(b_.layer<Attention>({q, k, v}, name + ".heads", options), name + ".o_proj", width_);
  }
  NodeId perceptron(NodeId x, const std::string& name) {
    const NodeId gate = projection(x, name + ".gate_proj", hidden_), value = projection(x, name + ".up_proj", hidden_);
    return projection(b_.layer<SwiGlu>({gate, value}, name + ".act"), name + ".down_proj", width_);
  }
  NodeId rotated(NodeId x, const std::string& name, int64_t heads) {
    RotaryEmbeddingOptions options = rotation_;
    options.heads = heads;
    return b_.layer<RotaryEmbedding>({x}, name, options);
  }
  NodeId projection(NodeId x, const std::string& name, int64_t out) {
    return b_.layer<Linear>({x}, name, b_.shape(x).back(), out,
                            LinearOptions{.bias = false, .deviation = kLlamaDeviation});
  }

  ModelBuilder& b_;
  int64_t width_, heads_, key_heads_, hidden_;
  RotaryEmbeddingOptions rotation_;
};

Model make_llama(const ModelSpec& spec, const ModelOptions& options) {
  require_tokens(spec);
  const int64_t width = Llama::size(options, "width"), heads = Llama::size(options, "heads"),
                vocabulary = vocabulary_of(spec);
  if (width % (2 * heads) != 0)
    fail_user({.where = fmt::format("model \"{}\"", spec.name),
               .what = fmt::format("width {} with {} heads", width, heads),
               .why = "each head needs an even number of features",
               .next = "choose another width or number of heads"});
  ModelBuilder b(spec.name);
  Llama net(b, options);
  NodeId x = b.input("data", spec.sample_shape);
  const NodeId target = b.input("target", spec.target_shape);
  const std::string module = kLlamaModule, embedding = module + ".embed_tokens";
  x = b.layer<Embedding>({x}, embedding, vocabulary, width, EmbeddingOptions{kLlamaDeviation});
  for (int64_t i = 0; i < Llama::size(options, "layers"); ++i) x = net.block(x, fmt::format("{}.layers.{}", module, i));
  x = net.norm(x, module + ".norm");
  LinearOptions head{.bias = false, .deviation = kLlamaDeviation};
  if (options.at("tied") != 0) head.weight_name = embedding + ".weight";
  return finish_with_loss(b, b.layer<Linear>({x}, "lm_head", width, vocabulary, head), target, spec);
}

}  // namespace

std::vector<NamedModel> llama_models() {
  using enum ModelOption::Kind;
  return {{"llama",
           "Hugging Face's LlamaForCausalLM (Touvron et al., 2023)",
           make_llama,
           {{"layers", 30, count},
            {"width", 576},
            {"heads", 9},
            {"key_heads", 3, size_or_none},
            {"hidden", 1536},
            {"tied", 1, flag},
            {"rope_base", 10000, positive},
            {"rope_factor", 1, positive},
            kVocabularyOption},
           {{LearningTask::language}, /*tokens=*/true}}};
}

}  // namespace trireme
