#include "model/export/script_source.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <functional>
#include <map>

#include "base/text.h"
#include "model/export/vertex.h"
#include "model/task.h"

namespace trireme {
namespace {

constexpr const char* kForm = "TorchScript";
constexpr const char* kUnseen = "-1e+30";  // a score that no softmax gives weight to, as model/layers/attention.cpp has it

std::string literal(bool value) { return value ? "True" : "False"; }
std::string literal(const std::vector<int64_t>& values) { return fmt::format("[{}]", fmt::join(values, ", ")); }
/// TorchScript takes 1 for an int, which is no float.
std::string literal(double value) {
  const std::string text = fmt::format("{}", value);
  return text.find_first_of(".e") == std::string::npos ? text + ".0" : text;
}

/// One layer as lines of source. Its variables end in its number, so that no two layers share one.
class Writer {
 public:
  explicit Writer(const Vertex& vertex) : v_(vertex) {}

  std::string in(size_t i = 0) const { return variable(v_.inputs().at(i)); }
  std::string out() const { return variable(v_.id()); }
  std::string parameter(size_t i) const { return i < v_.parameters().size() ? script_path(v_.parameters()[i].name) : "None"; }
  std::string buffer(size_t i) const { return script_path(v_.buffers().at(i).name); }
  /// A variable of this layer's own.
  std::string own(const char* name) const { return fmt::format("{}_{}", name, v_.id()); }
  static std::string variable(NodeId id) { return fmt::format("x_{}", id); }

  void line(const std::string& text) { text_ += "    " + text + "\n"; }
  void set(const std::string& variable, const std::string& expression) { line(variable + " = " + expression); }
  void result(const std::string& expression) { set(out(), expression); }

  const Vertex& v() const { return v_; }
  const std::string& text() const { return text_; }

