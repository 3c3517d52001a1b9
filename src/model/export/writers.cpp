#include "model/export/writers.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>

#include "base/text.h"
#include "trireme/error.h"

namespace trireme {
namespace {

bool is_identifier(std::string_view word) {
  const auto is_inner = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; };
  return !word.empty() && !std::isdigit(static_cast<unsigned char>(word[0])) &&
         std::all_of(word.begin(), word.end(), is_inner);
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

std::vector<std::string> OnnxWriter::with_parameters(std::vector<std::string> inputs) {
  for (size_t i = 0; i < parameter_count(); ++i) inputs.push_back(parameter(i));
  return inputs;
}

std::string OnnxWriter::constant(const List& values) { return constant(at::tensor(values, at::kLong)); }
std::string OnnxWriter::constant(int64_t value) { return constant(at::scalar_tensor(value, at::kLong)); }
std::string OnnxWriter::constant(double value) { return constant(at::scalar_tensor(value, at::kFloat)); }

std::vector<std::string> ScriptWriter::inputs() const {
  std::vector<std::string> names;
  for (size_t i = 0; i < vertex_.inputs().size(); ++i) names.push_back(in(i));
  return names;
}

std::string ScriptWriter::parameter(size_t i) const {
  return i < parameter_count() ? script_path(vertex_.parameters()[i].name) : "None";
}
std::string ScriptWriter::buffer(size_t i) const { return script_path(vertex_.buffers().at(i).name); }
std::string ScriptWriter::own(const char* name) const { return fmt::format("{}_{}", name, vertex_.id()); }
std::string ScriptWriter::variable(NodeId id) { return fmt::format("x_{}", id); }

std::string script_call(const char* operation, const std::vector<std::string>& arguments) {
  return fmt::format("torch.{}({})", operation, join(arguments));
}

std::string script_literal(bool value) { return value ? "True" : "False"; }
std::string script_literal(int64_t value) { return fmt::to_string(value); }
std::string script_literal(const std::vector<int64_t>& values) { return fmt::format("[{}]", fmt::join(values, ", ")); }
/// TorchScript reads "1" as an int, so a float needs a decimal point.
std::string script_literal(double value) {
  const std::string text = fmt::format("{}", value);
  return text.find_first_of(".e") == std::string::npos ? text + ".0" : text;
}

void fail_export(const Layer& layer, const char* form) {
  fail_user({.where = fmt::format("layer \"{}\"", layer.name()),
             .what = fmt::format("kind {}", layer.kind()),
             .why = fmt::format("it has no counterpart in {}", form),
             .next = "export the weights as safetensors"});
}

}  // namespace trireme
