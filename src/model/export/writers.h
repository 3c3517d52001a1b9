// With these a layer writes itself down for other programs (Layer::to_onnx, Layer::to_script). They need no format's
// library.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "model/export/vertex.h"

namespace trireme {

using OnnxAttribute = std::variant<int64_t, double, std::string, std::vector<int64_t>>;
using OnnxAttributes = std::vector<std::pair<std::string, OnnxAttribute>>;

/// A graph of ONNX nodes, operator set 17, and the layer that is being added to it.
class OnnxWriter {
 public:
  using List = std::vector<int64_t>;
  static constexpr int64_t kFloat = 1;  ///< TensorProto's, for casts

  virtual ~OnnxWriter() = default;

  // -- the layer; tensors are known by their names
  const std::vector<std::string>& inputs() const { return inputs_; }
  const std::string& in(size_t i = 0) const { return inputs_.at(i); }
  const Shape& input_shape(size_t i = 0) const { return vertex_->input_shape(i); }  ///< of a sample
  const Shape& shape() const { return vertex_->shape(); }                           ///< likewise, of the output
  size_t parameter_count() const { return vertex_->parameters().size(); }
  std::string parameter(size_t i) { return weight(vertex_->parameters().at(i).name); }
  const at::Tensor& value(size_t parameter) const { return value(vertex_->parameters().at(parameter).name); }
  std::string buffer(size_t i) { return weight(vertex_->buffers().at(i).name); }
  /// `inputs`, and after them all parameters.
  std::vector<std::string> with_parameters(std::vector<std::string> inputs);

  // -- the graph
  /// A node with one output, whose name is made from the operator's. An empty input is one left out.
  virtual std::string add(const char* operation, std::vector<std::string> inputs,
                          const OnnxAttributes& attributes = {}) = 0;
  /// A tensor of the graph's own.
  virtual std::string constant(const at::Tensor& value) = 0;
  std::string constant(const List& values);
  std::string constant(int64_t value);  ///< of no dims
  std::string constant(double value);   ///< float, of no dims
  /// A matrix with its dims exchanged.
  std::string transposed(const std::string& matrix) { return add("Transpose", {matrix}, {{"perm", List{1, 0}}}); }

 protected:
  /// The parameter or buffer of that name.
  virtual std::string weight(const std::string& name) = 0;
  virtual const at::Tensor& value(const std::string& weight) const = 0;

  const Vertex* vertex_ = nullptr;
  std::vector<std::string> inputs_;
};

/// One layer as lines of TorchScript. Its variables end in its number, so that no two layers share one.
class ScriptWriter {
 public:
  explicit ScriptWriter(const Vertex& vertex) : vertex_(vertex) {}

  std::string in(size_t i = 0) const { return variable(vertex_.inputs().at(i)); }
  std::vector<std::string> inputs() const;
  std::string out() const { return variable(vertex_.id()); }
  std::string parameter(size_t i) const;  ///< "None" where there are not so many
  std::string buffer(size_t i) const;
  const Shape& input_shape(size_t i = 0) const { return vertex_.input_shape(i); }
  const Shape& shape() const { return vertex_.shape(); }
  size_t parameter_count() const { return vertex_.parameters().size(); }
  /// A variable of this layer's own.
  std::string own(const char* name) const;
  static std::string variable(NodeId id);

  void line(const std::string& text) { text_ += "    " + text + "\n"; }
  void set(const std::string& variable, const std::string& expression) { line(variable + " = " + expression); }
  void result(const std::string& expression) { set(out(), expression); }

  const std::string& text() const { return text_; }

 private:
  const Vertex& vertex_;
  std::string text_;
};

/// A call of one of torch's operators.
std::string script_call(const char* operation, const std::vector<std::string>& arguments);

/// "self.layer1", then getattr(self.layer1, "0"), ...: what the parameter or buffer `name` is called.
std::string script_path(std::string_view name);

std::string script_literal(bool value);
std::string script_literal(int64_t value);
std::string script_literal(double value);
std::string script_literal(const std::vector<int64_t>& values);

/// The user error of a layer that has no counterpart in `form`: "ONNX".
[[noreturn]] void fail_export(const Layer& layer, const char* form);

}  // namespace trireme