 private:
  const Vertex& v_;
  std::string text_;
};

/// Of kinds that are one call of one operator.
std::string call(const char* operation, const std::vector<std::string>& arguments) {
  return fmt::format("torch.{}({})", operation, join(arguments));
}

void write_conv2d(Writer& w) {
  w.result(call("conv2d", {w.in(), w.parameter(0), w.parameter(1), literal(w.v().list("stride")), literal(w.v().list("padding")),
                           literal(w.v().list("dilation")), fmt::to_string(w.v().integer("groups"))}));
}

void write_conv_transpose2d(Writer& w) {
  w.result(call("conv_transpose2d", {w.in(), w.parameter(0), w.parameter(1), literal(w.v().list("stride")), literal(w.v().list("padding")),
                                     literal(w.v().list("output_padding")), fmt::to_string(w.v().integer("groups"))}));
}

void write_max_pool2d(Writer& w) {
  w.result(call("max_pool2d", {w.in(), literal(w.v().list("kernel")), literal(w.v().list("stride")), literal(w.v().list("padding")),
                               "[1, 1]", literal(w.v().flag("ceil_mode"))}));
}

void write_avg_pool2d(Writer& w) {
  w.result(call("avg_pool2d", {w.in(), literal(w.v().list("kernel")), literal(w.v().list("stride")), literal(w.v().list("padding")),
                               literal(w.v().flag("ceil_mode")), literal(w.v().flag("count_include_pad"))}));
}

/// PyTorch gives positions in the whole image, Trireme's layer those within the window.
void write_max_pool_indices(Writer& w) {
  const auto& window = w.v().list("window");
  const std::string at = w.own("at"), width = w.own("width");
  w.line(fmt::format("{}, {} = torch.max_pool2d_with_indices({}, {}, {})", w.own("largest"), at, w.in(), literal(window), literal(window)));
  w.set(width, w.in() + ".size(3)");
  const std::string row = fmt::format("torch.remainder(torch.floor_divide({}, {}), {})", at, width, window[0]);
  const std::string column = fmt::format("torch.remainder(torch.remainder({}, {}), {})", at, width, window[1]);
  w.result(fmt::format("torch.add(torch.mul({}, {}), {})", row, window[1], column));
}

void write_max_unpool2d(Writer& w) {
  const auto &window = w.v().list("window"), &size = w.v().list("size");
  const std::string at = w.in(1), row = w.own("row"), column = w.own("column"), width = w.own("width");
  const std::string height = size[0] > 0 ? fmt::to_string(size[0]) : fmt::format("{}.size(2) * {}", w.in(), window[0]);
  w.set(width, size[0] > 0 ? fmt::to_string(size[1]) : fmt::format("{}.size(3) * {}", w.in(), window[1]));
  const auto first = [&](int dim, int64_t step) {
    return fmt::format("torch.mul(torch.arange({}.size({}), device={}.device), {})", at, dim, at, step);
  };
  w.set(row, fmt::format("torch.add(torch.floor_divide({}, {}), torch.unsqueeze({}, 1))", at, window[1], first(2, window[0])));
  w.set(column, fmt::format("torch.add(torch.remainder({}, {}), {})", at, window[1], first(3, window[1])));
  w.result(fmt::format("torch.max_unpool2d({}, torch.add(torch.mul({}, {}), {}), [{}, {}])", w.in(), row, width, column, height, width));
}

void write_upsample(Writer& w, const char* operation, const std::string& last = "") {
  const auto &factor = w.v().list("factor"), &size = w.v().list("size");
  const std::string extent = size[0] > 0 ? literal(size)
                                         : fmt::format("[{}.size(2) * {}, {}.size(3) * {}]", w.in(), factor[0], w.in(), factor[1]);
  w.result(fmt::format("torch.{}({}, {}{})", operation, w.in(), extent, last));
}

void write_batch_norm(Writer& w) {
  w.result(call("batch_norm", {w.in(), w.parameter(0), w.parameter(1), w.buffer(0), w.buffer(1), "self.training",
                               literal(w.v().number("momentum")), literal(w.v().number("epsilon")), "False"}));
  if (w.v().flag("residual")) w.result(call("add", {w.out(), w.in(1)}));
  if (w.v().flag("relu")) w.result(call("relu", {w.out()}));
}

void write_layer_norm(Writer& w) {
  w.result(
      call("layer_norm", {w.in(), literal(w.v().parameters()[0].shape), w.parameter(0), w.parameter(1), literal(w.v().number("epsilon"))}));
}

void write_group_norm(Writer& w) {
  w.result(call("group_norm",
                {w.in(), fmt::to_string(w.v().integer("groups")), w.parameter(0), w.parameter(1), literal(w.v().number("epsilon"))}));
}

void write_linear(Writer& w) {
  const int64_t parts = w.v().integer("parts");
  if (w.v().flag("transposed")) {
    w.result(call("matmul", {w.in(), w.parameter(0)}));
    if (w.v().parameters().size() > 1) w.result(call("add", {w.out(), w.parameter(1)}));
  } else {
    w.result(call("linear", {w.in(), w.parameter(0), w.parameter(1)}));
  }
  if (parts == 0) return;
  std::vector<std::string> sizes;
  for (size_t d = 0; d < w.v().input_shape(0).size(); ++d) sizes.push_back(fmt::format("{}.size({})", w.in(), d));
  w.result(fmt::format("torch.reshape({}, [{}, {}, {}])", w.out(), join(sizes), parts, w.v().shape().back()));
}

void write_attention(Writer& w) {
  const int64_t heads = w.v().integer("heads"), width = w.v().shape().back();
  const bool fused = w.v().flag("fused");
  std::vector<std::string> parts{w.own("q"), w.own("k"), w.own("v")};
  for (size_t i = 0; i < parts.size(); ++i) {
    w.set(parts[i], fused ? fmt::format("torch.select({}, 2, {})", w.in(), i) : w.in(i));
    w.set(parts[i],
          fmt::format("torch.transpose(torch.reshape({0}, [{0}.size(0), {0}.size(1), {1}, {2}]), 1, 2)", parts[i], heads, width / heads));
  }
  const std::string weights = w.own("weights"), &q = parts[0], &k = parts[1], &v = parts[2];
  w.set(weights, fmt::format("torch.mul(torch.matmul({}, torch.transpose({}, 2, 3)), {})", q, k,
                             literal(1 / std::sqrt(double(width) / double(heads)))));
  if (w.v().flag("padding"))
    w.set(weights, fmt::format("torch.masked_fill({}, torch.unsqueeze(torch.unsqueeze(torch.eq({}, {}), 1), 1), {})", weights,
                               w.in(w.v().inputs().size() - 1), kPadding, kUnseen));
  if (w.v().flag("causal")) {
    const std::string order = w.own("order");
    w.set(order, fmt::format("torch.arange({0}.size(2), device={0}.device)", q));
    w.set(weights, fmt::format("torch.masked_fill({0}, torch.gt(torch.unsqueeze({1}, 0), torch.unsqueeze({1}, 1)), float(\"-inf\"))",
                               weights, order));
  }
  w.set(weights, call("softmax", {weights, "-1"}));
  if (w.v().number("dropout") > 0) w.set(weights, call("dropout", {weights, literal(w.v().number("dropout")), "self.training"}));
  w.result(fmt::format("torch.flatten(torch.transpose(torch.matmul({}, {}), 1, 2), 2)", weights, v));
}

void write_additive_attention(Writer& w) {
  enum { kQueries, kMemory, kEnergy, kScale, kBias };
  const std::string direction = w.own("direction"), scores = w.own("scores");
  const std::string energy = w.parameter(kEnergy);
  w.set(direction, fmt::format("torch.mul({0}, torch.div({1}, torch.sqrt(torch.sum(torch.mul({0}, {0})))))", energy, w.parameter(kScale)));
  w.set(scores, fmt::format("torch.tanh(torch.add(torch.unsqueeze(torch.linear({}, {}), 2), torch.unsqueeze(torch.linear({}, {}, {}), 1)))",
                            w.in(), w.parameter(kQueries), w.in(1), w.parameter(kMemory), w.parameter(kBias)));
  w.set(scores, fmt::format("torch.masked_fill(torch.matmul({}, {}), torch.unsqueeze(torch.eq({}, {}), 1), {})", scores, direction, w.in(2),
                            kPadding, kUnseen));
  w.result(fmt::format("torch.matmul(torch.softmax({}, -1), {})", scores, w.in(1)));
}

/// Hidden features of an LSTM: those of its gates' weights in files, a quarter.
int64_t hidden_of(const Vertex& v) { return v.parameters()[0].file_shape.at(0) / 4; }

void write_plain_lstm(Writer& w) {
  const bool reverse = w.v().flag("reverse");
  const std::string x = reverse ? fmt::format("torch.flip({}, [1])", w.in()) : w.in();
  std::vector<std::string> weights;
  for (size_t i = 0; i < w.v().parameters().size(); ++i) weights.push_back(w.parameter(i));
  const auto zeros = [&](int64_t width) { return fmt::format("{0}.new_zeros([1, {0}.size(0), {1}])", w.in(), width); };
  w.line(fmt::format("{}, {}, {} = torch.lstm({}, [{}, {}], [{}], True, 1, 0.0, False, False, True)", w.out(), w.own("hidden"),
                     w.own("cell"), x, zeros(w.v().shape().back()), zeros(hidden_of(w.v())), join(weights)));
  if (reverse) w.result(fmt::format("torch.flip({}, [1])", w.out()));
}

/// Step by step: at padding h and c are zero.
void write_padded_lstm(Writer& w) {
  const bool reverse = w.v().flag("reverse");
  const int64_t hidden = hidden_of(w.v());
  const std::string h = w.own("h"), c = w.own("c"), g = w.own("gates"), real = w.own("real"), at = w.own("at"), k = w.own("k"),
                    steps = w.own("steps");
  const auto gate = [&](int i) { return fmt::format("torch.narrow({}, 1, {}, {})", g, i * hidden, hidden); };
  w.set(h, fmt::format("{0}.new_zeros([{0}.size(0), {1}])", w.in(), w.v().shape().back()));
  w.set(c, fmt::format("{0}.new_zeros([{0}.size(0), {1}])", w.in(), hidden));
  w.set(steps, "[]");
  w.line(fmt::format("for {} in range({}.size(1)):", k, w.in()));
  w.line("  " + fmt::format("{} = {}", at, reverse ? fmt::format("{}.size(1) - 1 - {}", w.in(), k) : k));
  w.line("  " +
         fmt::format("{} = torch.unsqueeze(torch.ne(torch.select({}, 1, {}), {}), 1).type_as({})", real, w.in(1), at, kPadding, w.in()));
  w.line("  " + fmt::format("{} = torch.add(torch.linear(torch.select({}, 1, {}), {}, {}), torch.linear({}, {}, {}))", g, w.in(), at,
                            w.parameter(0), w.parameter(2), h, w.parameter(1), w.parameter(3)));
  w.line("  " + fmt::format("{0} = torch.add(torch.mul(torch.sigmoid({1}), {0}), torch.mul(torch.sigmoid({2}), torch.tanh({3})))", c,
                            gate(1), gate(0), gate(2)));
  w.line("  " + fmt::format("{} = torch.mul(torch.mul(torch.sigmoid({}), torch.tanh({})), {})", h, gate(3), c, real));
  w.line("  " + fmt::format("{0} = torch.mul({0}, {1})", c, real));
  if (w.v().integer("projection") > 0) w.line("  " + fmt::format("{0} = torch.linear({0}, {1})", h, w.parameter(4)));
  w.line("  " + fmt::format("{}.append({})", steps, h));
  w.result(fmt::format("torch.stack({}, 1)", steps));
  if (reverse) w.result(fmt::format("torch.flip({}, [1])", w.out()));
}

void write_lstm(Writer& w) { w.v().flag("padding") ? write_padded_lstm(w) : write_plain_lstm(w); }

void write_masked_mean(Writer& w) {
  const std::string weights = w.own("weights");
  w.set(weights, fmt::format("torch.ne({}, {}).type_as({})", w.in(1), kPadding, w.in()));
  w.set(weights, fmt::format("torch.div({0}, torch.clamp_min(torch.sum({0}, [1], True), 1))", weights));
  w.result(fmt::format("torch.squeeze(torch.matmul(torch.unsqueeze({}, 1), {}), 1)", weights, w.in()));
}

void write_position_embedding(Writer& w) {
  w.result(fmt::format("torch.add({0}, torch.narrow({1}, {2}, 0, {0}.size(1)))", w.in(), w.parameter(0), int(w.v().flag("batch_dim"))));
}

void write_class_token(Writer& w) {
  w.result(fmt::format("torch.cat([{}.expand([{}.size(0), -1, -1]), {}], 1)", w.parameter(0), w.in(), w.in()));
}

void write_concat(Writer& w) {
  std::vector<std::string> inputs;
  for (size_t i = 0; i < w.v().inputs().size(); ++i) inputs.push_back(w.in(i));
  w.result(fmt::format("torch.cat([{}], {})", join(inputs), w.v().integer("dim")));
}

void write_slice(Writer& w) {
  w.result(fmt::format("torch.slice({}, {}, {}, {}, 1)", w.in(), w.v().integer("dim"), w.v().integer("begin"), w.v().integer("end")));
}

/// `format`: "{}" stands for the input.
std::function<void(Writer&)> expression(const char* format) {
  return [format](Writer& w) { w.result(fmt::format(fmt::runtime(format), w.in())); };
}

const std::map<std::string, std::function<void(Writer&)>>& writers() {
  static const std::map<std::string, std::function<void(Writer&)>> all{
      {"adaptive_avg_pool2d", [](Writer& w) { w.result(call("adaptive_avg_pool2d", {w.in(), literal(w.v().list("size"))})); }},
      {"add", [](Writer& w) { w.result(call("add", {w.in(0), w.in(1)})); }},
      {"add_relu", [](Writer& w) { w.result(fmt::format("torch.relu(torch.add({}, {}))", w.in(0), w.in(1))); }},
      {"additive_attention", write_additive_attention},
      {"attention", write_attention},
      {"avg_pool2d", write_avg_pool2d},
      {"batch_norm", write_batch_norm},
      {"class_token", write_class_token},
      {"concat", write_concat},
      {"conv2d", write_conv2d},
      {"conv_transpose2d", write_conv_transpose2d},
      {"dropout", [](Writer& w) { w.result(call("dropout", {w.in(), literal(w.v().number("probability")), "self.training"})); }},
      {"embedding", [](Writer& w) { w.result(call("embedding", {w.parameter(0), w.in()})); }},
      {"first_row", [](Writer& w) { w.result(fmt::format("torch.add({}, torch.select({}, 0, 0))", w.in(), w.parameter(0))); }},
      {"flatten", expression("torch.flatten({}, 1)")},
      {"gelu", expression("torch.gelu({})")},
      {"gelu_tanh", expression("torch.gelu({}, approximate=\"tanh\")")},
      {"global_avg_pool", expression("torch.mean({}, [2, 3])")},
      {"group_norm", write_group_norm},
      {"hardsigmoid", expression("torch.hardsigmoid({})")},
      {"hardswish", expression("torch.hardswish({})")},
      {"image_tokens", expression("torch.transpose(torch.flatten({}, 2), 1, 2)")},
      {"layer_norm", write_layer_norm},
      {"linear", write_linear},
      {"lstm", write_lstm},
      {"masked_mean_sequence", write_masked_mean},
      {"max_pool2d", write_max_pool2d},
      {"max_pool_indices", write_max_pool_indices},
      {"max_unpool2d", write_max_unpool2d},
      {"mean_sequence", expression("torch.mean({}, [1])")},
      {"position_embedding", write_position_embedding},
      {"relu", expression("torch.relu({})")},
      {"relu6", expression("torch.clamp({}, 0, 6)")},
      {"select_position", [](Writer& w) { w.result(fmt::format("torch.select({}, 1, {})", w.in(), w.v().integer("index"))); }},
      {"sigmoid", expression("torch.sigmoid({})")},
      {"silu", expression("torch.silu({})")},
      {"slice", write_slice},
      {"softmax", [](Writer& w) { w.result(fmt::format("torch.softmax({}, {})", w.in(), w.v().integer("dim"))); }},
      {"stateful_lstm", write_lstm},
      {"tanh", expression("torch.tanh({})")},
      {"upsample_bilinear2d",
       [](Writer& w) { write_upsample(w, "upsample_bilinear2d", ", " + literal(w.v().flag("align_corners"))); }},
      {"upsample_nearest2d", [](Writer& w) { write_upsample(w, "upsample_nearest2d"); }},
  };
  return all;
}

bool is_identifier(std::string_view word) {
  const auto is_inner = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; };
  return !word.empty() && !std::isdigit(static_cast<unsigned char>(word[0])) && std::all_of(word.begin(), word.end(), is_inner);
}

}  // namespace

std::string script_path(std::string_view name) {
  std::string path = "self";
  for (size_t begin = 0; begin <= name.size();) {
    const size_t dot = std::min(name.find('.', begin), name.size());
    const std::string_view part = name.substr(begin, dot - begin);
    path = is_identifier(part) ? fmt::format("{}.{}", path, part) : fmt::format("getattr({}, \"{}\")", path, part);
    begin = dot + 1;
  }
  return path;
}

std::string script_source(const Model& model) {
  std::string text = fmt::format("def forward(self, data: Tensor) -> Tensor:\n    {} = data\n", Writer::variable(0));
  for (const Vertex& vertex : layers_before_output(model)) {
    const auto found = writers().find(vertex.kind());
    if (found == writers().end()) fail_export(vertex.layer(), kForm);
    Writer writer(vertex);
    found->second(writer);
    text += writer.text();
  }
  const std::string output = Writer::variable(model.output());
  const std::vector<std::string> linear = linear_in_loss(model);
  if (linear.empty()) return text + fmt::format("    return {}\n", output);
  return text + fmt::format("    return torch.linear({}, {}, {})\n", output, script_path(linear.at(0)), script_path(linear.at(1)));
}

}  // namespace trireme
