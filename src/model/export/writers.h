// With these writers a layer writes itself in other formats (Layer::to_onnx, Layer::to_script). They do not depend on
// the formats' libraries.
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
  static constexpr int64_t kFloat = 1;  ///< TensorProto::FLOAT, for casts

  virtual ~OnnxWriter() = default;

  // -- the layer; tensors are identified by their names
  const std::vector<std::string>& inputs() const { return inputs_; }
  const std::string& in(size_t i = 0) const { return inputs_.at(i); }
  const Shape& input_shape(size_t i = 0) const { return vertex_->input_shape(i); }  ///< sample shape of an input
  const Shape& shape() const { return vertex_->shape(); }                           ///< sample shape of the output
  size_t parameter_count() const { return vertex_->parameters().size(); }
  std::string parameter(size_t i) { return weight(vertex_->parameters().at(i).name); }
  const at::Tensor& value(size_t parameter) const { return value(vertex_->parameters().at(parameter).name); }
  std::string buffer(size_t i) { return weight(vertex_->buffers().at(i).name); }
  /// Returns `inputs` followed by all parameters.
  std::vector<std::string> with_parameters(std::vector<std::string> inputs);

  // -- the graph
  /// Adds a node with one output, whose name is derived from the operator's. An empty name in `inputs` omits that
  /// input. Returns the output's name.
  virtual std::string add(const char* operation, std::vector<std::string> inputs,
                          const OnnxAttributes& attributes = {}) = 0;
  /// Adds a constant tensor to the graph.
  virtual std::string constant(const at::Tensor& value) = 0;
  std::string constant(const List& values);
  std::string constant(int64_t value);  ///< a scalar
  std::string constant(double value);   ///< a float scalar
  /// Transposes a matrix.
  std::string transposed(const std::string& matrix) { return add("Transpose", {matrix}, {{"perm", List{1, 0}}}); }

 protected:
  /// Returns the name of the parameter or buffer in the graph.
  virtual std::string weight(const std::string& name) = 0;
  virtual const at::Tensor& value(const std::string& weight) const = 0;

  const Vertex* vertex_ = nullptr;
  std::vector<std::string> inputs_;
};

/// Writes one layer as lines of TorchScript. The names of its variables end in its node number, so no two layers share
/// a variable.
class ScriptWriter {
 public:
  explicit ScriptWriter(const Vertex& vertex) : vertex_(vertex) {}

  std::string in(size_t i = 0) const { return variable(vertex_.inputs().at(i)); }
  std::vector<std::string> inputs() const;
  std::string out() const { return variable(vertex_.id()); }
  std::string parameter(size_t i) const;  ///< "None" if the layer has fewer parameters
  std::string buffer(size_t i) const;
  const Shape& input_shape(size_t i = 0) const { return vertex_.input_shape(i); }
  const Shape& shape() const { return vertex_.shape(); }
  size_t parameter_count() const { return vertex_.parameters().size(); }
  /// Returns a variable name private to this layer.
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

/// Returns a call of an operator of torch.
std::string script_call(const char* operation, const std::vector<std::string>& arguments);

/// Returns the expression that accesses the parameter or buffer `name`: "self.layer1", then getattr(self.layer1, "0"),
/// ...
std::string script_path(std::string_view name);

std::string script_literal(bool value);
std::string script_literal(int64_t value);
std::string script_literal(double value);
std::string script_literal(const std::vector<int64_t>& values);

/// Throws the user error for a layer that has no counterpart in `form`, for example "ONNX".
[[noreturn]] void fail_export(const Layer& layer, const char* form);

}  // namespace trireme
