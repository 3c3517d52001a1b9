#include "model/export/onnx.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/units.h"
#include "model/export/onnx_graph.h"
#include "model/weights/file_shapes.h"
#include "trireme/error.h"

namespace trireme {
namespace {

constexpr int64_t kLargestMessage = int64_t{1} << 31;  // protobuf's limit, in bytes
constexpr const char* kInput = "data";
constexpr const char* kOutput = "output";
constexpr const char* kSamples = "n";

/// Describes a tensor of "n" samples of that shape.
onnx::ValueInfoProto value_info(const char* name, onnx::TensorProto::DataType type, const Shape& sample) {
  onnx::ValueInfoProto info;
  info.set_name(name);
  onnx::TypeProto::Tensor* tensor = info.mutable_type()->mutable_tensor_type();
  tensor->set_elem_type(type);
  tensor->mutable_shape()->add_dim()->set_dim_param(kSamples);
  for (int64_t size : sample) tensor->mutable_shape()->add_dim()->set_dim_value(size);
  return info;
}

/// True if the data are token ids, which is so if a layer reads them, or a part of them, as integers.
bool reads_tokens(const std::vector<Vertex>& vertices) {
  std::set<NodeId> tokens{0};
  for (const Vertex& v : vertices)
    for (size_t i = 0; i < v.inputs().size(); ++i) {
      if (!tokens.contains(v.inputs()[i])) continue;
      if (v.layer().integers_below(v.input_shapes(), i)) return true;
      if (v.parameters().empty()) tokens.insert(v.id());
    }
  return false;
}

void check_size(const std::filesystem::path& path, const TensorMap& weights) {
  int64_t bytes = 0;
  for (const auto& [name, tensor] : weights) bytes += tensor.numel() * int64_t(sizeof(float));
  if (bytes < kLargestMessage) return;
  fail_user({.where = path.string(),
             .what = fmt::format("{} of weights", format_bytes(bytes)),
             .why = fmt::format("an ONNX file is one message of less than {}", format_bytes(kLargestMessage)),
             .next = "export as TorchScript"});
}

constexpr const char* kRawInput = "raw";

onnx::TensorProto::DataType raw_type(const InputForm& form) {
  return form.is_table() ? onnx::TensorProto::DOUBLE : onnx::TensorProto::UINT8;
}

/// Adds what a data set does to raw values. Returns the name of the model's data.
std::string add_raw_inputs(OnnxGraph& graph, const InputForm& form) {
  graph.begin_layer("inputs");
  const OnnxAttributes to_double{{"to", int64_t{onnx::TensorProto::DOUBLE}}};
  std::string numbers;
  if (form.is_table()) {
    const TableFeatures all = features_of(form);
    const Shape features{int64_t(all.column.size())};
    const auto truths = [&](const std::vector<int64_t>& values) {
      return graph.constant(at::tensor(values, at::kLong).to(at::kBool));
    };
    const std::string x =
        graph.add("Gather", {kRawInput, graph.constant(at::tensor(all.column, at::kLong))}, {{"axis", int64_t{1}}});
    const std::string is_missing = graph.add("IsNaN", {x});
    const std::string present = graph.add("Where", {is_missing, graph.precise_constant(all.median, features), x});
    const std::string centred = graph.add("Sub", {present, graph.precise_constant(all.mean, features)});
    const std::string number = graph.add("Div", {centred, graph.precise_constant(all.deviation, features)});
    const std::string is_code = graph.add("Equal", {x, graph.precise_constant(all.code, features)});
    const std::string mark = graph.add("Where", {truths(all.is_category), is_code, is_missing});
    numbers = graph.add("Where", {truths(all.is_number), number, graph.add("Cast", {mark}, to_double)});
  } else {
    const Shape channels{int64_t(form.mean.size()), 1, 1};
    const std::string bytes = graph.add("Cast", {kRawInput}, to_double);
    const std::string scaled = graph.add("Div", {bytes, graph.precise_constant({255.0}, {1})});
    const std::string centred = graph.add("Sub", {scaled, graph.precise_constant(form.mean, channels)});
    numbers = graph.add("Div", {centred, graph.precise_constant(form.deviation, channels)});
  }
  return graph.add("Cast", {numbers}, {{"to", int64_t{onnx::TensorProto::FLOAT}}});
}

/// `raw`: of the samples that the graph takes; null: the model's data.
onnx::ModelProto onnx_model(const Model& model, const TensorMap& in_file, const InputForm* raw) {
  const std::vector<Vertex> vertices = layers_before_output(model);
  OnnxGraph graph(in_file);
  std::vector<std::string> names(model.nodes().size());
  names[0] = raw ? add_raw_inputs(graph, *raw) : kInput;
  for (const Vertex& vertex : vertices) {
    std::vector<std::string> inputs;
    for (NodeId input : vertex.inputs()) inputs.push_back(names[size_t(input)]);
    names[size_t(vertex.id())] = graph.add_layer(vertex, std::move(inputs));
  }
  Shape sample = model.node(model.output()).sample_shape;
  std::string output = names[size_t(model.output())];
  graph.begin_layer(kOutput);
  if (const auto linear = linear_in_loss(model); !linear.empty()) {
    sample.back() = in_file.at(linear.at(0)).size(0);
    const std::string weight = graph.transposed(graph.weight(linear.at(0)));
    output = graph.add("Add", {graph.add("MatMul", {output, weight}), graph.weight(linear.at(1))});
  }
  onnx::NodeProto* last = graph.proto().add_node();  // names the output
  last->set_op_type("Identity");
  last->add_input(output);
  last->add_output(kOutput);
  const Shape& data = model.node(0).sample_shape;
  const auto type = reads_tokens(vertices) ? onnx::TensorProto::INT64 : onnx::TensorProto::FLOAT;
  return graph.finish(
      model.name(), raw ? value_info(kRawInput, raw_type(*raw), raw_shape(*raw, data)) : value_info(kInput, type, data),
      value_info(kOutput, onnx::TensorProto::FLOAT, sample));
}

}  // namespace

void write_onnx(const std::filesystem::path& path, const Model& model, const TensorMap& weights,
                const InputForm* inputs, bool raw) {
  check_size(path, weights);
  AtomicFile file(path);
  onnx::ModelProto proto = onnx_model(model, in_file_shapes(model, weights), raw ? inputs : nullptr);
  if (inputs) {
    onnx::StringStringEntryProto* entry = proto.add_metadata_props();
    entry->set_key(kInputsKey);
    entry->set_value(to_json(*inputs).dump());
  }
  file.write(proto.SerializeAsString());
  file.commit();
}

}  // namespace trireme
