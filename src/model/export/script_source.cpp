#include "model/export/script_source.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "model/export/writers.h"

namespace trireme {
namespace {

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
  std::string text = fmt::format("def forward(self, data: Tensor) -> Tensor:\n    {} = data\n", ScriptWriter::variable(0));
  for (const Vertex& vertex : layers_before_output(model)) {
    ScriptWriter writer(vertex);
    vertex.layer().to_script(writer);
    text += writer.text();
  }
  const std::string output = ScriptWriter::variable(model.output());
  const std::vector<std::string> linear = linear_in_loss(model);
  if (linear.empty()) return text + fmt::format("    return {}\n", output);
  return text + fmt::format("    return torch.linear({}, {}, {})\n", output, script_path(linear.at(0)), script_path(linear.at(1)));
}

}  // namespace trireme
