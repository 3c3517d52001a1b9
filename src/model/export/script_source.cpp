#include "model/export/script_source.h"

#include <fmt/format.h>

#include "model/export/writers.h"

namespace trireme {

std::string script_source(const Model& model) {
  std::string text =
      fmt::format("def forward(self, data: Tensor) -> Tensor:\n    {} = data\n", ScriptWriter::variable(0));
  for (const Vertex& vertex : layers_before_output(model)) {
    ScriptWriter writer(vertex);
    vertex.layer().to_script(writer);
    text += writer.text();
  }
  const std::string output = ScriptWriter::variable(model.output());
  const std::vector<std::string> linear = linear_in_loss(model);
  if (linear.empty()) return text + fmt::format("    return {}\n", output);
  return text + fmt::format("    return torch.linear({}, {}, {})\n", output, script_path(linear.at(0)),
                            script_path(linear.at(1)));
}

}  // namespace trireme
